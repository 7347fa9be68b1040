//! The section `plugins`: what serves requests.

use a2e_session::TypePattern;
use a2e_wire::{Capability, Enumeration, Tag};

use super::chains::{Chains, chains};
use super::commands::command;
use super::env::{self, Env};
use super::learning::{self, Learning};
use super::mcp::Mcp;
use super::memory::Memory;
use super::multi_agent::{self, MultiAgent};
use super::own_tools::OwnTools;
use super::planning::{self, Planning};
use super::read::{Field, Section};
use super::sections::{Reader, set, set_some};
use super::skills::Skills;
use crate::nearest::nearest;
use crate::secret::Secret;

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its name; no two have the same.
    pub name: String,
    /// Plugins of higher priority are asked first.
    pub priority: i64,
    /// Whether it alone serves what it serves.
    pub exclusive: bool,
    /// Whether it is there at all.
    pub enabled: bool,
    /// What it is.
    pub kind: PluginKind,
}

/// What a plugin is: the key `type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginKind {
    /// Five small tools to try things with.
    Demo,
    /// The built-in tools, and these.
    Tools(Box<OwnTools>),
    /// Bundles of tools that agents configure.
    Toolkits,
    /// Processes.
    Proc(Proc),
    /// What agents remember.
    Memory(Memory),
    /// Plans.
    Planning(Planning),
    /// What agents learn.
    Learning(Learning),
    /// Servers of the Model Context Protocol.
    Mcp(Mcp),
    /// Requests that follow from one another.
    Chains(Chains),
    /// Worlds to act in.
    Env(Env),
    /// Agents that agents have.
    MultiAgent(MultiAgent),
    /// Prepared instructions.
    Skills(Skills),
    /// Another A2E host.
    Mounted(Mounted),
}

/// Processes of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proc {
    /// The words that may stand first in a command, each a name or an absolute path; any, if nothing
    /// is said.
    pub allowed_commands: Option<Vec<String>>,
    /// The variables that agents may set. If nothing is said, none where commands are limited, and else
    /// any.
    pub allowed_env: Option<Vec<String>>,
    /// How many may run in one session at a time.
    pub max_procs: usize,
}

/// Another A2E host that appears as a plugin of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Where it is.
    pub place: Place,
    /// The credential it asks for.
    pub token: Option<Secret>,
    /// What is asked of it; nothing here means all it has.
    pub capabilities: Vec<String>,
    /// Types beside the protocol's that it serves.
    pub serves: Option<OwnTypes>,
    /// If it is a program, how many of it may run at once: each session that uses it has its own.
    pub max_children: usize,
}

/// Types beside the protocol's, each a name or a beginning and `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTypes {
    /// Which.
    pub types: Vec<TypePattern>,
    /// The capability that they belong to.
    pub capability: Capability<'static>,
}

/// Where a mounted host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program and its arguments, started for this.
    Command(Vec<String>),
    /// A host that runs already.
    Url(String),
}

impl Default for Proc {
    fn default() -> Self {
        Self {
            allowed_commands: None,
            allowed_env: None,
            max_procs: 16,
        }
    }
}

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

impl Reader<'_> {
    pub(super) fn plugin(&self, field: &Field<'_>) -> Option<Plugin> {
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
                ("multi_agent", Kind::MultiAgent),
                ("planning", Kind::Planning),
                ("proc", Kind::Proc),
                ("remote_plugin", Kind::Mounted),
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
        let (serves, serves_as) = (section.field("serves"), section.field("serves_as"));
        let serves = match (serves, serves_as) {
            (None, None) => None,
            (Some(types), Some(belongs_to)) => own_types(&types, &belongs_to),
            (Some(_), None) | (None, Some(_)) => {
                return field.wrong("needs `serves` and `serves_as`, or neither of the two");
            }
        };
        let place = match (command, url) {
            (Some(command), None) => Place::Command(self::command(&command)?),
            (None, Some(url)) => Place::Url(self::url(&url)?),
            _ => return field.wrong("needs either `command` or `url`"),
        };
        Some(Mounted {
            place,
            token,
            capabilities,
            serves,
            max_children,
        })
    }
}

fn proc(section: &mut Section<'_>) -> Proc {
    let mut proc = Proc::default();
    // Configurations of other hosts have it in capitals.
    for name in ["allowed_commands", "ALLOWED_COMMANDS"] {
        set_some(&mut proc.allowed_commands, section.field(name), |it| {
            Some(it.list()?.filter_map(|it| allowed_command(&it)).collect())
        });
    }
    set_some(&mut proc.allowed_env, section.field("allowed_env"), |it| {
        Some(it.list()?.filter_map(|it| variable(&it)).collect())
    });
    set(&mut proc.max_procs, section.field("max_procs"), |it| {
        it.count(1..=1000)
    });
    proc
}

/// A relative path would be another program in each folder that an agent starts it in.
fn allowed_command(field: &Field<'_>) -> Option<String> {
    let word = field.word()?;
    let is_relative = word.contains('/') && !word.starts_with('/');
    match is_relative || word.contains(char::is_whitespace) {
        true => field.wrong("must be the name of a program or an absolute path, without arguments"),
        false => Some(word),
    }
}

fn variable(field: &Field<'_>) -> Option<String> {
    let word = field.word()?;
    match word.contains('=') || word.contains(char::is_whitespace) {
        true => field.wrong("must be the name of a variable, without a value"),
        false => Some(word),
    }
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

fn own_types(types: &Field<'_>, belongs_to: &Field<'_>) -> Option<OwnTypes> {
    let types: Vec<TypePattern> = types.list()?.filter_map(|it| own_type(&it)).collect();
    Some(OwnTypes {
        types,
        capability: Capability::from_name(&capability(belongs_to)?)?,
    })
}

/// A type that the protocol does not have, or all that begin so.
fn own_type(field: &Field<'_>) -> Option<TypePattern> {
    let text = field.word()?;
    let pattern = TypePattern::new(&*text);
    let stem = text.strip_suffix('*').unwrap_or(&text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    if text.is_empty() || !stem.bytes().all(is_plain) {
        return field.wrong(
            "must be a type such as `own/thing/req`, or the beginning of types such as `own/*`",
        );
    }
    let mut known = Tag::ALL.iter();
    let known = known.find(|tag| {
        let aliases = tag.aliases().iter().copied();
        let mut names = aliases.chain([tag.as_str()]);
        names.any(|name| pattern.matches(name))
    });
    match known.filter(|_| !stem.is_empty()) {
        Some(known) => field.wrong(&format!(
            "stands for `{}` too, which belongs to the protocol: choose a namespace of your own",
            known.as_str()
        )),
        None => Some(pattern),
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
