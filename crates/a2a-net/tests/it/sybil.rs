//! Many sessions of one agent, and many agents of one operator (threats 100 and 101).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use a2a_identity::{
    Anchor, Answer as Fetched, Did, DidKey, SigningKey, TrustLevel, endorse, sign_manifest,
};
use a2a_net::transport::{Answer, Place, Service as _};
use a2a_net::*;
use a2a_session::{ExpectPolicy, Own, TrustRules};
use a2a_wire::{EndorsementPayload, UnixSeconds, Write as _};
use bytes::Bytes;
use canonical::Value;
use serde_json::json;

use crate::hand::*;
use crate::support::*;

const ANCHOR: u8 = 90;

fn number_of(codes: &[String], code: &str) -> usize {
    codes.iter().filter(|it| *it == code).count()
}

/// Threat 100: the same DID over twenty sessions, and over new ones when those are closed.
#[tokio::test]
async fn threat_100_one_agent_over_many_sessions() {
    let rules = limited(&json!({"rate_limit": 30, "rate_period": 2_592_000}));
    let raise = |settings: &mut ServerSettings| {
        settings.config.limits.hello_rate = policy::Rate::new(1000, 1).unwrap();
    };
    let world = World::<InMemory>::with(rules, raise).await;
    let runs = counting(&world.server, "work");
    let standing = world.client_home.standing();
    let mut codes = Vec::new();
    for _ in 0..2 {
        let mut hands = Vec::new();
        for _ in 0..20 {
            hands.push(Hand::of(&world.server, standing, own()).await);
        }
        for _ in 0..2 {
            for hand in &mut hands {
                let request = hand.request(&json!({"goal": "work"}));
                codes.push(code_of(&hand.send(request).await));
            }
        }
        // Whoever comes back finds the bucket as it was.
        assert_eq!(world.server.end_sessions(&did(CLIENT)), 20);
    }
    assert_eq!(codes.len(), 80);
    // Nothing comes back at this rate within a day.
    assert_eq!(number_of(&codes, "none"), 30);
    assert_eq!(number_of(&codes, "RATE_LIMIT_EXCEEDED"), 50);
    assert_eq!(runs.count(), 30);
}

/// An agent that nobody has seen before, with an address of its own.
pub(crate) struct Newcomer {
    seed: [u8; 32],
    pub(crate) source: SocketAddr,
    /// Where its keys are published; without one it is a did:key.
    host: Option<String>,
}

impl Newcomer {
    pub(crate) fn new(number: u16) -> Self {
        let mut seed = [7; 32];
        let [a, b] = number.to_be_bytes();
        (seed[0], seed[1]) = (a, b);
        Self {
            seed,
            source: (Ipv4Addr::new(192, 0, a, b), 4000).into(),
            host: None,
        }
    }

    /// A did:web at this host.
    pub(crate) fn at(number: u16, host: &str) -> Self {
        Self {
            host: Some(host.to_owned()),
            ..Self::new(number)
        }
    }

    /// Publishes its DID document.
    pub(crate) fn publish(&self, spy: &Spy) {
        let host = self.host.as_deref().unwrap();
        let document = json!({"agent_did": self.did().to_string(), "public_keys": [self.jwk()]});
        let url = format!("https://{host}/.well-known/did.json");
        spy.publish(&url, Fetched::Body(document.to_string().into_bytes()));
    }

    fn key(&self) -> SigningKey {
        SigningKey::from_seed(&self.seed)
    }

    pub(crate) fn did(&self) -> Did {
        match &self.host {
            Some(host) => format!("did:web:{host}").parse().unwrap(),
            None => Did::Key(DidKey::new(self.key().verifying_key())),
        }
    }

    fn jwk(&self) -> serde_json::Value {
        let bytes = self.key().verifying_key().to_bytes();
        json!({"kid": "k", "key": canonical::base64url::encode(&bytes)})
    }

    /// With the word of an anchor for it, or with none.
    pub(crate) fn own(&self, anchor: Option<u8>) -> Own {
        let mut draft = json!({
            "manifest_version": "1.0", "agent_did": self.did().to_string(), "agent_id": "new",
            "public_keys": [self.jwk()],
            "endpoints": [{"type": "handshake", "url": "https://new.example.com/a2a/handshake", "transport": "http"}],
        });
        if let Some(anchor) = anchor {
            let payload = EndorsementPayload {
                issuer: did(anchor).to_text().unwrap(),
                issued_at: UnixSeconds(UNIX - 500),
                expires_at: None,
                trust_level: "verified".parse().unwrap(),
                subject: self.did().to_text().unwrap(),
                subject_keys: None,
                capabilities: None,
            };
            let entry = endorse(&payload, &"k".parse().unwrap(), &key(anchor)).unwrap();
            draft["trust_chain"] = json!([serde_json::to_value(entry.write()).unwrap()]);
        }
        let Value::Object(mut tree) = value(&draft) else {
            panic!("{draft}");
        };
        let kid = "k".parse().unwrap();
        sign_manifest(&mut tree, &kid, &self.key(), UnixSeconds(UNIX - 100)).unwrap();
        Own::new(tree, kid, self.key()).unwrap()
    }

