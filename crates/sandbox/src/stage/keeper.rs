//! The stage that is started: it forks supervisors and waits for them to end, and does nothing else.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fork::Fork;
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_parent_process_death_signal, wait,
};

use super::networks::Networks;
use super::{Failure, leave, missing, supervisor};
use crate::Guard;
use crate::channel::{receive, send_message};

pub(super) fn run() -> Result<(), Failure> {
    close_inherited().map_err(missing(Guard::Descriptors))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(missing(Guard::DeathSignal))?;
    let mut children = SigSet::empty();
    children.add(NixSignal::SIGCHLD);
    children.thread_block().map_err(missing(Guard::Limits))?;
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
    let ended = ended.map_err(missing(Guard::Limits))?;
    let (host, keeper) = (io::stdin(), getpid());
    let mut networks = Networks::new().map_err(missing(Guard::NetworkNamespace))?;
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            // One that was killed may have left processes that are still about to end.
            let is_empty = status.exit_status() == Some(0);
            networks
                .ended(pid, is_empty)
                .map_err(missing(Guard::NetworkNamespace))?;
        }
        let mut ready = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(&host, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(missing(Guard::Limits)(why)),
        }
        let asked = !ready.map(|it| it.revents().is_empty())[1];
        while let Ok(Some(_)) = ended.read_signal() {}
        if !asked {
            continue;
        }
        let Ok(Some((_, Some(socket)))) = receive(&host) else {
            return Ok(()); // the host is gone
        };
        let network = networks.take().map_err(missing(Guard::NetworkNamespace))?;
        match divide().map_err(missing(Guard::PidNamespace))? {
            Fork::Child => {
                drop((ended, networks));
                leave(become_supervisor(socket, children, keeper, network));
            }
            Fork::Parent(id) => {
                // Not waited for yet, so it is nobody else.
                let pid = Pid::from_raw(id).ok_or(Errno::SRCH);
                let pid = pid.map_err(missing(Guard::PidNamespace))?;
                networks.lend(pid, network);
                let end = pidfd_open(pid, PidfdFlags::empty());
                let end = end.map_err(missing(Guard::PidNamespace))?;
                // A host that does not listen any more is noticed by its silence.
                let _ = send_message(&host, &id.to_le_bytes(), Some(end.as_fd()));
            }
        }
    }
}

/// Forks. A fork of a process with several threads could find what they were about to do half done,
/// so there must be one.
pub(super) fn divide() -> io::Result<Fork> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other(
            "a process with several threads cannot be forked",
        ));
    }
    fork::fork()
}

fn become_supervisor(
    socket: OwnedFd,
    blocked: SigSet,
    keeper: Pid,
    network: Option<OwnedFd>,
) -> Result<(), Failure> {
    // The command would inherit it.
    blocked.thread_unblock().map_err(missing(Guard::Limits))?;
    // In the place of the way to the host of the keeper.
    rustix::stdio::dup2_stdin(&socket).map_err(missing(Guard::Descriptors))?;
    drop(socket);
    supervisor::run(keeper, network)
}

/// Closes what a careless host has left open for its children.
fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<i32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The folder that was read is among them, and is closed by now.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}
