//! How a command ended.

use std::fmt;

/// How a command ended; by then all that it had started has ended too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// What the kernel says of it.
    pub status: Status,
    /// Which limit or whom it ran into, if any.
    pub why: Option<Why>,
}

/// What the kernel says of an ended process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What a command ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// [`Limits::wall_time`](crate::Limits).
    Timeout,
    /// [`Limits::output_bytes`](crate::Limits).
    OutputLimit,
    /// [`Limits::memory`](crate::Limits), where the whole tree has one.
    Memory,
    /// [`Limits::cpu_seconds`](crate::Limits).
    CpuTime,
    /// [`Limits::file_bytes`](crate::Limits).
    FileSize,
    /// A system call that does not exist for it.
    SystemCall,
    /// [`Child::kill_tree`](crate::Child::kill_tree), or the supervisor was killed.
    Killed,
}

impl Exit {
    /// Killed with all that belonged to it.
    pub(crate) const fn killed(why: Why) -> Self {
        Self {
            status: Status::Signal(nix::libc::SIGKILL),
            why: Some(why),
        }
    }

    /// Whether it ended by itself and says that all is well.
    pub const fn is_success(&self) -> bool {
        matches!(
            self,
            Self {
                status: Status::Code(0),
                why: None
            }
        )
    }

    /// What the status alone says.
    pub(crate) const fn of(status: Status) -> Self {
        let why = match status {
            Status::Signal(nix::libc::SIGXCPU) => Some(Why::CpuTime),
            Status::Signal(nix::libc::SIGXFSZ) => Some(Why::FileSize),
            Status::Signal(nix::libc::SIGSYS) => Some(Why::SystemCall),
            Status::Code(_) | Status::Signal(_) => None,
        };
        Self { status, why }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Status::Code(code) => write!(f, "exited with code {code}")?,
            Status::Signal(signal) => write!(f, "ended by signal {signal}")?,
        }
        match self.why {
            None => Ok(()),
            Some(Why::Timeout) => f.write_str(" (wall_time)"),
            Some(Why::OutputLimit) => f.write_str(" (output_bytes)"),
            Some(Why::Memory) => f.write_str(" (memory)"),
            Some(Why::CpuTime) => f.write_str(" (cpu_seconds)"),
            Some(Why::FileSize) => f.write_str(" (file_bytes)"),
            Some(Why::SystemCall) => f.write_str(" (system call)"),
            Some(Why::Killed) => f.write_str(" (killed)"),
        }
    }
}