    async fn send(&self, server: &Server, place: Place, message: Vec<u8>) -> Bytes {
        let mut message = arrived(place, None, Bytes::from(message));
        message.source = self.source;
        match server.handle(message).await {
            Answer::Message(message) | Answer::Error { message, .. } => message,
            other @ (Answer::Nothing | Answer::Stream(_)) => panic!("{other:?}"),
        }
    }

    /// What its PROOF is answered.
    pub(crate) async fn proves(
        &self,
        server: &Server,
        home: &Home,
        own: (Own, &Clock),
    ) -> (Box<ExpectPolicy>, Bytes) {
        let mut deliver = async |server: &Server, message: Vec<u8>| {
            self.send(server, Place::Handshake, message).await
        };
        prove(server, home.standing(), own, &mut deliver).await
    }

    /// A session, or the code it was refused with.
    pub(crate) async fn shake(
        &self,
        server: &Server,
        home: &Home,
        anchor: Option<u8>,
    ) -> Result<Hand, String> {
        let clock = clock();
        let (next, policy) = self.proves(server, home, (self.own(anchor), &clock)).await;
        let code = code_of(&policy);
        if code != "none" {
            return Err(code);
        }
        let (state, accept) = next.handle_message(clock.now(), &policy).unwrap();
        let answer = self.send(server, Place::Handshake, accept).await;
        let code = code_of(&answer);
        if code != "none" {
            return Err(code);
        }
        let established = state.handle_message(clock.now(), &answer).unwrap();
        Ok(Hand {
            server: server.clone(),
            session: a2a_session::ClientSession::new(clock.now(), *established),
            clock,
        })
    }

    /// Begins a handshake and does not go on with it.
    pub(crate) async fn begins(&self, server: &Server) -> String {
        let challenge = self.send(server, Place::Handshake, hello(self.own(None)));
        code_of(&challenge.await)
    }

    /// Has work done, each time under another name.
    pub(crate) async fn ask(&self, hand: &mut Hand) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let intent_id = format!("6f1c5b8e-3f57-4d1e-9a53-{number:012x}");
        let request = hand.request(&json!({"goal": "work", "intent_id": intent_id}));
        code_of(&self.send(&hand.server, Place::Request, request).await)
    }
}

/// The word of one agent counts.
fn vouched() -> TrustRules {
    TrustRules {
        anchors: vec![Anchor {
            did: did(ANCHOR),
            public_key: Some(key(ANCHOR).verifying_key()),
            min_trust_level: TrustLevel::Verified,
        }],
        ..TrustRules::default()
    }
}

/// Threat 101, a tenth of it: agents cost nothing, so all newcomers together have a budget and places.
#[tokio::test]
async fn threat_101_fresh_agents() {
    const SESSIONS: usize = 81;
    let made = Made {
        trust: vouched(),
        ..Made::of(SERVER)
    };
    let home = made.node().await.home;
    let mut settings = ServerSettings::new().unwrap();
    settings.config.limits.sessions = SESSIONS;
    settings.agents.newcomers = policy::Rate::new(50, 2_592_000).unwrap();
    let server = Server::start(home, settings);
    let runs = counting(&server, "work");
    let client = Made::of(CLIENT).node().await.home;
    let friend = Newcomer::new(u16::MAX);
    let mut friends = friend.shake(&server, &client, Some(ANCHOR)).await.unwrap();
    let (mut codes, mut refused) = (Vec::new(), Vec::new());
    for number in 0..100 {
        let newcomer = Newcomer::new(number);
        match newcomer.shake(&server, &client, None).await {
            Ok(mut hand) => codes.push(newcomer.ask(&mut hand).await),
            Err(code) => refused.push(code),
        }
    }
    // Of 81 places a tenth is kept for known agents; idle sessions of strangers give way to new ones.
    assert_eq!(refused.len(), 0);
    assert_eq!(number_of(&codes, "none"), 50);
    assert_eq!(number_of(&codes, "RATE_LIMIT_EXCEEDED"), 50);
    assert_eq!(server.sessions().len(), 74);
    // Whom somebody vouches for has nothing to do with it.
    for _ in 0..30 {
        assert_eq!(friend.ask(&mut friends).await, "none");
    }
    assert_eq!(runs.count(), 80);
    let levels = server.sessions();
    let verified = levels
        .iter()
        .filter(|it| it.peer.trust_level == TrustLevel::Verified);
    assert_eq!(verified.count(), 1);
}

