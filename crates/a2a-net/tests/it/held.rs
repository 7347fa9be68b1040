//! What changes while sessions live: the operator's rules, and what agents publish (profile §3, §10.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_identity::{Anchor, Answer as Fetched, Pins, TrustLevel, endorse, sign_manifest};
use a2a_net::transport::{Answer, Place, Reply, Service as _};
use a2a_net::*;
use a2a_session::{Own, TrustRules};
use a2a_wire::{EndorsementPayload, UnixSeconds, Write as _};
use bytes::Bytes;
use canonical::{Digest, Object, Value};
use policy::EffectivePolicy;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::hand::*;
use crate::support::*;

fn complete(policy: serde_json::Value) -> EffectivePolicy {
    let tree = value(&policy);
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    policy.unwrap().complete().unwrap()
}

fn blocking(seed: u8) -> Rules {
    let mut rules = Rules::default();
    rules.blocked.insert(did(seed).to_string());
    rules
}

/// Work that ends only when it is told to.
struct Endless {
    begun: Arc<Notify>,
    stopped: Arc<Notify>,
}

impl Endless {
    fn register(server: &Server, intent: &str) -> Self {
        let this = Self {
            begun: Arc::default(),
            stopped: Arc::default(),
        };
        let (begun, stopped) = (Arc::clone(&this.begun), Arc::clone(&this.stopped));
        server.register(name(intent), move |call: Call| {
            let stopped = Arc::clone(&stopped);
            tokio::spawn(async move {
                call.cancelled.cancelled().await;
                stopped.notify_one();
            });
            begun.notify_one();
            std::future::pending()
        });
        this
    }
}

/// A call that waits for it.
async fn calling(
    world: &World<InMemory>,
    endless: &Endless,
    (intent, name_work): (&str, NameWork),
) -> JoinHandle<Result<Answered, CallError>> {
    let client = world.client.clone();
    let intent = value(&json!({ "goal": intent }));
    let call = tokio::spawn(async move {
        let options = CallOptions {
            name_work,
            ..CallOptions::default()
        };
        client.call(&did(SERVER), intent, &options).await
    });
    endless.begun.notified().await;
    call
}

/// Threat 117: what a blocked agent has running ends, with a name or without.
#[tokio::test]
async fn threat_117_blocking_ends_running_work() {
    for name_work in [NameWork::No, NameWork::Yes] {
        let world = World::<InMemory>::new().await;
        let endless = Endless::register(&world.server, "endless");
        let call = calling(&world, &endless, ("endless", name_work)).await;
        // Somebody else is blocked.
        world.server.set_rules(blocking(9));
        assert_eq!(world.server.sessions()[0].in_flight, 1);
        world.server.set_rules(blocking(CLIENT));
        endless.stopped.notified().await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(reason(&error), "agent_blocked");
        assert!(told(&error).signed);
        let records = world.served("request_received");
        assert_eq!(records[0]["response_status"], "POLICY_VIOLATION");
        assert_eq!(world.server.sessions()[0].in_flight, 0);
    }
}

/// §10.3: and so does what a policy does not allow any more, and nothing else.
#[tokio::test]
async fn a_tighter_policy_ends_running_work() {
    let world = World::<InMemory>::new().await;
    let endless = Endless::register(&world.server, "endless");
    let other = Endless::register(&world.server, "other");
    let refused = calling(&world, &endless, ("endless", NameWork::No)).await;
    let allowed = calling(&world, &other, ("other", NameWork::No)).await;
    world.server.set_rules(Rules {
        policy: complete(json!({"blocked_intents": ["endless"]})),
        ..Rules::default()
    });
    endless.stopped.notified().await;
    let error = refused.await.unwrap().unwrap_err();
    assert_eq!(reason(&error), "intent_blocked");
    assert_eq!(world.server.sessions()[0].in_flight, 1);
    allowed.abort();
}

