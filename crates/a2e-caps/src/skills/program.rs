//! Skills that are programs: a script or a WebAssembly component that goes with the skill.
//!
//! It reads the arguments as JSON and gives its result as JSON, in the sandbox that tools of the same
//! kinds have. What runs is a copy of all files of the skill, exactly as they were approved.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_wire::Namespace;
use a2e_wire::messages::tool::ToolEvent;
use canonical::Digest;
use sandbox::{Command, Input};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::skill::{Skill, limited};
use super::telling::Telling;
use super::{Asked, Failed, MAX_FILE_BYTES, Skills};
use crate::tool::{Call, Output, Progress, ToolFailure, blocking};
use crate::tools::caller;
use crate::workplace::Workplace;
use crate::{fresh, scripts};

/// Bytes of the result of a program.
pub const MAX_OUTPUT: usize = 1 << 20;

/// Events of a program that wait to be told.
const EVENTS: usize = 16;

/// Bytes of its errors that are said when it fails.
const MAX_SAID: usize = 2000;

/// Where skills that are programs run.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The sandbox.
    pub workplace: Arc<Workplace>,
    /// Where skills are kept as they were approved; agents must not write there.
    pub copies: PathBuf,
    /// Compiles components.
    #[cfg(feature = "wasm")]
    pub components: Arc<crate::components::Components>,
}

/// The file of a skill that runs when it is called, by its path in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    /// The system runs it.
    Script(String),
    /// A WebAssembly component.
    Component(String),
}

impl Program {
    /// What `run` names.
    ///
    /// # Errors
    /// If that cannot run.
    pub(super) fn find(
        folder: &Path,
        path: &str,
        files: &BTreeMap<String, Digest>,
    ) -> Result<Self, String> {
        let path = path.strip_prefix("./").unwrap_or(path).to_owned();
        if !files.contains_key(&path) {
            return Err(format!(
                "`run` must name a file that goes with the skill; `{path}` does not"
            ));
        }
        if path.ends_with(".wasm") {
            return Ok(Self::Component(path));
        }
        let mut head = Vec::new();
        let read = File::open(folder.join(&path)).and_then(|it| it.take(4).read_to_end(&mut head));
        read.map_err(|error| error.to_string())?;
        match head.starts_with(b"#!") || head == b"\x7fELF" {
            true => Ok(Self::Script(path)),
            false => Err(format!(
                "`run`: `{path}` must begin with a line as `#!/usr/bin/env python3`, which says \
                 what runs it, or be a component (`.wasm`)"
            )),
        }
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Script(path) | Self::Component(path) => path,
        }
    }
}

impl Skills {
    /// Runs the program of a skill, with events in the order in which a model's are.
    pub(super) async fn run_program(
        &self,
        program: &Program,
        asked: &Asked,
        telling: &Telling,
    ) -> Result<Value, Failed> {
        let Some(programs) = &self.programs else {
            let text = "this host runs no programs of skills; follow its instructions instead \
                        (`metadata: {prepare: true}`)";
            return Err(Failed::new("no_sandbox", text));
        };
        let reason = json!({"reason": "a program of the skill runs"});
        telling.tell("llm.skipped", reason).await;
        let started = json!({"tool": program.path()});
        telling.tell("tool.started", started).await;
        let outcome = heard(programs, program, asked, telling).await;
        let outcome = outcome.and_then(|output| result(&asked.skill, output));
        let ended = json!({"tool": program.path(), "success": outcome.is_ok()});
        telling.tell("tool.completed", ended).await;
        outcome
    }
}

/// Runs it, and tells what it tells.
async fn heard(
    programs: &Programs,
    program: &Program,
    asked: &Asked,
    telling: &Telling,
) -> Result<Output, Failed> {
    let (events, mut heard) = mpsc::channel(EVENTS);
    let context = telling.context();
    let call = Call {
        arguments: asked.arguments.clone(),
        caller: caller(context.session()),
        progress: Progress::heard_by(events),
        over: context.over().clone(),
    };
    let running = programs.run(&asked.skill, program, call);
    tokio::pin!(running);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(event) = heard.recv() => tell(telling, event).await,
            outcome = &mut running => break outcome,
        }
    };
    while let Ok(event) = heard.try_recv() {
        tell(telling, event).await;
    }
    outcome.map_err(|failure| Failed::new("run_failed", failure.to_string()))
}

async fn tell(telling: &Telling, event: ToolEvent<'static>) {
    let data = event.data.raw().deserialize().unwrap_or_default();
    telling.tell(event.kind.as_str(), data).await;
}

