//! Finding out whom a DID belongs to: what is kept, and for how long.

use a2a_identity::{Answer as Fetched, Did, Peer, ResolveError, Want, WebUrl};
use a2a_net::manifest_url;
use a2a_session::Freshness;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::*;

/// The seed of somebody else's key.
const FORGER: u8 = 66;

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

/// What an agent shows of itself.
struct Shown {
    name: String,
    published: Vec<(String, Fetched)>,
}

/// The manifest of an agent, signed by the key of a seed, as it is fetched.
fn shown(name: &str, seed: u8) -> Fetched {
    let manifest = manifest_with(seed, UNIX - 100, |draft| draft["agent_did"] = json!(name));
    Fetched::Body(canonical::Value::Object(manifest).to_canonical())
}

/// A did:key, a did:web and a did:github, with the key of a seed.
fn agents(seed: u8) -> [Shown; 3] {
    let (web, github) = ("did:web:a.example.com", "did:github:owner/agent");
    let repository = json!({"id": 7, "full_name": "owner/agent", "disabled": false,
        "owner": {"login": "owner", "id": 3}});
    let at = |url: &str, answer| (url.to_owned(), answer);
    [
        Shown {
            name: did(seed).to_string(),
            published: Vec::new(),
        },
        Shown {
            name: web.to_owned(),
            published: vec![
                at(
                    "https://a.example.com/.well-known/did.json",
                    document(web, seed),
                ),
                at(
                    "https://a.example.com/.well-known/agent-manifest.json",
                    shown(web, seed),
                ),
            ],
        },
        Shown {
            name: github.to_owned(),
            published: vec![
                at(
                    "https://raw.githubusercontent.com/owner/agent/main/.well-known/agent-manifest.json",
                    shown(github, seed),
                ),
                at(
                    "https://api.github.com/repos/owner/agent",
                    Fetched::Body(repository.to_string().into_bytes()),
                ),
            ],
        },
    ]
}

/// Profile §4: a manifest at an address that the DID does not lead to, as `peer add` reads one and
/// as the operator may configure it, counts only if the DID's own keys signed it.
#[tokio::test(start_paused = true)]
async fn forged_manifests_are_rejected_at_any_address() {
    let (other, place) = ("https://other.example.com/a2a/handshake", WebUrl::parse);
    let address = manifest_url(&place(other).unwrap());
    for agent in agents(SERVER) {
        for (seed, is_true) in [(SERVER, true), (FORGER, false)] {
            let node = Made::of(CLIENT).node().await;
            for (url, answer) in &agent.published {
                node.spy.publish(url, answer.clone());
            }
            node.spy.publish(&address, shown(&agent.name, seed));
            let (resolver, did) = (node.home.resolver(), agent.name.parse().unwrap());
            let found = resolver.manifest_at(&address).await;
            assert_eq!(found.is_ok(), is_true, "{}: {found:?}", agent.name);
            resolver.set_place(&did, address.clone());
            let facts = resolver.facts(&did, Want::Manifest, Freshness::Any).await;
            assert_eq!(facts.is_ok(), is_true, "{}: {facts:?}", agent.name);
        }
    }
}

/// What was fetched for a DID is known where only its keys are asked for: a manifest that a peer
/// sends along must be newer.
#[tokio::test(start_paused = true)]
async fn a_fetched_manifest_is_known_when_keys_are_asked_for() {
    let node = Made::of(CLIENT).node().await;
    let [_, web, _] = agents(SERVER);
    for (url, answer) in web.published {
        node.spy.publish(&url, answer);
    }
    let (resolver, did) = (node.home.resolver(), web.name.parse().unwrap());
    let keys = resolver.facts(&did, Want::Keys, Freshness::Any).await;
    assert_eq!(keys.unwrap().manifest, None, "nobody asked for it");
    let fetched = resolver.facts(&did, Want::Manifest, Freshness::Any).await;
    let fetched = fetched.unwrap().manifest;
    let keys = resolver.facts(&did, Want::Keys, Freshness::Any).await;
    assert!(fetched.is_some() && keys.unwrap().manifest == fetched);
}
