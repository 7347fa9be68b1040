//! The section `intents`: what other agents may ask of this node. What does not stand here they may not.

use std::time::Duration;

use policy::IntentName;

use super::own_tools::schemas;
use super::read::{Field, Section};
use super::sections::{DAY, command, set, set_some};
use super::{CommandTool, Config, ConfigError};

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
}

/// Of names that are the node's own.
const OWN: &str = "frith.";

pub(super) fn intents(field: &Field<'_>) -> Option<Vec<Intent>> {
    let mut intents: Vec<Intent> = Vec::new();
    for (name, field) in field.entries()? {
        let Some(name) = intent_name(name, &field) else {
            continue;
        };
        if intents.iter().any(|intent| intent.name == name) {
            field.wrong::<()>("is there twice, in another spelling");
            continue;
        }
        let target = target(&name, &field);
        intents.extend(target.map(|target| Intent { name, target }));
    }
    Some(intents)
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

fn target(name: &IntentName, field: &Field<'_>) -> Option<IntentTarget> {
    let mut section = field.section()?;
    let (tool, run) = (section.field("tool"), section.field("command"));
    let target = match (tool, run) {
        (Some(tool), None) => tool.word().map(IntentTarget::Tool),
        (None, Some(run)) => {
            let tool = command_of(name, &run, &mut section);
            tool.map(Box::new).map(IntentTarget::Command)
        }
        _ => field.wrong("needs either `tool` or `command`"),
    };
    section.finish();
    target
}

fn command_of(
    name: &IntentName,
    run: &Field<'_>,
    section: &mut Section<'_>,
) -> Option<CommandTool> {
    let mut tool = CommandTool {
        name: format!("intent:{name}"),
        description: format!("Does what other agents ask for by `{name}`"),
        command: command(run)?,
        parameters: serde_json::Map::new(),
        required: Vec::new(),
        stdin: None,
        tags: vec!["intent".to_owned()],
        read_only: false,
        timeout: None::<Duration>,
    };
    set(&mut tool.description, section.field("description"), |it| {
        it.word()
    });
    set(&mut tool.parameters, section.field("parameters"), schemas);
    set(&mut tool.required, section.field("required"), |it| {
        it.words()
    });
    set_some(&mut tool.stdin, section.field("stdin"), |it| it.word());
    set(&mut tool.read_only, section.field("read_only"), |it| {
        it.boolean()
    });
    set_some(&mut tool.timeout, section.field("timeout_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    Some(tool)
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
    let is_command = |intent: &&Intent| matches!(intent.target, IntentTarget::Command(_));
    let command = config.intents.iter().find(is_command);
    if let Some(intent) = command.filter(|_| !has_tools(config)) {
        error.add(format!(
            "`intents.{}` is a command, and commands are run by a plugin of the type `tools`",
            intent.name
        ));
    }
}

/// Whether something serves tools that the node makes itself.
pub(super) fn has_tools(config: &Config) -> bool {
    let mut plugins = config.plugins.iter().filter(|plugin| plugin.enabled);
    config.plugins.is_empty()
        || plugins.any(|plugin| matches!(plugin.kind, super::PluginKind::Tools(_)))
}

#[cfg(test)]
mod tests;
