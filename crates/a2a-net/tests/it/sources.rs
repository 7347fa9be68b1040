//! How often a source may come, before anything it says is looked at (profile §10.3, step 0).

use std::net::SocketAddr;
use std::time::Duration;

use a2a_net::transport::{Answer, Arrived, Place, Service as _};
use a2a_net::*;
use bytes::Bytes;
use serde_json::json;

use crate::hand::*;
use crate::support::*;

const OTHER: &str = "203.0.113.9:5000";

fn from(address: &str, place: Place, message: &[u8]) -> Arrived {
    let source: SocketAddr = address.parse().unwrap();
    Arrived {
        source,
        ..arrived(place, None, Bytes::copy_from_slice(message))
    }
}

/// The code, and when to come again.
fn refusal(answer: Answer) -> (String, Option<u64>) {
    match answer {
        Answer::Error {
            code, retry_after, ..
        } => (code.as_str().to_owned(), retry_after),
        other @ (Answer::Message(_) | Answer::Nothing | Answer::Stream(_)) => panic!("{other:?}"),
    }
}

fn slow(settings: &mut ServerSettings) {
    settings.source_rate = policy::Rate::new(10, 20).unwrap();
}

/// At the limit and one past it, at either place and whatever is sent.
#[tokio::test(start_paused = true)]
async fn a_source_has_a_limit() {
    for place in [Place::Handshake, Place::Request, Place::Any] {
        let world = World::<InMemory>::with(Rules::default(), slow).await;
        let garbage = || from("198.51.100.7:1", place, b"no message");
        for _ in 0..10 {
            let (code, _) = refusal(world.server.handle(garbage()).await);
            assert_eq!(code, "INVALID_MESSAGE");
        }
        let (code, again) = refusal(world.server.handle(garbage()).await);
        assert_eq!((code.as_str(), again), ("SERVICE_UNAVAILABLE", Some(2)));
        // From another port it is the same one; another address is another.
        let same = from("198.51.100.7:2", place, b"no message");
        assert_eq!(
            refusal(world.server.handle(same).await).0,
            "SERVICE_UNAVAILABLE"
        );
        let other = from(OTHER, place, b"no message");
        assert_eq!(
            refusal(world.server.handle(other).await).0,
            "INVALID_MESSAGE"
        );
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(
            refusal(world.server.handle(garbage()).await).0,
            "INVALID_MESSAGE"
        );
    }
}

/// A source that floods takes nothing from a session that it knows the id of, and is on record.
#[tokio::test(start_paused = true)]
async fn threat_102_a_flood_of_one_source() {
    let world = World::<InMemory>::with(Rules::default(), slow).await;
    let runs = counting(&world.server, "work");
    let mut hand = Hand::new(&world).await;
    let request = hand.request(&json!({"goal": "work"}));
    let mut forged: serde_json::Value = serde_json::from_slice(&request).unwrap();
    forged["intent"]["goal"] = json!("frith.ping");
    let forged = forged.to_string();
    let mut codes = Vec::new();
    for _ in 0..50 {
        let message = from(OTHER, Place::Request, forged.as_bytes());
        codes.push(refusal(world.server.handle(message).await).0);
    }
    let of = |code: &str| codes.iter().filter(|it| *it == code).count();
    assert_eq!(of("UNVERIFIED_AGENT"), 10);
    assert_eq!(of("SERVICE_UNAVAILABLE"), 40);
    assert_eq!(code_of(&hand.send(request).await), "none");
    assert_eq!(runs.count(), 1);
    world.close_logs();
    let records = world.served("rejections");
    let counted = |record: &serde_json::Value| {
        record
            .to_string()
            .contains("the source sends too many messages")
    };
    assert!(records.iter().any(counted), "{records:?}");
}
