//! The process that supervisors are forked from, as the host has it.
//!
//! To start this program takes milliseconds, most of them to map it: for each command that would be
//! more than everything else. So it is started once, as the keeper, which has one thread, nothing of
//! the host's and nothing else to do; a supervisor is a fork of it.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::Duration;

use crate::channel::{receive, send_message};
use crate::stage;
use crate::supervisor::Forked;

/// How long a keeper may take over a fork, which takes microseconds, and a supervisor over one message
/// while nothing but the thread waits, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

struct Keeper {
    program: PathBuf,
    process: process::Child,
    socket: UnixStream,
}

thread_local! {
    /// Of the thread that starts supervisors: the kernel kills the keeper when that ends.
    static KEEPER: RefCell<Option<Keeper>> = const { RefCell::new(None) };
}

/// Has a supervisor forked, and gives it and the way to it. Only to be called by the thread that is
/// there for it.
pub(crate) fn fork(program: &Path) -> io::Result<(Forked, UnixStream)> {
    KEEPER.with_borrow_mut(|slot| {
        if let Some(keeper) = slot.take_if(|keeper| keeper.program != program) {
            keeper.dismiss();
        }
        if let Some(keeper) = slot {
            // Without descriptors for it there is nothing wrong with the keeper.
            let sockets = pair()?;
            if let Ok(forked) = keeper.fork(sockets) {
                return Ok(forked);
            }
            // Somebody has killed it.
            if let Some(keeper) = slot.take() {
                keeper.dismiss();
            }
        }
        slot.insert(Keeper::start(program)?).fork(pair()?)
    })
}

impl Keeper {
    fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = pair()?;
        let process = process::Command::new(program)
            .arg0(stage::KEEPER)
            .env_clear()
            .envs([stage::FRUGAL])
            .current_dir("/")
            // Keys of the host's terminal are not for it.
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            program: program.to_owned(),
            process,
            socket: ours,
        })
    }

    /// Each attempt has sockets of its own: the supervisor of one that failed may be there, and would
    /// read what is meant for the next. Without our end it sees that nobody wants it.
    fn fork(&self, (ours, theirs): (UnixStream, UnixStream)) -> io::Result<(Forked, UnixStream)> {
        send_message(&self.socket, &[], Some(theirs.as_fd()))?;
        drop(theirs);
        let answer = receive(&self.socket)?;
        let forked = answer.and_then(|(id, end)| {
            Some(Forked {
                id: u32::from_le_bytes(id.try_into().ok()?),
                end: end?,
            })
        });
        let forked = forked.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((forked, ours))
    }

    /// Has it end, and waits for that.
    fn dismiss(mut self) {
        drop(self.socket);
        // It cannot fail: nobody else waits for a child of this process.
        let _ = self.process.wait();
    }
}

/// A way to another process, and its end of it.
fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(PATIENCE))?;
    ours.set_read_timeout(Some(PATIENCE))?;
    Ok((ours, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_forked_by_a_keeper_that_died_over_it_is_alone() {
        let (ours, theirs) = pair().unwrap();
        let keeper = Keeper {
            program: PathBuf::new(),
            process: process::Command::new("true").spawn().unwrap(),
            socket: ours,
        };
        let dying = std::thread::spawn(move || receive(&theirs).unwrap().unwrap().1.unwrap());
        assert!(keeper.fork(pair().unwrap()).is_err());
        let supervisor = dying.join().unwrap();
        assert!(receive(&supervisor).unwrap().is_none());
        keeper.dismiss();
    }
}