/// §10.3: a session that must be encrypted now, and those beyond how many there may be now.
#[tokio::test]
async fn a_tighter_policy_ends_sessions() {
    let world = World::<InMemory>::new().await;
    let standing = world.client_home.standing();
    let mut hands = Vec::new();
    for _ in 0..3 {
        hands.push(Hand::of(&world.server, standing, own()).await);
    }
    world.server.set_rules(Rules {
        policy: complete(json!({"max_concurrent_sessions": 2})),
        ..Rules::default()
    });
    assert_eq!(world.server.sessions().len(), 2);
    world.server.set_rules(Rules {
        policy: complete(json!({"require_encryption": true})),
        ..Rules::default()
    });
    assert!(world.server.sessions().is_empty());
    let request = hands[0].request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hands[0].send(request).await), "SESSION_EXPIRED");
}

/// Whom the operator has blocked this node does not call either.
#[tokio::test]
async fn a_blocked_agent_is_not_called() {
    let world = World::<InMemory>::new().await;
    let made = Made {
        rules: blocking(SERVER),
        ..Made::of(CLIENT)
    };
    let node = made.node().await;
    know(&node, &world.server);
    let settings = ClientSettings::default();
    let (couriers, guard) = (world.link.couriers(), world.link.guard());
    let client = Client::new(node.home, settings, couriers, guard);
    let ping = value(&json!({"goal": "frith.ping"}));
    let options = CallOptions::default();
    let called = client.call(&did(SERVER), ping, &options).await;
    assert!(matches!(called, Err(CallError::Blocked { .. })));
    let met = client.introduce(&did(SERVER), Encrypt::AsAgreed).await;
    assert!(matches!(met, Err((_, CallError::Blocked { .. }))));
    assert!(node.spy.asked().is_empty());
    assert_eq!(world.link.handshakes.load(Ordering::Relaxed), 0);
}

/// Rules that change between HELLO and SESSION hold for the session.
#[tokio::test]
async fn rules_that_change_during_a_handshake() {
    let world = World::<InMemory>::new().await;
    let runs = counting(&world.server, "work");
    let standing = world.client_home.standing();
    let mut messages = 0;
    let deliver = async |server: &Server, message| {
        messages += 1;
        if messages == 3 {
            server.set_rules(Rules {
                policy: complete(json!({"blocked_intents": ["work"]})),
                ..Rules::default()
            });
        }
        send(server, Place::Handshake, message).await
    };
    let session = shake(&world.server, standing, own(), deliver).await;
    let mut hand = Hand {
        server: world.server.clone(),
        session,
        clock: clock(),
    };
    let request = hand.request(&json!({"goal": "work"}));
    assert_eq!(code_of(&hand.send(request).await), "POLICY_VIOLATION");
    assert_eq!(runs.count(), 0);
}

const HOST_OF_ADA: &str = "ada.example.com";
const DOCUMENT: &str = "https://ada.example.com/.well-known/did.json";
/// An agent that comes before the other in the order of DIDs.
const SLOW_HOST: &str = "aaron.example.com";
const DELEGATE: u8 = 50;

/// The manifest of a did:web, signed by its root key, with a delegated key in this state.
fn web_manifest(at: i64, status: &str) -> Object<'static> {
    manifest_of(HOST_OF_ADA, at, status)
}

fn manifest_of(host: &str, at: i64, status: &str) -> Object<'static> {
    let mut delegate = jwk("d", DELEGATE);
    delegate["status"] = json!(status);
    let draft = json!({
        "manifest_version": "1.0", "agent_did": format!("did:web:{host}"), "agent_id": "ada",
        "public_keys": [jwk("k", CLIENT), delegate],
        "endpoints": [{"type": "handshake", "url": format!("https://{host}/a2a/handshake"), "transport": "http"}],
    });
    let Value::Object(mut tree) = value(&draft) else {
        panic!("{draft}");
    };
    let kid = "k".parse().unwrap();
    sign_manifest(&mut tree, &kid, &key(CLIENT), UnixSeconds(at)).unwrap();
    tree
}

