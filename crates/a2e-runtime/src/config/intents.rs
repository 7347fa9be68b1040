//! The section `intents`: what other agents may ask of this node. What does not stand here they may not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::{Object, Timestamp};
use policy::IntentName;
use serde_json::{Map, Value};

use super::commands::command;
use super::own_tools::schemas;
use super::read::{Field, Section};
use super::sections::{DAY, Reader, set, set_some};
use super::{CommandTool, Config, ConfigError, PluginKind};

/// Something that other agents may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its canonical name.
    pub name: IntentName,
    /// What is done then.
    pub target: IntentTarget,
}

/// What is done for an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentTarget {
    /// A tool is called, by name.
    Tool(String),
    /// A command is run, which is a tool that has the intent for a name.
    Command(Box<CommandTool>),
    /// A skill is called, by name.
    Skill(String),
    /// A chain is run, which is a tool that has the intent for a name.
    Chain(Box<ChainTool>),
    /// Episodes of an environment are begun, stepped and looked at, by its name.
    Env(String),
}

/// A tool that is a chain of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What a `chain/req` has.
    pub chain: Value,
    /// The file that it was read from.
    pub file: Option<PathBuf>,
    /// JSON Schemas of what it is given, by name.
    pub parameters: Map<String, Value>,
    /// What must be given.
    pub required: Vec<String>,
}

/// Of names that are the node's own.
const OWN: &str = "frith.";

/// Nobody writes more by hand, and programs hardly do.
const MAX_CHAIN: u64 = 8 * 1024 * 1024;

impl Reader<'_> {
    pub(super) fn intents(&self, field: &Field<'_>) -> Option<Vec<Intent>> {
        let mut intents: Vec<Intent> = Vec::new();
        for (name, field) in field.entries()? {
            let Some(name) = intent_name(name, &field) else {
                continue;
            };
            if intents.iter().any(|intent| intent.name == name) {
                field.wrong::<()>("is there twice, in another spelling");
                continue;
            }
            let target = self.target(&name, &field);
            intents.extend(target.map(|target| Intent { name, target }));
        }
        Some(intents)
    }

    fn target(&self, name: &IntentName, field: &Field<'_>) -> Option<IntentTarget> {
        let mut section = field.section()?;
        let mut targets = Vec::new();
        if let Some(tool) = section.field("tool") {
            targets.push(tool.word().map(IntentTarget::Tool));
        }
        if let Some(run) = section.field("command") {
            let tool = command_of(name, &run, &mut section);
            targets.push(tool.map(Box::new).map(IntentTarget::Command));
        }
        if let Some(skill) = section.field("skill") {
            targets.push(skill.word().map(IntentTarget::Skill));
        }
        if let Some(chain) = section.field("chain") {
            let tool = self.chain_of(name, &chain, &mut section);
            targets.push(tool.map(Box::new).map(IntentTarget::Chain));
        }
        if let Some(env) = section.field("env") {
            targets.push(env.word().map(IntentTarget::Env));
        }
        section.finish();
        match (targets.pop(), targets.is_empty()) {
            (Some(target), true) => target,
            _ => field.wrong("needs one of `tool`, `command`, `skill`, `chain` and `env`"),
        }
    }

    /// A chain that stands here, or in a file.
    fn chain_of(
        &self,
        name: &IntentName,
        field: &Field<'_>,
        section: &mut Section<'_>,
    ) -> Option<ChainTool> {
        let Taken {
            description,
            parameters,
            required,
        } = taken(name, section);
        let file = match field.is_text() {
            true => Some(self.path(field)?),
            false => None,
        };
        let chain = match &file {
            None => field.json()?,
            Some(file) => match chain_in(file) {
                Ok(chain) => chain,
                Err(text) => return field.wrong(&text),
            },
        };
        if let Err(text) = check_chain(&chain) {
            return field.wrong(&format!("is no chain: {text}"));
        }
        Some(ChainTool {
            name: tool_name(name),
            description,
            chain,
            file,
            parameters,
            required,
        })
    }
}

/// The name that a key is.
pub(super) fn intent_name(name: &str, field: &Field<'_>) -> Option<IntentName> {
    match IntentName::parse(name) {
        Ok(name) => Some(name),
        Err(error) => field.wrong(&format!(
            "must be under the name of an intent, such as `example.translate.v1`: {error}"
        )),
    }
}

