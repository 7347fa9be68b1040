//! Which CPU runs what. The scheduler's choice changes figures by a factor of four.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where client and server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// Both on one CPU: single calls are fast.
    Shared,
    /// On one CPU each: many calls are fast.
    Apart,
}

/// The CPUs that this process may use.
#[derive(Debug)]
pub(crate) struct Cpus {
    all: CpuSet,
    numbers: Vec<usize>,
}

impl Pinning {
    pub(crate) const ALL: [Self; 2] = [Self::Shared, Self::Apart];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "client and server on one CPU",
            Self::Apart => "client and server on one CPU each",
        }
    }
}

impl Cpus {
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let all = sched_getaffinity(None)?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        Ok(Self {
            numbers: numbers.collect(),
            all,
        })
    }

    /// Moves this thread, and what it starts from now on, to where servers run.
    pub(crate) fn be_server(&self) -> io::Result<()> {
        self.be(0)
    }

    /// Moves this thread to where the client runs; fails if there is no such CPU.
    pub(crate) fn be_client(&self, pinning: Pinning) -> io::Result<()> {
        match pinning {
            Pinning::Shared => self.be(0),
            Pinning::Apart => self.be(1),
        }
    }

    /// Lets this thread run anywhere.
    pub(crate) fn be_free(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
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
