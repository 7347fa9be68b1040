//! Finding out whom a DID belongs to: what is kept, and for how long.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Answer as Fetched, Did, Peer, ResolveError, Want, WebUrl};
use a2a_net::transport::Place;
use a2a_net::{Facts, ResolverLimits, Server, ServerSettings, manifest_url};
use a2a_session::{Freshness, Own};
use a2a_wire::UnixSeconds;
use canonical::{Object, Value};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::hand::{code_of, prove, send};
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
    tokio::time::advance(Duration::from_secs(59)).await;
    ask(1).await;
    assert_eq!(node.spy.asked().len(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
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
    tokio::time::advance(Duration::from_secs(61)).await;
    node.spy.publish(url, document(text, 8));
    let newer = resolver
        .facts(&web_did(text), Want::Keys, Freshness::Newer)
        .await
        .unwrap();
    assert_ne!(newer, known);
    assert_eq!(node.spy.asked().len(), 3);
}

/// Profile §4: what was learnt holds for an hour.
/// Proves A-9-16.
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
        tokio::time::advance(Duration::from_secs(wait)).await;
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
    Fetched::Body(Value::Object(manifest).to_canonical())
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

/// Document 004, §4: what is published is a manifest of this form, or the operator is told what is wrong.
#[tokio::test]
async fn error_of_a_manifest_at_an_address_names_the_fault() {
    let address = "https://other.example.com/.well-known/agent-manifest.json";
    for (body, cause) in [
        ("[]", "no manifest: it must be an object, not an array"),
        ("{}", "no manifest: `manifest_version` is missing"),
        (
            r#"{"manifest_version":"1.0","agent_did":"did:web:a.example.com","public_keys":[],"endpoints":[{}]}"#,
            "no manifest: `endpoints[0].type` is missing",
        ),
        (
            r#"{"manifest_version":"1.0","agent_did":"x","public_keys":[],"endpoints":[]}"#,
            "`agent_did`: ",
        ),
        ("<html>", ""),
    ] {
        let node = Made::of(CLIENT).node().await;
        let body = Fetched::Body(body.as_bytes().to_vec());
        node.spy.publish(address, body);
        let error = node.home.resolver().manifest_at(address).await;
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address}: {cause}")), "{error}");
    }
}

/// A key that the agent has given up, and with it an older manifest that the agent signed itself. The DID
/// document does not know the key, so only the published manifest says that it is not good any more.
#[tokio::test]
async fn a_manifest_sent_along_is_compared_with_the_published_one() {
    const GIVEN_UP: u8 = 77;
    let name = "did:web:web.example.com";
    let manifest = |keys: &[u8], at: i64| {
        let keys: Vec<_> = keys
            .iter()
            .map(|seed| jwk(&format!("k{seed}"), *seed))
            .collect();
        let draft = json!({
            "manifest_version": "1.0", "agent_did": name, "agent_id": "web", "public_keys": keys,
            "endpoints": [{"type": "handshake", "url": "https://web.example.com/a2a/handshake", "transport": "http"}],
        });
        let Value::Object(mut tree) = value(&draft) else {
            panic!("{draft}");
        };
        let kid = format!("k{CLIENT}").parse().unwrap();
        a2a_identity::sign_manifest(&mut tree, &kid, &key(CLIENT), UnixSeconds(at)).unwrap();
        tree
    };
    let node = Made::of(SERVER).node().await;
    let document = json!({"agent_did": name, "public_keys": [jwk(&format!("k{CLIENT}"), CLIENT)]});
    for (file, text) in [
        ("did.json", document.to_string().into_bytes()),
        (
            "agent-manifest.json",
            Value::Object(manifest(&[CLIENT], UNIX - 100)).to_canonical(),
        ),
    ] {
        let url = format!("https://web.example.com/.well-known/{file}");
        node.spy.publish(&url, Fetched::Body(text));
    }
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    let clock = clock();
    let proves = async |seed: u8, manifest: Object<'static>| {
        let own = Own::new(manifest, format!("k{seed}").parse().unwrap(), key(seed)).unwrap();
        let mut deliver =
            async |server: &Server, message| send(server, Place::Handshake, message).await;
        let standing = client.home.standing();
        code_of(
            &prove(&server, standing, (own, &clock), &mut deliver)
                .await
                .1,
        )
    };
    let stolen = manifest(&[GIVEN_UP, CLIENT], UNIX - 20 * 24 * 3600);
    assert_eq!(proves(GIVEN_UP, stolen).await, "INVALID_MANIFEST");
    assert_eq!(
        proves(CLIENT, manifest(&[CLIENT], UNIX - 100)).await,
        "none"
    );
}

