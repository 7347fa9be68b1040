//! The sections of the configuration; the keys of each are read beside what they become.

use std::path::PathBuf;

use super::read::{Field, Problems, Section};
use super::tree::Node;
use super::{
    Config, Plugin, PluginKind, Problem, SnapshotMode, SnapshotPlace, Surroundings, audit, limits,
    peers, policy, secrets, store, trust,
};
use crate::secret::Secret;

pub(super) const KIB: i64 = 1024;
pub(super) const MIB: i64 = 1024 * KIB;
pub(super) const DAY: u32 = 24 * 60 * 60;

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
    servers(&mut config, root.field("mcp"), &reader);
    note_left_out(&mut config);
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
        limits::global_limits,
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
    set(&mut config.store, root.field("store"), store::store);
    set(&mut config.audit, root.field("audit"), audit::audit);
    set(&mut config.telemetry, root.field("telemetry"), |it| {
        reader.telemetry(it)
    });
    root.finish();
    config
}

/// MCP servers beside everything that is built in, or as one more of the plugins that are named.
fn servers(config: &mut Config, field: Option<Field<'_>>, reader: &Reader<'_>) {
    let Some(field) = field else {
        return;
    };
    let Some(mut section) = field.section() else {
        return;
    };
    let mcp = reader.mcp(&mut section);
    section.finish();
    if config.plugins.is_empty() {
        config.mcp = Some(mcp);
        return;
    }
    let has_servers = |plugin: &Plugin| matches!(plugin.kind, PluginKind::Mcp(_));
    if config.plugins.iter().any(has_servers) {
        let text = "is said twice: a plugin of `type: mcp` has servers too; say them in one place";
        let _: Option<()> = field.wrong(text);
        return;
    }
    config.plugins.push(Plugin {
        name: "mcp".to_owned(),
        priority: 0,
        exclusive: false,
        enabled: true,
        kind: PluginKind::Mcp(mcp),
    });
}

/// Notes the servers of imported files that are not used.
fn note_left_out(config: &mut Config) {
    let of_plugin = |plugin: &Plugin| {
        if let PluginKind::Mcp(mcp) = &plugin.kind {
            return mcp.left_out.clone();
        }
        Vec::new()
    };
    let of_plugins = config.plugins.iter().flat_map(of_plugin);
    let of_section = config.mcp.iter().flat_map(|mcp| mcp.left_out.clone());
    let left_out: Vec<String> = of_plugins.chain(of_section).map(|it| it.why).collect();
    config.notes.extend(left_out);
}

/// Who is told of pending calls, and what concerns other nodes.
fn others(config: &mut Config, root: &mut Section<'_>, reader: &Reader<'_>) {
    set(&mut config.notify, root.field("notify"), |it| {
        reader.notify(it)
    });
    set(&mut config.identity, root.field("identity"), |it| {
        reader.identity(it)
    });
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
