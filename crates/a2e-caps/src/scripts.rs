//! Tools that are programs of a folder: each executable file with a header is one.
//!
//! A script runs in the sandbox, reads its arguments as JSON from its standard input and writes its
//! result, JSON or text, to its standard output. Its definition names the hash of the whole file, so
//! whoever pins definitions pins scripts. What runs is a copy of exactly what was hashed, which agents
//! cannot change; if the file has changed since, nothing runs.

mod header;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use canonical::Digest;
use sandbox::{Command, Input, Profile, Status};
use serde_json::Value;

use crate::commands::{Told, execute};
use crate::tool::{Call, Content, Definition, Output, Tool, ToolFailure, blocking};
use crate::workplace::Workplace;

use header::Header;

pub use header::MAX_HEADER;
pub(crate) use header::simple;

/// Scripts of a folder.
pub const MAX_SCRIPTS: usize = 200;

/// Bytes of a script.
pub const MAX_SCRIPT: usize = 1 << 20;

/// Why a folder has no tools.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("the folder of `scripts` {}: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There are too many.
    #[error("there are more than {MAX_SCRIPTS} scripts in {}", .0.display())]
    TooMany(PathBuf),
    /// One of them cannot be a tool.
    #[error("the script {}: {problem}", file.display())]
    Bad {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// A script, as the folder has it.
#[derive(Debug)]
struct Found {
    definition: Definition,
    file: PathBuf,
    hash: Digest,
    /// What runs.
    copy: PathBuf,
    content: Content,
    timeout: Option<Duration>,
}

struct Script {
    found: Found,
    workplace: Arc<Workplace>,
}

/// Who runs scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    /// The user that the node runs as.
    Same,
    /// One without any rights.
    Other,
}

/// The tools of a folder, by name. Files that nobody may execute are none, nor are those whose names
/// begin with a dot, nor folders. What is read is kept below `copies`, which is made if need be.
///
/// # Errors
/// If the folder cannot be read, or an executable file of it cannot be a tool.
pub fn tools(
    folder: &Path,
    copies: &Path,
    workplace: &Arc<Workplace>,
) -> Result<Vec<Arc<dyn Tool>>, ScriptError> {
    let is_guarded = workplace.launcher.settings().is_some();
    let runner = match is_guarded && rustix::process::geteuid().is_root() {
        true => Runner::Other,
        false => Runner::Same,
    };
    let tool = |found: Found| -> Arc<dyn Tool> {
        let workplace = Arc::clone(workplace);
        Arc::new(Script { found, workplace })
    };
    let found = read(folder, copies, runner)?;
    Ok(found.into_iter().map(tool).collect())
}

fn read(folder: &Path, copies: &Path, runner: Runner) -> Result<Vec<Found>, ScriptError> {
    let fail = |error| ScriptError::Folder {
        folder: folder.to_owned(),
        error,
    };
    // Programs see it at the path that it really has.
    let folder = &folder.canonicalize().map_err(fail)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && is_executable(&file).map_err(fail)? {
            files.push(file);
        }
        if files.len() > MAX_SCRIPTS {
            return Err(ScriptError::TooMany(folder.clone()));
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let found = script(&file, copies, runner);
        found.map_err(|problem| ScriptError::Bad { file, problem })
    };
    files.into_iter().map(read).collect()
}

