//! The stages: what this program does when it is started again to run a command.
//!
//! The host starts the keeper (`keeper`), once. For each command it forks a supervisor
//! (`supervisor`) and lends it a network (`networks`); that one makes the namespaces and forks the first process in them (`init`). That one
//! builds the file tree (`mounts`), gives up its rights (`confine`, `syscalls`), and starts the
//! command. What each has to do it is told over a socket that is its standard input, so nothing of it
//! is in arguments or the environment.

mod confine;
mod filter;
mod init;
mod keeper;
mod loopback;
mod mounts;
mod networks;
mod supervisor;
mod syscalls;

use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::channel::send_message;
use crate::report::{Fault, Report};
use crate::{Guard, attempt};

/// Tells mimalloc, if that is the allocator, to reserve no memory: what the first process has reserved
/// counts against the limit of the command that it is about to start.
pub(crate) const FRUGAL: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// The name under which the program is started as a stage.
pub(crate) const KEEPER: &str = "sandbox: keeper";

/// Where the running program is, whatever has become of its file.
pub(crate) const MYSELF: &str = "/proc/self/exe";

/// Whether this program began with [`enter_if_asked`].
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Becomes a stage of the sandbox, if that is what the program was started as; otherwise returns at
/// once.
///
/// To be called first thing in `main`, before there is a second thread.
pub fn enter_if_asked() {
    PREPARED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    if name == KEEPER {
        leave(keeper::run());
    }
    if arguments
        .next()
        .is_some_and(|first| first == attempt::ASKED)
    {
        let name = arguments.next().unwrap_or_default();
        let rest: Vec<_> = arguments.collect();
        end(attempt::run(&name.to_string_lossy(), &rest));
    }
}

/// Whether this program can be its own supervisor.
pub(crate) fn prepared() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Why a stage did not come to run the command.
#[derive(Debug)]
struct Failure {
    what: Fault,
    why: String,
}

/// What to say when a guard cannot be put up.
fn missing<E: Display>(guard: Guard) -> impl FnOnce(E) -> Failure {
    move |why| Failure {
        what: Fault::Guard(guard),
        why: why.to_string(),
    }
}

/// Ends a stage, and says why if it failed.
fn leave(result: Result<(), Failure>) -> ! {
    if let Err(Failure { what, why }) = result {
        let report = Report::Failed { what, why };
        // If nobody listens any more there is nobody to tell.
        let _ = send_message(io::stdin().as_fd(), &report.encode(), None);
    }
    end(0)
}

#[expect(clippy::exit, reason = "a stage has nothing to return to")]
fn end(code: i32) -> ! {
    std::process::exit(code)
}
