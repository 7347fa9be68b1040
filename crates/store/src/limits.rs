//! How much is kept, and for how long.

use std::time::Duration;

use crate::Error;

/// What a store takes at most. The defaults suit a node; each is per agent where agents write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Idempotent results of an agent.
    pub results: Limit,
    /// How long it is remembered that a request was done or interrupted, and what it gave: how long
    /// after that the same request may be sent again. By [`Uptime`](crate::Uptime).
    pub results_kept: Duration,
    /// Snapshots of an agent's sessions; a value is one record.
    pub snapshots: Limit,
    /// Replay ids of an agent.
    pub replay_ids: Limit,
    /// Rate buckets of an agent.
    pub rate_buckets: Limit,
    /// Held calls of an agent; a value is what the operator is shown.
    pub approvals: Limit,
    /// Pins of one kind.
    pub pins: Limit,
    /// Secrets of an agent, encrypted.
    pub secrets: Limit,
    /// Memory entries of an agent, and of all agents together where they share them.
    pub memories: Limit,
    /// Memories (tiers of spaces) of an agent, and of all agents together where they share them.
    pub memory_spaces: usize,
    /// Chains of an agent; a value is what was asked for, an entry of a journal, or what came of it.
    pub chains: Limit,
    /// How long a chain is kept after it ended.
    pub chains_kept: Duration,
    /// Feedback and experiences of an agent.
    pub samples: Limit,
    /// Components of which an agent knows how they do; a value is what it knows of one.
    pub components: Limit,
    /// The state that an agent's refinements change; only the value counts, there is one.
    pub learned: Limit,
    /// Refinements of an agent that are on record; a value is one with its way back.
    pub refinements: Limit,
    /// Plans of an agent.
    pub plans: Limit,
    /// Tasks of all plans of an agent.
    pub tasks: Limit,
    /// How many tasks one plan may have: what a change looks at.
    pub tasks_of_plan: usize,
    /// Bytes that the list of one plan's tasks may have.
    pub task_list: usize,
    /// Changes of tasks that are remembered of an agent; a value has no limit of its own.
    pub task_changes: Limit,
}

/// What one agent may have of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of one value.
    pub value: usize,
    /// How many values.
    pub entries: usize,
    /// Bytes of all values with their names.
    pub bytes: usize,
}

/// The longest name, in bytes: of an agent, a session, a request, a bucket, a pin, a secret.
pub const MAX_NAME: usize = 1024;

/// Bytes that the list of one plan's tasks may have, unless the [limits](Limits::task_list) say
/// otherwise.
pub const MAX_TASK_LIST: usize = MIB;

/// Bytes of the largest file of a store, unless its [options](crate::Options::max_bytes) say otherwise.
pub(crate) const DEFAULT_MAX_BYTES: u64 = 16 * 1024 * 1024 * 1024;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Default for Limits {
    fn default() -> Self {
        let limit = |value, entries, bytes| Limit {
            value,
            entries,
            bytes,
        };
        Self {
            // An answer is a line of at most 8 MiB, with the events before it.
            results: limit(16 * MIB, 10_000, 64 * MIB),
            results_kept: Duration::from_secs(600),
            snapshots: limit(64 * MIB, 10_000, 256 * MIB),
            replay_ids: limit(0, 10_000, 4 * MIB),
            rate_buckets: limit(256, 1_000, MIB),
            approvals: limit(96 * KIB, 64, 4 * MIB),
            pins: limit(0, 100_000, 64 * MIB),
            secrets: limit(64 * KIB, 1_000, 4 * MIB),
            // The index has several times as much until what was replaced is erased from it.
            memories: limit(MIB, 4_000_000, 2 * 1024 * MIB),
            memory_spaces: 10_000,
            chains: limit(16 * MIB, 1_000, 512 * MIB),
            chains_kept: Duration::from_secs(7 * 24 * 3600),
            samples: limit(256 * KIB, 1_000_000, 1024 * MIB),
            components: limit(32 * KIB, 10_000, 64 * MIB),
            learned: limit(MIB, 1, MIB),
            refinements: limit(2 * MIB, 1_000, 64 * MIB),
            plans: limit(64 * KIB, 1_000, MIB),
            tasks: limit(128 * KIB, 20_000, 64 * MIB),
            tasks_of_plan: 2_000,
            task_list: MAX_TASK_LIST,
            task_changes: limit(0, 100_000, 32 * MIB),
        }
    }
}

