//! Calls and what comes back.

use std::sync::Arc;

use a2a_net::*;
use a2a_wire::ErrorCode;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::support::*;

pub(super) async fn a_call_by_did_is_answered<L: Link>() {
    let world = World::<L>::new().await;
    let first =
        world.call(json!({"goal": "ping", "domain": "frith", "inputs": {"echo": {"a": [1]}}}));
    let first = first.await.unwrap();
    let result = json_of(&first.result);
    assert_eq!(result["echo"], json!({"a": [1]}));
    assert_eq!(result["version"], env!("CARGO_PKG_VERSION"));
    assert!(result["time"].as_i64().unwrap() >= UNIX);
    assert_eq!(first.session.did, did(SERVER).to_string());
    let second = world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert_eq!(first.session.session_id, second.session.session_id);
    assert_eq!(world.client.sessions().await.len(), 1);
    let [session] = &world.server.sessions()[..] else {
        panic!("one session");
    };
    assert_eq!(session.peer.did, did(CLIENT).to_string());
    assert_eq!(session.session_id, first.session.session_id);
}

pub(super) async fn ping_echoes_up_to_a_kibibyte<L: Link>() {
    let world = World::<L>::new().await;
    // With its quotes, the text has two bytes more.
    let ping = |bytes: usize| json!({"goal": "frith.ping", "inputs": {"echo": "x".repeat(bytes)}});
    assert!(world.call(ping(1022)).await.is_ok());
    let error = world.call(ping(1023)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidIntent);
    assert_eq!(reason(&error), "bad_field");
}

pub(super) async fn answers_come_in_parts<L: Link>() {
    let world = World::<L>::new().await;
    world
        .server
        .register(name("count"), |mut call: Call| async move {
            for number in 0..100 {
                let part = value(&json!({ "n": number }));
                call.chunks
                    .send(part)
                    .await
                    .map_err(|_| HandlerError::Failed("gone"))?;
            }
            Ok(value(&json!("done")))
        });
    let (to, mut parts) = mpsc::channel(1);
    let options = CallOptions {
        chunks: Some(to),
        ..CallOptions::default()
    };
    let reading = async {
        let mut read = Vec::new();
        while let Some(part) = parts.recv().await {
            assert_eq!(part.attempt, 1);
            read.push((part.index, json_of(&part.data)["n"].as_u64().unwrap()));
        }
        read
    };
    let server = did(SERVER);
    let calling = async {
        let answer = world
            .client
            .call(&server, value(&json!({"goal": "count"})), &options)
            .await;
        drop(options);
        answer
    };
    let (answer, read) = tokio::join!(calling, reading);
    assert_eq!(json_of(&answer.unwrap().result), json!("done"));
    assert_eq!(read, (0..100).map(|it| (it, it)).collect::<Vec<_>>());
    // Who asks for one piece gets one, and the handler is told.
    let options = CallOptions {
        name_work: NameWork::No,
        ..CallOptions::default()
    };
    let intent = value(&json!({"goal": "count"}));
    let error = world
        .client
        .call(&did(SERVER), intent, &options)
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InternalError);
}

pub(super) async fn parts_have_a_limit<L: Link>() {
    let world = World::<L>::new().await;
    world
        .server
        .register(name("big"), |mut call: Call| async move {
            // With its quotes, the text has two bytes more.
            let largest = value(&json!("x".repeat(64 * 1024 - 2)));
            call.chunks
                .send(largest)
                .await
                .map_err(|_| HandlerError::Failed("at the limit"))?;
            let larger = value(&json!("x".repeat(64 * 1024 - 1)));
            match call.chunks.send(larger).await {
                Err(ChunkRefused::TooLarge { limit }) => Ok(value(&json!(limit))),
                _ => Err(HandlerError::Failed("past the limit")),
            }
        });
    let (to, mut parts) = mpsc::channel(4);
    let options = CallOptions {
        chunks: Some(to),
        ..CallOptions::default()
    };
    let answer = world
        .client
        .call(&did(SERVER), value(&json!({"goal": "big"})), &options)
        .await;
    assert_eq!(json_of(&answer.unwrap().result), json!(65_536));
    assert!(parts.try_recv().is_ok() && parts.try_recv().is_err());
}

pub(super) async fn encryption_can_be_required<L: Link>() {
    let world = World::<L>::new().await;
    let options = CallOptions {
        encrypt: Encrypt::Required,
        ..CallOptions::default()
    };
    let ping = value(&json!({"goal": "frith.ping", "inputs": {"echo": "secret"}}));
    let answer = world
        .client
        .call(&did(SERVER), ping, &options)
        .await
        .unwrap();
    assert!(answer.session.encrypted);
    assert_eq!(json_of(&answer.result)["echo"], "secret");
    assert_eq!(world.served("request_received")[0]["encrypted"], true);
}