/// Threat 101, all places taken: idle sessions of strangers give way, those in use do not, and
/// known agents find the places that are kept for them.
#[tokio::test]
async fn threat_101_fresh_agents_leave_room_for_the_verified() {
    let home = Made {
        trust: vouched(),
        ..Made::of(SERVER)
    };
    let home = home.node().await.home;
    let mut settings = ServerSettings::new().unwrap();
    settings.config.limits.sessions = 20;
    let server = Server::start(home, settings);
    let gate = Gate::register(&server, "work");
    let client = Made::of(CLIENT).node().await.home;
    let mut hands = Vec::new();
    for number in 0..18 {
        let newcomer = Newcomer::new(number);
        let mut hand = newcomer.shake(&server, &client, None).await.unwrap();
        hands.push(tokio::spawn(async move { newcomer.ask(&mut hand).await }));
    }
    gate.running(18).await;
    // All of them work: no place for another stranger, but for known agents.
    let refused = Newcomer::new(40).shake(&server, &client, None).await;
    assert_eq!(refused.err().as_deref(), Some("SERVICE_UNAVAILABLE"));
    for number in [1000, 1001] {
        let friend = Newcomer::new(number);
        assert!(friend.shake(&server, &client, Some(ANCHOR)).await.is_ok());
    }
    let last = Newcomer::new(1002);
    let refused = last.shake(&server, &client, Some(ANCHOR)).await;
    assert_eq!(refused.err().as_deref(), Some("SERVICE_UNAVAILABLE"));
    gate.open();
    for hand in hands {
        assert_eq!(hand.await.unwrap(), "none");
    }
    // Idle sessions of strangers give way to known agents and to strangers.
    assert!(last.shake(&server, &client, Some(ANCHOR)).await.is_ok());
    assert!(
        Newcomer::new(40)
            .shake(&server, &client, None)
            .await
            .is_ok()
    );
    assert_eq!(server.sessions().len(), 20);
    let levels = server.sessions();
    let verified = levels
        .iter()
        .filter(|it| it.peer.trust_level == TrustLevel::Verified);
    assert_eq!(verified.count(), 3);
}

/// Threat 101: a partner's agents may share one address. Those that are added, pinned or vouched for are
/// not counted for it; strangers beside them are.
#[tokio::test]
async fn threat_101_known_agents_are_not_counted_for_their_source() {
    const SHARED: u16 = 7;
    let agent = |number: u16| Newcomer {
        source: Newcomer::new(SHARED).source,
        ..Newcomer::new(number)
    };
    let [added, pinned, vouched_for, strangers] = [10, 20, 30, 40].map(|first| first..first + 4);
    let mut made = Made {
        trust: vouched(),
        ..Made::of(SERVER)
    };
    for number in added.clone() {
        made.rules.added.insert(agent(number).did().to_string());
    }
    for number in pinned.clone() {
        let pins = a2a_identity::Pins {
            keys: vec![agent(number).key().verifying_key().digest()],
            manifest: None,
        };
        made.rules
            .pins
            .insert(agent(number).did().to_string(), pins);
    }
    let home = made.node().await.home;
    let mut settings = ServerSettings::new().unwrap();
    settings.config.limits.hello_rate = policy::Rate::new(1000, 1).unwrap();
    settings.config.limits.sessions_per_source = 2;
    let server = Server::start(home, settings);
    let client = Made::of(CLIENT).node().await.home;
    for (numbers, anchor) in [
        (added, None),
        (pinned, None),
        (vouched_for, Some(ANCHOR)),
        (strangers.clone(), None),
    ] {
        for number in numbers {
            let shaken = agent(number).shake(&server, &client, anchor).await;
            assert!(shaken.is_ok(), "{number}: {:?}", shaken.err());
        }
    }
    let sessions = server.sessions();
    assert_eq!(sessions.len(), 3 * 4 + 2);
    // Of the strangers those that came last; the sessions before them were idle and gave way.
    let strangers: Vec<_> = strangers
        .map(|number| agent(number).did().to_string())
        .collect();
    let has_session = |did: &&String| sessions.iter().any(|it| it.peer.did == **did);
    let left: Vec<_> = strangers.iter().filter(has_session).collect();
    assert_eq!(left, [&strangers[2], &strangers[3]]);
}