fn publish(spy: &Spy, manifest: Object<'static>) {
    let bytes = Value::Object(manifest).to_canonical();
    spy.publish(DOCUMENT, Fetched::Body(bytes));
}

fn delegated(at: i64) -> Own {
    let manifest = web_manifest(at, "active");
    Own::new(manifest, "d".parse().unwrap(), key(DELEGATE)).unwrap()
}

/// Profile §3 and threat 55: nobody comes with a newer manifest, and still it is found.
#[tokio::test(start_paused = true)]
async fn threat_55_a_key_revoked_where_manifests_are_published() {
    let made = Made {
        rules: Rules {
            policy: complete(json!({"session_timeout": 10_800})),
            ..Rules::default()
        },
        ..Made::of(SERVER)
    };
    let node = made.node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    let (standing, clock) = (client.home.standing(), clock());
    publish(&node.spy, web_manifest(UNIX - 100, "active"));
    let mut hand = Hand::of(&server, standing, delegated(UNIX - 100)).await;
    let mut ping = async || {
        let request = hand.request(&json!({"goal": "frith.ping"}));
        code_of(&hand.send(request).await)
    };
    assert_eq!(ping().await, "none");
    assert_eq!(node.spy.asked().len(), 1);

    // As long as nothing has changed, it is looked at and nothing happens.
    tokio::time::sleep(Duration::from_secs(310)).await;
    assert_eq!(node.spy.asked().len(), 1);
    publish(&node.spy, web_manifest(UNIX - 50, "revoked"));
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert_eq!(node.spy.asked().len(), 1, "it holds for an hour");
    assert_eq!(ping().await, "none");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(node.spy.asked().len(), 2);
    assert_eq!(ping().await, "SESSION_EXPIRED");
    assert!(server.sessions().is_empty());

    // Whoever has the key still has the manifest in which it was good.
    let hello = hello_at(delegated(UNIX - 100), &clock);
    let answer = send(&server, Place::Handshake, hello).await;
    assert_eq!(code_of(&answer), "INVALID_MANIFEST");
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["details"]["reason"], "manifest_rollback");
    // And nobody is asked about agents that have no session.
    let asked = node.spy.asked().len();
    tokio::time::sleep(Duration::from_secs(8000)).await;
    assert_eq!(node.spy.asked().len(), asked);
}

/// The key that the owner of the did:web adds later.
const LATER: u8 = 51;

/// The manifest of the did:web with a third key.
fn with_a_later_key(at: i64) -> Object<'static> {
    let mut tree = web_manifest(at, "active");
    let keys = json!([jwk("k", CLIENT), jwk("d", DELEGATE), jwk("e", LATER)]);
    tree.insert("public_keys", value(&keys));
    let kid = "k".parse().unwrap();
    sign_manifest(&mut tree, &kid, &key(CLIENT), UnixSeconds(at)).unwrap();
    tree
}

/// The same message, signed with the later key.
fn by_later_key<T: a2a_wire::Payload>(message: &[u8], member: &str) -> Vec<u8> {
    let mut message: serde_json::Value = serde_json::from_slice(message).unwrap();
    let jws = message[member].as_str().unwrap().parse().unwrap();
    let signed = a2a_identity::Signed::<T>::parse(&jws, a2a_identity::Peer::Profile).unwrap();
    let payload = signed.read_unverified().unwrap();
    let jws = a2a_identity::sign(&payload, &"e".parse().unwrap(), &key(LATER));
    message[member] = json!(jws);
    message.to_string().into_bytes()
}

