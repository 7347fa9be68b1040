//! Work: done under its deadline, once if it has a name, and joined by whoever asks for it again.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_session::{Failure, Start, Token, Work, WorkId};
use a2a_wire::{ErrorCode, Reason};
use bytes::Bytes;
use canonical::Value;
use policy::Retention;
use store::{AgentId, Begun, Hash, Results};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::chunks::{Chunks, Unread};
use super::handler::{Call, HandlerError, Handling};
use super::live::Live;
use crate::standing::lock;

/// What work came to.
type Outcome = Result<Arc<Value<'static>>, Failure>;

/// Work with a name that is being done, and where its outcome is told.
pub(super) type Joins = Mutex<BTreeMap<WorkId, watch::Sender<Option<Outcome>>>>;

/// Somebody who waits for the outcome of work.
#[derive(Debug)]
pub(super) struct Joining(watch::Receiver<Option<Outcome>>);

impl Joining {
    /// Waits for this work, which must not have been finished yet.
    pub(super) fn of(joins: &Joins, work: WorkId) -> Self {
        let mut joins = lock(joins);
        let told = joins.entry(work).or_insert_with(|| watch::channel(None).0);
        Self(told.subscribe())
    }

    async fn outcome(mut self) -> Outcome {
        let lost = || Err(Failure::unavailable("the work was given up"));
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }
}

/// A request to be worked on.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) live: Arc<Live>,
    pub(super) start: Start,
    pub(super) joining: Option<Joining>,
    pub(super) cancel: CancellationToken,
    /// On the clock that never jumps.
    pub(super) deadline: Duration,
    pub(super) chunks: Option<mpsc::Sender<Bytes>>,
}

impl Job {
    /// The same, over at this moment if that is earlier.
    pub(super) fn within(mut self, moment: Option<Duration>) -> Self {
        if let Some(moment) = moment {
            self.deadline = self.deadline.min(moment);
        }
        self
    }
}

impl Inner {
    /// Does what a request asks for, and answers it.
    pub(super) async fn work(self: &Arc<Self>, mut job: Job) {
        let (live, token) = (Arc::clone(&job.live), job.start.token);
        let outcome = match (job.start.work.clone(), job.joining.take()) {
            (Work::Done(result), _) => Ok(result),
            (Work::Do(None), _) => self.execute(job).await,
            (Work::Do(Some(work)), _) => self.once(work, job).await,
            (Work::Join(_), Some(joining)) => {
                let joined = self.bounded(&job, joining.outcome());
                joined.await.and_then(|outcome| outcome)
            }
            (Work::Join(_), None) => Err(Failure::unavailable("the work cannot be joined")),
        };
        self.complete(&live, token, outcome).await;
    }

    /// Answers a request, unless it has ended meanwhile.
    async fn complete(&self, live: &Live, token: Token, outcome: Outcome) {
        let now = self.home.clock.now();
        let answer = {
            let mut inside = lock(&live.inside);
            let outcome = outcome.map(Arc::unwrap_or_clone);
            match inside.session.respond(now, token, outcome) {
                Ok(answer) => {
                    let running = self.end_request(live, &mut inside, token);
                    running.map(|it| (it, answer))
                }
                Err(_) => None,
            }
        };
        if let Some((running, answer)) = answer {
            running.cancel.cancel();
            self.deliver(running, answer).await;
        }
    }

    /// Work with a name: on record before it is done, so that not even a crash makes it run twice.
    async fn once(self: &Arc<Self>, work: WorkId, job: Job) -> Outcome {
        let outcome = match self.results(&job) {
            Some((results, id)) => self.do_once(&*results, &id, job).await,
            None => Err(Failure::unavailable(
                "the work cannot be kept under its name",
            )),
        };
        let now = self.home.clock.now();
        // Under one lock, so that nobody joins work that is finished.
        let mut agents = lock(&self.agents);
        agents.finish(now, work, outcome.as_ref().ok().map(AsRef::as_ref));
        let told = lock(&self.joins).remove(&work);
        drop(agents);
        if let Some(told) = told {
            told.send_replace(Some(outcome.clone()));
        }
        outcome
    }

    async fn do_once(self: &Arc<Self>, results: &dyn Results, id: &str, job: Job) -> Outcome {
        let retention = job.start.retention;
        let hash = Hash(*job.start.tree.digest().as_bytes());
        let now = self.home.clock.millis();
        let begun = results.begin(now, id, hash).await;
        match begun.map_err(|error| cannot_keep(&error))? {
            Begun::New => {
                let outcome = self.execute(job).await;
                self.keep(results, id, retention, &outcome).await?;
                outcome
            }
            Begun::Finished => {
                let kept = results.result(now, id).await;
                let kept = kept.map_err(|error| cannot_keep(&error))?;
                let kept = kept.and_then(|bytes| Value::parse(&bytes).ok().map(Value::into_owned));
                let gone = "the work was done, and its result is not kept";
                kept.map(Arc::new).ok_or_else(|| already_executed(gone))
            }
            Begun::Interrupted => Err(already_executed(
                "the node ended while the work was done; how far it came nobody knows",
            )),
            Begun::Running => Err(Failure::unavailable("the work is being done")),
            Begun::Conflict => {
                let cause = "the intent id names other work";
                let failure = Failure::new(ErrorCode::InvalidIntent, cause);
                Err(failure.because(Reason::IntentIdConflict))
            }
        }
    }

