//! What takes time, on virtual time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a_net::transport::{CarryError, Place, Reply};
use a2a_net::*;
use a2a_session::Failure;
use a2a_wire::{ErrorCode, SessionId, Unparsed};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, advance};

use crate::support::*;

fn ping() -> canonical::Value<'static> {
    value(&json!({"goal": "frith.ping"}))
}

/// An error that nobody signed.
fn hint(code: ErrorCode, retry_after: Option<u64>) -> Option<Result<Reply, CarryError>> {
    let status = code.http().unwrap();
    let session_id: Option<&Unparsed<SessionId>> = None;
    let message = Failure::new(code, "as the test says").to_unsigned(
        a2a_session::Binding::Profile,
        session_id,
        None,
    );
    Some(Ok(Reply::Message {
        message: Bytes::from(message),
        status,
        retry_after,
    }))
}

fn patient() -> CallOptions {
    CallOptions {
        timeout: Duration::from_secs(3600),
        ..CallOptions::default()
    }
}

/// Threat 118: one new handshake, then the caller is told.
#[tokio::test(start_paused = true)]
async fn threat_118_permanent_session_expired() {
    let world = World::<InMemory>::new().await;
    world.link.intercept(|place, _| match place {
        Place::Request => hint(ErrorCode::SessionExpired, None),
        Place::Handshake | Place::Any => None,
    });
    let error = world
        .client
        .call(&did(SERVER), ping(), &patient())
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionExpired);
    assert_eq!(world.link.requests.load(Ordering::Relaxed), 2);
    // Three messages of ours in each of two handshakes.
    assert_eq!(world.link.handshakes.load(Ordering::Relaxed), 6);
}

