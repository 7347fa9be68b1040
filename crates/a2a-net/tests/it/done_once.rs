//! Named work is done once, however its first run ended (profile §10.5).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_net::*;
use a2a_wire::ErrorCode;
use serde_json::json;
use store::{
    AgentId, Approvals, Backend, Begun, Chains, Error, Hash, HeldCalls, Learning, Limits, Memories,
    Memory, Moment, Owner, Pending, PinKind, Pins, Plans, RateBuckets, ReplayIds, Results,
    SealedValues, SessionId, Snapshots, Store, Swept, Uptime, Vectors,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::*;

type Peers = World<InMemory>;

/// A store whose next writes of outcomes fail.
#[derive(Debug, Clone)]
struct Failing {
    inner: Memory,
    failures: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct FailingResults {
    inner: Arc<dyn Results>,
    failures: Arc<AtomicUsize>,
}

/// More failures than any test has attempts.
const BROKEN: usize = 1_000_000;

impl Failing {
    fn new() -> (Self, Store) {
        let failing = Self {
            inner: Memory::new(Limits::default()),
            failures: Arc::default(),
        };
        (failing.clone(), Store::new(failing))
    }

    fn fail(&self, times: usize) {
        self.failures.store(times, Ordering::SeqCst);
    }

    /// How often a write has failed of those that were to fail.
    fn failed(&self, of: usize) -> usize {
        of - self.failures.load(Ordering::SeqCst)
    }
}

impl FailingResults {
    fn outcome(&self, write: impl FnOnce() -> Pending<()>) -> Pending<()> {
        let left = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        match self.failures.fetch_update(set, get, left) {
            Ok(_) => Pending::ready(Err(Error::DiskFull)),
            Err(_) => write(),
        }
    }
}

impl Results for FailingResults {
    fn begin(&self, now: Uptime, id: &str, hash: Hash) -> Pending<Begun> {
        self.inner.begin(now, id, hash)
    }

    fn finish(&self, now: Uptime, id: &str, result: Option<Vec<u8>>) -> Pending<()> {
        self.outcome(|| self.inner.finish(now, id, result))
    }

    fn interrupt(&self, now: Uptime, id: &str) -> Pending<()> {
        self.outcome(|| self.inner.interrupt(now, id))
    }

    fn result(&self, now: Uptime, id: &str) -> Pending<Option<Vec<u8>>> {
        self.inner.result(now, id)
    }

    fn forget(&self, id: &str) -> Pending<()> {
        self.outcome(|| self.inner.forget(id))
    }
}

impl Backend for Failing {
    fn results(&self, owner: &Owner) -> Arc<dyn Results> {
        Arc::new(FailingResults {
            inner: self.inner.results(owner),
            failures: Arc::clone(&self.failures),
        })
    }

    fn snapshots(&self, owner: &Owner, session: &SessionId) -> Arc<dyn Snapshots> {
        self.inner.snapshots(owner, session)
    }

    fn replay_ids(&self, owner: &Owner) -> Arc<dyn ReplayIds> {
        self.inner.replay_ids(owner)
    }

    fn rate_buckets(&self, owner: &Owner) -> Arc<dyn RateBuckets> {
        self.inner.rate_buckets(owner)
    }

    fn held_calls(&self, owner: &Owner) -> Arc<dyn HeldCalls> {
        self.inner.held_calls(owner)
    }

    fn approvals(&self) -> Arc<dyn Approvals> {
        self.inner.approvals()
    }

    fn pins(&self, kind: &PinKind) -> Arc<dyn Pins> {
        self.inner.pins(kind)
    }

    fn memories(&self, owner: &Owner, session: &SessionId, space: &str) -> Arc<dyn Memories> {
        self.inner.memories(owner, session, space)
    }

    fn vectors(&self, model: &str) -> Arc<dyn Vectors> {
        Backend::vectors(&self.inner, model)
    }

    fn chains(&self, owner: &Owner) -> Arc<dyn Chains> {
        self.inner.chains(owner)
    }

    fn open_chains(&self) -> Pending<Vec<(AgentId, i64)>> {
        self.inner.open_chains()
    }

    fn learning(&self, owner: &Owner) -> Arc<dyn Learning> {
        self.inner.learning(owner)
    }

    fn plans(&self, owner: &Owner) -> Arc<dyn Plans> {
        self.inner.plans(owner)
    }

    fn sealed_values(&self, owner: &Owner) -> Arc<dyn SealedValues> {
        self.inner.sealed_values(owner)
    }

    fn sweep(&self, now: Moment) -> Pending<Swept> {
        self.inner.sweep(now)
    }

    fn flush(&self) -> Pending<()> {
        self.inner.flush()
    }
}

fn memory() -> Store {
    Store::new(Memory::new(Limits::default()))
}

async fn world(store: &Store) -> Arc<Peers> {
    Arc::new(Peers::on(Rules::default(), store.clone(), |_| {}).await)
}

fn work() -> serde_json::Value {
    json!({"goal": "work", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d14",
        "constraints": {"timeout_ms": 5000}})
}

/// A call that is tried once.
async fn once(world: &Peers) -> Result<Answered, CallError> {
    let options = CallOptions {
        timeout: Duration::from_millis(900),
        failed_work: FailedWork::Leave,
        ..CallOptions::default()
    };
    world
        .client
        .call(&did(SERVER), value(&work()), &options)
        .await
}

/// A call with all its retries.
fn calling(world: &Arc<Peers>) -> JoinHandle<Result<Answered, CallError>> {
    let world = Arc::clone(world);
    tokio::spawn(async move { world.call(work()).await })
}

/// Work that begins and does not end by itself.
fn endless(server: &Server) -> (Runs, Arc<Notify>) {
    let (runs, begun) = (Runs::default(), Arc::new(Notify::new()));
    let (counted, told) = (runs.clone(), Arc::clone(&begun));
    server.register(name("work"), move |_: Call| {
        counted.add();
        told.notify_one();
        std::future::pending()
    });
    (runs, begun)
}

/// How work is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Deadline,
    Cancel,
    SessionEnd,
    Close,
    Block,
    Stop,
}

impl Ending {
    async fn of(self, world: &Arc<Peers>, call: JoinHandle<Result<Answered, CallError>>) {
        match self {
            Self::Deadline => {}
            Self::Cancel => call.abort(),
            Self::SessionEnd => assert_eq!(world.server.end_sessions(&did(CLIENT)), 1),
            Self::Close => world.client.close(Duration::from_secs(1)).await,
            Self::Block => {
                let blocked = BTreeSet::from([did(CLIENT).to_string()]);
                world.server.set_rules(Rules {
                    blocked,
                    ..Rules::default()
                });
            }
            Self::Stop => world.server.stop(Duration::from_millis(10)).await,
        }
        if let Ok(outcome) = call.await {
            let error = outcome.unwrap_err();
            // An agent that is blocked is not told what its work had come to.
            let is_known = matches!(error, CallError::MayHaveRun(_));
            assert_eq!(is_known, self != Self::Block, "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_was_cut_off_is_not_done_again() {
    for ending in [
        Ending::Deadline,
        Ending::Cancel,
        Ending::SessionEnd,
        Ending::Close,
        Ending::Block,
        Ending::Stop,
    ] {
        let store = memory();
        let first = world(&store).await;
        let (runs, begun) = endless(&first.server);
        let call = calling(&first);
        begun.notified().await;
        ending.of(&first, call).await;
        assert_eq!(runs.count(), 1, "{ending:?}");
        // Also in the next process, which has the store.
        let next = world(&store).await;
        let again = counting(&next.server, "work");
        let mut worlds = vec![next];
        if !matches!(ending, Ending::Block | Ending::Stop) {
            worlds.push(first);
        }
        for world in worlds {
            let error = world.call(work()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::ReplayDetected, "{ending:?}");
            assert_eq!(reason(&error), "already_executed", "{ending:?}");
        }
        assert_eq!((runs.count(), again.count()), (1, 0), "{ending:?}");
    }
}

/// The schedule of retries ends with the first answer that says that the work was done.
#[tokio::test(start_paused = true)]
async fn the_retries_of_a_call_do_not_repeat_work_that_timed_out() {
    let world = world(&memory()).await;
    let (runs, _) = endless(&world.server);
    let (setbacks, mut told) = tokio::sync::mpsc::channel(9);
    let options = CallOptions {
        setbacks: Some(setbacks),
        ..CallOptions::default()
    };
    let called = world
        .client
        .call(&did(SERVER), value(&work()), &options)
        .await;
    drop(options);
    let error = called.unwrap_err();
    assert_eq!(reason(&error), "already_executed");
    assert!(matches!(error, CallError::MayHaveRun(_)), "{error}");
    let setback = told.recv().await.unwrap();
    assert!(setback.error.contains("TIMEOUT"), "{setback:?}");
    assert_eq!(told.recv().await, None);
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_panicked_is_not_done_again() {
    let store = memory();
    let first = world(&store).await;
    let runs = Runs::default();
    let counted = runs.clone();
    first.server.register(name("work"), move |_: Call| {
        counted.add();
        async {
            if std::hint::black_box(true) {
                panic!("as it should");
            }
            Ok(value(&json!(null)))
        }
    });
    let error = once(&first).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InternalError);
    assert!(matches!(error, CallError::MayHaveRun(_)), "{error}");
    let next = world(&store).await;
    let again = counting(&next.server, "work");
    for world in [&first, &next] {
        let error = once(world).await.unwrap_err();
        assert_eq!(reason(&error), "already_executed");
    }
    assert_eq!((runs.count(), again.count()), (1, 0));
}

/// Who joined the work is not told the end of somebody else's request.
#[tokio::test(start_paused = true)]
async fn those_who_wait_for_interrupted_work_are_told_that_it_may_have_been_done() {
    let world = world(&memory()).await;
    let (runs, begun) = endless(&world.server);
    let first = calling(&world);
    begun.notified().await;
    let second = calling(&world);
    while world.server.sessions()[0].in_flight < 2 {
        tokio::task::yield_now().await;
    }
    first.abort();
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(reason(&error), "already_executed");
    assert_eq!(runs.count(), 1);
}

/// Fails once with each error, and is done then.
fn failing(server: &Server, error: HandlerError) -> Runs {
    let runs = Runs::default();
    let counted = runs.clone();
    server.register(name("work"), move |_: Call| {
        counted.add();
        let outcome = match counted.count() {
            1 => Err(error.clone()),
            _ => Ok(value(&json!("done"))),
        };
        async move { outcome }
    });
    runs
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_refused_may_be_tried_again() {
    for error in [
        HandlerError::Invalid {
            field: "intent.inputs",
            cause: "wrong",
        },
        HandlerError::Denied("no"),
        HandlerError::Unsupported("not here"),
        HandlerError::Unavailable("not now"),
        HandlerError::TooOften {
            cause: "again",
            reset_at: None,
        },
    ] {
        let world = world(&memory()).await;
        let runs = failing(&world.server, error.clone());
        let first = once(&world).await.unwrap_err();
        assert!(!matches!(first, CallError::MayHaveRun(_)), "{first}");
        let second = once(&world).await.unwrap();
        assert_eq!(json_of(&second.result), json!("done"), "{error:?}");
        assert_eq!(runs.count(), 2, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_handler_that_had_begun_is_given_again() {
    let started = |error| HandlerError::Started(Box::new(error));
    for error in [
        HandlerError::Failed("the disk is full"),
        started(HandlerError::Denied("no")),
        started(HandlerError::TooOften {
            cause: "often",
            reset_at: Some(17),
        }),
        started(HandlerError::Invalid {
            field: "intent.inputs",
            cause: "wrong",
        }),
    ] {
        let store = memory();
        let first = world(&store).await;
        let runs = failing(&first.server, error.clone());
        let said = once(&first).await.unwrap_err();
        let next = world(&store).await;
        let again = counting(&next.server, "work");
        for world in [&first, &next] {
            let repeated = once(world).await.unwrap_err();
            assert_eq!(said.code(), repeated.code(), "{error:?}");
            for figure in ["incident", "reset_at", "scope", "field"] {
                let [said, repeated] =
                    [&said, &repeated].map(|error| told(error).failure.figure(figure).cloned());
                assert_eq!(said, repeated, "{error:?}");
            }
        }
        assert_eq!((runs.count(), again.count()), (1, 0), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_whose_handler_was_cut_off_is_not_done_again() {
    for (cut_off, code) in [
        (HandlerError::TimedOut("too slow"), ErrorCode::Timeout),
        (
            HandlerError::Interrupted("crashed"),
            ErrorCode::InternalError,
        ),
    ] {
        let world = world(&memory()).await;
        let runs = failing(&world.server, cut_off);
        let error = once(&world).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(reason(&once(&world).await.unwrap_err()), "already_executed");
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_was_not_written_at_first_is_written_again() {
    let (failing, store) = Failing::new();
    let world = world(&store).await;
    let runs = counting(&world.server, "work");
    failing.fail(2);
    let first = once(&world).await.unwrap();
    assert_eq!(json_of(&first.result), json!({"run": 1}));
    assert_eq!(failing.failed(2), 2);
    let second = once(&world).await.unwrap();
    assert_eq!(second.result, first.result);
    assert_eq!(runs.count(), 1);
}

/// Nobody is answered before the outcome is in the store, and the work is not done again meanwhile.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_answered_when_the_store_has_it() {
    let (failing, store) = Failing::new();
    let first = world(&store).await;
    let runs = counting(&first.server, "work");
    failing.fail(BROKEN);
    for _ in 0..2 {
        let error = once(&first).await.unwrap_err();
        assert!(matches!(error, CallError::MayHaveRun(_)), "{error}");
        assert_eq!(error.code(), ErrorCode::Timeout);
    }
    let waiting = calling(&first);
    let before = failing.failed(BROKEN);
    while failing.failed(BROKEN) < before + 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
    }
    failing.fail(0);
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(json_of(&answer.result), json!({"run": 1}));
    // The store has it, not only the process.
    let next = world(&store).await;
    let again = counting(&next.server, "work");
    assert_eq!(once(&next).await.unwrap().result, answer.result);
    assert_eq!((runs.count(), again.count()), (1, 0));
}

/// Also that work was cut off is written again.
#[tokio::test(start_paused = true)]
async fn an_interruption_that_was_not_written_at_first_is_written_again() {
    let (failing, store) = Failing::new();
    let first = world(&store).await;
    let (runs, begun) = endless(&first.server);
    failing.fail(3);
    let call = calling(&first);
    begun.notified().await;
    Ending::Cancel.of(&first, call).await;
    let error = first.call(work()).await.unwrap_err();
    assert_eq!(reason(&error), "already_executed");
    assert_eq!(failing.failed(3), 3);
    let next = world(&store).await;
    let again = counting(&next.server, "work");
    assert_eq!(reason(&once(&next).await.unwrap_err()), "already_executed");
    assert_eq!((runs.count(), again.count()), (1, 0));
}

/// A store that does not come back keeps no node from stopping; the work stays begun.
#[tokio::test(start_paused = true)]
async fn a_server_stops_though_an_outcome_cannot_be_written() {
    let (failing, store) = Failing::new();
    let first = world(&store).await;
    let runs = counting(&first.server, "work");
    failing.fail(BROKEN);
    let error = once(&first).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    first.server.stop(Duration::from_secs(1)).await;
    failing.fail(0);
    let next = world(&store).await;
    let again = counting(&next.server, "work");
    let error = once(&next).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    assert_eq!((runs.count(), again.count()), (1, 0));
}
