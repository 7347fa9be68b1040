//! The sections of the configuration: every key, with what it may be, once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::audit::Retention;
use a2e_wire::{Capability, Enumeration};

use super::chains::chains;
use super::own_tools::schemas;
use super::read::{Field, Problems, Section};
use super::tree::Node;
use super::{
    Audit, CommandTool, Config, GlobalLimits, LogFormat, Mounted, Place, Plugin, PluginKind,
    Problem, Proc, Server, SnapshotMode, SnapshotPlace, Surroundings, Telemetry, Tls, UnixSocket,
    env, learning, multi_agent, peers, planning, policy, secrets, trust,
};
use crate::nearest::nearest;
use crate::secret::Secret;

const KIB: i64 = 1024;
pub(super) const MIB: i64 = 1024 * KIB;
pub(super) const DAY: u32 = 24 * 60 * 60;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Clone, Copy)]
enum Kind {
    Chains,
    Demo,
    Learning,
    Mcp,
    Memory,
    Env,
    Mounted,
    MultiAgent,
    Planning,
    Proc,
    Skills,
    Toolkits,
    Tools,
}

/// The configuration that a tree says, or all that is wrong with it.
pub(super) fn config(tree: &Node, surroundings: &Surroundings<'_>) -> Result<Config, Vec<Problem>> {
    let problems = Problems::default();
    let config = read(Section::root(tree, &problems), surroundings);
    match problems.into_sorted() {
        problems if problems.is_empty() => Ok(config),
        problems => Err(problems),
    }
}

/// What a whole file says; what is wrong with it is written down where its section does.
pub(super) fn read(mut root: Section<'_>, surroundings: &Surroundings<'_>) -> Config {
    let mut config = Config::default();
    let reader = Reader { surroundings };
    set(&mut config.host_id, root.field("host_id"), |it| it.word());
    set(&mut config.server, root.field("server"), |it| {
        reader.server(it)
    });
    set_some(&mut config.auth_token, root.field("auth_token"), |it| {
        reader.secret(it)
    });
    if root
        .field("transport")
        .and_then(|field| field.word())
        .is_some()
    {
        let note = "`transport` has no effect: every transport is served at once, and `server` \
                    says where; for a parent process there is `frith stdio`";
        config.notes.push(note.to_owned());
    }
    set_some(&mut config.workspace, root.field("workspace"), |it| {
        reader.path(it)
    });
    set(&mut config.sandbox, root.field("sandbox"), |it| {
        reader.sandbox(it)
    });
    set(&mut config.models, root.field("models"), |it| {
        reader.models(it)
    });
    set(&mut config.plugins, root.field("plugins"), |it| {
        Some(
            it.list()?
                .filter_map(|plugin| reader.plugin(&plugin))
                .collect(),
        )
    });
    set(
        &mut config.snapshot_store,
        root.field("snapshot_store"),
        |it| {
            it.choice(&[
                ("memory", SnapshotPlace::Memory),
                ("file", SnapshotPlace::File),
            ])
        },
    );
    set(
        &mut config.snapshot_mode,
        root.field("snapshot_mode"),
        |it| {
            it.choice(&[
                ("host", SnapshotMode::Host),
                ("plugin", SnapshotMode::Plugin),
                ("hybrid", SnapshotMode::Hybrid),
            ])
        },
    );
    set(
        &mut config.global_limits,
        root.field("global_limits"),
        global_limits,
    );
    set(
        &mut config.policy.common,
        root.field("policy"),
        policy::rules,
    );
    set(
        &mut config.policy.agents,
        root.field("agents"),
        policy::agents,
    );
    others(&mut config, &mut root, &reader);
    set(&mut config.audit, root.field("audit"), audit);
    set(&mut config.telemetry, root.field("telemetry"), telemetry);
    root.finish();
    config
}

/// What concerns other nodes.
fn others(config: &mut Config, root: &mut Section<'_>, reader: &Reader<'_>) {
    set(&mut config.a2a, root.field("a2a"), |it| reader.a2a(it));
    set(&mut config.trust, root.field("trust"), trust::trust);
    set(&mut config.intents, root.field("intents"), |it| {
        reader.intents(it)
    });
    set(&mut config.peers, root.field("peers"), peers::peers);
}

pub(super) struct Reader<'a> {
    pub(super) surroundings: &'a Surroundings<'a>,
}

