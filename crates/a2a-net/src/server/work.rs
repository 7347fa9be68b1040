//! Work: done under its deadline, once if it has a name, and joined by whoever asks for it again.
//!
//! Work with a name is in the store before its handler has it, and how it ended is there before
//! anybody is answered. Only what the handler itself refused is forgotten; what was cut off, in
//! whatever way, is interrupted and never done again.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_session::{Failure, Holder, Start, Token, Work, WorkId};
use a2a_wire::{ErrorCode, Reason};
use base::{Budget, Charge, Limits};
use bytes::Bytes;
use canonical::{Object, Value};
use policy::Retention;
use store::{AgentId, Begun, Hash, Results};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
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

/// How work ended.
enum Ended {
    /// The handler has a result.
    Done(Arc<Value<'static>>),
    /// The handler failed after it had begun. Whoever asks again gets the same error.
    Failed(Failure),
    /// The handler refused it, or never had it: it may be tried again.
    Refused(Failure),
    /// It was cut off, so that it may have been done, or a part of it.
    Interrupted(Failure),
}

/// Outcomes that the store could not write yet.
pub(super) struct Unsaved {
    /// Bytes of their results.
    bytes: Budget<Holder>,
    /// The node ends, so that nothing is tried again.
    given_up: CancellationToken,
}

/// Why whoever asks for interrupted work again gets no result.
const INTERRUPTED: &str = "the work was cut off, and how far it came is not known";

/// The wait before the first and between later attempts to write an outcome.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What an outcome begins with in the store.
const RESULT: u8 = b'+';
const FAILURE: u8 = b'-';

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

    /// Whoever reads the parts of the answer. Work with a name goes on when nobody does.
    fn reader(&self) -> Option<&mpsc::Sender<Bytes>> {
        let reader = self.chunks.as_ref();
        reader.filter(|_| self.start.intent.intent_id.is_none())
    }
}

impl Ended {
    /// For the request that had it done.
    fn outcome(self) -> Outcome {
        match self {
            Self::Done(value) => Ok(value),
            Self::Failed(failure) | Self::Refused(failure) | Self::Interrupted(failure) => {
                Err(failure)
            }
        }
    }

    /// For those who wait for the same work.
    fn for_others(&self) -> Outcome {
        match self {
            Self::Done(value) => Ok(Arc::clone(value)),
            Self::Failed(failure) | Self::Refused(failure) => Err(failure.clone()),
            Self::Interrupted(_) => Err(already_executed(INTERRUPTED)),
        }
    }

    /// As the store has it.
    fn read(saved: &[u8]) -> Option<Self> {
        let (kind, text) = saved.split_first()?;
        let value = Value::parse(text).ok()?.into_owned();
        match *kind {
            RESULT => Some(Self::Done(Arc::new(value))),
            FAILURE => from_saved(&value).map(Self::Failed),
            _ => None,
        }
    }
}

impl Unsaved {
    /// Counts the result of work for as long as it is only in memory; nothing if there are too many.
    fn charge(&self, holder: Holder, ended: &Ended) -> Option<Charge<Holder>> {
        let size = match ended {
            Ended::Done(value) => value.to_canonical().len(),
            Ended::Failed(_) | Ended::Refused(_) | Ended::Interrupted(_) => 0,
        };
        self.bytes.charge(holder, holder.class(), size).ok()
    }

    /// Has everybody answered whose outcome cannot be written.
    pub(super) fn give_up(&self) {
        self.given_up.cancel();
    }
}

impl Default for Unsaved {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            bytes: Budget::new(Limits {
                total: 64 * MIB,
                per_holder: 16 * MIB,
                reserved: 16 * MIB,
            }),
            given_up: CancellationToken::new(),
        }
    }
}

