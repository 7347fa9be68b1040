//! The stage outside: makes the namespaces, starts the first process in them, and sees to its end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fork::Fork;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal,
};

use super::{Failure, init, keeper, leave, missing};
use crate::Guard;
use crate::channel::{receive, send_message};
use crate::plan::{Ground, Plan};
use crate::report::{Report, Request};

/// How long the first process may take over one message. It takes microseconds unless something
/// has got hold of it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn run(keeper: Pid, network: Option<OwnedFd>) -> Result<(), Failure> {
    let host = io::stdin();
    let Ok(Some((bytes, stdout))) = receive(&host) else {
        return Ok(()); // the host is gone
    };
    let Ok(Some((_, stderr))) = receive(&host) else {
        return Ok(());
    };
    take_output(stdout, stderr).map_err(missing(Guard::Descriptors))?;
    let Some(ground) = Ground::decode(&bytes).map_err(missing(Guard::Descriptors))? else {
        return without_guards(host.as_fd());
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(missing(Guard::DeathSignal))?;
    if getppid() != Some(keeper) {
        return Ok(()); // it was killed before the signal could be asked for
    }
    if let Some(group) = &ground.cgroup {
        fs::write(group.join("cgroup.procs"), "0").map_err(missing(Guard::Cgroup))?;
    }
    isolate(&ground, network)?;
    let (tree, theirs) = UnixStream::pair().map_err(missing(Guard::PidNamespace))?;
    tree.set_read_timeout(Some(PATIENCE))
        .map_err(missing(Guard::PidNamespace))?;
    let pid = match keeper::divide().map_err(missing(Guard::PidNamespace))? {
        Fork::Child => {
            drop(tree);
            leave(become_first(theirs));
        }
        Fork::Parent(pid) => pid,
    };
    drop(theirs);
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH);
    let first = pid
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(missing(Guard::PidNamespace))?;
    // While there is a tree with the device in it: the first process is about to change places.
    let _ = init::let_go_of_output();
    // An error here is that of a first process that has ended, which is seen below.
    let _ = send_message(&tree, &bytes, None);
    let mut watch = Watch {
        host: host.as_fd(),
        tree,
        first,
        planned: false,
        deadline: None,
    };
    watch.until_the_end();
    Ok(())
}

/// Has the host read what is written.
fn take_output(stdout: Option<OwnedFd>, stderr: Option<OwnedFd>) -> io::Result<()> {
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    rustix::stdio::dup2_stdout(&stdout)?;
    Ok(rustix::stdio::dup2_stderr(&stderr)?)
}

/// The child becomes the first process of its namespace.
fn become_first(socket: UnixStream) -> Result<(), Failure> {
    // In the place of the way to the host.
    rustix::stdio::dup2_stdin(&socket).map_err(missing(Guard::Descriptors))?;
    drop(socket);
    init::run()
}

/// For `sandbox: none`: is the parent of the command itself.
fn without_guards(host: BorrowedFd<'_>) -> Result<(), Failure> {
    let Ok(Some((bytes, input))) = receive(host) else {
        return Ok(());
    };
    let plan = Plan::decode(&bytes).map_err(missing(Guard::Descriptors))?;
    // Not to be killed in its turn: it must live to kill the rest when the host is gone.
    set_child_subreaper(rustix::process::getpid().into()).map_err(missing(Guard::Limits))?;
    let deadline = Instant::now().checked_add(plan.wall_time);
    init::serve(&plan, input.as_ref(), host, deadline)
}