/// Document 004, §9, "Key Rotation": "Accept any key with valid `kid` in agent's manifest" and "Refresh on
/// signature verification failure", once, also within a session.
/// Proves A-9-15, A-9-17.
#[tokio::test(start_paused = true)]
async fn unknown_kid_of_a_request_refreshes_the_manifest_once() {
    let node = Made::of(SERVER).node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    publish(&node.spy, web_manifest(UNIX - 100, "active"));
    let mut hand = Hand::of(&server, client.home.standing(), delegated(UNIX - 100)).await;
    // A session that is never used ends.
    let request = hand.request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hand.send(request).await), "none");
    let mut later = async || {
        let request = hand.request(&json!({"goal": "frith.ping"}));
        let request = by_later_key::<a2a_wire::RequestPayload>(&request, "request_jws");
        code_of(&hand.send(request).await)
    };
    assert_eq!(node.spy.count(), 1);
    // It is not in the manifest, and nobody looks again for a minute.
    assert_eq!(later().await, "UNVERIFIED_AGENT");
    assert_eq!(node.spy.count(), 2);
    publish(&node.spy, with_a_later_key(UNIX - 50));
    assert_eq!(later().await, "UNVERIFIED_AGENT");
    assert_eq!(node.spy.count(), 2);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(later().await, "none");
    assert_eq!(later().await, "none");
    assert_eq!(node.spy.count(), 3);
}

/// The keys of an agent whose manifest is pinned are not replaced within a session.
#[tokio::test(start_paused = true)]
async fn unknown_kid_of_a_pinned_agent_is_refused() {
    let mut made = Made::of(SERVER);
    let manifest = web_manifest(UNIX - 100, "active");
    let pins = Pins {
        manifest: Some(manifest.digest_without(a2a_wire::NOT_HASHED)),
        keys: Vec::new(),
    };
    let did = format!("did:web:{HOST_OF_ADA}");
    made.rules.pins.insert(did, pins);
    let node = made.node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    publish(&node.spy, manifest);
    let mut hand = Hand::of(&server, client.home.standing(), delegated(UNIX - 100)).await;
    publish(&node.spy, with_a_later_key(UNIX - 50));
    let request = hand.request(&json!({"goal": "frith.ping"}));
    let request = by_later_key::<a2a_wire::RequestPayload>(&request, "request_jws");
    assert_eq!(code_of(&hand.send(request).await), "UNVERIFIED_AGENT");
}

/// The same for the answer of a server.
/// Proves A-9-15, A-9-17.
#[tokio::test(start_paused = true)]
async fn unknown_kid_of_an_answer_refreshes_the_manifest_once() {
    let made = Made {
        identity: Identity::new(
            web_manifest(UNIX - 100, "active"),
            "d".parse().unwrap(),
            key(DELEGATE),
        )
        .unwrap(),
        ..Made::of(SERVER)
    };
    let home = made.node().await.home;
    let server = Server::start(home, ServerSettings::new().unwrap());
    let link = InMemory::open(&server).await;
    let node = Made::of(CLIENT).node().await;
    publish(&node.spy, web_manifest(UNIX - 100, "active"));
    // So that what is sent can be signed anew.
    let settings = ClientSettings {
        sealing: a2a_session::Sealing::IfRequired,
        ..ClientSettings::default()
    };
    let home = Arc::clone(&node.home);
    let client = Client::new(home, settings, link.couriers(), link.guard());
    let did = format!("did:web:{HOST_OF_ADA}").parse().unwrap();
    // Work without a name is done at once.
    let options = CallOptions {
        name_work: NameWork::No,
        ..CallOptions::default()
    };
    let ping = || value(&json!({"goal": "frith.ping"}));
    client.call(&did, ping(), &options).await.unwrap();
    let asked = node.spy.count();
    link.intercept(move |place, message| {
        let message = Bytes::copy_from_slice(message);
        let handled = server.handle(arrived(place, None, message));
        let handled = futures_util::FutureExt::now_or_never(handled);
        let Some(Answer::Message(message)) = handled else {
            panic!("an answer at once");
        };
        let message = by_later_key::<a2a_wire::ResponsePayload>(&message, "response_jws");
        Some(Ok(Reply::Message {
            message: message.into(),
            status: 200,
            retry_after: None,
        }))
    });
    publish(&node.spy, with_a_later_key(UNIX - 50));
    for _ in 0..2 {
        client.call(&did, ping(), &options).await.unwrap();
        assert_eq!(node.spy.count(), asked + 1);
    }
}

