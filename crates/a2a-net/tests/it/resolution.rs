//! Finding out whom a DID belongs to: what is kept, and for how long.

use a2a_identity::{Answer as Fetched, Did, Peer, ResolveError, Want};
use a2a_session::Freshness;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::*;

fn web_did(text: &str) -> Did {
    Did::parse(text, Peer::Profile).unwrap()
}

fn document(text: &str, seed: u8) -> Fetched {
    let document = json!({"agent_did": text, "public_keys": [jwk("k", seed)], "endpoints": []});
    Fetched::Body(document.to_string().into_bytes())
}

/// Threat 83: one fetch at a time, failures are believed for a minute.
#[tokio::test(start_paused = true)]
async fn threat_83_single_flight_and_a_negative_cache() {
    let node = Made::of(CLIENT).node().await;
    let resolver = node.home.resolver().clone();
    let did = web_did("did:web:nobody.example.com");
    let ask = async |times: usize| {
        let mut asking = JoinSet::new();
        for _ in 0..times {
            let (resolver, did) = (resolver.clone(), did.clone());
            asking.spawn(async move { resolver.facts(&did, Want::Keys, Freshness::Any).await });
        }
        for outcome in asking.join_all().await {
            assert!(matches!(outcome, Err(ResolveError::NotFound(_))));
        }
    };
    ask(1000).await;
    assert_eq!(node.spy.asked().len(), 1);
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    ask(1).await;
    assert_eq!(node.spy.asked().len(), 1);
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    ask(1).await;
    assert_eq!(node.spy.asked().len(), 2);
}

/// Threat 82: at most one refresh in a minute, and what is good stays.
#[tokio::test(start_paused = true)]
async fn threat_82_a_refresh_a_minute() {
    let node = Made::of(CLIENT).node().await;
    let resolver = node.home.resolver();
    let (text, url) = (
        "did:web:a.example.com",
        "https://a.example.com/.well-known/did.json",
    );
    node.spy.publish(url, document(text, 7));
    let known = resolver
        .facts(&web_did(text), Want::Keys, Freshness::Any)
        .await
        .unwrap();
    node.spy.publish(url, Fetched::Unreachable);
    for _ in 0..1000 {
        let again = resolver
            .facts(&web_did(text), Want::Keys, Freshness::Newer)
            .await;
        assert_eq!(again, Ok(known.clone()));
    }
    assert_eq!(node.spy.asked().len(), 2);
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    node.spy.publish(url, document(text, 8));
    let newer = resolver
        .facts(&web_did(text), Want::Keys, Freshness::Newer)
        .await
        .unwrap();
    assert_ne!(newer, known);
    assert_eq!(node.spy.asked().len(), 3);
}

/// Profile §4: what was learnt holds for an hour.
#[tokio::test(start_paused = true)]
async fn documents_are_kept_for_an_hour() {
    let node = Made::of(CLIENT).node().await;
    let resolver = node.home.resolver();
    let (text, url) = (
        "did:web:a.example.com",
        "https://a.example.com/.well-known/did.json",
    );
    node.spy.publish(url, document(text, 7));
    for (wait, asked) in [(0, 1), (3599, 1), (2, 2)] {
        tokio::time::advance(std::time::Duration::from_secs(wait)).await;
        let found = resolver
            .facts(&web_did(text), Want::Keys, Freshness::Any)
            .await;
        assert!(found.is_ok());
        assert_eq!(node.spy.asked().len(), asked, "{wait}");
    }
}

/// Threat 78, at the one who fetches.
#[tokio::test]
async fn threat_78_the_second_place_only_after_a_clear_no() {
    let text = "did:web:a.example.com:agents:ada";
    let first = "https://a.example.com/.well-known/did.json";
    let second = "https://a.example.com/agents/ada/did.json";
    for (answer, goes_on) in [
        (Fetched::Status(404), true),
        (document("did:web:a.example.com", 9), true),
        (Fetched::Status(500), false),
        (Fetched::Redirect, false),
        (Fetched::Refused, false),
        (Fetched::Unreachable, false),
    ] {
        let node = Made::of(CLIENT).node().await;
        node.spy.publish(first, answer.clone());
        node.spy.publish(second, document(text, 7));
        let found = node
            .home
            .resolver()
            .facts(&web_did(text), Want::Keys, Freshness::Any)
            .await;
        assert_eq!(found.is_ok(), goes_on, "{answer:?}");
        assert_eq!(node.spy.asked().len(), 1 + usize::from(goes_on));
    }
}