impl Reader<'_> {
    fn server(&self, field: &Field<'_>) -> Option<Server> {
        let mut server = Server::default();
        let mut section = field.section()?;
        set(&mut server.listen, section.field("listen"), address);
        set_some(&mut server.tcp, section.field("tcp"), address);
        set(&mut server.unix, section.field("unix"), |it| self.unix(it));
        set(&mut server.names, section.field("names"), |it| it.words());
        set(&mut server.origins, section.field("origins"), |it| {
            it.words()
        });
        set_some(&mut server.tls, section.field("tls"), |it| self.tls(it));
        set(
            &mut server.allow_unauthenticated,
            section.field("allow_unauthenticated"),
            |it| it.boolean(),
        );
        section.finish();
        Some(server)
    }

    fn unix(&self, field: &Field<'_>) -> Option<UnixSocket> {
        match field.is_text() {
            true => self.path(field).map(UnixSocket::At),
            false if field.boolean()? => Some(UnixSocket::InDataDir),
            false => Some(UnixSocket::Off),
        }
    }

    fn tls(&self, field: &Field<'_>) -> Option<Tls> {
        let mut section = field.section()?;
        let certificate = section.required("certificate", field.at());
        let key = section.required("key", field.at());
        section.finish();
        Some(Tls {
            certificate: self.path(&certificate?)?,
            key: self.path(&key?)?,
        })
    }

    fn plugin(&self, field: &Field<'_>) -> Option<Plugin> {
        let mut section = field.section()?;
        let name = section
            .required("name", field.at())
            .and_then(|it| it.word());
        let kind = section.required("type", field.at());
        let kind = kind.and_then(|it| {
            it.choice(&[
                ("chains", Kind::Chains),
                ("demo", Kind::Demo),
                ("env", Kind::Env),
                ("learning", Kind::Learning),
                ("mcp", Kind::Mcp),
                ("memory", Kind::Memory),
                ("mounted", Kind::Mounted),
                ("multi_agent", Kind::MultiAgent),
                ("planning", Kind::Planning),
                ("proc", Kind::Proc),
                ("skills", Kind::Skills),
                ("toolkits", Kind::Toolkits),
                ("tools", Kind::Tools),
            ])
        });
        let (mut priority, mut exclusive, mut enabled) = (0, false, true);
        set(&mut priority, section.field("priority"), |it| {
            it.integer(-1_000_000..=1_000_000)
        });
        set(&mut exclusive, section.field("exclusive"), |it| {
            it.boolean()
        });
        set(&mut enabled, section.field("enabled"), |it| it.boolean());
        let kind = match kind? {
            Kind::Chains => Some(PluginKind::Chains(chains(&mut section))),
            Kind::Demo => Some(PluginKind::Demo),
            Kind::Learning => Some(PluginKind::Learning(learning::learning(&mut section))),
            Kind::Mcp => Some(PluginKind::Mcp(self.mcp(&mut section))),
            Kind::Env => Some(PluginKind::Env(env::env(&mut section))),
            Kind::Mounted => self.mounted(field, &mut section).map(PluginKind::Mounted),
            Kind::Memory => Some(PluginKind::Memory(self.memory(&mut section))),
            Kind::Toolkits => Some(PluginKind::Toolkits),
            Kind::Planning => Some(PluginKind::Planning(planning::planning(&mut section))),
            Kind::MultiAgent => Some(PluginKind::MultiAgent(multi_agent::multi_agent(
                &mut section,
            ))),
            Kind::Proc => Some(PluginKind::Proc(proc(&mut section))),
            Kind::Skills => Some(PluginKind::Skills(self.skills(&mut section))),
            Kind::Tools => Some(PluginKind::Tools(Box::new(self.own_tools(&mut section)))),
        };
        section.finish();
        Some(Plugin {
            name: name?,
            priority,
            exclusive,
            enabled,
            kind: kind?,
        })
    }

    fn mounted(&self, field: &Field<'_>, section: &mut Section<'_>) -> Option<Mounted> {
        let (mut token, mut capabilities) = (None, Vec::new());
        let mut max_children = 64;
        let command = section.field("command");
        let url = section.field("url");
        set_some(&mut token, section.field("token"), |it| self.secret(it));
        set(&mut capabilities, section.field("capabilities"), |it| {
            Some(it.list()?.filter_map(|it| capability(&it)).collect())
        });
        set(&mut max_children, section.field("max_children"), |it| {
            it.count(1..=10_000)
        });
        let place = match (command, url) {
            (Some(command), None) => Place::Command(self::command(&command)?),
            (None, Some(url)) => Place::Url(self::url(&url)?),
            _ => return field.wrong("needs either `command` or `url`"),
        };
        Some(Mounted {
            place,
            token,
            capabilities,
            max_children,
        })
    }

    pub(super) fn path(&self, field: &Field<'_>) -> Option<PathBuf> {
        Some(self.surroundings.folder.join(field.word()?))
    }

    pub(super) fn secret(&self, field: &Field<'_>) -> Option<Secret> {
        match secrets::resolve(field.text()?, self.surroundings) {
            Ok(secret) => Some(secret),
            Err(text) => field.wrong(&text),
        }
    }
}

