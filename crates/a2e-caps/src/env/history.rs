//! What happened in an episode: the last steps of it, and what they were worth.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_wire::Object;

/// Bytes of steps that are remembered of one episode.
pub const MAX_EPISODE_BYTES: usize = 256 * 1024;
/// Bytes of steps that are remembered of all episodes of a session.
pub const MAX_SESSION_BYTES: usize = 16 * 1024 * 1024;
/// What a step takes beside its texts.
const STEP_BYTES: usize = 128;

/// The steps of an episode that are remembered, oldest first.
#[derive(Debug)]
pub(super) struct History {
    steps: VecDeque<Step>,
    bytes: usize,
    /// Those that are no longer remembered.
    pub(super) forgotten: u64,
    pub(super) total_reward: f64,
    /// Bytes of all episodes of the session.
    all: Arc<AtomicUsize>,
}

/// A step. What it led to is the state of the next one.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) number: i64,
    pub(super) state: Object<'static>,
    pub(super) action: Object<'static>,
    pub(super) reward: f64,
}

impl History {
    pub(super) const fn new(all: Arc<AtomicUsize>) -> Self {
        Self {
            steps: VecDeque::new(),
            bytes: 0,
            forgotten: 0,
            total_reward: 0.0,
            all,
        }
    }

    /// Remembers a step, if need be instead of the oldest ones.
    pub(super) fn add(&mut self, step: Step) {
        self.total_reward += step.reward;
        let bytes = step.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.steps.push_back(step);
        while self.bytes > MAX_EPISODE_BYTES || self.all.load(Ordering::Relaxed) > MAX_SESSION_BYTES
        {
            let Some(oldest) = self.steps.pop_front() else {
                break;
            };
            self.forget(oldest.bytes());
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    /// The last so many steps, oldest first, each with what it led to.
    pub(super) fn last<'a>(
        &'a self,
        limit: usize,
        now: &'a Object<'static>,
    ) -> impl Iterator<Item = (&'a Step, &'a Object<'static>)> {
        let from = self.steps.len().saturating_sub(limit);
        let after = self.steps.iter().skip(1).map(|step| &step.state);
        let all = self.steps.iter().zip(after.chain([now]));
        all.skip(from)
    }

    fn forget(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Step {
    fn bytes(&self) -> usize {
        let texts = [&self.state, &self.action].map(|object| object.raw().as_str().len());
        texts.iter().sum::<usize>().saturating_add(STEP_BYTES)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::wire::ToStatic;

    use super::*;

    fn step(number: i64, bytes: usize) -> Step {
        let rest = bytes - STEP_BYTES - r#"{}{"s":""}"#.len();
        let text = format!(r#"{{"s":"{}"}}"#, "x".repeat(rest));
        Step {
            number,
            state: Object::parse(&text).unwrap().to_static(),
            action: Object::EMPTY,
            reward: 0.5,
        }
    }

    fn numbers(history: &History) -> Vec<i64> {
        let now = Object::EMPTY;
        history.last(9, &now).map(|(step, _)| step.number).collect()
    }

    /// At the limit all is remembered, past it the oldest are not.
    #[test]
    fn an_episode_has_a_limit() {
        let all = Arc::default();
        let mut history = History::new(Arc::clone(&all));
        history.add(step(0, MAX_EPISODE_BYTES / 2));
        history.add(step(1, MAX_EPISODE_BYTES / 2));
        assert_eq!((numbers(&history), history.forgotten), (vec![0, 1], 0));
        history.add(step(2, STEP_BYTES + 20));
        assert_eq!((numbers(&history), history.forgotten), (vec![1, 2], 1));
        assert_eq!(history.total_reward, 1.5);
        drop(history);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_session_has_a_limit() {
        let others = MAX_SESSION_BYTES - 1000;
        let all = Arc::new(AtomicUsize::new(others));
        let mut history = History::new(Arc::clone(&all));
        history.add(step(0, 500));
        history.add(step(1, 500));
        assert_eq!(numbers(&history), [0, 1]);
        history.add(step(2, 500));
        assert_eq!(numbers(&history), [1, 2]);
        history.add(step(3, 1001));
        assert_eq!(numbers(&history), [0; 0]);
        assert_eq!(all.load(Ordering::Relaxed), others);
    }

    #[test]
    fn a_step_leads_to_the_state_of_the_next() {
        let mut history = History::new(Arc::default());
        history.add(step(0, 500));
        history.add(step(1, 600));
        let now = Object::EMPTY;
        let led: Vec<_> = history.last(2, &now).map(|(_, after)| after).collect();
        assert_eq!(led, [&history.steps[1].state, &now]);
        let last: Vec<_> = history.last(1, &now).map(|(step, _)| step.number).collect();
        assert_eq!(last, [1]);
    }
}
