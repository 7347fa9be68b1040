//! Memory of a whole tree of processes, counted by a cgroup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of our groups begin; the host's process id and a number follow.
const PREFIX: &str = "frith-sandbox-";

/// Where groups are made: the host's own group, in either version of cgroups.
#[derive(Debug)]
pub(crate) struct Cgroups {
    home: PathBuf,
    files: Files,
    next: AtomicU64,
}

/// The group of one command; removed when this is dropped and nobody is in it any more.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) path: PathBuf,
    files: Files,
}

/// The names that the two versions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Files {
    memory: &'static str,
    swap: &'static str,
    events: &'static str,
}

const FIRST: Files = Files {
    memory: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    events: "memory.oom_control",
};
const SECOND: Files = Files {
    memory: "memory.max",
    swap: "memory.swap.max",
    events: "memory.events",
};

impl Cgroups {
    /// Finds where this process may make groups, and clears up what dead hosts left there.
    pub(crate) fn find() -> io::Result<Self> {
        let (home, files) = locate(
            &fs::read_to_string("/proc/self/mountinfo")?,
            &fs::read_to_string("/proc/self/cgroup")?,
        )
        .ok_or_else(|| io::Error::other("no memory controller is mounted"))?;
        sweep(&home);
        let groups = Self {
            home,
            files,
            next: AtomicU64::new(0),
        };
        // Whether it works is known when it was done once.
        groups.make(u64::MAX >> 1)?;
        Ok(groups)
    }

    /// A group whose processes together have at most so much memory.
    pub(crate) fn make(&self, memory: u64) -> io::Result<Group> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = self.home.join(name);
        fs::create_dir(&path)?;
        let group = Group {
            path,
            files: self.files,
        };
        let most = match (memory, self.files) {
            (u64::MAX, FIRST) => "-1".to_owned(),
            (u64::MAX, _) => "max".to_owned(),
            (memory, _) => memory.to_string(),
        };
        fs::write(group.path.join(self.files.memory), &most)?;
        // Memory and swap together in one version, swap alone in the other. Kernels without swap
        // accounting have no such file, and then there is nothing to limit.
        let swap = group.path.join(self.files.swap);
        if swap.exists() {
            let most = if self.files == FIRST { &most } else { "0" };
            fs::write(swap, most)?;
        }
        Ok(group)
    }
}

impl Group {
    /// Whether the kernel killed somebody in it for want of memory.
    pub(crate) fn ran_out(&self) -> bool {
        let text = fs::read_to_string(self.path.join(self.files.events)).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|count| count != "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is still in use is left to the next host.
        let _ = fs::remove_dir(&self.path);
    }
}

/// The folder of the host's own group, from what the kernel says about mounts and groups.
fn locate(mounts: &str, own: &str) -> Option<(PathBuf, Files)> {
    let group_of = |wanted: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            let found = controllers.split(',').any(|name| name == wanted);
            found.then(|| path.trim_start_matches('/').to_owned())
        })
    };
    // Fields up to a hyphen are about the mount, those after it about the file system.
    let mount_of = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let found = after.next() == Some(kind)
                && (option.is_empty() || after.nth(1)?.split(',').any(|it| it == option));
            let place = before.split(' ').nth(4)?;
            found.then(|| PathBuf::from(place))
        })
    };
    if let (Some(mount), Some(group)) = (mount_of("cgroup", "memory"), group_of("memory")) {
        return Some((mount.join(group), FIRST));
    }
    let home = mount_of("cgroup2", "")?.join(group_of("")?);
    let enabled = fs::read_to_string(home.join("cgroup.subtree_control")).ok()?;
    let enabled = enabled.split_whitespace().any(|name| name == "memory");
    enabled.then_some((home, SECOND))
}

/// Removes the groups of hosts that are gone.
fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let host = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if host.is_some_and(|host| !Path::new("/proc").join(host).exists()) {
            // One with processes in it stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_found_by_its_controller() {
        let mounts = "35 34 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      38 34 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "5:memory:/a/b\n4:cpu:/c\n0::/\n";
        assert_eq!(
            locate(mounts, own),
            Some(("/sys/fs/cgroup/memory/a/b".into(), FIRST))
        );
    }

    #[test]
    fn the_second_version_must_have_the_controller_switched_on() {
        let home = tempfile::tempdir().unwrap();
        let mounts = format!(
            "35 34 0:27 / {} rw - cgroup2 cgroup2 rw\n",
            home.path().display()
        );
        let own = "0::/a\n";
        assert_eq!(locate(&mounts, own), None);
        fs::create_dir(home.path().join("a")).unwrap();
        let control = home.path().join("a/cgroup.subtree_control");
        fs::write(&control, "cpu\n").unwrap();
        assert_eq!(locate(&mounts, own), None);
        fs::write(&control, "cpu memory\n").unwrap();
        assert_eq!(locate(&mounts, own), Some((home.path().join("a"), SECOND)));
    }
}