pub(super) fn command_tools(section: &mut Section<'_>) -> Vec<CommandTool> {
    let mut tools = Vec::new();
    set(&mut tools, section.field("commands"), |it| {
        Some(it.list()?.filter_map(|it| command_tool(&it)).collect())
    });
    tools
}

fn command_tool(field: &Field<'_>) -> Option<CommandTool> {
    let mut section = field.section()?;
    let name = section.required("name", field.at());
    let description = section.required("description", field.at());
    let command = section.required("command", field.at());
    let mut tool = CommandTool {
        name: name.and_then(|it| it.word()).unwrap_or_default(),
        description: description.and_then(|it| it.word()).unwrap_or_default(),
        command: command
            .and_then(|it| self::command(&it))
            .unwrap_or_default(),
        parameters: serde_json::Map::new(),
        required: Vec::new(),
        stdin: None,
        tags: Vec::new(),
        read_only: false,
        timeout: None,
    };
    set(&mut tool.parameters, section.field("parameters"), schemas);
    set(&mut tool.required, section.field("required"), |it| {
        it.words()
    });
    set_some(&mut tool.stdin, section.field("stdin"), |it| it.word());
    set(&mut tool.tags, section.field("tags"), |it| it.words());
    set(&mut tool.read_only, section.field("read_only"), |it| {
        it.boolean()
    });
    set_some(&mut tool.timeout, section.field("timeout_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    section.finish();
    Some(tool)
}

fn proc(section: &mut Section<'_>) -> Proc {
    let mut proc = Proc::default();
    // Configurations of other hosts have it in capitals.
    for name in ["allowed_commands", "ALLOWED_COMMANDS"] {
        set_some(&mut proc.allowed_commands, section.field(name), |it| {
            it.words()
        });
    }
    set(&mut proc.max_procs, section.field("max_procs"), |it| {
        it.count(1..=1000)
    });
    proc
}

fn global_limits(field: &Field<'_>) -> Option<GlobalLimits> {
    let mut limits = GlobalLimits::default();
    let mut section = field.section()?;
    let session = &mut limits.session;
    let counts = [
        ("max_line", KIB..=64 * MIB, &mut limits.max_line),
        ("max_parallel", 1..=1024, &mut session.max_parallel),
        ("max_queue", 1..=100_000, &mut session.max_queue),
        (
            "max_outbound",
            64 * KIB..=KIB * MIB,
            &mut session.max_outbound,
        ),
        ("max_replay", 0..=KIB * MIB, &mut session.max_replay),
        ("max_sessions", 1..=1_000_000, &mut limits.max_sessions),
        ("max_newcomers", 1..=1_000_000, &mut limits.max_newcomers),
        (
            "max_fetches_per_host",
            1..=16,
            &mut limits.max_fetches_per_host,
        ),
        (
            "max_fetches_per_agent",
            1..=16,
            &mut limits.max_fetches_per_agent,
        ),
        (
            "max_commands_per_agent",
            1..=10_000,
            &mut limits.max_commands_per_agent,
        ),
        (
            "max_components_per_agent",
            1..=64,
            &mut limits.max_components_per_agent,
        ),
    ];
    for (name, allowed, slot) in counts {
        set(slot, section.field(name), |it| it.count(allowed));
    }
    let times = [
        ("handshake_seconds", 1..=600, &mut session.handshake),
        ("idle_seconds", 0..=30 * DAY, &mut session.idle),
        ("resume_seconds", 0..=30 * DAY, &mut session.resume),
        ("request_seconds", 1..=DAY, &mut session.request),
        ("progress_seconds", 1..=7 * DAY, &mut session.progress),
        ("drain_seconds", 0..=600, &mut limits.drain),
        ("approval_seconds", 1..=DAY, &mut limits.approval),
    ];
    for (name, allowed, slot) in times {
        set(slot, section.field(name), |it| it.seconds(allowed));
    }
    section.finish();
    Some(limits)
}

/// `audit: false`, or a section.
fn audit(field: &Field<'_>) -> Option<Audit> {
    let mut audit = Audit::default();
    if field.is_boolean() {
        audit.enabled = field.boolean()?;
        return Some(audit);
    }
    let mut section = field.section()?;
    set(&mut audit.enabled, section.field("enabled"), |it| {
        it.boolean()
    });
    set(&mut audit.sync, section.field("sync"), |it| {
        match it.text()?.parse() {
            Ok(sync) => Some(sync),
            Err(error) => it.wrong(&format!("{error}")),
        }
    });
    let (mut records, mut addresses) = (90, 7);
    set(&mut records, section.field("keep_days"), |it| {
        it.count(7..=36_500)
    });
    set(&mut addresses, section.field("keep_address_days"), |it| {
        it.count(0..=36_500)
    });
    let days = |days: usize| Duration::from_secs(u64::from(DAY).saturating_mul(days as u64));
    if let Ok(retention) = Retention::new(days(records), days(addresses)) {
        audit.retention = retention;
    }
    section.finish();
    Some(audit)
}

fn telemetry(field: &Field<'_>) -> Option<Telemetry> {
    let mut telemetry = Telemetry::default();
    let mut section = field.section()?;
    set(&mut telemetry.log, section.field("log"), levels);
    set(
        &mut telemetry.log_format,
        section.field("log_format"),
        |it| it.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
    );
    set_some(&mut telemetry.otlp, section.field("otlp"), collector);
    section.finish();
    Some(telemetry)
}

/// Where a collector is. Spans have no secrets, and a collector beside the node can send them on over TLS.
fn collector(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    let rest = text.strip_prefix("http://").unwrap_or_default();
    let is_place = !rest.is_empty() && !rest.starts_with([':', '/']);
    match is_place
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
    {
        true => Some(text),
        false => field.wrong("must be http://ADDRESS:PORT, such as http://127.0.0.1:4318"),
    }
}

/// A level, or levels by module as in `info,a2e_runtime=debug`.
fn levels(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    for part in text.split(',') {
        let level = part.rsplit('=').next().unwrap_or_default().trim();
        if LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            continue;
        }
        let hint = match nearest(level, LEVELS) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!(
                "known are {}, also by module: info,a2e_runtime=debug",
                LEVELS.join(", ")
            ),
        };
        let level: String = level.chars().take(64).collect();
        return field.wrong(&format!("has an unknown level `{level}`; {hint}"));
    }
    Some(text)
}

