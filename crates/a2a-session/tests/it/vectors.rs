//! What is emitted with the vectors' keys, times and randomness is the vectors, byte for byte.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{NoRandomness, RootKeys};
use a2a_session::*;
use a2a_wire::UnixSeconds;
use canonical::{Object, Value};

use crate::support::{Book, did, established, key, sent, source, tree, verified};

/// Gives these bytes and no others.
pub(crate) fn script(
    parts: &[[u8; 32]],
) -> impl FnMut(&mut [u8]) -> Result<(), NoRandomness> + use<> {
    let mut bytes: Vec<u8> = parts.concat();
    move |out: &mut [u8]| {
        let rest = bytes.split_off(out.len().min(bytes.len()));
        out.copy_from_slice(&bytes);
        bytes = rest;
        Ok(())
    }
}

fn counting(first: u8) -> [u8; 32] {
    std::array::from_fn(|index| first + u8::try_from(index).unwrap())
}

pub(crate) fn at(seconds: i64) -> Now {
    Now {
        monotonic: Duration::from_secs(u64::try_from(seconds + 100).unwrap()),
        unix: UnixSeconds(1_770_000_000 + seconds),
    }
}

pub(crate) fn vector() -> serde_json::Value {
    testkit::vectors("a2a/a2a-vectors.json")
}

/// A vector's message in canonical form.
pub(crate) fn canonical(value: &serde_json::Value) -> Vec<u8> {
    Value::Object(tree(value)).to_canonical()
}

fn manifest(vectors: &serde_json::Value, who: &str) -> Object<'static> {
    match who {
        "client" => tree(&vectors["handshake"]["messages"][0]["extensions"]["manifest"]),
        _ => tree(&vectors["manifest"][who]["document"]),
    }
}

fn own(vectors: &serde_json::Value, who: &str, seed: u8) -> Arc<Own> {
    let kid = "sig-2026-01".parse().unwrap();
    Arc::new(Own::new(manifest(vectors, who), kid, key(seed)).unwrap())
}

/// The handshake of the vectors, each message compared.
pub(crate) fn shake() -> (
    Box<Established<policy::Policy>>,
    Box<Established<policy::EffectivePolicy>>,
) {
    let vectors = vector();
    let expected: Vec<Vec<u8>> = vectors["handshake"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(canonical)
        .collect();
    let policy = tree(&vectors["policy"]["document"]);
    let policy = policy::Policy::read(&policy, policy::limits::PAYLOAD_CEILING).unwrap();
    let book = Book {
        policy: policy.complete().unwrap(),
        ..Book::default()
    };
    let mut server = Server::new(own(&vectors, "server", 2), ServerConfig::new().unwrap());
    let url = &vectors["manifest"]["server"]["document"]["endpoints"][0]["url"];
    let mut config = ClientConfig::new(did(2), url.as_str().unwrap()).unwrap();
    config.user_agent = Some("a2a-client/1.0".parse().unwrap());
    let mut random = script(&[counting(0), [0x11; 32]]);
    let client = own(&vectors, "client", 1);
    let begun = ExpectChallenge::begin(client, Arc::new(config), at(0), &mut random);
    let (client, hello) = begun.unwrap();
    assert_eq!(hello, expected[0]);
    let mut random = script(&[counting(0x20), [0x22; 32], counting(0x40)]);
    let mut serve =
        |now, message: &[u8]| server.handle_message(now, source(1), message, &book, &mut random);
    let challenge = sent(serve(at(0), &hello));
    assert_eq!(challenge, expected[1]);
    let step = client.handle_message(at(1), &challenge, &Book::default());
    let Ok(ServerStep::Resolve(check)) = step else {
        panic!("{step:?}");
    };
    let root = RootKeys::DidKey(key(2).verifying_key());
    let manifest = verified(&manifest(&vectors, "server"), &did(2), &root, at(1).unix);
    let facts = Facts {
        endpoints: Vec::new(),
        root,
        manifest: Some(manifest),
    };
    let step = check.handle_found(at(1), Found::Peer(Ok(facts)));
    let Ok(ServerStep::Proven { next, message }) = step else {
        panic!("{step:?}");
    };
    assert_eq!(message, expected[2]);
    let policy = sent(serve(at(1), &message));
    assert_eq!(policy, expected[3]);
    let (next, accept) = next.handle_message(at(2), &policy).unwrap();
    assert_eq!(accept, expected[4]);
    let (server, session) = established(serve(at(2), &accept));
    assert_eq!(session, expected[5]);
    let client = next.handle_message(at(2), &session).unwrap();
    assert_eq!(client.transcript(), server.transcript());
    let last = &vectors["handshake"]["transcript"][5]["T"];
    assert_eq!(*last, server.transcript().to_string());
    let commitment = &vectors["handshake"]["session_commitment"];
    assert_eq!(*commitment, client.policy().commitment().to_string());
    assert!(client.is_encrypted() && server.is_encrypted());
    (client, server)
}

#[test]
fn the_handshake_is_that_of_the_vectors() {
    shake();
}

fn uuid(text: &str) -> [u8; 16] {
    let bytes = hex::decode(text.replace('-', "")).unwrap();
    bytes.try_into().unwrap()
}

/// Sections `session` and `encryption`: requests and answers, encrypted.
#[test]
fn requests_and_responses_are_those_of_the_vectors() {
    let (client, server) = shake();
    let vectors = vector();
    let session = &vectors["session"];
    let mut client = ClientSession::new(at(2), *client);
    let mut server = ServerSession::new(at(2), *server, SessionLimits::default());
    let request = &session["request"]["message"];
    let id = uuid(request["request_id"].as_str().unwrap());
    let mut random = move |bytes: &mut [u8]| {
        bytes.copy_from_slice(&id);
        Ok(())
    };
    let intent = Value::Object(tree(&request["intent"]));
    let asked = client.request(at(10), intent, &mut random).unwrap();
    assert_eq!(
        asked.message,
        canonical(&session["encrypted_request"]["message"])
    );

    let mut agents = Agents::new(AgentLimits::default());
    let host = crate::support::Offers {
        blocked: false,
        names: vec![policy::IntentName::parse("nlp.translate").unwrap()],
        ..Default::default()
    };
    let incoming = Incoming::read(at(10), &asked.message, 1 << 20, None).unwrap();
    let handled = server.handle_message(at(10), &incoming, &mut agents, &host);
    let Ok(Handled::Start(start)) = handled else {
        panic!("{handled:?}");
    };
    let result = Value::Object(tree(&session["response"]["message"]["result"]));
    let answer = server
        .respond(at(10), start.token, Ok(result.clone()))
        .unwrap();
    assert_eq!(
        answer.message,
        canonical(&session["encrypted_response"]["message"])
    );
    let record = &answer.record;
    let hash = |name: &str| session[name]["message_hash"].as_str().unwrap().parse().ok();
    assert_eq!(record.request_hash, hash("request"));
    assert_eq!(record.response_hash, hash("response"));
    let event = client.handle_message(at(10), &answer.message).unwrap();
    let ClientEvent::Response { result: heard, .. } = event else {
        panic!("{event:?}");
    };
    assert_eq!(heard, result);
}
