//! The stage inside: the first process of its namespace, which starts the command and ends with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, ioctl_tiocsctty, kill_process, kill_process_group,
    set_parent_process_death_signal, setsid, wait,
};

use super::{Failure, confine, missing, mounts};
use crate::Guard;
use crate::channel::{receive, send_message};
use crate::exit::Status;
use crate::plan::{Ground, Plan};
use crate::report::{Fault, Report, Request};

pub(super) fn run() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(missing(Guard::DeathSignal))?;
    let supervisor = io::stdin();
    let Ok(Some((bytes, _))) = receive(&supervisor) else {
        return Ok(()); // the supervisor is gone
    };
    let ground = Ground::decode(&bytes).map_err(missing(Guard::Descriptors))?;
    let Some(ground) = ground else {
        return Ok(()); // then there is no such process
    };
    // All that can be done before the command is known: this process may be one that waits for it.
    let host = mounts::begin(&ground)?;
    let filters = confine::prepare(ground.memory)?;
    let Ok(Some((bytes, input))) = receive(&supervisor) else {
        return Ok(());
    };
    let plan = Plan::decode(&bytes).map_err(missing(Guard::Descriptors))?;
    if let Some(confinement) = &plan.confinement {
        mounts::finish(host, confinement, plan.terminal)?;
        confine::give_up(confinement, &filters)?;
    }
    // The supervisor sees to the time.
    serve(&plan, input.as_ref(), supervisor.as_fd(), None)
}

/// Runs the command, and does what is asked over the socket until it has ended.
pub(super) fn serve(
    plan: &Plan,
    input: Option<&OwnedFd>,
    peer: BorrowedFd<'_>,
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    let Some(program) = &plan.program else {
        tell(peer, &Report::Started);
        return Ok(());
    };
    rustix::process::chdir(&plan.cwd).map_err(|why| Failure {
        what: Fault::Folder,
        why: why.to_string(),
    })?;
    let mut command = Command::new(program);
    command.args(&plan.args).process_group(0).env_clear();
    command.envs(plan.env.iter().map(|(name, value)| (name, value)));
    let unusable = |why: io::Error| Failure {
        what: Fault::Program,
        why: why.to_string(),
    };
    command.stdin(match input {
        Some(input) => input.try_clone().map_err(unusable)?.into(),
        None => Stdio::null(),
    });
    if let Some(terminal) = input.filter(|_| plan.terminal) {
        command.stdout(terminal.try_clone().map_err(unusable)?);
        command.stderr(terminal.try_clone().map_err(unusable)?);
        // The session has this terminal, so that its keys reach the command.
        setsid()
            .and_then(|_| ioctl_tiocsctty(terminal))
            .map_err(|why| unusable(why.into()))?;
    }
    let child = command.spawn().map_err(unusable)?;
    drop(command);
    let pid = pid_of(&child).ok_or(Errno::SRCH);
    let pid = pid.map_err(|why| unusable(why.into()))?;
    if let Some(terminal) = input.filter(|_| plan.terminal) {
        // A command that has already ended needs no terminal.
        let _ = rustix::termios::tcsetpgrp(terminal, pid);
    }
    let _ = let_go_of_output();
    tell(peer, &Report::Started);
    let terminal = input.filter(|_| plan.terminal);
    let report = attend(pid, peer, terminal, deadline).map_err(missing(Guard::PidNamespace))?;
    if let Some(report) = report {
        tell(peer, &report);
    }
    if plan.confinement.is_none() {
        end_all();
    }
    Ok(())
}

/// So that whoever reads the output sees its end when the command has closed it.
pub(super) fn let_go_of_output() -> rustix::io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)
}

/// Reaps whatever ends and passes signals on. How the command ended, or nothing if somebody wants it
/// killed.
fn attend(
    command: Pid,
    peer: BorrowedFd<'_>,
    terminal: Option<&OwnedFd>,
    deadline: Option<Instant>,
) -> nix::Result<Option<Report>> {
    // Only now: the command would inherit what is blocked.
    let mut children = SigSet::empty();
    children.add(NixSignal::SIGCHLD);
    children.thread_block()?;
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == command && status.stopped() {
                wake(command, status, terminal);
            } else if pid == command {
                return Ok(Some(Report::Ended(status_of(status))));
            }
        }
        let mut ready = [
            PollFd::new(&children, PollFlags::IN),
            PollFd::from_borrowed_fd(peer, PollFlags::IN),
        ];
        let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut ready, left.as_ref()) {
            Ok(0) => return Ok(Some(Report::TimedOut)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
        let [_, asked] = ready.map(|it| !it.revents().is_empty());
        while let Ok(Some(_)) = children.read_signal() {}
        if asked && !obey(command, peer) {
            return Ok(None);
        }
    }
}

/// A shell that begins before the terminal is its own stops itself; when it is, it must go on.
fn wake(command: Pid, status: WaitStatus, terminal: Option<&OwnedFd>) {
    let stopped_by = status.stopping_signal().and_then(Signal::from_named_raw);
    let for_terminal = matches!(stopped_by, Some(Signal::TTIN | Signal::TTOU));
    let owner = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    if for_terminal && owner == Some(command) {
        let _ = kill_process_group(command, Signal::CONT);
    }
}

/// Does what is asked. Whether the command is to go on.
fn obey(command: Pid, peer: BorrowedFd<'_>) -> bool {
    let Ok(Some((message, _))) = receive(peer) else {
        return false;
    };
    match Request::decode(&message) {
        Ok(Request::Signal(number)) => {
            if let Some(signal) = Signal::from_named_raw(number) {
                // A group that has ended needs no signal.
                let _ = kill_process_group(command, signal);
            }
            true
        }
        Ok(Request::Kill) | Err(_) => false,
    }
}

fn status_of(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or_default()),
    }
}

/// Without a namespace: kills all descendants, as often as it takes. They come to this process when
/// their parents end, so none is lost; one that forks faster than it is found would be.
fn end_all() {
    const ROUNDS: usize = 1000;
    for _ in 0..ROUNDS {
        let found = children_of(std::process::id());
        if found.is_empty() {
            return;
        }
        for pid in found {
            // A program with another user's rights cannot be killed by this one.
            if kill_process(pid, Signal::KILL).is_ok() {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            }
        }
    }
}

/// The children of the only thread of this process.
fn children_of(pid: u32) -> Vec<Pid> {
    let file = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn tell(peer: BorrowedFd<'_>, report: &Report) {
    // If nobody listens any more there is nobody to tell.
    let _ = send_message(peer, &report.encode(), None);
}