/// Limits with which one resolution runs at a time.
fn one_at_a_time() -> ResolverLimits {
    let one = base::Limits {
        total: 1,
        per_holder: 1,
        reserved: 0,
    };
    let mut limits = ResolverLimits::default();
    limits.fetches.all = one;
    limits
}

async fn node_with(resolver: ResolverLimits) -> Node {
    let made = Made {
        resolver,
        ..Made::of(CLIENT)
    };
    let node = made.node().await;
    node.spy.slow_down("slow.example.com");
    node.spy.publish(
        "https://a.example.com/.well-known/did.json",
        document("did:web:a.example.com", 7),
    );
    node
}

/// Asks in a task of its own; the question is under way when this returns.
async fn asking(node: &Node, name: &str) -> JoinHandle<Result<Facts, ResolveError>> {
    let (resolver, did) = (node.home.resolver().clone(), web_did(name));
    let asking =
        tokio::spawn(async move { resolver.facts(&did, Want::Keys, Freshness::Any).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    asking
}

#[tokio::test(start_paused = true)]
async fn lookup_without_a_waiter_is_given_up() {
    let node = node_with(one_at_a_time()).await;
    let first = asking(&node, "did:web:slow.example.com").await;
    let second = asking(&node, "did:web:b.slow.example.com").await;
    second.abort();
    let found = asking(&node, "did:web:a.example.com").await.await;
    assert!(found.unwrap().is_ok());
    assert!(matches!(
        first.await.unwrap(),
        Err(ResolveError::Unavailable(_))
    ));
    let asked = node.spy.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn lookup_goes_on_while_anyone_waits() {
    let node = node_with(one_at_a_time()).await;
    let busy = asking(&node, "did:web:slow.example.com").await;
    let first = asking(&node, "did:web:a.example.com").await;
    let second = asking(&node, "did:web:a.example.com").await;
    first.abort();
    assert!(second.await.unwrap().is_ok());
    assert!(busy.await.unwrap().is_err());
    assert_eq!(node.spy.count(), 2);
}

/// What others do to a lookup is not held against its DID.
#[tokio::test(start_paused = true)]
async fn lookup_that_gave_way_or_took_too_long_is_not_remembered() {
    let mut limits = one_at_a_time();
    limits.resolutions = limits.fetches.all;
    let node = node_with(limits).await;
    let first = asking(&node, "did:web:slow.example.com").await;
    let found = asking(&node, "did:web:a.example.com").await.await;
    assert!(found.unwrap().is_ok());
    assert_eq!(first.await.unwrap(), Err(ResolveError::Busy));

    let mut limits = one_at_a_time();
    limits.time = Duration::from_secs(3);
    let node = node_with(limits).await;
    let busy = asking(&node, "did:web:slow.example.com").await;
    let late = asking(&node, "did:web:a.example.com").await.await;
    let late = late.unwrap();
    assert!(
        matches!(late, Err(ResolveError::Unavailable(_))),
        "{late:?}"
    );
    assert!(busy.await.unwrap().is_err());
    let again = asking(&node, "did:web:a.example.com").await.await;
    assert!(again.unwrap().is_ok());
}

/// Who begins a refresh and leaves does not keep others from theirs.
#[tokio::test(start_paused = true)]
async fn refresh_that_was_given_up_does_not_count() {
    let node = node_with(one_at_a_time()).await;
    let known = asking(&node, "did:web:a.example.com").await.await;
    let known = known.unwrap().unwrap();
    let newer = || {
        let (resolver, did) = (
            node.home.resolver().clone(),
            web_did("did:web:a.example.com"),
        );
        async move { resolver.facts(&did, Want::Keys, Freshness::Newer).await }
    };
    let busy = asking(&node, "did:web:slow.example.com").await;
    assert!(
        timeout(Duration::from_secs(1), newer()).await.is_err(),
        "it waits its turn"
    );
    let url = "https://a.example.com/.well-known/did.json";
    node.spy.publish(url, document("did:web:a.example.com", 8));
    assert_ne!(newer().await.unwrap(), known);
    assert!(busy.await.unwrap().is_err());
}
