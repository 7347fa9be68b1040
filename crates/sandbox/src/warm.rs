//! Supervisors that are started ahead.
//!
//! Most of the time between asking for a command and its start goes to what is the same for every
//! command: starting this program twice, making namespaces, mounting `/proc` and devices. So there
//! are always a few sandboxes in which that is done and which wait for their command. Each is used
//! once. None is made before the first command, and all go when no command was started for a while,
//! when the host's mounts change, of which they have the older ones, and with the host.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::supervisor::{Start, Supervisor};
use crate::thread;

/// Sandboxes that wait at a time: as many commands as agents start at once for the most part. Each is
/// two processes with less than 2 MB of their own; the rest they share with the host.
const MOST: usize = 4;
/// How long they wait after the last command.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

static READY: Mutex<Ready> = Mutex::new(Ready {
    waiting: Vec::new(),
    mounts: None,
});

struct Ready {
    /// The oldest first.
    waiting: Vec<(Start, Supervisor)>,
    /// As they were when the oldest was started.
    mounts: Option<Mounts>,
}

/// One that waits with this.
pub(crate) fn take(start: &Start) -> Option<Supervisor> {
    let mut ready = ready();
    if ready.mounts.as_mut().is_some_and(Mounts::changed) {
        let stale = std::mem::take(&mut ready.waiting);
        // A thread that cannot be reached is one of a host that ends.
        let _ = thread::run(move || dismiss(stale));
        return None;
    }
    // Those of a keeper that was killed have ended.
    ready.waiting.retain(|(_, waiting)| !waiting.has_ended());
    let place = ready.waiting.iter().position(|(with, _)| with == start)?;
    Some(ready.waiting.remove(place).1)
}

/// Has as many wait as may be. Only to be called by the thread that starts them.
pub(crate) fn refill(start: &Start) {
    loop {
        let mut ready = ready();
        if ready.mounts.is_none() {
            // Without them it is not known what a waiting one would miss.
            let Ok(mounts) = Mounts::watch() else { return };
            ready.mounts = Some(mounts);
        }
        let same = ready.waiting.iter().filter(|(with, _)| with == start);
        if same.count() >= MOST {
            return;
        }
        let oldest = match ready.waiting.len() < MOST {
            true => Vec::new(),
            // The first of another kind: what was asked for last is what is asked for next.
            false => {
                let other = ready.waiting.iter().position(|(with, _)| with != start);
                other
                    .map(|place| ready.waiting.remove(place))
                    .into_iter()
                    .collect()
            }
        };
        drop(ready);
        dismiss(oldest);
        // Why one cannot be started is for a command to say.
        let Ok(supervisor) = start.start() else {
            return;
        };
        self::ready().waiting.push((start.clone(), supervisor));
    }
}

/// Whether any waits.
pub(crate) fn any() -> bool {
    !ready().waiting.is_empty()
}

/// Has all of them end.
pub(crate) fn clear() {
    let all = std::mem::take(&mut ready().waiting);
    dismiss(all);
}

fn dismiss(some: Vec<(Start, Supervisor)>) {
    for (_, supervisor) in some {
        supervisor.dismiss();
    }
}

fn ready() -> MutexGuard<'static, Ready> {
    READY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mounts of this process. The kernel says when they change.
struct Mounts(File);

impl Mounts {
    fn watch() -> io::Result<Self> {
        File::open("/proc/thread-self/mounts").map(Self)
    }

    /// Whether they have changed since this was asked last.
    fn changed(&mut self) -> bool {
        let mut file = [PollFd::new(&self.0, PollFlags::PRI)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Not to know is to assume the worst.
        poll(&mut file, Some(&at_once)) != Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, unmount};
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn a_change_of_mounts_is_seen_once() {
        if !geteuid().is_root() {
            return; // only root can mount
        }
        // In a namespace of this thread.
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut mounts = Mounts::watch().unwrap();
        assert!(!mounts.changed());
        mount("test", folder.path(), "tmpfs", MountFlags::NODEV, None).unwrap();
        assert!(mounts.changed());
        assert!(!mounts.changed());
        unmount(folder.path(), rustix::mount::UnmountFlags::empty()).unwrap();
        assert!(mounts.changed());
        assert!(!mounts.changed());
    }
}