impl Limits {
    /// The defaults, for a store whose file has so many bytes at most. In one that is smaller than the
    /// default one, agents may keep less in proportion, so that none of them fills it.
    #[must_use]
    pub fn within(max_bytes: u64) -> Self {
        let mut limits = Self::default();
        let large = [
            &mut limits.results,
            &mut limits.memories,
            &mut limits.chains,
            &mut limits.samples,
            &mut limits.components,
            &mut limits.refinements,
            &mut limits.tasks,
            &mut limits.task_changes,
        ];
        for limit in large {
            let scaled = (limit.bytes as u128).saturating_mul(u128::from(max_bytes));
            let scaled = scaled.checked_div(u128::from(DEFAULT_MAX_BYTES));
            let scaled = scaled.and_then(|scaled| usize::try_from(scaled).ok());
            limit.bytes = scaled.map_or(limit.bytes, |scaled| scaled.min(limit.bytes));
        }
        limits
    }
}

impl Limit {
    /// Refuses a value that is too large.
    pub(crate) const fn take(&self, what: &'static str, size: usize) -> Result<(), Error> {
        within(what, size, self.value)
    }

    /// Whether that much fits.
    pub(crate) const fn holds(&self, size: Size) -> bool {
        size.entries <= self.entries && size.bytes <= self.bytes
    }
}

/// How much is there, or is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

impl Size {
    pub(crate) const fn one(bytes: usize) -> Self {
        Self { entries: 1, bytes }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_add(other.entries),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(other.entries),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Bytes that are left of an answer. The first of what it gives is given however large it is.
#[derive(Debug)]
pub(crate) struct Bytes {
    left: usize,
    has_some: bool,
}

impl Bytes {
    /// So many.
    pub(crate) const fn new(left: usize) -> Self {
        Self {
            left,
            has_some: false,
        }
    }

    /// Whether there is room for one more of this size; if so, it is taken.
    pub(crate) const fn take(&mut self, size: usize) -> bool {
        let fits = size <= self.left || !self.has_some;
        if fits {
            self.left = self.left.saturating_sub(size);
            self.has_some = true;
        }
        fits
    }
}

/// The bytes that a text has as a string of JSON, without its quotes.
#[must_use]
pub fn json_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// Refuses a name that is too long.
pub(crate) const fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    within(what, name.len(), MAX_NAME)
}

pub(crate) const fn within(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    match size > limit {
        true => Err(Error::TooLarge { what, size, limit }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_store_takes_less_of_each_agent() {
        let default = Limits::default();
        for larger in [DEFAULT_MAX_BYTES, u64::MAX] {
            assert_eq!(Limits::within(larger), default);
        }
        let quarter = Limits::within(DEFAULT_MAX_BYTES / 4);
        assert_eq!(quarter.memories.bytes, default.memories.bytes / 4);
        assert_eq!(quarter.memories.entries, default.memories.entries);
        assert_eq!(quarter.approvals, default.approvals);
        // All that one agent may keep is less than half.
        let limits = Limits::within(1 << 30);
        let all = [
            limits.results,
            limits.approvals,
            limits.secrets,
            limits.memories,
            limits.chains,
            limits.samples,
            limits.components,
            limits.refinements,
            limits.plans,
            limits.tasks,
            limits.task_changes,
        ];
        let all: usize = all.iter().map(|limit| limit.bytes).sum();
        assert!(all < 1 << 29, "{all}");
    }
}
