//! The toolkit `git`: what a repository of the workspace says, by `git` in the sandbox.

mod arguments;

use std::ffi::OsString;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use sandbox::{Command, Network};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Info, Toolkit};
use crate::commands::{Told, execute, result, run};
use crate::files::MAX_PATH;
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};
use crate::workplace::Workplace;

use arguments::Action;

/// Status, log, diff and show of a repository.
#[derive(Debug)]
pub struct Git {
    info: Info,
    workplace: Arc<Workplace>,
}

#[derive(Deserialize)]
struct Config {
    repository: String,
}

/// A tool that runs `git`.
struct GitTool {
    definition: Definition,
    action: Action,
    workplace: Arc<Workplace>,
    repository: String,
}

impl Git {
    /// The toolkit for repositories below this folder.
    #[must_use]
    pub fn new(workplace: Arc<Workplace>) -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["repository"],
            "properties": {"repository": {
                "type": "string", "maxLength": MAX_PATH,
                "description": "A folder of the workspace that is a repository; `.` is the \
                                workspace itself",
            }},
        });
        let info = Info::own("git", &schema, &Action::ALL.map(Action::name));
        Self {
            info: Info {
                alias: "Git".into(),
                description: "Shows what a Git repository has: its state, history and changes"
                    .into(),
                category: "code".into(),
                tags: vec!["git".into(), "repository".into(), "version".into()],
                ..info
            },
            workplace,
        }
    }

    fn tool(&self, action: Action, repository: &str) -> Result<Arc<dyn Tool>, DefinitionError> {
        let definition = Definition::own(action.name(), action.text(), &action.schema())?;
        let definition = definition.own_output(&result()).read_only().volatile();
        Ok(Arc::new(GitTool {
            definition: definition.tags(["git", "repository"]),
            action,
            workplace: Arc::clone(&self.workplace),
            repository: repository.to_owned(),
        }))
    }
}

impl Toolkit for Git {
    fn info(&self) -> &Info {
        &self.info
    }

    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        if !self.workplace.has("git") {
            return Err("this machine has no `git`".into());
        }
        let folder = self.workplace.cwd(&config.repository);
        let folder = folder.map_err(|why| why.replace("`cwd`", "`repository`"))?;
        // Its own folder, or that of one without files.
        if !folder.join(".git").exists() && !folder.join("HEAD").is_file() {
            return Err("`repository` must be the folder of a Git repository".into());
        }
        let tools = Action::ALL.map(|action| self.tool(action, &config.repository));
        let tools: Result<_, DefinitionError> = tools.into_iter().collect();
        tools.map_err(|error| error.to_string())
    }
}

impl GitTool {
    fn command(
        &self,
        arguments: Vec<String>,
        more: Vec<(OsString, OsString)>,
    ) -> Result<Command, ToolFailure> {
        let cwd = self.workplace.cwd(&self.repository);
        let cwd = cwd.map_err(|why| ToolFailure::new(why.replace("`cwd`", "the repository")))?;
        let mut env: Vec<(OsString, OsString)> = arguments::ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        // What lies above the workspace is no repository of the agent.
        let home = self.workplace.folder.canonicalize();
        let above = home.ok().and_then(|home| Some(home.parent()?.to_owned()));
        env.extend(above.map(|above| ("GIT_CEILING_DIRECTORIES".into(), above.into())));
        env.extend(more);
        let command = Command::new("git").args(arguments);
        Ok(Command {
            cwd,
            env,
            ..command
        })
    }
}

impl Tool for GitTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let arguments = self.action.arguments(&call.arguments.read()?);
            let mut profile = self.workplace.profile.clone();
            profile.network = Network::None;
            let ask = self.command(arguments::filters(), Vec::new())?;
            let told = (&call, Told::Errors);
            let filters = execute(&self.workplace, &ask, &profile, String::new(), told).await?;
            // A list that was ended by a limit lacks filters.
            let whole = filters.exit.why.is_none().then_some(filters.stdout);
            let without = whole.and_then(|list| arguments::without(&list));
            let without = without.ok_or_else(|| {
                ToolFailure::new(
                    "the repository has too many filters; take some out of its settings",
                )
            })?;
            let command = self.command(arguments, without)?;
            run(&self.workplace, &command, &profile, String::new(), &call).await
        })
    }
}
