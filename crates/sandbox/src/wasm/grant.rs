//! What a call of a component may use.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Limits, Profile};

/// Events of one call.
pub const MAX_EVENTS: usize = 10_000;

/// What a call of a component may reach and use up. The default reaches no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Folders that it sees.
    pub folders: Vec<Folder>,
    /// Bytes of all its memories.
    pub memory: u64,
    /// Time on a processor.
    pub cpu: Duration,
    /// Open files, and whatever else it holds of the host.
    pub open_files: usize,
    /// Bytes of its result, and of all that it tells and prints.
    pub output: usize,
    /// Time from start to end.
    pub wall_time: Duration,
}

/// A folder that a component sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// Where the component sees it.
    pub seen_as: String,
    /// What may be done there.
    pub access: Access,
}

/// What a component may do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// Nothing: it sees none.
    #[default]
    None,
    /// Read them.
    Read,
    /// Change them too.
    Write,
}

/// What a component may use up to say what it is: whatever its grant, it does not get more, and it
/// gets no files. One that brings its own Python begins with 13 MiB.
pub const DESCRIBING: Grant = Grant {
    folders: Vec::new(),
    memory: 64 << 20,
    cpu: Duration::from_secs(5),
    open_files: 64,
    output: 256 << 10,
    wall_time: Duration::from_secs(30),
};

impl Default for Grant {
    fn default() -> Self {
        Self::of(&Limits::default())
    }
}

impl Grant {
    /// The limits that programs have, and no files.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            folders: Vec::new(),
            memory: limits.memory,
            cpu: Duration::from_secs(limits.cpu_seconds),
            open_files: size(limits.open_files),
            output: size(limits.output_bytes),
            wall_time: limits.wall_time,
        }
    }

    /// What is left of it for a component that says what it is.
    pub(super) fn to_describe(&self) -> Self {
        Self {
            folders: Vec::new(),
            memory: self.memory.min(DESCRIBING.memory),
            cpu: self.cpu.min(DESCRIBING.cpu),
            open_files: self.open_files.min(DESCRIBING.open_files),
            output: self.output.min(DESCRIBING.output),
            wall_time: self.wall_time.min(DESCRIBING.wall_time),
        }
    }

    /// What a profile grants, for a component that may do so much with files: all folders that may
    /// be changed, and of those that may be read the ones that were added to the system's. They have
    /// the paths they have here; the first that may be changed is also where relative paths begin.
    #[must_use]
    pub fn under(profile: &Profile, access: Access) -> Self {
        let mut grant = Self::of(&profile.limits);
        if access == Access::None {
            return grant;
        }
        let system = Profile::default().readable;
        let own = profile
            .readable
            .iter()
            .filter(|path| !system.contains(path));
        let readable = own.map(|path| (path, Access::Read));
        let writable = profile.writable.iter().map(|path| (path, access));
        let home = profile.writable.first();
        grant.folders.extend(home.map(|path| Folder {
            path: path.clone(),
            seen_as: ".".into(),
            access,
        }));
        // What is no folder cannot be given: components have folders only.
        let folders = writable.chain(readable).filter(|(path, _)| path.is_dir());
        grant.folders.extend(folders.map(|(path, access)| Folder {
            path: path.clone(),
            seen_as: path.to_string_lossy().into_owned(),
            access,
        }));
        grant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_describe_itself_is_granted_the_least_of_both() {
        let much = Grant {
            folders: vec![Folder {
                path: "/".into(),
                seen_as: "/".into(),
                access: Access::Read,
            }],
            memory: u64::MAX,
            cpu: Duration::MAX,
            open_files: usize::MAX,
            output: usize::MAX,
            wall_time: Duration::MAX,
        };
        assert_eq!(much.to_describe(), DESCRIBING);
        let little = Grant {
            folders: Vec::new(),
            memory: 1,
            cpu: Duration::ZERO,
            open_files: 1,
            output: 1,
            wall_time: Duration::ZERO,
        };
        assert_eq!(little.to_describe(), little);
    }
}
