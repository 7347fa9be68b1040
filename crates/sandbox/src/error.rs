//! What can go wrong.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Guard;

/// Why a command was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This program cannot be its own supervisor.
    #[error(
        "this program cannot supervise commands: call sandbox::enter_if_asked() first thing in main"
    )]
    NotPrepared,
    /// The machine does not give a guard that is asked for.
    #[error(
        "{}: the guard `{guard}` is missing here ({why}): {}; or write `sandbox: none` to run \
         commands without any guard",
        guard.setting(),
        guard.remedy()
    )]
    Guard {
        /// Which.
        guard: Guard,
        /// What the machine says.
        why: String,
    },
    /// The program cannot be run.
    #[error(
        "cannot run {}: {why}; it must be a program inside the sandbox: give its folder as readable",
        program.display()
    )]
    NotStarted {
        /// Which.
        program: OsString,
        /// What the kernel says.
        why: String,
    },
    /// The folder to start in cannot be used.
    #[error("cannot start in {}: {why}; name a folder that the profile lets it read", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the kernel says.
        why: String,
    },
    /// A variable that makes the loader run foreign code, or one that is not a variable.
    #[error("the environment must not have {}: {why}", name.display())]
    Environment {
        /// Its name.
        name: OsString,
        /// Why not.
        why: &'static str,
    },
    /// A path of the profile cannot be used.
    #[error("{} cannot be part of a profile: {why}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A limit with which nothing could start.
    #[error("limit {name} of {value} is too small: at least {least} are needed")]
    Limit {
        /// Which.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// The least there can be.
        least: u64,
    },
    /// A user id that is not for commands.
    #[error("sandbox.uids: user id {0} is not in the range for commands")]
    NotInRange(u32),
    /// All user ids are in use.
    #[error("sandbox.uids: all user ids for commands are in use; wait, or make the range larger")]
    NoFreeUid,
    /// There is no async runtime to wait with.
    #[error("a command can only be started inside a tokio runtime")]
    NoRuntime,
    /// The operating system refuses something before any guard is up.
    #[error(
        "cannot {what}: {why}; check the limits on processes, files and memory of frith itself"
    )]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it says.
        why: String,
    },
    /// The supervisor ended before it could say why.
    #[error("the supervisor of the command was killed; start it again")]
    Lost,
}

impl Error {
    pub(crate) fn io(what: &'static str, why: impl ToString) -> Self {
        Self::Io {
            what,
            why: why.to_string(),
        }
    }
}
