//! Which CPU runs what. The scheduler's choice changes figures by a factor of four.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where client and server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinning {
    /// Both on one CPU: single calls are fast.
    Shared,
    /// On one CPU each: many calls are fast.
    Apart,
}

/// The CPUs that this process may use.
#[derive(Debug)]
pub struct Cpus {
    all: CpuSet,
    numbers: Vec<usize>,
}

impl Pinning {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Apart];

    /// Its name in a report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "client and server on one CPU",
            Self::Apart => "client and server on one CPU each",
        }
    }
}

impl Cpus {
    /// Those of the thread that asks.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn of_this_process() -> io::Result<Self> {
        let all = sched_getaffinity(None)?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        Ok(Self {
            numbers: numbers.collect(),
            all,
        })
    }

    /// Moves this thread, and what it starts from now on, to where servers run.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn be_server(&self) -> io::Result<()> {
        self.be(0)
    }

    /// Moves this thread, and what it starts from now on, to where clients run.
    ///
    /// # Errors
    /// If there is no such CPU, or the system refuses.
    pub fn be_client(&self, pinning: Pinning) -> io::Result<()> {
        match pinning {
            Pinning::Shared => self.be(0),
            Pinning::Apart => self.be(1),
        }
    }

    /// Lets this thread run anywhere.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn be_free(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
    }

    /// Words before a command that run it where servers run, for servers that a client starts.
    #[must_use]
    pub fn server_words(&self) -> String {
        match self.numbers.first() {
            Some(number) => format!("taskset --cpu-list {number} "),
            None => String::new(),
        }
    }

    fn be(&self, index: usize) -> io::Result<()> {
        let Some(number) = self.numbers.get(index) else {
            return Err(io::Error::other("there is only one CPU"));
        };
        let mut set = CpuSet::new();
        set.set(*number);
        Ok(sched_setaffinity(None, &set)?)
    }
}