impl Inner {
    /// Does what a request asks for, and answers it.
    pub(super) async fn work(self: &Arc<Self>, mut job: Job) {
        let (live, token) = (Arc::clone(&job.live), job.start.token);
        let outcome = match (job.start.work.clone(), job.joining.take()) {
            (Work::Done(result), _) => Ok(result),
            (Work::Do(None), _) => self.execute(job).await.outcome(),
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

    /// Work with a name: in the store before it is done, so that not even a crash makes it run twice.
    async fn once(self: &Arc<Self>, work: WorkId, job: Job) -> Outcome {
        let ended = match self.results(&job) {
            Some((results, id)) => self.do_once(&*results, &id, job).await,
            None => Ended::Refused(Failure::unavailable(
                "the work cannot be kept under its name",
            )),
        };
        let others = ended.for_others();
        let now = self.home.clock.now();
        // Under one lock, so that nobody joins work that is finished.
        let mut agents = lock(&self.agents);
        agents.finish(now, work, others.as_ref().ok().map(AsRef::as_ref));
        let told = lock(&self.joins).remove(&work);
        drop(agents);
        if let Some(told) = told {
            told.send_replace(Some(others));
        }
        ended.outcome()
    }

    async fn do_once(self: &Arc<Self>, results: &dyn Results, id: &str, job: Job) -> Ended {
        let (retention, holder) = (job.start.retention, job.live.slot.holder());
        let hash = Hash(*job.start.tree.digest().as_bytes());
        let now = self.home.clock.uptime();
        match results.begin(now, id, hash).await {
            Ok(Begun::New) => {
                let ended = self.execute(job).await;
                self.save(results, id, (holder, retention), ended).await
            }
            Ok(Begun::Finished) => match results.result(now, id).await {
                Ok(saved) => {
                    let gone = "the work was done, and its result is not kept";
                    let read = saved.and_then(|saved| Ended::read(&saved));
                    read.unwrap_or_else(|| Ended::Failed(already_executed(gone)))
                }
                Err(error) => Ended::Refused(cannot_save(&error)),
            },
            Ok(Begun::Interrupted) => Ended::Failed(already_executed(INTERRUPTED)),
            Ok(Begun::Running) => Ended::Refused(Failure::unavailable("the work is being done")),
            Ok(Begun::Conflict) => {
                let cause = "the intent id names other work";
                let failure = Failure::new(ErrorCode::InvalidIntent, cause);
                Ended::Refused(failure.because(Reason::IntentIdConflict))
            }
            Err(error) => Ended::Refused(cannot_save(&error)),
        }
    }

    /// Writes how work ended, again and again until the store has it: nobody is answered before, and
    /// whoever asks meanwhile waits for the same. Gives what it ended with, as far as that is kept.
    async fn save(
        &self,
        results: &dyn Results,
        id: &str,
        (holder, retention): (Holder, Retention),
        mut ended: Ended,
    ) -> Ended {
        let mut wait = FIRST_WAIT;
        let mut charge = None;
        loop {
            let error = match self.write(results, id, retention, &ended).await {
                // In the latter case an attempt that failed was written after all.
                Ok(()) | Err(store::Error::NotFound { .. }) => return ended,
                Err(error) => error,
            };
            if charge.is_none() {
                tracing::error!(%error, "the outcome of named work cannot be written; it is tried again");
                charge = self.unsaved.charge(holder, &ended);
                if charge.is_none() {
                    let cause = "the work was done, and its result could not be kept";
                    ended = Ended::Interrupted(already_executed(cause));
                }
            }
            tokio::select! {
                biased;
                // The store has it as begun, so the next process knows it as interrupted.
                () = self.unsaved.given_up.cancelled() => {
                    return Ended::Interrupted(cannot_save(&error));
                }
                () = sleep(wait) => wait = wait.saturating_mul(2).min(LONGEST_WAIT),
            }
        }
    }

    /// Writes how work ended. Its result is kept as long as the agreed retention allows: what must be
    /// gone with the session is never written to a file.
    async fn write(
        &self,
        results: &dyn Results,
        id: &str,
        retention: Retention,
        ended: &Ended,
    ) -> Result<(), store::Error> {
        let now = self.home.clock.uptime();
        let saved = match ended {
            Ended::Refused(_) => return results.forget(id).await,
            Ended::Interrupted(_) => return results.interrupt(now, id).await,
            Ended::Done(_) if retention <= Retention::Session => None,
            Ended::Done(value) => Some([&[RESULT], &*value.to_canonical()].concat()),
            // It has nothing of the request.
            Ended::Failed(failure) => Some([&[FAILURE], &*to_saved(failure)].concat()),
        };
        match results.finish(now, id, saved).await {
            Err(store::Error::TooLarge { .. } | store::Error::Full { .. }) => {
                results.finish(now, id, None).await
            }
            other => other,
        }
    }

    /// Has a handler do it, until it is done, cancelled, or out of time.
    async fn execute(self: &Arc<Self>, mut job: Job) -> Ended {
        if let Some(failure) = self.is_over(&job) {
            return Ended::Refused(failure);
        }
        let Some(handler) = self.handlers.load().get(&job.start.handler) else {
            let cause = "nobody serves that any more";
            return Ended::Refused(Failure::new(ErrorCode::UnsupportedCapability, cause));
        };
        let call = self.call(&mut job);
        let handling: Handling = Box::pin(async move { handler.call(call).await });
        let error = match self.bounded(&job, Caught(handling)).await {
            Ok(Ok(Ok(value))) => return Ended::Done(Arc::new(value)),
            Ok(Ok(Err(error))) => error,
            Ok(Err(Panicked)) => HandlerError::Interrupted("the handler panicked"),
            Err(cut_off) => return Ended::Interrupted(cut_off),
        };
        let ended = match &error {
            HandlerError::Invalid { .. }
            | HandlerError::Denied(_)
            | HandlerError::Unsupported(_)
            | HandlerError::Unavailable(_)
            | HandlerError::TooOften { .. } => Ended::Refused,
            HandlerError::TimedOut(_) | HandlerError::Interrupted(_) => Ended::Interrupted,
            HandlerError::Failed(_) | HandlerError::Started(_) => Ended::Failed,
        };
        match self.home.entropy.uuid() {
            Ok(incident) => {
                tracing::warn!(%incident, handler = %job.start.handler, %error, "a handler failed");
                ended(error.into_failure(&incident))
            }
            Err(error) => ended(error.into()),
        }
    }

    /// Why a job is not begun: nobody waits for it any more, or it is too late.
    fn is_over(&self, job: &Job) -> Option<Failure> {
        if job.cancel.is_cancelled() || job.reader().is_some_and(mpsc::Sender::is_closed) {
            return Some(cancelled());
        }
        (Instant::now() >= self.home.clock.at(job.deadline)).then(timed_out)
    }

    /// Waits for something no longer than the job has, and than anybody waits for it.
    async fn bounded<T>(
        self: &Arc<Self>,
        job: &Job,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let deadline = self.home.clock.at(job.deadline);
        let mut work = pin!(work);
        if let Some(failure) = self.is_over(job) {
            return Err(failure);
        }
        // What is done at once needs no timer, and nobody to wait for.
        if let Some(done) = at_once(work.as_mut()).await {
            return Ok(done);
        }
        tokio::select! {
            biased;
            () = job.cancel.cancelled() => Err(cancelled()),
            () = gone(job.reader()) => Err(cancelled()),
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

/// A failure as the store has it: what a peer is told of it.
fn to_saved(failure: &Failure) -> Vec<u8> {
    let mut saved = Object::default();
    saved.insert(
        "code",
        Value::String(failure.code.as_str().to_owned().into()),
    );
    if let Some(details) = failure.details() {
        saved.insert("details", Value::Object(details));
    }
    Value::Object(saved).to_canonical()
}

fn from_saved(saved: &Value<'static>) -> Option<Failure> {
    let saved = saved.as_object()?;
    let code = ErrorCode::from(saved.get("code")?.as_str()?);
    let details = saved.get("details").and_then(Value::as_object);
    Some(Failure::from_details(
        code,
        details,
        "the handler failed before",
    ))
}

fn already_executed(cause: &'static str) -> Failure {
    Failure::new(ErrorCode::ReplayDetected, cause).because(Reason::AlreadyExecuted)
}

fn cannot_save(error: &store::Error) -> Failure {
    let failure = Failure::unavailable(format!("the work cannot be put on record: {error}"));
    if let store::Error::Restored { wait } = error {
        return failure.retry_after(*wait);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(last: u8) -> Holder {
        let source = std::net::IpAddr::from([192, 0, 2, last]);
        Holder::Source(source.into())
    }

    /// Outcomes that wait for the store have a limit for each source and for all.
    #[test]
    fn unsaved_results_have_a_limit() {
        let unsaved = Unsaved::default();
        let text = |mib: usize| Value::String("x".repeat(mib * 1024 * 1024 - 2).into());
        let result = |mib| Ended::Done(Arc::new(text(mib)));
        let first = unsaved.charge(stranger(1), &result(16));
        assert!(first.is_some());
        let one_byte = Ended::Done(Arc::new(Value::Null));
        assert!(unsaved.charge(stranger(1), &one_byte).is_none());
        let more: Vec<_> = (2..=3)
            .map(|last| unsaved.charge(stranger(last), &result(16)))
            .collect();
        assert!(more.iter().all(Option::is_some));
        // The rest is reserved for agents that are known.
        assert!(unsaved.charge(stranger(4), &one_byte).is_none());
        // What has no result is counted by the works alone.
        let interrupted = Ended::Interrupted(cancelled());
        assert!(unsaved.charge(stranger(1), &interrupted).is_some());
        drop(first);
        assert!(unsaved.charge(stranger(1), &result(16)).is_some());
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        for failure in [
            Failure::internal("4711", "the disk is full"),
            Failure::too_often(Some(17), "often"),
            already_executed("x"),
            Failure::new(ErrorCode::Other("BROKEN_PIPE".to_owned()), "x"),
        ] {
            let saved = [&[FAILURE], &*to_saved(&failure)].concat();
            let Some(Ended::Failed(read)) = Ended::read(&saved) else {
                panic!("{failure}");
            };
            assert_eq!(read.code, failure.code);
            assert_eq!(to_saved(&read), to_saved(&failure));
        }
        let Some(Ended::Done(read)) = Ended::read(b"+{\"n\":1}") else {
            panic!("no result");
        };
        assert_eq!(read.to_canonical(), b"{\"n\":1}");
        for broken in [&b""[..], b"+", b"-1", b"-{}", b"{}"] {
            assert!(Ended::read(broken).is_none());
        }
    }
}