/// What an intent says of what it takes.
struct Taken {
    description: String,
    parameters: Map<String, Value>,
    required: Vec<String>,
}

fn taken(name: &IntentName, section: &mut Section<'_>) -> Taken {
    let mut taken = Taken {
        description: format!("Does what other agents ask for by `{name}`"),
        parameters: Map::new(),
        required: Vec::new(),
    };
    let Taken {
        description,
        parameters,
        required,
    } = &mut taken;
    set(description, section.field("description"), |it| it.word());
    set(parameters, section.field("parameters"), schemas);
    set(required, section.field("required"), |it| it.words());
    taken
}

/// What the tool is called that does what an intent asks for.
fn tool_name(name: &IntentName) -> String {
    format!("intent:{name}")
}

fn command_of(
    name: &IntentName,
    run: &Field<'_>,
    section: &mut Section<'_>,
) -> Option<CommandTool> {
    let Taken {
        description,
        parameters,
        required,
    } = taken(name, section);
    let mut tool = CommandTool {
        name: tool_name(name),
        description,
        command: Vec::new(),
        parameters,
        required,
        stdin: None,
        tags: vec!["intent".to_owned()],
        read_only: false,
        timeout: None::<Duration>,
    };
    set_some(&mut tool.stdin, section.field("stdin"), |it| it.word());
    set(&mut tool.read_only, section.field("read_only"), |it| {
        it.boolean()
    });
    set_some(&mut tool.timeout, section.field("timeout_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    tool.command = command(run)?;
    Some(tool)
}

fn chain_in(file: &Path) -> Result<Value, String> {
    let shown = file.display();
    let cannot =
        |error: &dyn std::fmt::Display| format!("names {shown}, which cannot be read: {error}");
    let size = std::fs::metadata(file).map_err(|error| cannot(&error))?;
    if size.len() > MAX_CHAIN {
        return Err(cannot(&format!("it has more than {MAX_CHAIN} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| cannot(&error))?;
    serde_json::from_str(&text).map_err(|error| cannot(&error))
}

/// Whether it has the form of a chain; whether its nodes go together is found out by what runs it.
fn check_chain(chain: &Value) -> Result<(), String> {
    let object = Object::from_serialize(chain).map_err(|error| error.to_string())?;
    let read: Result<ChainRequest<'_>, _> = object.read(Timestamp::default());
    read.map(drop).map_err(|error| error.to_string())
}

/// What does not go together.
pub(super) fn problems(config: &Config, error: &mut ConfigError) {
    let own = |intent: &&Intent| intent.name.as_str().starts_with(OWN);
    if let Some(intent) = config.intents.iter().find(own) {
        error.add(format!(
            "`intents.{}`: names that begin with `{OWN}` are the node's own",
            intent.name
        ));
    }
    if let (Some(intent), false) = (config.intents.first(), config.a2a.enabled) {
        error.add(format!(
            "`intents.{}` cannot be asked for: `a2a` is switched off",
            intent.name
        ));
    }
    for intent in &config.intents {
        let what = match &intent.target {
            IntentTarget::Command(_) => "command",
            IntentTarget::Chain(_) => "chain",
            IntentTarget::Tool(_) | IntentTarget::Skill(_) | IntentTarget::Env(_) => continue,
        };
        if !has_tools(config) {
            error.add(format!(
                "`intents.{}` is a {what}, and these are called by a plugin of the type `tools`",
                intent.name
            ));
        }
        if what == "chain" && !has_chains(config) {
            error.add(format!(
                "`intents.{}` is a chain, and chains are run by a plugin of the type `chains`",
                intent.name
            ));
        }
    }
}

/// Whether something runs chains: the node itself, or perhaps another host.
fn has_chains(config: &Config) -> bool {
    let mut plugins = config.plugins.iter().filter(|plugin| plugin.enabled);
    let runs = |kind: &PluginKind| matches!(kind, PluginKind::Chains(_) | PluginKind::Mounted(_));
    config.plugins.is_empty() || plugins.any(|plugin| runs(&plugin.kind))
}

/// Whether something serves tools that the node makes itself.
pub(super) fn has_tools(config: &Config) -> bool {
    let mut plugins = config.plugins.iter().filter(|plugin| plugin.enabled);
    config.plugins.is_empty() || plugins.any(|plugin| matches!(plugin.kind, PluginKind::Tools(_)))
}

#[cfg(test)]
mod tests;