pub(super) async fn work_with_a_name_is_done_once<L: Link>() {
    let world = World::<L>::new().await;
    let runs = counting(&world.server, "work");
    let work = json!({"goal": "work", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d11", "constraints": {"timeout_ms": 1000}});
    let first = world.call(work.clone()).await.unwrap();
    let again = world.call(work.clone()).await.unwrap();
    assert_eq!(first.result, again.result);
    assert_eq!(runs.count(), 1);
    let mut other = work;
    other["inputs"] = json!({"changed": true});
    let error = world.call(other).await.unwrap_err();
    assert_eq!(reason(&error), "intent_id_conflict");
    assert_eq!(runs.count(), 1);
}

pub(super) async fn work_that_is_being_done_is_joined<L: Link>() {
    let world = World::<L>::new().await;
    let (runs, go) = (Runs::default(), Arc::new(Notify::new()));
    let (counted, waits) = (runs.clone(), Arc::clone(&go));
    world.server.register(name("slow"), move |_: Call| {
        counted.add();
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok(value(&json!("slow")))
        }
    });
    let work = json!({"goal": "slow", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d12", "constraints": {"timeout_ms": 60000}});
    let running = async {
        // Both are there before either is let go.
        while world
            .server
            .sessions()
            .iter()
            .map(|it| it.in_flight)
            .sum::<usize>()
            < 2
        {
            tokio::task::yield_now().await;
        }
        go.notify_one();
    };
    let (one, other, ()) =
        tokio::join!(world.call(work.clone()), world.call(work.clone()), running);
    assert_eq!(one.unwrap().result, other.unwrap().result);
    assert_eq!(runs.count(), 1);
}

pub(super) async fn a_dropped_call_is_cancelled_at_the_server<L: Link>() {
    let world = World::<L>::new().await;
    let (begun, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, stops) = (Arc::clone(&begun), Arc::clone(&stopped));
    world.server.register(name("endless"), move |call: Call| {
        let stops = Arc::clone(&stops);
        told.notify_one();
        tokio::spawn(async move {
            call.cancelled.cancelled().await;
            stops.notify_one();
        });
        std::future::pending()
    });
    tokio::select! {
        _ = world.call(json!({"goal": "endless"})) => panic!("nobody answers that"),
        () = begun.notified() => {}
    }
    stopped.notified().await;
    // The record is written when the work has ended.
    while world.served("request_received").len() < 2 {
        tokio::task::yield_now().await;
    }
    let records = world.served("request_received");
    let statuses: Vec<_> = records
        .iter()
        .map(|it| it["response_status"].clone())
        .collect();
    assert!(statuses.contains(&json!("CANCELLED")), "{statuses:?}");
    assert!(world.call(json!({"goal": "frith.ping"})).await.is_ok());
}

pub(super) async fn a_dropped_stream_is_cancelled_at_the_server<L: Link>() {
    let world = World::<L>::new().await;
    let stopped = Arc::new(Notify::new());
    let stops = Arc::clone(&stopped);
    world
        .server
        .register(name("endless"), move |mut call: Call| {
            let stops = Arc::clone(&stops);
            let cancelled = call.cancelled.clone();
            tokio::spawn(async move {
                cancelled.cancelled().await;
                stops.notify_one();
            });
            async move {
                while call.chunks.send(value(&json!("more"))).await.is_ok() {}
                std::future::pending().await
            }
        });
    let (to, mut parts) = mpsc::channel(1);
    let options = CallOptions {
        chunks: Some(to),
        ..CallOptions::default()
    };
    let reading = async {
        for _ in 0..3 {
            parts.recv().await.unwrap();
        }
    };
    let endless = value(&json!({"goal": "endless"}));
    let server = did(SERVER);
    tokio::select! {
        _ = world.client.call(&server, endless, &options) => panic!("it has no end"),
        () = reading => {}
    }
    stopped.notified().await;
    assert!(world.call(json!({"goal": "frith.ping"})).await.is_ok());
}

/// More than a WebSocket or a session has room for at once.
pub(super) async fn calls_that_are_given_up_leave_room_for_others<L: Link>() {
    let world = World::<L>::new().await;
    let (begun, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, stops) = (Arc::clone(&begun), Arc::clone(&stopped));
    world.server.register(name("endless"), move |call: Call| {
        let stops = Arc::clone(&stops);
        told.notify_one();
        tokio::spawn(async move {
            call.cancelled.cancelled().await;
            stops.notify_one();
        });
        std::future::pending()
    });
    for _ in 0..70 {
        tokio::select! {
            answer = world.call(json!({"goal": "endless"})) => panic!("{answer:?}"),
            () = begun.notified() => {}
        }
        stopped.notified().await;
    }
    let answer = world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert_eq!(answer.attempts, 1);
}
