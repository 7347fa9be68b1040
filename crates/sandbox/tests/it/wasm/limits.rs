//! Whatever a component does, it ends: at a limit, or when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandbox::wasm::{
    Component, Engine, Event, Grant, Listener, MAX_EVENTS, MAX_INSTANCES, Told, WasmError,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::{ECHO, Heard, LOOP, call, component, text};

const SHORT: Duration = Duration::from_millis(20);

/// Tells `count` times of something, then answers.
fn telling(count: usize, size: usize) -> String {
    format!(
        "(local $told i32)
         (loop $again
           (call $status (i32.const 0x200) (i32.const {size}))
           (local.set $told (i32.add (local.get $told) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $told) (i32.const {count}))))
         {ECHO}"
    )
}

async fn broken_off(component: &Component, grant: &Grant) -> WasmError {
    call(component, "{}", grant).await.0.unwrap_err()
}

#[tokio::test]
async fn one_that_loops_ends_in_time() {
    let component = component(LOOP);
    let grant = Grant {
        wall_time: SHORT,
        ..Grant::default()
    };
    let error = broken_off(&component, &grant).await;
    assert_eq!(error, WasmError::Timeout(SHORT));
    let grant = Grant {
        cpu: SHORT,
        ..Grant::default()
    };
    let error = broken_off(&component, &grant).await;
    assert_eq!(error, WasmError::CpuTime(SHORT));
}

/// On one thread: a component that did not give way would keep the timer from firing, and one that
/// went on would keep its place.
#[tokio::test]
async fn one_that_loops_ends_when_nobody_waits() {
    let engine = Engine::new().unwrap();
    let load = |body: &str| engine.load(&wat::parse_str(text(body)).unwrap()).unwrap();
    let endless = format!("(call $status (i32.const 0x200) (i32.const 7)) {LOOP}");
    let (endless, echo) = (Arc::new(load(&endless)), load(ECHO));
    let gate = Arc::new(Gate::new(MAX_INSTANCES));
    let mut running = JoinSet::new();
    for _ in 0..MAX_INSTANCES {
        let (endless, gate) = (Arc::clone(&endless), Arc::clone(&gate));
        running.spawn(async move { endless.call("{}", &Grant::default(), gate).await });
    }
    gate.came(MAX_INSTANCES).await;
    let grant = Grant::default();
    let waits = tokio::time::timeout(SHORT, call(&echo, "1", &grant));
    assert!(waits.await.is_err(), "there was a place left");
    running.shutdown().await;
    let (answer, _) = call(&echo, "1", &grant).await;
    assert_eq!(answer, Ok(Ok("1".into())));
}

/// Lets nobody go on before it is told to.
struct Gate {
    count: AtomicUsize,
    news: Notify,
    open: Semaphore,
}

impl Gate {
    /// A gate that lets so many through.
    fn new(open: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            news: Notify::new(),
            open: Semaphore::new(open),
        }
    }

    /// Waits until so many have come.
    async fn came(&self, count: usize) {
        while self.count.load(Ordering::SeqCst) < count {
            self.news.notified().await;
        }
    }
}

impl Listener for Gate {
    fn tell(&self, _: Event) -> Told<'_> {
        Box::pin(async {
            self.count.fetch_add(1, Ordering::SeqCst);
            self.news.notify_one();
            self.open.acquire().await.unwrap().forget();
        })
    }
}

#[tokio::test]
async fn so_many_run_at_once_and_the_next_waits() {
    let component = Arc::new(component(&telling(1, 7)));
    let gate = Arc::new(Gate::new(0));
    let mut running = JoinSet::new();
    for _ in 0..=MAX_INSTANCES {
        let (component, gate) = (Arc::clone(&component), Arc::clone(&gate));
        running.spawn(async move { component.call("{}", &Grant::default(), gate).await });
    }
    gate.came(MAX_INSTANCES).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(gate.count.load(Ordering::SeqCst), MAX_INSTANCES);
    gate.open.add_permits(1);
    gate.came(MAX_INSTANCES + 1).await;
    gate.open.add_permits(MAX_INSTANCES);
    while let Some(done) = running.join_next().await {
        assert_eq!(done.unwrap(), Ok(Ok("{}".into())));
    }
}

#[tokio::test]
async fn its_memory_has_a_limit() {
    const PAGE: u64 = 65_536;
    let with = |memory: u64| Grant {
        memory,
        ..Grant::default()
    };
    let greedy = component(
        "(loop $again
           (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
         (unreachable)",
    );
    let error = broken_off(&greedy, &with(64 * PAGE)).await;
    assert_eq!(error, WasmError::Memory(64 * PAGE));
    assert!(error.to_string().contains("sandbox.memory"));
    let echo = component(ECHO);
    let (answer, _) = call(&echo, "1", &with(PAGE)).await;
    assert_eq!(answer, Ok(Ok("1".into())));
    let error = broken_off(&echo, &with(PAGE - 1)).await;
    assert_eq!(error, WasmError::Memory(PAGE - 1));
}

#[tokio::test]
async fn one_that_breaks_off_says_why() {
    let error = broken_off(&component("(unreachable)"), &Grant::default()).await;
    let WasmError::Trap(why) = &error else {
        panic!("{error}");
    };
    assert!(why.contains("unreachable"), "{why}");
    // Itself, in the module of the example.
    let deep = component("(call 3 (local.get $at) (local.get $size))");
    let error = broken_off(&deep, &Grant::default()).await;
    let WasmError::Trap(why) = &error else {
        panic!("{error}");
    };
    assert!(why.contains("call stack exhausted"), "{why}");
    // A text that lies outside its memory.
    let lost = component("(call $answer (i32.const 0) (i32.const 0x7fffffff) (i32.const 9))");
    let error = broken_off(&lost, &Grant::default()).await;
    assert!(matches!(error, WasmError::Trap(_)), "{error}");
}

#[tokio::test]
async fn events_are_counted() {
    let (answer, told) = call(&component(&telling(MAX_EVENTS, 1)), "{}", &Grant::default()).await;
    assert_eq!((answer, told.len()), (Ok(Ok("{}".into())), MAX_EVENTS));
    let flood = component(&telling(MAX_EVENTS + 1, 1));
    let heard = Arc::new(Heard::default());
    let error = flood.call("{}", &Grant::default(), heard.clone()).await;
    assert_eq!(error, Err(WasmError::Events(MAX_EVENTS)));
    assert_eq!(heard.0.lock().unwrap().len(), MAX_EVENTS);
}

#[tokio::test]
async fn what_it_tells_and_gives_is_weighed() {
    let with = |output: usize| Grant {
        output,
        ..Grant::default()
    };
    let twice = component(&telling(2, 100));
    let (answer, _) = call(&twice, "{}", &with(200)).await;
    assert_eq!(answer, Ok(Ok("{}".into())));
    assert_eq!(broken_off(&twice, &with(199)).await, WasmError::Output(199));
    // One event that is too large by itself.
    assert_eq!(broken_off(&twice, &with(99)).await, WasmError::Output(99));
    let (echo, long) = (component(ECHO), "1".repeat(1000));
    let (answer, _) = call(&echo, &long, &with(1000)).await;
    assert_eq!(answer, Ok(Ok(long.clone())));
    let (answer, _) = call(&echo, &long, &with(999)).await;
    assert_eq!(answer, Err(WasmError::Output(999)));
}