    /// Keeps what came of work as long as the agreed retention allows: what must be gone with the
    /// session is never written to a file.
    async fn keep(
        &self,
        results: &dyn Results,
        id: &str,
        retention: Retention,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let now = self.home.clock.millis();
        let kept = match outcome {
            // It may be tried again.
            Err(_) => results.forget(id).await,
            Ok(_) if retention <= Retention::Session => results.finish(now, id, None).await,
            Ok(value) => {
                let bytes = value.to_canonical();
                match results.finish(now, id, Some(bytes)).await {
                    Err(store::Error::TooLarge { .. } | store::Error::Full { .. }) => {
                        results.finish(now, id, None).await
                    }
                    other => other,
                }
            }
        };
        kept.map_err(|error| cannot_keep(&error))
    }

    /// Has a handler do it, until it is done, cancelled, or out of time.
    async fn execute(self: &Arc<Self>, mut job: Job) -> Outcome {
        let handler = self.handlers.load().get(&job.start.handler);
        let handler = handler.ok_or_else(|| {
            Failure::new(
                ErrorCode::UnsupportedCapability,
                "nobody serves that any more",
            )
        })?;
        let call = self.call(&mut job);
        let handling: Handling = Box::pin(async move { handler.call(call).await });
        let outcome = self.bounded(&job, Caught(handling)).await?;
        let error = match outcome {
            Ok(Ok(value)) => return Ok(Arc::new(value)),
            Ok(Err(error)) => error,
            Err(Panicked) => HandlerError::Failed("the handler panicked"),
        };
        let incident = self.home.entropy.uuid()?;
        tracing::warn!(%incident, handler = %job.start.handler, %error, "a handler failed");
        Err(error.into_failure(&incident))
    }

    /// Waits for something no longer than the job has, and than anybody waits for it.
    async fn bounded<T>(
        self: &Arc<Self>,
        job: &Job,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let deadline = self.home.clock.at(job.deadline);
        // Work with a name goes on when nobody reads.
        let reader = job.chunks.as_ref();
        let reader = reader.filter(|_| job.start.intent.intent_id.is_none());
        let mut work = pin!(work);
        if job.cancel.is_cancelled() || reader.is_some_and(mpsc::Sender::is_closed) {
            return Err(cancelled());
        }
        if Instant::now() >= deadline {
            return Err(timed_out());
        }
        // What is done at once needs no timer, and nobody to wait for.
        if let Some(done) = at_once(work.as_mut()).await {
            return Ok(done);
        }
        tokio::select! {
            biased;
            () = job.cancel.cancelled() => Err(cancelled()),
            () = gone(reader) => Err(cancelled()),
            () = sleep_until(deadline) => Err(timed_out()),
            done = work => Ok(done),
        }
    }

    /// What the handler is told. It gets the request itself, which nobody needs after it.
    fn call(&self, job: &mut Job) -> Call {
        let start = &mut job.start;
        let unread = match start.intent.intent_id {
            Some(_) => Unread::GoOn,
            None => Unread::Stop,
        };
        let chunks = job.chunks.clone().map_or_else(Chunks::none, |to| {
            Chunks::new(Arc::clone(&job.live), start.token, to, unread)
        });
        Call {
            name: start.handler.clone(),
            intent: std::mem::replace(&mut start.tree, Value::Null),
            inputs: start.intent.inputs.take().unwrap_or_default(),
            request_id: std::mem::take(&mut start.request_id),
            intent_id: start.intent.intent_id.as_ref().map(ToString::to_string),
            peer: job.live.peer.clone(),
            holder: job.live.slot.holder(),
            deadline: self.home.clock.at(job.deadline),
            cancelled: job.cancel.clone(),
            retention: start.retention,
            chunks,
        }
    }

    /// Where the results of a peer's work are kept, and under which name.
    fn results(&self, job: &Job) -> Option<(Arc<dyn Results>, String)> {
        let id = job.start.intent.intent_id.as_ref()?.to_string();
        // An agent of the other protocol may have the same DID for a name.
        let agent = AgentId::new(&format!("a2a:{}", job.live.peer.did)).ok()?;
        Some((self.home.store.for_agent(&agent).results(), id))
    }
}

/// A future whose panic is an outcome.
struct Caught<F>(Pin<Box<F>>)
where
    F: ?Sized;

struct Panicked;

impl<F: Future + ?Sized> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = &mut self.0;
        // It is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

/// What the future comes to if it is ready. If not it is as if it was looked at by whoever waits for it next.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits until nobody reads any more.
async fn gone(reader: Option<&mpsc::Sender<Bytes>>) {
    match reader {
        Some(reader) => reader.closed().await,
        None => pending().await,
    }
}

fn cancelled() -> Failure {
    Failure::new(ErrorCode::Cancelled, "nobody waits for the answer any more")
}

fn timed_out() -> Failure {
    Failure::new(ErrorCode::Timeout, "the request took longer than it may")
}

fn already_executed(cause: &'static str) -> Failure {
    Failure::new(ErrorCode::ReplayDetected, cause).because(Reason::AlreadyExecuted)
}

fn cannot_keep(error: &store::Error) -> Failure {
    Failure::unavailable(format!("the work cannot be put on record: {error}"))
}
