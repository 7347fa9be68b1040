//! What a command may do.

use std::path::PathBuf;
use std::time::Duration;

/// What a command may read, write, reach and use up.
///
/// The default may read the system's programs and libraries, write only its own `/tmp`, and reach
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Files and folders that it sees and may read and run, at the paths they have here.
    pub readable: Vec<PathBuf>,
    /// Files and folders that it may also change.
    pub writable: Vec<PathBuf>,
    /// What it can reach.
    pub network: Network,
    /// What it can use up.
    pub limits: Limits,
    /// The user id it runs as when the host is root: one of [`Settings::uids`](crate::Settings), or
    /// none for the next free one. A session that keeps files between commands wants one of its own.
    pub uid: Option<u32>,
}

/// What a command can reach.
///
/// Unix sockets of others are out of reach in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing: no socket can be made.
    #[default]
    None,
    /// A loopback device of its own, on which nobody else is.
    Loopback,
    /// Whatever the host reaches.
    All,
}

/// What a command can use up. The largest value of a type means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory: of the whole tree or of each process, as
    /// [`Settings::memory`](crate::Settings) says.
    pub memory: u64,
    /// Seconds on a processor, for each process.
    pub cpu_seconds: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Bytes of the largest file it may write.
    pub file_bytes: u64,
    /// Bytes in its own `/tmp`.
    pub tmp_bytes: u64,
    /// Bytes on its standard output and standard error together.
    pub output_bytes: u64,
    /// Time from start to end.
    pub wall_time: Duration,
}

/// The fewest open files a command can be given: it must be possible to start it.
pub const MIN_OPEN_FILES: u64 = 16;
/// The least memory a command can be given, for the same reason.
pub const MIN_MEMORY: u64 = 8 << 20;

impl Default for Profile {
    fn default() -> Self {
        Self {
            readable: existing(SYSTEM),
            writable: Vec::new(),
            network: Network::None,
            limits: Limits::default(),
            uid: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            cpu_seconds: 300,
            processes: 64,
            open_files: 256,
            file_bytes: 256 << 20,
            tmp_bytes: 256 << 20,
            output_bytes: 16 << 20,
            wall_time: Duration::from_secs(300),
        }
    }
}

/// Programs and libraries, as far as this machine has them.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
];

/// What programs need to find and trust others over a network.
const NAMES: &[&str] = &[
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
];

impl Network {
    /// What a command needs to read to use it.
    pub(crate) fn readable(self) -> Vec<PathBuf> {
        match self {
            Self::None | Self::Loopback => Vec::new(),
            Self::All => existing(NAMES),
        }
    }
}

fn existing(paths: &[&str]) -> Vec<PathBuf> {
    let paths = paths.iter().map(PathBuf::from);
    paths.filter(|path| path.exists()).collect()
}
