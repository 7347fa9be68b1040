//! The work on one request: done by the session's own task as far as that goes.
//!
//! Most requests are answered at once. Most others wait for one thing, such as the answer of a peer,
//! and then have theirs: for them a task of their own, and to be told of its end, would cost more
//! than what they do. What waits a second time gets that task: it may have much to do, and the
//! session goes on beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Waiting, Poll, Wake, Waker};

use a2e_session::Token;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Command;
use super::work::{Finished, poll_caught};
use crate::plugin::{BoxFuture, OverGuard};

/// What is done for a request.
pub(super) struct Job {
    future: BoxFuture<'static, Finished>,
    over: OverGuard,
    waker: JobWaker,
}

/// Wakes the task of a session for the sake of one of its jobs. Most jobs never wait, so the next one has the same. What
/// kept it of an earlier one may wake it for nothing, which makes it no slower than one that waits twice.
#[derive(Debug)]
pub(super) struct JobWaker {
    alarm: Arc<JobAlarm>,
    waker: Waker,
}

#[derive(Debug)]
struct JobAlarm {
    rang: AtomicBool,
    bell: Arc<Bell>,
}

/// Wakes the task of a session, whichever that is at the time.
#[derive(Debug)]
pub(super) struct Bell(Mutex<Waker>);

impl Job {
    pub(super) fn new(
        future: BoxFuture<'static, Finished>,
        over: OverGuard,
        waker: JobWaker,
    ) -> Self {
        Self {
            future,
            over,
            waker,
        }
    }

    /// Goes on with it.
    pub(super) fn poll(&mut self) -> Poll<Finished> {
        // Before it is looked at: what happens meanwhile is a reason to look again.
        let JobWaker { alarm, waker } = &self.waker;
        alarm.rang.store(false, Ordering::Release);
        let polled = poll_caught(&mut self.future, &mut Waiting::from_waker(waker));
        polled.map(|caught| caught.unwrap_or_else(Finished::from))
    }

    /// It is done: what woke it can wake another.
    pub(super) fn into_waker(self) -> JobWaker {
        self.waker
    }

    /// Whether something has happened that it waited for.
    pub(super) fn is_awake(&self) -> bool {
        self.waker.alarm.rang.load(Ordering::Acquire)
    }

    /// Gives it a task, which says when it is done.
    pub(super) fn spawn(self, token: Token, commands: mpsc::Sender<Command>) -> AbortHandle {
        let Self {
            mut future, over, ..
        } = self;
        let task = tokio::spawn(async move {
            let _over = over;
            let caught = std::future::poll_fn(|cx| poll_caught(&mut future, cx)).await;
            let finished = Box::new(caught.unwrap_or_else(Finished::from));
            let _ = commands.send(Command::Finished(token, finished)).await;
        });
        task.abort_handle()
    }
}

impl JobWaker {
    pub(super) fn new(bell: &Arc<Bell>) -> Self {
        let alarm = Arc::new(JobAlarm {
            rang: AtomicBool::new(false),
            bell: Arc::clone(bell),
        });
        Self {
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        }
    }
}

impl Wake for JobAlarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rang.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }
}

impl Bell {
    /// From now on this task is woken.
    pub(super) fn wakes(&self, waker: &Waker) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(waker);
    }

    fn ring(&self) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = known.clone();
        drop(known);
        waker.wake();
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self(Mutex::new(Waker::noop().clone()))
    }
}