/// There was no room to look again at what an agent publishes, since another's host is slow: it is tried
/// again soon, and not at the next look.
#[tokio::test(start_paused = true)]
async fn look_that_finds_no_room_is_tried_again_soon() {
    let made = Made {
        rules: Rules {
            policy: complete(json!({"session_timeout": 10_800})),
            ..Rules::default()
        },
        resolver: ResolverLimits {
            resolutions: base::Limits {
                total: 1,
                per_holder: 1,
                reserved: 0,
            },
            ..ResolverLimits::default()
        },
        ..Made::of(SERVER)
    };
    let node = made.node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    let standing = client.home.standing();
    publish(&node.spy, web_manifest(UNIX - 100, "active"));
    let slow = manifest_of(SLOW_HOST, UNIX - 100, "active");
    let document = format!("https://{SLOW_HOST}/.well-known/did.json");
    let bytes = Value::Object(slow.clone()).to_canonical();
    node.spy.publish(&document, Fetched::Body(bytes));
    let slow = Own::new(slow, "d".parse().unwrap(), key(DELEGATE)).unwrap();
    let mut slow = Hand::of(&server, standing, slow).await;
    let mut hand = Hand::of(&server, standing, delegated(UNIX - 100)).await;
    // An unused session is closed.
    for hand in [&mut slow, &mut hand] {
        let request = hand.request(&json!({"goal": "frith.ping"}));
        assert_eq!(code_of(&hand.send(request).await), "none");
    }
    publish(&node.spy, web_manifest(UNIX - 50, "revoked"));
    node.spy.slow_down(SLOW_HOST);
    assert_eq!(node.spy.asked(), [document.as_str(), DOCUMENT]);
    while node.spy.count() == 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // The other waits for it.
    assert_eq!(node.spy.asked()[2..], [document]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let request = hand.request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hand.send(request).await), "SESSION_EXPIRED");
}

/// The client has named its manifest, and publishes another before the server has fetched it.
#[tokio::test]
async fn own_manifest_replaced_during_a_handshake_is_named_in_the_next() {
    let node = Made::of(SERVER).node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let link = InMemory::open(&server).await;
    let named = |at| {
        let manifest = web_manifest(at, "active");
        Identity::new(manifest, "d".parse().unwrap(), key(DELEGATE)).unwrap()
    };
    let made = Made {
        identity: named(UNIX - 100),
        ..Made::of(CLIENT)
    };
    let home = made.node().await.home;
    let own = Server::start(Arc::clone(&home), ServerSettings::new().unwrap());
    let client = Client::new(
        home,
        ClientSettings::default(),
        link.couriers(),
        link.guard(),
    );
    client.set_address(&did(SERVER), format!("https://{HOST}/a2a/handshake"));
    publish(&node.spy, web_manifest(UNIX - 50, "active"));
    let messages = AtomicUsize::new(0);
    link.intercept(move |_, _| {
        // Upon PROOF the server looks the client up.
        if messages.fetch_add(1, Ordering::Relaxed) == 1 {
            own.set_identity(named(UNIX - 50));
        }
        None
    });
    let introduced = client.introduce(&did(SERVER), Encrypt::AsAgreed).await;
    introduced.map(drop).map_err(|(_, error)| error).unwrap();
}

/// A trust anchor whose word counts.
fn anchor(seed: u8) -> Anchor {
    Anchor {
        did: did(seed),
        public_key: None,
        min_trust_level: TrustLevel::Own,
    }
}

/// Rules by which the word of these counts.
fn anchored(seeds: &[u8]) -> TrustRules {
    TrustRules {
        anchors: seeds.iter().map(|seed| anchor(*seed)).collect(),
        ..TrustRules::default()
    }
}

