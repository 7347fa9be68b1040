//! Tools that are commands: the key `commands` of a plugin of the type `tools`.

use std::time::Duration;

use super::own_tools::schemas;
use super::read::{Field, Section};
use super::sections::{DAY, set, set_some};

/// A tool that is a command with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The program and its arguments; `{name}` is where an argument goes.
    pub command: Vec<String>,
    /// JSON Schemas of the arguments, by name.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// The argument that the program reads from its standard input.
    pub stdin: Option<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// After so long it is killed.
    pub timeout: Option<Duration>,
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