/// Whether it is a file, or leads to one, that somebody may execute.
fn is_executable(file: &Path) -> io::Result<bool> {
    match fs::metadata(file) {
        Ok(found) => Ok(found.is_file() && found.permissions().mode() & 0o111 != 0),
        // A link that leads nowhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn script(file: &Path, copies: &Path, runner: Runner) -> Result<Found, String> {
    let found = fs::symlink_metadata(file).map_err(|error| error.to_string())?;
    if found.is_symlink() {
        return Err("it is a symbolic link; put the file itself there".to_owned());
    }
    if runner == Runner::Other && found.permissions().mode() & 0o005 != 0o005 {
        return Err(
            "what agents run has a user of its own, who must be able to read and execute \
                    it: chmod 755"
                .to_owned(),
        );
    }
    let content = content(file).map_err(|error| error.to_string())?;
    let content = content.ok_or_else(|| format!("it has more than {MAX_SCRIPT} bytes"))?;
    let header = Header::read(&content)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let hash = Digest::of(&content);
    let definition = Definition::new(name, header.description.clone(), &header.schema()?);
    let definition = definition.map_err(|error| error.to_string())?;
    let definition = definition
        .tags(header.tags)
        .version(hash.to_string())
        .streaming();
    let copy = keep(copies, file.file_name().unwrap_or_default(), &content, hash)
        .map_err(|error| format!("it cannot be copied to {}: {error}", copies.display()))?;
    Ok(Found {
        definition: match header.read_only {
            true => definition.read_only().volatile(),
            false => definition,
        },
        file: file.to_owned(),
        hash,
        copy,
        content: Content::text(&content),
        timeout: header.timeout_seconds.map(Duration::from_secs),
    })
}

/// Keeps what was read, under its hash: it is what runs, whatever becomes of the file.
fn keep(copies: &Path, name: &OsStr, content: &[u8], hash: Digest) -> io::Result<PathBuf> {
    let folder = copies.join(hash.to_string().replace(':', "-"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let copy = folder.join(name);
    // Nobody runs half of it, and two that keep the same do not mind each other.
    let mut next = copy.clone().into_os_string();
    next.push(format!(".{}", std::process::id()));
    fs::write(&next, content)?;
    fs::set_permissions(&next, fs::Permissions::from_mode(0o755))?;
    fs::rename(&next, &copy)?;
    // Programs see it at the path that it really has.
    copy.canonicalize()
}

/// All of a script; nothing if that is too much.
fn content(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let most = u64::try_from(MAX_SCRIPT).unwrap_or(u64::MAX);
    let mut limited = File::open(file)?.take(most.saturating_add(1));
    limited.read_to_end(&mut content)?;
    Ok((content.len() <= MAX_SCRIPT).then_some(content))
}

impl Found {
    /// Whether the file is still the one whose definition was approved.
    async fn check(&self) -> Result<(), ToolFailure> {
        let (file, name) = (self.file.clone(), self.definition.name().to_owned());
        let hash = self.hash;
        blocking(move || {
            let content = content(&file).ok().flatten();
            match content.is_some_and(|content| Digest::of(&content) == hash) {
                true => Ok(()),
                false => Err(ToolFailure::denied(
                    "changed",
                    format!(
                        "the script of `{name}` has changed since the node read it; the operator \
                         can have it read again with `frith config apply`, and then approve it"
                    ),
                )),
            }
        })
        .await
    }
}

impl Tool for Script {
    fn definition(&self) -> &Definition {
        &self.found.definition
    }

    fn content(&self) -> Option<Content> {
        Some(self.found.content.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let Found { copy, timeout, .. } = &self.found;
            self.found.check().await?;
            let mut profile = self.workplace.profile.clone();
            profile.readable.push(copy.clone());
            if let Some(timeout) = *timeout {
                profile.limits.wall_time = profile.limits.wall_time.min(timeout);
            }
            let command = Command {
                cwd: self.workplace.folder.clone(),
                stdin: Input::Pipe,
                ..Command::new(copy)
            };
            run(&self.workplace, &command, &profile, &call).await
        })
    }
}

/// Runs a script that reads its arguments and writes its result.
///
/// # Errors
/// If it cannot be started. One that fails has a result that says so.
pub(crate) async fn run(
    workplace: &Workplace,
    command: &Command,
    profile: &Profile,
    call: &Call,
) -> Result<Output, ToolFailure> {
    let stdin = call.arguments.raw().as_str().to_owned();
    let ran = execute(workplace, command, profile, stdin, (call, Told::Errors)).await?;
    if ran.exit.status != Status::Code(0) || ran.exit.why.is_some() {
        return ran.result();
    }
    // What it writes is its result: JSON, or else a text.
    match serde_json::from_slice::<Value>(&ran.stdout) {
        Ok(data) => Output::new(&data),
        Err(_) => Output::new(&String::from_utf8_lossy(&ran.stdout)),
    }
}

#[cfg(test)]
mod tests;