/// The manifest of an agent that this anchor vouches for.
fn endorsed(seed: u8, by: u8) -> Object<'static> {
    let payload = EndorsementPayload {
        issuer: did(by).to_text().unwrap(),
        issued_at: UnixSeconds(UNIX - 500),
        expires_at: None,
        trust_level: "verified".parse().unwrap(),
        subject: did(seed).to_text().unwrap(),
        subject_keys: None,
        capabilities: None,
    };
    let entry = endorse(&payload, &"k".parse().unwrap(), &key(by)).unwrap();
    manifest_with(seed, UNIX - 100, |draft| {
        draft["trust_chain"] = json!([serde_json::to_value(entry.write()).unwrap()]);
    })
}

fn own_of(seed: u8, manifest: Object<'static>) -> Own {
    Own::new(manifest, "k".parse().unwrap(), key(seed)).unwrap()
}

/// Whether a session still takes requests.
async fn is_open(hand: &mut Hand) -> bool {
    let request = hand.request(&json!({"goal": "frith.ping"}));
    match code_of(&hand.send(request).await).as_str() {
        "none" => true,
        "SESSION_EXPIRED" => false,
        other => panic!("{other}"),
    }
}

/// Who was trusted by the word of an anchor is not any more when the operator takes the anchor back.
#[tokio::test]
async fn sessions_end_with_the_anchor_that_vouched_for_them() {
    let made = Made {
        trust: anchored(&[10, 11]),
        ..Made::of(SERVER)
    };
    let server = Server::start(made.node().await.home, ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    let standing = client.home.standing();
    let mut vouched = Hand::of(&server, standing, own_of(CLIENT, endorsed(CLIENT, 10))).await;
    let mut alone = Hand::of(&server, standing, own_of(3, manifest(3))).await;
    let level = |seed: u8| {
        let all = server.sessions();
        let found = all
            .into_iter()
            .find(|it| it.peer.did == did(seed).to_string());
        found.map(|it| it.peer.trust_level)
    };
    assert_eq!(level(CLIENT), Some(TrustLevel::Verified));
    // As long as its anchor stays as it is, others may come and go.
    server.set_anchors(vec![anchor(12), anchor(10)]);
    assert!(is_open(&mut vouched).await && is_open(&mut alone).await);
    let endless = Endless::register(&server, "endless");
    let request = vouched.request(&json!({"goal": "endless"}));
    let waiting = {
        let server = server.clone();
        tokio::spawn(async move { send(&server, Place::Request, request).await })
    };
    endless.begun.notified().await;
    server.set_anchors(vec![anchor(12)]);
    endless.stopped.notified().await;
    assert_eq!(code_of(&waiting.await.unwrap()), "CANCELLED");
    assert!(!is_open(&mut vouched).await);
    assert!(is_open(&mut alone).await, "it was trusted for itself");
    assert_eq!(level(CLIENT), None);

    // It may come again, for what it is then; and that does not end when an anchor is added.
    let mut again = Hand::of(&server, standing, own_of(CLIENT, endorsed(CLIENT, 10))).await;
    assert_eq!(level(CLIENT), Some(TrustLevel::Own));
    server.set_anchors(vec![anchor(10)]);
    assert!(is_open(&mut again).await);
    // Another key of the same anchor is another anchor.
    let mut vouched = Hand::of(&server, standing, own_of(CLIENT, endorsed(CLIENT, 10))).await;
    server.set_anchors(vec![Anchor {
        public_key: Some(key(12).verifying_key()),
        ..anchor(10)
    }]);
    assert!(!is_open(&mut vouched).await);
}

/// A pin is what an agent must show, also in the session that it has.
#[tokio::test]
async fn sessions_end_that_do_not_fit_a_new_pin() {
    let world = World::<InMemory>::new().await;
    let hash = manifest(CLIENT).digest_without(a2a_wire::NOT_HASHED);
    let signer = key(CLIENT).verifying_key().digest();
    let other = Digest::of(b"another");
    let pinned = |seed: u8, manifest: Option<Digest>, keys: &[Digest]| {
        let keys = keys.to_vec();
        let pins = Pins { manifest, keys };
        world.server.set_rules(Rules {
            pins: [(did(seed).to_string(), pins)].into(),
            ..Rules::default()
        });
    };
    let mut hand = Hand::new(&world).await;
    pinned(CLIENT, Some(hash), &[]);
    pinned(CLIENT, None, &[other, signer]);
    pinned(3, Some(other), &[]);
    assert!(is_open(&mut hand).await);
    pinned(CLIENT, Some(other), &[]);
    assert!(!is_open(&mut hand).await);
    world.server.set_rules(Rules::default());
    let mut hand = Hand::new(&world).await;
    pinned(CLIENT, Some(hash), &[other]);
    assert!(!is_open(&mut hand).await);
    assert!(world.server.sessions().is_empty());
}

/// What changes between HELLO and SESSION counts too.
#[tokio::test]
async fn trust_that_is_taken_back_during_a_handshake() {
    let made = Made {
        trust: anchored(&[10]),
        ..Made::of(SERVER)
    };
    let server = Server::start(made.node().await.home, ServerSettings::new().unwrap());
    let client = Made::of(CLIENT).node().await;
    let mut messages = 0;
    let deliver = async |server: &Server, message| {
        messages += 1;
        if messages == 3 {
            server.set_anchors(Vec::new());
        }
        send(server, Place::Handshake, message).await
    };
    let own = own_of(CLIENT, endorsed(CLIENT, 10));
    let session = shake(&server, client.home.standing(), own, deliver).await;
    let mut hand = Hand {
        server: server.clone(),
        session,
        clock: clock(),
    };
    assert!(!is_open(&mut hand).await);
}

/// The client's own sessions: none is used again that does not fit, and it is closed.
#[tokio::test(start_paused = true)]
async fn a_client_closes_sessions_with_servers_it_trusts_no_more() {
    let ping = || value(&json!({"goal": "frith.ping"}));
    let options = CallOptions::default();
    let made = Made {
        identity: Identity::new(endorsed(SERVER, 10), "k".parse().unwrap(), key(SERVER)).unwrap(),
        ..Made::of(SERVER)
    };
    let server = Server::start(made.node().await.home, ServerSettings::new().unwrap());
    let link = InMemory::open(&server).await;
    let made = Made {
        trust: anchored(&[10, 11]),
        ..Made::of(CLIENT)
    };
    let node = made.node().await;
    know(&node, &server);
    let operator = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let settings = ClientSettings::default();
    let client = Client::new(node.home, settings, link.couriers(), link.guard());
    let call = async || client.call(&did(SERVER), ping(), &options).await;
    let first = call().await.unwrap().session;
    assert_eq!(first.trust_level, TrustLevel::Verified);
    operator.set_anchors(vec![anchor(10)]);
    client.trust_changed();
    assert_eq!(call().await.unwrap().session, first);

    operator.set_anchors(vec![anchor(11)]);
    let second = call().await.unwrap().session;
    assert_ne!(second.session_id, first.session_id);
    assert_eq!(second.trust_level, TrustLevel::Own);

    // Also if nothing is asked any more.
    for change in 0..2 {
        call().await.map(drop).unwrap();
        assert!(!server.sessions().is_empty());
        let mut rules = Rules::default();
        match change {
            0 => drop(rules.blocked.insert(did(SERVER).to_string())),
            _ => {
                let pins = Pins {
                    manifest: Some(Digest::of(b"another")),
                    keys: Vec::new(),
                };
                rules.pins.insert(did(SERVER).to_string(), pins);
            }
        }
        operator.set_rules(rules);
        client.trust_changed();
        while !server.sessions().is_empty() || !client.sessions().await.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(call().await.is_err());
        operator.set_rules(Rules::default());
    }
}