/// Goes into new namespaces, of networks into the one that is lent; the new PID namespace begins with the next child.
fn isolate(ground: &Ground, network: Option<OwnedFd>) -> Result<(), Failure> {
    let mut wanted = vec![
        (CloneFlags::CLONE_NEWNS, Guard::MountNamespace),
        (CloneFlags::CLONE_NEWPID, Guard::PidNamespace),
        (CloneFlags::CLONE_NEWIPC, Guard::IpcNamespace),
        (CloneFlags::CLONE_NEWUTS, Guard::IpcNamespace),
    ];
    // In a user namespace there are no rights over a network that was made outside of it.
    let lent = network.filter(|_| ground.mapped.is_none());
    match lent.filter(|_| ground.own_network) {
        Some(network) => {
            setns(network, CloneFlags::CLONE_NEWNET).map_err(missing(Guard::NetworkNamespace))?
        }
        None if ground.own_network => {
            wanted.push((CloneFlags::CLONE_NEWNET, Guard::NetworkNamespace));
        }
        None => {}
    }
    if ground.mapped.is_some() {
        wanted.insert(0, (CloneFlags::CLONE_NEWUSER, Guard::UserNamespace));
    }
    let all = wanted.iter().map(|(flag, _)| *flag).collect();
    if unshare(all).is_err() {
        // One by one, to say which is missing.
        for (flag, guard) in wanted {
            unshare(flag).map_err(missing(guard))?;
        }
    }
    match ground.mapped {
        Some((uid, gid)) => map(uid, gid),
        None => Ok(()),
    }
}

/// Keeps its own ids in the user namespace.
fn map(uid: u32, gid: u32) -> Result<(), Failure> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(missing(Guard::UserNamespace))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

/// Carries what the host and the first process say to each other.
struct Watch<'a> {
    host: BorrowedFd<'a>,
    tree: UnixStream,
    first: OwnedFd,
    /// Whether the host has said what is to run.
    planned: bool,
    /// When the command is to be killed.
    deadline: Option<Instant>,
}

impl Watch<'_> {
    /// Until the first process has ended.
    fn until_the_end(&mut self) {
        let mut talks = true;
        loop {
            let left = self
                .deadline
                .map(|it| it.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [
                PollFd::new(&self.first, PollFlags::IN),
                PollFd::from_borrowed_fd(self.host, PollFlags::IN),
                PollFd::new(&self.tree, PollFlags::IN),
            ];
            // A closed socket is always ready, whatever is asked of it.
            let polled = match talks {
                true => &mut ready[..],
                false => &mut ready[..2],
            };
            match poll(polled, timeout.as_ref()) {
                Ok(0) => {
                    self.deadline = None;
                    self.tell(&Report::TimedOut);
                    self.kill();
                    continue;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return, // and so the death of the supervisor ends the tree
            }
            let [ended, asked, told] = ready.map(|it| !it.revents().is_empty());
            if told && talks {
                talks = self.relay();
            }
            if ended {
                // What it had to say before.
                while talks {
                    talks = self.relay();
                }
                // The kernel ends a first process last.
                self.tell(&Report::Over);
                return;
            }
            if asked && !self.obey() {
                self.kill();
                // Without a host there is nothing more to carry.
                let _ = poll(&mut [PollFd::new(&self.first, PollFlags::IN)], None);
                return;
            }
        }
    }

    /// Passes a report on. Whether there may be more.
    fn relay(&self) -> bool {
        match receive(&self.tree) {
            Ok(Some((report, _))) => send_message(self.host, &report, None).is_ok(),
            Ok(None) | Err(_) => false,
        }
    }

    /// Does what the host asks. Whether there still is a host.
    fn obey(&mut self) -> bool {
        let Ok(Some((message, descriptor))) = receive(self.host) else {
            return false;
        };
        // One that has ended needs neither a plan nor a signal.
        let pass_on = || {
            let descriptor = descriptor.as_ref().map(AsFd::as_fd);
            let _ = send_message(&self.tree, &message, descriptor);
        };
        if !self.planned {
            pass_on();
            let wall_time = Plan::decode(&message).map(|plan| plan.wall_time);
            self.deadline = wall_time.ok().and_then(|it| Instant::now().checked_add(it));
            self.planned = true;
            return true;
        }
        match Request::decode(&message) {
            Ok(Request::Signal(_)) => pass_on(),
            Ok(Request::Kill) | Err(_) => self.kill(),
        }
        true
    }

    /// Kills the first process, and with it its namespace.
    fn kill(&self) {
        // The only error is that it has ended.
        let _ = pidfd_send_signal(&self.first, Signal::KILL);
    }

    fn tell(&self, report: &Report) {
        // A host that does not listen any more is noticed by its silence.
        let _ = send_message(self.host, &report.encode(), None);
    }
}
