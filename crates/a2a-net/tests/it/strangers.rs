//! Agents whose hosts misbehave, or do not exist, at the server that wants to know who they are.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Did, Peer, ResolveError, Want};
use a2a_net::transport::Place;
use a2a_net::*;
use a2a_session::{Freshness, TrustRules};
use bytes::Bytes;
use store::{Limits, Memory, Store};
use tokio::task::{JoinSet, LocalSet};

use crate::fetches::{Host, Then, http};
use crate::hand::*;
use crate::support::*;

/// A server that fetches from this host.
async fn server_of(host: &Host) -> Server {
    let parts = Parts {
        identity: identity(SERVER),
        rules: Rules::default(),
        trust: TrustRules::default(),
        store: Store::new(Memory::new(Limits::default())),
        log: None,
        resolver: ResolverLimits::default(),
        peer_history: peer_history::LIMITS,
        clock: clock(),
        entropy: entropy(),
    };
    let home = Home::open(parts, host.web()).await.unwrap();
    Server::start(home, ServerSettings::new().unwrap())
}

/// What PROOF of a did:web is answered.
async fn proves(server: &Server, client: Arc<Home>, host: &str) -> Bytes {
    let mut deliver =
        async |server: &Server, message| send(server, Place::Handshake, message).await;
    let own = (web_own(host), &clock());
    prove(server, client.standing(), own, &mut deliver).await.1
}

/// Threat 80: a host that drips ends with the time a fetch has, and its agent learns no more than that.
#[tokio::test]
async fn threat_80_a_host_that_drips() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    let host = Host::doing(head.to_vec(), Then::Drip).await;
    let server = server_of(&host).await;
    let client = Made::of(CLIENT).node().await.home;
    let (answer, ()) = tokio::join!(proves(&server, client, "a.example.com"), async {
        host.heard.notified().await;
        // From here time is virtual: only the limit of the fetch can end it.
        tokio::time::pause();
    });
    assert_eq!(code_of(&answer), "SERVICE_UNAVAILABLE");
    assert_eq!((server.half_open(), server.sessions().len()), (0, 0));
}

/// Threat 80: too much, or something else.
#[tokio::test]
async fn threat_80_documents_that_are_none() {
    let json = "200 OK\r\nContent-Type: application/json";
    for answer in [
        http(json, &[b' '; 65 * 1024]),
        http("200 OK\r\nContent-Type: text/html", b"{}"),
        http(&format!("{json}\r\nContent-Encoding: gzip"), b"{}"),
    ] {
        let host = Host::answering(answer).await;
        let server = server_of(&host).await;
        let client = Made::of(CLIENT).node().await.home;
        let answer = proves(&server, client, "a.example.com").await;
        assert_eq!(code_of(&answer), "UNVERIFIED_AGENT");
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let details = serde_json::json!({"reason": "verification_failed"});
        assert_eq!(answer["details"], details);
        assert_eq!((server.half_open(), server.sessions().len()), (0, 0));
    }
}

/// Threat 83: whoever asks, one fetch, and its failure is believed for a minute.
#[tokio::test(start_paused = true)]
async fn threat_83_many_handshakes_of_nobody() {
    let node = Made::of(SERVER).node().await;
    let mut settings = ServerSettings::new().unwrap();
    settings.config.limits.hello_rate = policy::Rate::new(1000, 1).unwrap();
    let server = Server::start(Arc::clone(&node.home), settings);
    let client = Made::of(CLIENT).node().await.home;
    let together = LocalSet::new();
    let mut handshakes = JoinSet::new();
    for _ in 0..30 {
        let (server, client) = (server.clone(), Arc::clone(&client));
        let proof = async move { proves(&server, client, "nobody.example.com").await };
        handshakes.spawn_local_on(proof, &together);
    }
    for answer in together.run_until(handshakes.join_all()).await {
        assert_eq!(code_of(&answer), "UNVERIFIED_AGENT");
    }
    assert_eq!(node.spy.asked().len(), 1);
    assert_eq!(server.half_open(), 0);
}

/// Threat 83: as many names as anybody likes, and so many are remembered.
#[tokio::test(start_paused = true)]
async fn threat_83_a_bounded_cache() {
    let node = Made::of(SERVER).node().await;
    let resolver = node.home.resolver();
    let ask = async |number: usize| {
        let name = format!("did:web:a{number}.example.com");
        let did = Did::parse(&name, Peer::Profile).unwrap();
        let facts = resolver.facts(&did, Want::Keys, Freshness::Any).await;
        assert!(matches!(facts, Err(ResolveError::NotFound(_))));
        node.spy.count()
    };
    for number in 0..10_000 {
        assert_eq!(ask(number).await, number + 1);
    }
    // They fit; the next takes the place of the one that was not used for longest.
    assert_eq!(ask(1).await, 10_000);
    assert_eq!(ask(10_000).await, 10_001);
    assert_eq!(ask(1).await, 10_001);
    assert_eq!(ask(0).await, 10_002);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(ask(1).await, 10_003);
}
