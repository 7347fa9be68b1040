//! A handler that panics after its effect. No handler of a node does, so this cell of the table of
//! docs/done-once.md is not among those of `frith`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_net::*;
use a2a_wire::ErrorCode;
use canonical::Value;
use serde_json::json;
use store::{Options, Sqlite, Store};

use crate::support::*;

/// A server whose handler counts its runs and panics, on the database of the server before.
async fn panicking(path: &Path, runs: &Arc<AtomicUsize>) -> World<InMemory> {
    let store = Store::new(Sqlite::open(&Options::new(path)).unwrap());
    let world = World::<InMemory>::on(Rules::default(), store, |_| {}).await;
    let runs = Arc::clone(runs);
    world.server.register(name("work"), move |_: Call| {
        runs.fetch_add(1, Ordering::SeqCst);
        std::future::poll_fn(
            |_| -> std::task::Poll<Result<Value<'static>, HandlerError>> {
                panic!("as a handler with a defect does")
            },
        )
    });
    world
}

fn work() -> serde_json::Value {
    json!({"goal": "work", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d14"})
}

/// The same id gets `already_executed` from then on, in this process and in the next.
#[tokio::test]
async fn intent_whose_handler_panicked_is_not_executed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let runs = Arc::default();
    let world = panicking(&path, &runs).await;
    // A client may send it again by itself.
    for _ in 0..3 {
        let error = world.call(work()).await.unwrap_err();
        let is_known = reason(&error) == "already_executed";
        assert!(is_known || error.code() == ErrorCode::InternalError);
    }
    let records = world.served("request_received");
    let statuses = records.iter().map(|it| it["response_status"].as_str());
    let (first, others): (Vec<_>, Vec<_>) = statuses.enumerate().partition(|(at, _)| *at == 0);
    assert_eq!(first, [(0, Some("INTERNAL_ERROR"))]);
    assert!(others.iter().all(|(_, it)| *it == Some("REPLAY_DETECTED")));
    drop(world);
    let world = panicking(&path, &runs).await;
    let error = world.call(work()).await.unwrap_err();
    assert_eq!(reason(&error), "already_executed");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
