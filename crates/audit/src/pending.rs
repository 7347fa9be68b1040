//! Waiting until a record is as durable as the settings say.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Error, UnixMillis};

/// A record on its way. It completes when the record is durable, or cannot be written.
///
/// It is a future for any executor; [`Pending::wait`] is for code that has none. Dropping it does
/// not take the record back.
#[derive(Debug)]
#[must_use = "until it completes nobody may be answered"]
pub struct Pending {
    group: Arc<Group>,
    index: usize,
    /// Where the waker of this one is kept.
    slot: Option<usize>,
}

/// Proof that a record is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The record's number in its log.
    pub seq: u64,
    /// Its time.
    pub timestamp: UnixMillis,
}

/// Records that are written together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wakers: Vec<Waker>,
    /// Threads that wait. To wake nobody costs a call into the kernel too.
    waiting: usize,
    outcome: Option<Outcome>,
}

/// What became of a group.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Records that were written: the first so many.
    pub(crate) written: usize,
    /// Between records of the group the log puts its own: from which index on which number counts.
    pub(crate) runs: Vec<(usize, u64)>,
    pub(crate) timestamp: Option<UnixMillis>,
    /// Why the others were not.
    pub(crate) error: Option<Error>,
}

impl Outcome {
    pub(crate) fn failed(error: Error) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    fn of(&self, index: usize) -> Result<Receipt, Error> {
        let run = self.runs.iter().rfind(|(first, _)| *first <= index);
        match (run, self.timestamp) {
            (Some((first, seq)), Some(timestamp)) if index < self.written => Ok(Receipt {
                seq: seq + (index - first) as u64,
                timestamp,
            }),
            _ => Err(self.error.clone().unwrap_or(Error::Closed)),
        }
    }
}

impl Group {
    /// A record of this group.
    pub(crate) const fn pending(self: Arc<Self>, index: usize) -> Pending {
        Pending {
            group: self,
            index,
            slot: None,
        }
    }

    /// Says what became of it to all who wait.
    pub(crate) fn complete(&self, outcome: Outcome) {
        let (wakers, waiting) = {
            let mut state = self.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
            (std::mem::take(&mut state.wakers), state.waiting)
        };
        if waiting > 0 {
            self.done.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Blocks this thread until the record is durable.
    ///
    /// # Errors
    /// If the record could not be written; then it is not in the log.
    pub fn wait(self) -> Result<Receipt, Error> {
        let mut state = self.group.lock();
        state.waiting += 1;
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.of(self.index);
            }
            state = self
                .group
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = Result<Receipt, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.group.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.of(this.index));
        }
        match this.slot.and_then(|slot| state.wakers.get_mut(slot)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                this.slot = Some(state.wakers.len());
                state.wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}