/// Threat 118: a reset in an hour is the caller's to wait for.
#[tokio::test(start_paused = true)]
async fn threat_118_a_reset_in_an_hour() {
    let world = World::<InMemory>::new().await;
    world.link.intercept(|place, _| match place {
        Place::Request => hint(ErrorCode::RateLimitExceeded, Some(3600)),
        Place::Handshake | Place::Any => None,
    });
    let begun = Instant::now();
    let error = world
        .client
        .call(&did(SERVER), ping(), &patient())
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::RateLimitExceeded);
    assert_eq!(world.link.requests.load(Ordering::Relaxed), 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// Threat 118: 503 for ever.
#[tokio::test(start_paused = true)]
async fn threat_118_backoff_against_an_unavailable_server() {
    let world = World::<InMemory>::new().await;
    world.link.intercept(|place, _| match place {
        Place::Request => hint(ErrorCode::ServiceUnavailable, None),
        Place::Handshake | Place::Any => None,
    });
    let begun = Instant::now();
    let error = world
        .client
        .call(&did(SERVER), ping(), &patient())
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    assert_eq!(world.link.requests.load(Ordering::Relaxed), 6);
    // 1 + 2 + 4 + 8 + 16 s, and up to a quarter more.
    let waited = begun.elapsed().as_secs_f64();
    assert!((31.0..31.0 * 1.25 + 1.0).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn the_callers_time_wins_over_retries() {
    let world = World::<InMemory>::new().await;
    world
        .link
        .intercept(|_, _| Some(Err(CarryError::Connect("nobody".to_owned()))));
    let (setbacks, mut told) = mpsc::channel(8);
    let options = CallOptions {
        timeout: Duration::from_secs(5),
        setbacks: Some(setbacks),
        ..CallOptions::default()
    };
    let begun = Instant::now();
    let error = world
        .client
        .call(&did(SERVER), ping(), &options)
        .await
        .unwrap_err();
    assert!(
        matches!(error, CallError::Carry(CarryError::Connect(_))),
        "{error}"
    );
    assert!(begun.elapsed() <= Duration::from_secs(5));
    // Whoever waits heard of each try but the last, after 1 and 2 s.
    for seconds in [1, 2] {
        let setback = told.try_recv().unwrap();
        assert!(setback.error.contains("nobody"), "{setback:?}");
        assert!(setback.wait >= Duration::from_secs(seconds), "{setback:?}");
    }
    assert!(told.try_recv().is_err());
}

/// Threat 42: a hint ends the attempt, and changes nothing else.
#[tokio::test(start_paused = true)]
async fn threat_42_an_injected_error_is_a_hint() {
    let world = World::<InMemory>::new().await;
    world.call(json!({"goal": "frith.ping"})).await.unwrap();
    world.link.intercept(|place, _| match place {
        Place::Request => hint(ErrorCode::UnverifiedAgent, None),
        Place::Handshake | Place::Any => None,
    });
    let error = world
        .client
        .call(&did(SERVER), ping(), &patient())
        .await
        .unwrap_err();
    assert!(!told(&error).signed);
    *world.link.hook.lock().unwrap() = None;
    assert!(world.call(json!({"goal": "frith.ping"})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn at_most_one_handshake_a_second_with_a_server() {
    let world = World::<InMemory>::new().await;
    let begun = Instant::now();
    for _ in 0..3 {
        world.call(json!({"goal": "frith.ping"})).await.unwrap();
        world.server.end_sessions(&did(CLIENT));
    }
    // The first is free; each of the others finds its session gone.
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn sessions_are_renewed_before_they_end() {
    let world = World::<InMemory>::new().await;
    let first = world
        .call(json!({"goal": "frith.ping"}))
        .await
        .unwrap()
        .session;
    // They last an hour; a minute before the end there is another.
    advance(Duration::from_secs(3539)).await;
    let same = world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert_eq!(
        (same.session.session_id, same.attempts),
        (first.session_id.clone(), 1)
    );
    advance(Duration::from_secs(2)).await;
    let renewed = world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert_ne!(renewed.session.session_id, first.session_id);
    assert_eq!(renewed.attempts, 1);
}

/// Threat 31.
#[tokio::test(start_paused = true)]
async fn threat_31_a_session_that_nobody_uses_ends() {
    let world = World::<InMemory>::new().await;
    // SESSION is lost, so the client knows of no session.
    world.link.intercept(|place, _| match place {
        Place::Request => Some(Err(CarryError::Tls("lost".to_owned()))),
        Place::Handshake | Place::Any => None,
    });
    let _ = world
        .client
        .call(&did(SERVER), ping(), &patient())
        .await
        .unwrap_err();
    assert_eq!(world.server.sessions().len(), 1);
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert!(world.server.sessions().is_empty());
    assert_eq!(world.served("session_end")[0]["reason"], "unclaimed");
}

/// Threat 113: a reader that stalls.
#[tokio::test(start_paused = true)]
async fn threat_113_a_reader_that_stalls() {
    let world = World::<InMemory>::new().await;
    let sent = Runs::default();
    let counted = sent.clone();
    world.server.register(name("flood"), move |mut call: Call| {
        let counted = counted.clone();
        async move {
            loop {
                let part = value(&json!("x".repeat(1000)));
                call.chunks
                    .send(part)
                    .await
                    .map_err(|_| HandlerError::Failed("gone"))?;
                counted.add();
            }
        }
    });
    let (to, parts) = mpsc::channel(1);
    let options = CallOptions {
        timeout: Duration::from_secs(30),
        name_work: NameWork::No,
        chunks: Some(to),
        ..CallOptions::default()
    };
    let intent = value(&json!({"goal": "flood", "constraints": {"timeout_ms": 10_000}}));
    // The parts are never read.
    let error = world
        .client
        .call(&did(SERVER), intent, &options)
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    drop(parts);
    // What fits between the two, and no more.
    assert!(sent.count() < 20, "{}", sent.count());
    let records = world.served("request_received");
    assert_eq!(records[0]["response_status"], "TIMEOUT");
    assert_eq!(world.server.sessions()[0].in_flight, 0);
}

/// Threat 116.
#[tokio::test(start_paused = true)]
async fn threat_116_a_session_that_expires_while_a_request_runs() {
    let tree = value(&json!({"session_timeout": 100}));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    let rules = Rules {
        policy: policy.unwrap().complete().unwrap(),
        ..Rules::default()
    };
    let world = World::<InMemory>::with(rules, |_| {}).await;
    let stopped = Arc::new(Notify::new());
    let stops = Arc::clone(&stopped);
    world.server.register(name("endless"), move |call: Call| {
        let stops = Arc::clone(&stops);
        tokio::spawn(async move {
            call.cancelled.cancelled().await;
            stops.notify_one();
        });
        std::future::pending()
    });
    let options = CallOptions {
        timeout: Duration::from_secs(250),
        name_work: NameWork::No,
        ..CallOptions::default()
    };
    let intent = value(&json!({"goal": "endless"}));
    let error = world
        .client
        .call(&did(SERVER), intent, &options)
        .await
        .unwrap_err();
    let expected = [ErrorCode::SessionExpired, ErrorCode::Timeout];
    assert!(expected.contains(&error.code()), "{error}");
    stopped.notified().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(world.server.sessions().is_empty());
}

/// Proves A-7-1.
#[tokio::test(start_paused = true)]
async fn the_agreed_rate_is_kept_by_the_client() {
    let tree = value(&json!({"rate_limit": 2, "rate_period": 20}));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    let rules = Rules {
        policy: policy.unwrap().complete().unwrap(),
        ..Rules::default()
    };
    let world = World::<InMemory>::with(rules, |_| {}).await;
    let begun = Instant::now();
    for _ in 0..3 {
        world.call(json!({"goal": "frith.ping"})).await.unwrap();
    }
    assert!(begun.elapsed() >= Duration::from_secs(10));
    // It waited by itself: the server refused nothing.
    let records = world.served("request_received");
    assert!(records.iter().all(|it| it["response_status"] == "success"));
}