/// What a program gave, if that is a result.
fn result(skill: &Skill, output: Output) -> Result<Value, Failed> {
    let size = output.data.as_str().len();
    if output.error.is_none() && size > MAX_OUTPUT {
        let text = format!(
            "its result has {size} bytes, and may have {MAX_OUTPUT}; it can write the rest into a \
             file of the workspace"
        );
        return Err(Failed::new("result_too_large", text));
    }
    let data: Value = output.data.deserialize().unwrap_or_default();
    if let Some(error) = output.error {
        let said = data.get("stderr").and_then(Value::as_str);
        let said = said.unwrap_or_default().trim_end();
        let from = said.ceil_char_boundary(said.len().saturating_sub(MAX_SAID));
        let said = said.get(from..).unwrap_or_default();
        return Err(Failed::new("run_failed", format!("{error}: {said}")));
    }
    if let Some(schema) = &skill.output {
        schema.check(&output.data).map_err(|violations| {
            let first = violations.first();
            let first = first.map_or_else(String::new, |it| format!("{}: {}", it.path, it.text));
            let text = format!("its result is not what `outputs` says: {first}");
            Failed::new("schema_violation", text)
        })?;
    }
    Ok(data)
}

impl Programs {
    async fn run(
        &self,
        skill: &Arc<Skill>,
        program: &Program,
        call: Call,
    ) -> Result<Output, ToolFailure> {
        let (copies, kept) = (self.copies.clone(), Arc::clone(skill));
        let folder = blocking(move || keep(&copies, &kept)).await?;
        let file = folder.join(program.path());
        match program {
            Program::Script(_) => {
                let mut profile = self.workplace.profile.clone();
                profile.readable.push(folder);
                let command = Command {
                    cwd: self.workplace.folder.clone(),
                    stdin: Input::Pipe,
                    ..Command::new(&file)
                };
                scripts::run(&self.workplace, &command, &profile, &call).await
            }
            Program::Component(_) => self.component(file, call).await,
        }
    }

    #[cfg(feature = "wasm")]
    async fn component(&self, path: PathBuf, call: Call) -> Result<Output, ToolFailure> {
        use crate::components::{Access, Wanted};

        let wanted = Wanted {
            name: "skill".to_owned(),
            path,
            files: Access::None,
        };
        let profile = &self.workplace.profile;
        let tool = self.components.load(&wanted, profile).await;
        let tool = tool.map_err(|error| ToolFailure::new(error.to_string()))?;
        // It says itself what it takes, beside what the skill says.
        let schema = tool.definition().input_schema();
        let arguments = schema.arguments(call.arguments.raw().clone());
        let arguments = arguments.map_err(|violations| {
            let what = "the arguments are not what its component takes";
            ToolFailure::from(crate::tools::violated(Namespace::Skill, what, &violations))
        })?;
        tool.call(Call { arguments, ..call }).await
    }

    #[cfg(not(feature = "wasm"))]
    async fn component(&self, _: PathBuf, _: Call) -> Result<Output, ToolFailure> {
        let left_out = crate::FULL_BUILD;
        let text = format!("its program is a WebAssembly component, which {left_out}");
        Err(ToolFailure::new(text))
    }
}

/// Keeps the files of a skill as they were approved: a folder that is there is whole, and agents
/// cannot write in it.
fn keep(copies: &Path, skill: &Skill) -> Result<PathBuf, ToolFailure> {
    let hash = Digest::of(skill.text.as_bytes()).to_string();
    let folder = copies.join(hash.replace(':', "-"));
    if !folder.is_dir() {
        let next = format!("next-{}", fresh::id(Namespace::Skill)?);
        let next = copies.join(next);
        let copied = copy(copies, skill, &next).and_then(|()| {
            let moved = fs::rename(&next, &folder);
            // Another call may have done the same.
            moved.or_else(|error| folder.is_dir().then_some(()).ok_or_else(|| failed(&error)))
        });
        // Nothing is left of what was not moved.
        let _ = fs::remove_dir_all(&next);
        copied?;
    }
    // Programs see it at the path that it really has.
    folder.canonicalize().map_err(|error| failed(&error))
}

fn copy(copies: &Path, skill: &Skill, to: &Path) -> Result<(), ToolFailure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(copies);
    made.map_err(|error| failed(&error))?;
    folder(to).map_err(|error| failed(&error))?;
    let most = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
    for (path, hash) in &skill.files {
        let content = limited(&skill.folder.join(path), most).map_err(ToolFailure::new)?;
        if Digest::of(&content) != *hash {
            let text = "a file of the skill has changed since it was read; try again";
            return Err(ToolFailure::busy("changed", text));
        }
        let file = to.join(path);
        write(to, &file, &content).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Writes a file below a folder, for whoever programs run as.
fn write(below: &Path, file: &Path, content: &[u8]) -> io::Result<()> {
    let parents = file.ancestors().skip(1);
    let mut parents: Vec<&Path> = parents.take_while(|it| *it != below).collect();
    parents.reverse();
    for parent in parents.into_iter().filter(|parent| !parent.is_dir()) {
        folder(parent)?;
    }
    fs::write(file, content)?;
    fs::set_permissions(file, Permissions::from_mode(0o755))
}

fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn failed(error: &io::Error) -> ToolFailure {
    ToolFailure::new(format!("the skill cannot be made ready to run: {error}"))
}

#[cfg(test)]
mod tests;
