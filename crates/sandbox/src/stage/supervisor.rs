//! The stage outside: makes the namespaces, starts the first process in them, and sees to its end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};

use super::{FRUGAL, Failure, INIT, MYSELF, init, missing};
use crate::channel::{receive, send_message};
use crate::plan::{Confinement, Identity, Plan};
use crate::report::{Report, Request};
use crate::{Guard, Network};

/// How long the first process may take over one message. It takes microseconds unless something
/// has got hold of it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn run() -> Result<(), Failure> {
    close_inherited().map_err(missing(Guard::Descriptors))?;
    let host = io::stdin();
    let Ok(Some((bytes, input))) = receive(&host) else {
        return Ok(()); // the host is gone
    };
    let plan = Plan::decode(&bytes).map_err(missing(Guard::Descriptors))?;
    let Some(confinement) = &plan.confinement else {
        // Not to be killed in its turn: it must live to kill the rest when the host is gone.
        set_child_subreaper(rustix::process::getpid().into()).map_err(missing(Guard::Limits))?;
        let deadline = Instant::now().checked_add(plan.wall_time);
        return init::serve(&plan, input.as_ref(), host.as_fd(), deadline);
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(missing(Guard::DeathSignal))?;
    if let Some(group) = &confinement.cgroup {
        fs::write(group.join("cgroup.procs"), "0").map_err(missing(Guard::Cgroup))?;
    }
    isolate(confinement)?;
    let (tree, theirs) = UnixStream::pair().map_err(missing(Guard::PidNamespace))?;
    tree.set_read_timeout(Some(PATIENCE))
        .map_err(missing(Guard::PidNamespace))?;
    let child = Command::new(MYSELF)
        .arg0(INIT)
        .env_clear()
        .envs([FRUGAL])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(missing(Guard::PidNamespace))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Errno::SRCH);
    let first = pid
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(missing(Guard::PidNamespace))?;
    // An error here is that of a first process that has ended, which is seen below.
    let _ = send_message(&tree, &bytes, input.as_ref().map(AsFd::as_fd));
    drop(input);
    let _ = init::let_go_of_output();
    watch(host.as_fd(), &tree, &first, plan.wall_time);
    Ok(())
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

/// Goes into new namespaces; the new PID namespace begins with the next child.
fn isolate(confinement: &Confinement) -> Result<(), Failure> {
    let mut wanted = vec![
        (CloneFlags::CLONE_NEWNS, Guard::MountNamespace),
        (CloneFlags::CLONE_NEWPID, Guard::PidNamespace),
        (CloneFlags::CLONE_NEWIPC, Guard::IpcNamespace),
        (CloneFlags::CLONE_NEWUTS, Guard::IpcNamespace),
    ];
    if confinement.network != Network::All {
        wanted.push((CloneFlags::CLONE_NEWNET, Guard::NetworkNamespace));
    }
    if matches!(confinement.identity, Identity::Mapped { .. }) {
        wanted.insert(0, (CloneFlags::CLONE_NEWUSER, Guard::UserNamespace));
    }
    let all = wanted.iter().map(|(flag, _)| *flag).collect();
    if unshare(all).is_err() {
        // One by one, to say which is missing.
        for (flag, guard) in wanted {
            unshare(flag).map_err(missing(guard))?;
        }
    }
    match confinement.identity {
        Identity::Mapped { uid, gid } => map(uid, gid),
        Identity::Dropped { .. } => Ok(()),
    }
}

/// Keeps its own ids in the user namespace, and what rights it has there over the start of the first
/// process.
fn map(uid: u32, gid: u32) -> Result<(), Failure> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(missing(Guard::UserNamespace))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))?;
    let sets = capabilities(None).map_err(missing(Guard::UserNamespace))?;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable: sets.permitted,
            ..sets
        },
    )
    .map_err(missing(Guard::UserNamespace))?;
    for capability in [
        CapabilitySet::SYS_ADMIN,
        CapabilitySet::NET_ADMIN,
        CapabilitySet::SETPCAP,
    ] {
        configure_capability_in_ambient_set(capability, true)
            .map_err(missing(Guard::UserNamespace))?;
    }
    Ok(())
}

/// Carries what the host and the first process say to each other, until the latter has ended.
fn watch(host: BorrowedFd<'_>, tree: &UnixStream, first: &OwnedFd, wall_time: Duration) {
    let deadline = Instant::now().checked_add(wall_time);
    let mut talks = true;
    let mut late = false;
    loop {
        let left = deadline
            .filter(|_| !late)
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let of_tree = match talks {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let mut ready = [
            PollFd::new(first, PollFlags::IN),
            PollFd::new(tree, of_tree),
            PollFd::from_borrowed_fd(host, PollFlags::IN),
        ];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) => {
                late = true;
                let _ = send_message(host, &Report::TimedOut.encode(), None);
                kill(first);
                continue;
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return, // and so the death of the supervisor ends the tree
        }
        let [ended, told, asked] = ready.map(|it| !it.revents().is_empty());
        if told && talks {
            talks = relay(tree, host);
        }
        if ended {
            // What it had to say before.
            while talks {
                talks = relay(tree, host);
            }
            return;
        }
        if asked && !obey(host, tree, first) {
            kill(first);
            // Without a host there is nothing more to carry.
            let _ = poll(&mut [PollFd::new(first, PollFlags::IN)], None);
            return;
        }
    }
}

/// Passes a report on. Whether there may be more.
fn relay(tree: &UnixStream, host: BorrowedFd<'_>) -> bool {
    match receive(tree) {
        Ok(Some((report, _))) => send_message(host, &report, None).is_ok(),
        Ok(None) | Err(_) => false,
    }
}

/// Does what the host asks. Whether there still is a host.
fn obey(host: BorrowedFd<'_>, tree: &UnixStream, first: &OwnedFd) -> bool {
    let Ok(Some((message, _))) = receive(host) else {
        return false;
    };
    match Request::decode(&message) {
        Ok(Request::Signal(_)) => {
            // One that has ended needs no signal.
            let _ = send_message(tree, &message, None);
        }
        Ok(Request::Kill) | Err(_) => kill(first),
    }
    true
}

/// Kills the first process, and with it its namespace.
fn kill(first: &OwnedFd) {
    // The only error is that it has ended.
    let _ = pidfd_send_signal(first, Signal::KILL);
}
