//! The repeat breaker: an agent that makes the same call again and again is stopped.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::{Effect, limits};

/// How many calls are too many: the `calls`-th same call within the window is held or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    calls: u32,
    window: Duration,
    action: Effect,
}

/// Counts the calls of one agent.
///
/// It remembers the agent's last [`limits::REPEAT_MEMORY`] calls, at most 60 KiB: if an agent makes
/// more in a window, only those are looked at. Calls that were stopped count too, so that an agent
/// in a loop stays stopped until it pauses.
#[derive(Debug, Clone)]
pub struct RepeatBreaker {
    repeat: Repeat,
    /// The oldest first.
    calls: VecDeque<(Duration, [u8; 32])>,
    /// How often each of them is among these.
    counts: BTreeMap<[u8; 32], u32>,
}

impl Repeat {
    /// `None` unless `calls` is 2 to 256, the window up to a day and not 0, and the effect not
    /// [`Effect::Allow`].
    #[must_use]
    pub fn new(calls: u32, window: Duration, action: Effect) -> Option<Self> {
        let longest = Duration::from_secs(u64::from(limits::REPEAT_WINDOW));
        let good = (2..=limits::REPEAT_CALLS).contains(&calls)
            && !window.is_zero()
            && window <= longest
            && action != Effect::Allow;
        good.then_some(Self {
            calls,
            window,
            action,
        })
    }

    /// What happens to a call that comes too often.
    #[must_use]
    pub const fn action(self) -> Effect {
        self.action
    }

    /// Whether this one stops all that the other stops, as strictly.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.calls <= other.calls && self.window >= other.window && self.action >= other.action
    }
}

impl RepeatBreaker {
    /// A breaker that has seen nothing.
    #[must_use]
    pub const fn new(repeat: Repeat) -> Self {
        Self {
            repeat,
            calls: VecDeque::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Counts a call, by its hash. If it comes too often, returns what is to happen to it.
    pub fn observe(&mut self, now: Duration, call: &[u8; 32]) -> Option<Effect> {
        // Time that goes backwards makes nothing older.
        let now = self.calls.back().map_or(now, |(last, _)| now.max(*last));
        while let Some((at, _)) = self.calls.front()
            && (now.saturating_sub(*at) >= self.repeat.window
                || self.calls.len() >= limits::REPEAT_MEMORY)
        {
            self.drop_oldest();
        }
        self.calls.push_back((now, *call));
        let count = self.counts.entry(*call).or_default();
        *count = count.saturating_add(1);
        (*count >= self.repeat.calls).then_some(self.repeat.action)
    }

    /// Forgets a call: an operator has approved of it.
    pub fn forget(&mut self, call: &[u8; 32]) {
        if self.counts.remove(call).is_some() {
            self.calls.retain(|(_, seen)| seen != call);
        }
    }

    /// Goes on with another setting and what is remembered.
    pub const fn set(&mut self, repeat: Repeat) {
        self.repeat = repeat;
    }

    fn drop_oldest(&mut self) {
        let Some((_, call)) = self.calls.pop_front() else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&call) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&call);
            }
        }
    }
}
