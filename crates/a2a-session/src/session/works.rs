//! Work that was asked for by name: done once, however often it is asked for (§10.5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_wire::{ErrorCode, IntentId, Reason};
use base::{Budget, Charge, Limits, Table};
use canonical::{Digest, Value};
use policy::Retention;

use crate::Holder;
use crate::failure::{Failure, replayed};
use crate::times;

/// Names a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkId(u64);

/// How much is remembered of work. What is forgotten the store still knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkLimits {
    /// Pieces of work.
    pub entries: Limits,
    /// Bytes of results.
    pub bytes: Limits,
}

impl Default for WorkLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            entries: Limits {
                total: 100_000,
                per_holder: 10_000,
                reserved: 25_000,
            },
            bytes: Limits {
                total: 64 * MIB,
                per_holder: 16 * MIB,
                reserved: 16 * MIB,
            },
        }
    }
}

/// What is to be done about work that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Do it. With a name, first ask the store whether it was done already: finished work is forgotten
    /// here when there is too much of it. Call [`Agents::finish`](crate::Agents::finish) when it is done.
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
    work: WorkId,
    intent: Digest,
    holder: Holder,
    session: Digest,
    retention: Retention,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Done {
        until: Duration,
        /// `None`: it must not be kept, or does not fit.
        result: Option<(Arc<Value<'static>>, Charge<Holder>)>,
    },
}

/// All work that is remembered.
#[derive(Debug)]
pub(crate) struct Works {
    /// Running work is in use, and so never evicted.
    entries: Table<Holder, Name, Entry>,
    bytes: Budget<Holder>,
    running: BTreeMap<WorkId, Name>,
    /// Finished work, in the order in which it is forgotten.
    finished: BTreeMap<(Duration, WorkId), Name>,
    /// Whose results are to be erased when a session ends.
    of_sessions: BTreeMap<(Digest, WorkId), Name>,
    last: u64,
}

/// Who asks for which work.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) agent: Digest,
    pub(crate) holder: Holder,
    pub(crate) session: Digest,
    pub(crate) intent_id: IntentId,
    pub(crate) intent: Digest,
    pub(crate) retention: Retention,
}

impl Works {
    pub(crate) fn new(limits: WorkLimits) -> Self {
        Self {
            entries: Table::new(limits.entries),
            bytes: Budget::new(limits.bytes),
            running: BTreeMap::new(),
            finished: BTreeMap::new(),
            of_sessions: BTreeMap::new(),
            last: 0,
        }
    }

    pub(crate) fn ask(&mut self, now: Duration, order: Order) -> Result<Work, Failure> {
        self.expire(now);
        let name = (order.agent, order.intent_id);
        if let Some(entry) = self.entries.get(&name) {
            return entry.again(&order.intent);
        }
        self.last = self.last.saturating_add(1);
        let work = WorkId(self.last);
        let entry = Entry {
            work,
            intent: order.intent,
            holder: order.holder,
            session: order.session,
            retention: order.retention,
            state: State::Running,
        };
        let class = order.holder.class();
        let entered = (self.entries).insert(order.holder, class, name.clone(), entry);
        let evicted = entered.map_err(|_| {
            let cause = "too much work is being done";
            Failure::new(ErrorCode::ServiceUnavailable, cause)
        })?;
        if let Some((_, evicted)) = evicted {
            self.forgotten(&evicted);
        }
        self.entries.set_in_use(&name, true);
        self.running.insert(work, name);
        Ok(Work::Do(Some(work)))
    }

    pub(crate) fn finish(&mut self, now: Duration, work: WorkId, result: Option<&Value<'static>>) {
        let Some(name) = self.running.remove(&work) else {
            return;
        };
        let kept = result.and_then(|result| self.keep(&name, result));
        let Some(entry) = self.entries.get_mut(&name) else {
            return;
        };
        // It has no result, or one that does not fit: the store answers whoever asks again.
        let is_elsewhere = kept.is_none() && entry.retention > Retention::Session;
        if result.is_none() || is_elsewhere {
            self.entries.remove(&name);
            return;
        }
        if kept.is_some() && entry.retention == Retention::Session {
            self.of_sessions.insert((entry.session, work), name.clone());
        }
        let until = now.saturating_add(times::WORK);
        entry.state = State::Done {
            until,
            result: kept,
        };
        self.entries.set_in_use(&name, false);
        self.finished.insert((until, work), name);
    }

    pub(crate) fn expire(&mut self, now: Duration) {
        while let Some(first) = self.finished.first_entry()
            && first.key().0 <= now
        {
            let name = first.remove();
            if let Some(entry) = self.entries.remove(&name) {
                self.forgotten(&entry);
            }
        }
    }

    /// Erases results that may be kept for the session only; that the work was done stays known.
    pub(crate) fn session_ended(&mut self, session: &Digest) {
        let all = (*session, WorkId(0))..=(*session, WorkId(u64::MAX));
        let of_session: Vec<_> = self.of_sessions.extract_if(all, |_, _| true).collect();
        for (_, name) in of_session {
            if let Some(entry) = self.entries.get_mut(&name)
                && let State::Done { result, .. } = &mut entry.state
            {
                *result = None;
            }
        }
    }

    /// A result to be remembered, if it may be and there is room for it.
    fn keep(
        &self,
        name: &Name,
        result: &Value<'static>,
    ) -> Option<(Arc<Value<'static>>, Charge<Holder>)> {
        let entry = self.entries.get(name)?;
        if entry.retention == Retention::None {
            return None;
        }
        let (holder, size) = (entry.holder, result.to_canonical().len());
        let charge = self.bytes.charge(holder, holder.class(), size).ok()?;
        Some((Arc::new(result.clone()), charge))
    }

    /// Forgets where finished work stands that is remembered no more.
    fn forgotten(&mut self, entry: &Entry) {
        if let State::Done { until, .. } = entry.state {
            self.finished.remove(&(until, entry.work));
        }
        self.of_sessions.remove(&(entry.session, entry.work));
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
            State::Running => Ok(Work::Join(self.work)),
            State::Done {
                result: Some((result, _)),
                ..
            } => Ok(Work::Done(Arc::clone(result))),
            State::Done { result: None, .. } => {
                let cause = "the work was done, and its result is not kept";
                Err(replayed(Reason::AlreadyExecuted, cause))
            }
        }
    }
}
