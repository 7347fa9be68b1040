//! Tools that run commands and code in the sandbox.

mod run;
mod template;

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use sandbox::{Command, Input, Network};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tool::{
    Call, Definition, DefinitionError, Output, Tool, ToolConfiguration, ToolFailure,
};
use crate::workplace::Workplace;

pub use template::{Template, TemplateError, tool as from_template};

pub(crate) use run::{Told, execute, limit, run};

/// Bytes of a command or of code.
pub const MAX_CODE: usize = 100 * 1024;

/// Languages that code is run in: what they are called, the program, and how it takes code.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("python", "python3", "-c"),
    ("javascript", "node", "-e"),
    ("bash", "bash", "-c"),
];

/// `run_command`.
struct RunCommand {
    definition: Definition,
    workplace: Arc<Workplace>,
    shell: &'static str,
}

/// `run_code`.
struct RunCode {
    definition: Definition,
    workplace: Arc<Workplace>,
}

#[derive(Deserialize)]
struct AskedCommand {
    command: String,
    #[serde(flatten)]
    how: How,
}

#[derive(Deserialize)]
struct AskedCode {
    language: String,
    code: String,
    #[serde(flatten)]
    how: How,
}

#[derive(Deserialize)]
struct How {
    #[serde(default)]
    cwd: String,
    stdin: Option<String>,
    timeout_seconds: Option<u64>,
}

/// The tools, as far as this machine has the programs for them.
///
/// # Errors
/// If a definition cannot be used, which nothing can bring about.
pub fn tools(workplace: &Arc<Workplace>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if let Some(shell) = ["bash", "sh"].into_iter().find(|it| workplace.has(it)) {
        tools.push(Arc::new(RunCommand {
            definition: command_definition(workplace, shell)?,
            workplace: Arc::clone(workplace),
            shell,
        }));
    }
    let languages = LANGUAGES.iter().filter(|it| workplace.has(it.1));
    let names: Vec<&str> = languages.map(|(name, ..)| *name).collect();
    if !names.is_empty() {
        tools.push(Arc::new(RunCode {
            definition: code_definition(workplace, &names)?,
            workplace: Arc::clone(workplace),
        }));
    }
    let configured = json!({
        "directory": workplace.folder,
        "network": match workplace.profile.network {
            Network::None => "none",
            Network::Loopback => "loopback",
            Network::All => "all",
        },
    });
    Ok(ToolConfiguration::new(&configured, configured.clone()).of(tools))
}

fn command_definition(workplace: &Workplace, shell: &str) -> Result<Definition, DefinitionError> {
    let schema = schema(
        workplace,
        &[(
            "command",
            json!({"type": "string", "minLength": 1, "maxLength": MAX_CODE,
            "description": format!("The command line, as {shell} takes it")}),
        )],
    );
    let text = "Runs a command line in the sandbox, in the workspace and without a network unless \
                the host is configured otherwise; gives its exit code and what it wrote";
    let definition = Definition::own("run_command", text, &schema)?;
    let definition = definition.own_output(&result()).streaming();
    Ok(definition.tags(["command", "shell", "execute"]))
}

fn code_definition(workplace: &Workplace, names: &[&str]) -> Result<Definition, DefinitionError> {
    let schema = schema(
        workplace,
        &[
            ("language", json!({"type": "string", "enum": names})),
            (
                "code",
                json!({"type": "string", "minLength": 1, "maxLength": MAX_CODE,
            "description": "The program"}),
            ),
        ],
    );
    let text = "Runs a program in the sandbox, in the workspace and without a network unless the \
                host is configured otherwise; gives its exit code and what it wrote";
    let definition = Definition::own("run_code", text, &schema)?;
    let definition = definition.own_output(&result()).streaming();
    Ok(definition.tags(["code", "program", "execute", "script"]))
}

/// What a tool takes: its own, which it needs, and how to run it.
fn schema(workplace: &Workplace, own: &[(&str, Value)]) -> Value {
    let longest = workplace.profile.limits.wall_time.as_secs();
    let how = [
        (
            "cwd",
            json!({"type": "string",
            "description": "The folder to start in; the workspace unless given"}),
        ),
        (
            "stdin",
            json!({"type": "string",
            "description": "What it reads from its standard input"}),
        ),
        (
            "timeout_seconds",
            json!({"type": "integer", "minimum": 1, "maximum": longest,
            "description": format!("After so long it is killed; {longest} unless given")}),
        ),
    ];
    let required: Vec<&str> = own.iter().map(|(name, _)| *name).collect();
    let properties = own.iter().chain(&how);
    let properties: Map<String, Value> = properties
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    json!({
        "type": "object", "additionalProperties": false,
        "required": required, "properties": properties,
    })
}

/// What both give.
pub(crate) fn result() -> Value {
    json!({
        "type": "object",
        "required": ["exit_code", "stdout", "stderr"],
        "properties": {
            "exit_code": {"type": "integer", "description": "Negative for a signal"},
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "ended_by": {"type": "string", "description": "The limit it ran into, if any"},
        },
    })
}

impl How {
    /// Runs a program so.
    async fn run(
        self,
        workplace: &Workplace,
        program: &str,
        args: [&str; 2],
        call: &Call,
    ) -> Result<Output, ToolFailure> {
        let cwd = workplace.cwd(&self.cwd).map_err(ToolFailure::new)?;
        let mut profile = workplace.profile.clone();
        if let Some(seconds) = self.timeout_seconds {
            let asked = Duration::from_secs(seconds);
            profile.limits.wall_time = profile.limits.wall_time.min(asked);
        }
        let command = Command {
            cwd,
            stdin: match self.stdin {
                Some(_) => Input::Pipe,
                None => Input::Null,
            },
            ..Command::new(program).args(args)
        };
        let stdin = self.stdin.unwrap_or_default();
        run(workplace, &command, &profile, stdin, call).await
    }
}

impl Tool for RunCommand {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let AskedCommand { command, how } = call.arguments.read()?;
            let args = ["-c", command.as_str()];
            how.run(&self.workplace, self.shell, args, &call).await
        })
    }
}

impl Tool for RunCode {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let AskedCode {
                language,
                code,
                how,
            } = call.arguments.read()?;
            let mut languages = LANGUAGES.iter();
            let known = languages.find(|(name, ..)| *name == language);
            // Its schema names those there are.
            let (_, program, flag) = known.ok_or_else(|| {
                ToolFailure::new("there is no such language; the definition names those there are")
            })?;
            let args = [*flag, code.as_str()];
            how.run(&self.workplace, program, args, &call).await
        })
    }
}