fn capability(field: &Field<'_>) -> Option<String> {
    let name = field.word()?;
    if Capability::from_name(&name).is_some() {
        return Some(name);
    }
    let Enumeration { values, .. } = Capability::ENUMERATION;
    let hint = match nearest(&name, values.iter().copied()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known are {}", values.join(", ")),
    };
    let name: String = name.chars().take(64).collect();
    field.wrong(&format!("is no capability: `{name}`; {hint}"))
}

/// `ADDRESS:PORT`; `localhost` is one address, so that nobody listens where he did not look.
pub(super) fn address(field: &Field<'_>) -> Option<SocketAddr> {
    match super::listen_address(field.text()?) {
        Ok(address) => Some(address),
        Err(text) => field.wrong(&text),
    }
}

pub(super) fn command(field: &Field<'_>) -> Option<Vec<String>> {
    let words: Option<Vec<String>> = field
        .list()?
        .map(|field| field.text().map(str::to_owned))
        .collect();
    match words?.as_slice() {
        [] => field.wrong("needs a program, and then its arguments"),
        [program, ..] if program.trim().is_empty() => field.wrong("begins with no program"),
        words => Some(words.to_vec()),
    }
}

fn url(field: &Field<'_>) -> Option<String> {
    let url = field.word()?;
    let schemes = ["http://", "https://", "ws://", "wss://", "tcp:", "unix:"];
    let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return field.wrong(&format!("must begin with one of {}", schemes.join(", ")));
    };
    // A name and a password there would be shown wherever the address is.
    match rest
        .split('/')
        .next()
        .is_some_and(|host| host.contains('@'))
    {
        true => field.wrong("must not hold a credential; `token` is for that"),
        false => Some(url),
    }
}

/// Puts a value that is there and good in the place of its default.
pub(super) fn set<'a, T>(
    slot: &mut T,
    field: Option<Field<'a>>,
    read: impl FnOnce(&Field<'a>) -> Option<T>,
) {
    if let Some(value) = field.and_then(|field| read(&field)) {
        *slot = value;
    }
}

/// The same for a value that has no default.
pub(super) fn set_some<'a, T>(
    slot: &mut Option<T>,
    field: Option<Field<'a>>,
    read: impl FnOnce(&Field<'a>) -> Option<T>,
) {
    set(slot, field, |field| read(field).map(Some));
}
