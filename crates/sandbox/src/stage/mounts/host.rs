//! The mounts of the host: a recursive bind of a folder includes those below it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

/// All mounts of the host.
pub(super) struct HostMounts(Vec<HostMount>);

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HostMount {
    id: u64,
    parent: u64,
    /// Where it is on the host.
    pub(super) path: PathBuf,
    /// The flags that every remount must keep.
    pub(super) flags: MountFlags,
}

impl HostMounts {
    /// Reads those below the folder where the host's tree is.
    pub(super) fn read(root: &str) -> io::Result<Self> {
        Ok(Self::parse(&fs::read("/proc/self/mountinfo")?, root))
    }

    fn parse(text: &[u8], root: &str) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        Self(
            lines
                .filter_map(|line| HostMount::parse(line, root))
                .collect(),
        )
    }

    /// The flags that a remount of a mount must keep.
    pub(super) fn flags(&self, id: u64) -> MountFlags {
        let found = self.0.iter().find(|mount| mount.id == id);
        found.map_or(MountFlags::empty(), |mount| mount.flags)
    }

    /// The mounts that a recursive bind of a folder in this mount has below it, outer ones first. One
    /// that another covers is not among them, unless both are at the same path.
    pub(super) fn below(&self, id: u64, folder: &Path) -> Vec<&HostMount> {
        let mut found: Vec<&HostMount> = Vec::new();
        let mut open = vec![id];
        while let Some(parent) = open.pop() {
            let children = self.0.iter().filter(|mount| mount.parent == parent);
            let children = children.filter(|mount| mount.path.starts_with(folder));
            for child in children.filter(|mount| mount.id != id) {
                found.push(child);
                open.push(child.id);
            }
        }
        found.sort_by_key(|mount| mount.path.components().count());
        found
    }
}

impl HostMount {
    /// Reads a line: `36 35 98:0 / /mnt/a\\040b rw,noexec …`.
    fn parse(line: &[u8], root: &str) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut number = || str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        let path = PathBuf::from(OsString::from_vec(unescaped(fields.nth(2)?)));
        let options = fields.next()?;
        let mut flags = MountFlags::empty();
        for option in options.split(|byte| *byte == b',') {
            flags |= match option {
                b"ro" => MountFlags::RDONLY,
                b"noexec" => MountFlags::NOEXEC,
                // The times of access stay as they are unless a remount names them.
                _ => MountFlags::empty(),
            };
        }
        Some(Self {
            id,
            parent,
            path: Path::new("/").join(path.strip_prefix(root).ok()?),
            flags,
        })
    }
}

/// A path as it is: a space, a tab, a line feed and a backslash are three octal digits each.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            [byte, after @ ..] => {
                plain.push(*byte);
                after
            }
            [] => return plain,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "\
20 1 0:1 / / rw - tmpfs sandbox rw
21 20 254:0 / /.host rw,relatime - ext4 /dev/vda rw
22 21 0:5 / /.host/proc rw,nosuid,noexec - proc proc rw
30 21 0:7 / /.host/data ro,noexec,relatime - tmpfs a rw
31 30 0:8 / /.host/data/a\\040b rw shared:7 - tmpfs b rw
32 31 0:9 / /.host/data/a\\040b/c\\134d rw - tmpfs c rw
33 21 0:9 / /.host/data2 rw - tmpfs d rw
40 21 0:9 /x /.host/srv/covered rw - tmpfs e rw
41 21 0:9 / /.host/srv rw - tmpfs f rw
42 20 0:3 / /proc rw - proc proc rw
";

    fn paths(id: u64, folder: &str) -> Vec<String> {
        let mounts = HostMounts::parse(HOST.as_bytes(), "/.host");
        let below = mounts.below(id, Path::new(folder)).into_iter();
        below.map(|it| it.path.display().to_string()).collect()
    }

    #[test]
    fn mounts_below_a_folder_are_those_that_its_bind_has() {
        assert_eq!(paths(30, "/data"), ["/data/a b", "/data/a b/c\\d"]);
        assert_eq!(paths(30, "/data/a"), [""; 0]);
        // What another mount covers is no part of it.
        assert_eq!(paths(41, "/srv"), [""; 0]);
        let all = paths(21, "/data");
        assert_eq!(all, ["/data", "/data/a b", "/data/a b/c\\d"]);
    }

    #[test]
    fn a_remount_keeps_the_flags_of_the_host() {
        let mounts = HostMounts::parse(HOST.as_bytes(), "/.host");
        assert_eq!(mounts.flags(30), MountFlags::RDONLY | MountFlags::NOEXEC);
        assert_eq!(mounts.flags(31), MountFlags::empty());
        assert_eq!(mounts.flags(22), MountFlags::NOEXEC);
    }
}
