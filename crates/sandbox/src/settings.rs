//! What is asked of the machine.

use std::ops::Range;
use std::path::PathBuf;

/// What is asked of the machine, for all commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The lowest level (ABI) of Landlock that will do. What the kernel has beyond it is used.
    pub landlock: u8,
    /// What the memory of a command is counted for.
    pub memory: MemoryLevel,
    /// User ids for commands when the host is root; nobody else may have them.
    pub uids: Range<u32>,
    /// The group that all commands are in when the host is root; nobody else may be in it.
    pub group: u32,
    /// Files and folders that no command sees, whatever its profile: the data directory.
    pub hidden: Vec<PathBuf>,
    /// Folders inside of hidden ones that a profile may name: the workspace.
    pub shown: Vec<PathBuf>,
    /// The program that calls [`enter_if_asked`](crate::enter_if_asked), if it is not this one.
    pub supervisor: Option<PathBuf>,
}

/// What the memory of a command is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryLevel {
    /// Each process by itself. Shared memory cannot be counted in this way, so there is none but
    /// what fits in `/tmp`.
    #[default]
    Process,
    /// All processes of the command together; needs a cgroup.
    Tree,
}

/// The highest level of Landlock that is made use of.
pub(crate) const LANDLOCK: u8 = 7;

impl Default for Settings {
    fn default() -> Self {
        Self {
            landlock: 4,
            memory: MemoryLevel::Process,
            // Above what systems give to users, services and containers.
            uids: 2_100_000_000..2_100_065_536,
            group: 2_100_065_536,
            hidden: Vec::new(),
            shown: Vec::new(),
            supervisor: None,
        }
    }
}
