//! Tools that an operator writes down as a command with places for arguments.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use sandbox::{Command, Input};
use serde_json::{Map, Value, json};

use super::{result, run};
use crate::template::{Piece, each, join, parse, places, text};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};
use crate::workplace::Workplace;

/// A command with places for arguments.
///
/// `{name}` in a word is where an argument goes; each word stays one word whatever is in it, and no
/// shell sees it. A word that is nothing but a place takes each item of a list as a word of its own,
/// and is left out if the argument is.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The tool's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// JSON Schemas of the arguments, by name.
    pub parameters: Map<String, Value>,
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// The argument that the program reads from its standard input.
    pub stdin: Option<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// After so long it is killed, if the sandbox does not do so before.
    pub timeout: Option<Duration>,
}

/// Why a template cannot be a tool.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Its definition cannot be used.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It has no program.
    #[error("the command of `{0}` is empty; it needs a program, and then its arguments")]
    Empty(String),
    /// The program would be an argument.
    #[error("the program of `{0}` must not have a place for an argument")]
    Program(String),
    /// It names an argument that it does not take.
    #[error("`{tool}` has a place for `{name}`, which is not among its parameters")]
    Unknown {
        /// The tool.
        tool: String,
        /// The argument.
        name: String,
    },
    /// A brace has no partner.
    #[error(
        "a brace is not closed in `{word}` of `{tool}`; a brace itself is written {{{{ or }}}}"
    )]
    Brace {
        /// The tool.
        tool: String,
        /// The word.
        word: String,
    },
}

struct Templated {
    definition: Definition,
    program: String,
    words: Vec<Vec<Piece>>,
    stdin: Option<String>,
    timeout: Option<Duration>,
    workplace: Arc<Workplace>,
}

/// The tool that a template describes.
///
/// # Errors
/// If it cannot be one.
pub fn tool(
    template: &Template,
    workplace: &Arc<Workplace>,
) -> Result<Arc<dyn Tool>, TemplateError> {
    let name = &template.name;
    let [program, words @ ..] = template.command.as_slice() else {
        return Err(TemplateError::Empty(name.clone()));
    };
    if program.trim().is_empty() {
        return Err(TemplateError::Empty(name.clone()));
    }
    let brace = |word: &String| TemplateError::Brace {
        tool: name.clone(),
        word: word.clone(),
    };
    let parsed = words
        .iter()
        .map(|word| parse(word).ok_or_else(|| brace(word)));
    let words: Vec<Vec<Piece>> = parsed.collect::<Result<_, _>>()?;
    let program = match parse(program).ok_or_else(|| brace(program))?.as_slice() {
        [Piece::Text(text)] => text.clone(),
        _ => return Err(TemplateError::Program(name.clone())),
    };
    let named = places(words.iter().flatten())
        .chain(&template.stdin)
        .chain(&template.required);
    for place in named {
        if !template.parameters.contains_key(place) {
            return Err(TemplateError::Unknown {
                tool: name.clone(),
                name: place.clone(),
            });
        }
    }
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": template.required, "properties": template.parameters,
    });
    let definition = Definition::new(name.clone(), template.description.clone(), &schema)?;
    let definition = definition.own_output(&result()).streaming();
    let definition = definition.tags(template.tags.iter().cloned());
    let definition = match template.read_only {
        true => definition.read_only().volatile(),
        false => definition,
    };
    Ok(Arc::new(Templated {
        definition,
        program,
        words,
        stdin: template.stdin.clone(),
        timeout: template.timeout,
        workplace: Arc::clone(workplace),
    }))
}

/// The words of a command, with arguments in their places.
fn fill(template: &[Vec<Piece>], arguments: &Value) -> Result<Vec<String>, ToolFailure> {
    let mut words: Vec<String> = Vec::new();
    let mut options_end = false;
    for pieces in template {
        let filled = match pieces.as_slice() {
            [Piece::Place(name)] => each(arguments.get(name)),
            pieces => vec![join(pieces, arguments)],
        };
        // What an agent says must not become an option of the program.
        if let Some(Piece::Place(name)) = pieces.first()
            && !options_end
            && filled.iter().any(|word| word.starts_with('-'))
        {
            return Err(option(name));
        }
        options_end |= matches!(pieces.as_slice(), [Piece::Text(text)] if text == "--");
        words.extend(filled);
    }
    Ok(words)
}

fn option(name: &str) -> ToolFailure {
    ToolFailure::denied(
        "option",
        format!("`{name}` must not begin with a hyphen: it would be an option of the program"),
    )
}

impl Tool for Templated {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let arguments = call.arguments.value();
            let stdin = self.stdin.as_ref().and_then(|name| arguments.get(name));
            let mut profile = self.workplace.profile.clone();
            if let Some(timeout) = self.timeout {
                profile.limits.wall_time = profile.limits.wall_time.min(timeout);
            }
            let command = Command {
                cwd: self.workplace.folder.clone(),
                stdin: match stdin {
                    Some(_) => Input::Pipe,
                    None => Input::Null,
                },
                ..Command::new(&self.program).args(fill(&self.words, arguments)?)
            };
            let stdin = stdin.map(text).unwrap_or_default();
            run(&self.workplace, &command, &profile, stdin, &call).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(template: &[&str], arguments: &Value) -> Result<Vec<String>, String> {
        let words: Vec<Vec<Piece>> = template.iter().map(|word| parse(word).unwrap()).collect();
        let all: Result<Vec<String>, ToolFailure> = fill(&words, arguments);
        all.map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_word_stays_a_word() {
        let template = ["log", "--max-count={n}", "--", "{paths}", "{{as is}}"];
        let arguments = json!({"n": 3, "paths": ["a b", "-x", "$(id)"]});
        let expected = [
            "log",
            "--max-count=3",
            "--",
            "a b",
            "-x",
            "$(id)",
            "{as is}",
        ];
        assert_eq!(words(&template, &arguments).unwrap(), expected);
        // What is not given is not there.
        assert_eq!(words(&["{none}", "a"], &json!({})).unwrap(), ["a"]);
    }

    #[test]
    fn an_argument_is_no_option() {
        for template in [&["{a}"][..], &["{a}x"]] {
            let error = words(template, &json!({"a": "--exec=sh"})).unwrap_err();
            assert!(error.contains("hyphen"), "{error}");
        }
        assert_eq!(
            words(&["--", "{a}"], &json!({"a": "-x"})).unwrap(),
            ["--", "-x"]
        );
        // The operator's own `--` counts, not one of the agent's.
        words(&["{a}"], &json!({"a": ["--", "-x"]})).unwrap_err();
    }
}
