//! A client by hand: every message can be kept, changed and sent again.

use std::sync::Arc;

use a2a_identity::NoRandomness;
use a2a_net::transport::{Answer, Place, Service};
use a2a_net::*;
use a2a_session::{
    ClientConfig, ClientSession, Directory, ExpectChallenge, ExpectPolicy, Facts, Found, Own,
    ServerStep,
};
use bytes::Bytes;

use crate::support::*;

/// A session of that client.
pub(crate) struct Hand {
    pub(crate) server: Server,
    pub(crate) session: ClientSession,
    pub(crate) clock: Clock,
}

/// What came back.
fn bytes_of(answer: Answer) -> Bytes {
    match answer {
        Answer::Message(message) | Answer::Error { message, .. } => message,
        other @ (Answer::Nothing | Answer::Stream(_)) => panic!("{other:?}"),
    }
}

pub(crate) fn code_of(message: &[u8]) -> String {
    let message: serde_json::Value = serde_json::from_slice(message).unwrap();
    message["error_code"].as_str().unwrap_or("none").to_owned()
}

pub(crate) async fn send(server: &Server, place: Place, message: Vec<u8>) -> Bytes {
    bytes_of(
        server
            .handle(arrived(place, None, Bytes::from(message)))
            .await,
    )
}

fn random() -> impl FnMut(&mut [u8]) -> Result<(), NoRandomness> {
    let mut entropy = entropy();
    move |bytes| a2a_identity::Randomness::fill(&mut entropy, bytes)
}

pub(crate) fn own() -> Own {
    Own::new(manifest(CLIENT), "k".parse().unwrap(), key(CLIENT)).unwrap()
}

/// A did:web at a host, whose one key signs.
pub(crate) fn web_own(host: &str) -> Own {
    let draft = serde_json::json!({
        "manifest_version": "1.0", "agent_did": format!("did:web:{host}"), "agent_id": "web",
        "public_keys": [jwk("k", CLIENT)],
        "endpoints": [{"type": "handshake", "url": format!("https://{host}/a2a/handshake"), "transport": "http"}],
    });
    let canonical::Value::Object(mut tree) = value(&draft) else {
        panic!("{draft}");
    };
    let (kid, at) = ("k".parse().unwrap(), a2a_wire::UnixSeconds(UNIX - 100));
    a2a_identity::sign_manifest(&mut tree, &kid, &key(CLIENT), at).unwrap();
    Own::new(tree, kid, key(CLIENT)).unwrap()
}

/// A HELLO, and nothing after it.
pub(crate) fn hello(own: Own) -> Vec<u8> {
    hello_at(own, &clock())
}

/// The same, at the time of this clock.
pub(crate) fn hello_at(own: Own, clock: &Clock) -> Vec<u8> {
    let config = ClientConfig::new(did(SERVER), format!("https://{HOST}/a2a/handshake")).unwrap();
    let (own, config) = (Arc::new(own), Arc::new(config));
    let begun = ExpectChallenge::begin(own, config, clock.now(), &mut random());
    begun.unwrap().1
}

/// A client that has sent PROOF, and what it was answered.
pub(crate) async fn prove(
    server: &Server,
    standing: &dyn Directory,
    (own, clock): (Own, &Clock),
    deliver: &mut impl AsyncFnMut(&Server, Vec<u8>) -> Bytes,
) -> (Box<ExpectPolicy>, Bytes) {
    let mut random = random();
    let url = format!("https://{HOST}/a2a/handshake");
    let mut config = ClientConfig::new(did(SERVER), url).unwrap();
    // So that what is sent can be read and changed.
    config.sealing = a2a_session::Sealing::IfRequired;
    let begun = ExpectChallenge::begin(Arc::new(own), Arc::new(config), clock.now(), &mut random);
    let (state, hello) = begun.unwrap();
    let challenge = deliver(server, hello).await;
    let step = state
        .handle_message(clock.now(), &challenge, standing)
        .unwrap();
    let ServerStep::Resolve(check) = step else {
        panic!("it asks who the server is");
    };
    let root = a2a_identity::RootKeys::DidKey(key(SERVER).verifying_key());
    let facts = Facts {
        endpoints: Vec::new(),
        root,
        manifest: None,
    };
    let step = check
        .handle_found(clock.now(), Found::Peer(Ok(facts)))
        .unwrap();
    let ServerStep::Proven { next, message } = step else {
        panic!("it is the server");
    };
    let answer = deliver(server, message).await;
    (next, answer)
}

/// The client's three messages, each made when the one before was answered.
pub(crate) async fn shake(
    server: &Server,
    standing: &dyn Directory,
    own: Own,
    mut deliver: impl AsyncFnMut(&Server, Vec<u8>) -> Bytes,
) -> ClientSession {
    let clock = clock();
    let (next, policy) = prove(server, standing, (own, &clock), &mut deliver).await;
    let (state, accept) = next.handle_message(clock.now(), &policy).unwrap();
    let session = deliver(server, accept).await;
    let established = state.handle_message(clock.now(), &session).unwrap();
    ClientSession::new(clock.now(), *established)
}

impl Hand {
    pub(crate) async fn new(world: &World<InMemory>) -> Self {
        Self::of(&world.server, world.client_home.standing(), own()).await
    }

    pub(crate) async fn of(server: &Server, standing: &dyn Directory, own: Own) -> Self {
        let deliver =
            async |server: &Server, message| send(server, Place::Handshake, message).await;
        Self {
            server: server.clone(),
            session: shake(server, standing, own, deliver).await,
            clock: clock(),
        }
    }

    pub(crate) fn request(&mut self, intent: &serde_json::Value) -> Vec<u8> {
        let made = self
            .session
            .request(self.clock.now(), value(intent), &mut random());
        made.unwrap().message
    }

    pub(crate) async fn send(&self, message: Vec<u8>) -> Bytes {
        send(&self.server, Place::Request, message).await
    }
}
