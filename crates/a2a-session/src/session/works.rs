//! Work that was asked for by name: done once, however often it is asked for (§10.5).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use a2a_wire::{ErrorCode, IntentId, Reason};
use canonical::{Digest, Value};
use policy::Retention;

use crate::failure::{Failure, replayed};
use crate::times;

/// Names a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkId(u64);

/// How much is remembered of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkLimits {
    /// Pieces of one agent.
    pub per_agent: usize,
    /// Pieces in all.
    pub total: usize,
    /// Bytes of results in all; beyond them only that the work was done is remembered.
    pub bytes: usize,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self {
            per_agent: 10_000,
            total: 100_000,
            bytes: 64 * 1024 * 1024,
        }
    }
}

/// What is to be done about work that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Do it. With a name, call [`Agents::finish`](crate::Agents::finish) when it is done.
    Do(Option<WorkId>),
    /// Someone is at it: answer with what comes of that.
    Join(WorkId),
    /// It was done: answer with this.
    Done(Arc<Value<'static>>),
}

/// The agent, and the intent's id.
type Name = (Digest, IntentId);

#[derive(Debug)]
struct Entry {
    intent: Digest,
    session: Digest,
    retention: Retention,
    state: State,
}

#[derive(Debug)]
enum State {
    Running(WorkId),
    /// Without a result: it must not be kept, or does not fit.
    Done(Option<Arc<Value<'static>>>, usize),
}

/// All work that is remembered.
#[derive(Debug)]
pub(crate) struct Works {
    limits: WorkLimits,
    by_agent: BTreeMap<Digest, BTreeMap<IntentId, Entry>>,
    total: usize,
    running: BTreeMap<WorkId, Name>,
    /// In the order in which they are forgotten.
    order: VecDeque<(Duration, Name)>,
    bytes: usize,
    last: u64,
}

/// Who asks for which work.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) agent: Digest,
    pub(crate) session: Digest,
    pub(crate) intent_id: IntentId,
    pub(crate) intent: Digest,
    pub(crate) retention: Retention,
}

impl Works {
    pub(crate) const fn new(limits: WorkLimits) -> Self {
        Self {
            limits,
            by_agent: BTreeMap::new(),
            total: 0,
            running: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            last: 0,
        }
    }

    pub(crate) fn ask(&mut self, now: Duration, order: Order) -> Result<Work, Failure> {
        self.expire(now);
        let known = self.by_agent.get(&order.agent);
        if let Some(entry) = known.and_then(|works| works.get(&order.intent_id)) {
            return entry.again(&order.intent);
        }
        let count = known.map_or(0, BTreeMap::len);
        if count >= self.limits.per_agent || self.total >= self.limits.total {
            let cause = "no more work can be remembered";
            return Err(Failure::new(ErrorCode::ServiceUnavailable, cause));
        }
        self.last = self.last.saturating_add(1);
        self.total = self.total.saturating_add(1);
        let work = WorkId(self.last);
        let name = (order.agent, order.intent_id.clone());
        self.running.insert(work, name);
        let entry = Entry {
            intent: order.intent,
            session: order.session,
            retention: order.retention,
            state: State::Running(work),
        };
        let works = self.by_agent.entry(order.agent).or_default();
        works.insert(order.intent_id, entry);
        Ok(Work::Do(Some(work)))
    }

    pub(crate) fn finish(&mut self, now: Duration, work: WorkId, result: Option<&Value<'static>>) {
        let Some(name) = self.running.remove(&work) else {
            return;
        };
        let Some(result) = result else {
            self.remove(&name);
            return;
        };
        let room = self.limits.bytes.saturating_sub(self.bytes);
        let works = self.by_agent.get_mut(&name.0);
        let Some(entry) = works.and_then(|works| works.get_mut(&name.1)) else {
            return;
        };
        let size = result.to_canonical().len();
        let keep = entry.retention > Retention::None && size <= room;
        entry.state = match keep {
            true => State::Done(Some(Arc::new(result.clone())), size),
            false => State::Done(None, 0),
        };
        if keep {
            self.bytes = self.bytes.saturating_add(size);
        }
        self.order
            .push_back((now.saturating_add(times::WORK), name));
    }

    pub(crate) fn expire(&mut self, now: Duration) {
        while let Some((until, _)) = self.order.front() {
            if now < *until {
                return;
            }
            if let Some((_, name)) = self.order.pop_front() {
                self.remove(&name);
            }
        }
    }

    /// Erases results that may be kept for the session only; that the work was done stays known.
    pub(crate) fn session_ended(&mut self, agent: &Digest, session: &Digest) {
        let works = self.by_agent.get_mut(agent);
        for entry in works.into_iter().flat_map(BTreeMap::values_mut) {
            let ends = entry.retention == Retention::Session && entry.session == *session;
            if let State::Done(result, size) = &mut entry.state
                && ends
            {
                self.bytes = self.bytes.saturating_sub(*size);
                (*result, *size) = (None, 0);
            }
        }
    }

    fn remove(&mut self, (agent, intent_id): &Name) {
        let Some(works) = self.by_agent.get_mut(agent) else {
            return;
        };
        if let Some(entry) = works.remove(intent_id) {
            self.total = self.total.saturating_sub(1);
            if let State::Done(_, size) = entry.state {
                self.bytes = self.bytes.saturating_sub(size);
            }
        }
        if works.is_empty() {
            self.by_agent.remove(agent);
        }
    }
}

impl Entry {
    fn again(&self, intent: &Digest) -> Result<Work, Failure> {
        if self.intent != *intent {
            let cause = "the intent id names other work";
            let failure = Failure::new(ErrorCode::InvalidIntent, cause);
            return Err(failure.because(Reason::IntentIdConflict));
        }
        match &self.state {
            State::Running(work) => Ok(Work::Join(*work)),
            State::Done(Some(result), _) => Ok(Work::Done(Arc::clone(result))),
            State::Done(None, _) => {
                let cause = "the work was done, and its result is not kept";
                Err(replayed(Reason::AlreadyExecuted, cause))
            }
        }
    }
}
