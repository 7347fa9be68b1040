//! Answers in parts (threat 113; profile §10.6).

use a2a_session::*;
use a2a_wire::ErrorCode;
use canonical::Value;
use serde_json::json;

use crate::adversary::edit;
use crate::support::{Duo, echo, json, tree};

fn streamed() -> serde_json::Value {
    json!({"goal": "echo", "constraints": {"stream": true}})
}

fn part(text: &str) -> Value<'static> {
    Value::Object(tree(&json!({"text": text})))
}

/// Two parts and the answer.
fn answered(duo: &mut Duo) -> (Vec<Vec<u8>>, Vec<u8>) {
    let asked = duo.ask(streamed());
    let start = duo.start(&asked.message);
    assert!(start.stream);
    let parts = ["Ho", "la", "!"].map(|text| duo.server.chunk(start.token, part(text)).unwrap());
    let answer = duo.respond(start.token, json!({"done": true}));
    (parts.into(), answer.message)
}

#[test]
fn parts_and_their_chain() {
    for mut duo in [Duo::new(), Duo::sealed()] {
        let (parts, answer) = answered(&mut duo);
        for (number, part) in parts.iter().enumerate() {
            let event = duo.hear(part).unwrap();
            let ClientEvent::Chunk { index, .. } = event else {
                panic!("{event:?}");
            };
            assert_eq!(index, number as u64);
        }
        let event = duo.hear(&answer).unwrap();
        assert!(matches!(event, ClientEvent::Response { .. }));
    }
}

#[test]
fn threat_113_streams_that_were_tampered_with() {
    for sealed in [false, true] {
        let duo = || match sealed {
            true => Duo::sealed(),
            false => Duo::new(),
        };
        let unverified = |result: Result<ClientEvent, Dropped>| {
            let dropped = result.unwrap_err();
            assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
        };
        // One is missing.
        let mut it = duo();
        let (parts, answer) = answered(&mut it);
        it.hear(&parts[0]).unwrap();
        unverified(it.hear(&parts[2]));
        unverified(it.hear(&answer));
        // One is doubled, or comes too early.
        let mut it = duo();
        let (parts, answer) = answered(&mut it);
        unverified(it.hear(&parts[1]));
        it.hear(&parts[0]).unwrap();
        unverified(it.hear(&parts[0]));
        it.hear(&parts[1]).unwrap();
        // The last is missing, then comes after all.
        unverified(it.hear(&answer));
        it.hear(&parts[2]).unwrap();
        it.hear(&answer).unwrap();
        // One is altered.
        let mut it = duo();
        let (parts, _) = answered(&mut it);
        unverified(it.hear(&edit(&parts[0], |it| it["index"] = json!(1))));
        if !sealed {
            unverified(it.hear(&edit(&parts[0], |it| it["data"] = json!({"text": "Ha"}))));
            unverified(it.hear(&edit(&parts[0], |it| {
                it.as_object_mut().unwrap().remove("chain");
            })));
        }
        // The whole chain is forged: only the signature tells.
        if !sealed {
            let mut it = duo();
            let (parts, answer) = answered(&mut it);
            let forged = forged_first(&answer, &parts[0]);
            it.hear(&forged).unwrap();
            unverified(it.hear(&answer));
        }
    }
}

/// A first part with other data and a chain that fits it.
fn forged_first(answer: &[u8], part: &[u8]) -> Vec<u8> {
    let signed = crate::adversary::payload(&json(answer)["response_jws"]);
    let request_hash = signed["request_hash"].as_str().unwrap().parse().unwrap();
    let mut chain = a2a_wire::StreamChain::new(&request_hash);
    let data = json!({"text": "Ha"});
    chain.add(&Value::Object(tree(&data)));
    edit(part, |it| {
        it["data"] = data;
        it["chain"] = json!(chain.state().to_string());
    })
}

#[test]
fn parts_have_a_size_and_must_be_asked_for() {
    let mut duo = Duo::new();
    let asked = duo.ask(streamed());
    let start = duo.start(&asked.message);
    let text = |length: usize| Value::String("x".repeat(length).into());
    let limit = 64 * 1024;
    assert!(duo.server.chunk(start.token, text(limit - 2)).is_ok());
    let refused = duo.server.chunk(start.token, text(limit - 1));
    assert_eq!(refused, Err(ChunkError::TooLarge { limit }));
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    let refused = duo.server.chunk(start.token, text(1));
    assert_eq!(refused, Err(ChunkError::NotStreamed));
    // The deadline covers the whole.
    let asked = duo.ask(streamed());
    let start = duo.start(&asked.message);
    duo.server.chunk(start.token, text(1)).unwrap();
    duo.world.wait(300);
    let ended = duo.server.handle_timeout(duo.world.now());
    let ended = ended.iter().find(|it| it.token == start.token).unwrap();
    assert_eq!(json(&ended.answer.message)["stream"]["chunks"], 1);
    let late = duo.server.chunk(start.token, text(1));
    assert_eq!(late, Err(ChunkError::NotRunning(NotRunning)));
}

/// A hostile server's parts, well chained.
struct Forged {
    template: Vec<u8>,
    chain: a2a_wire::StreamChain,
    index: u64,
}

impl Forged {
    fn new(duo: &mut Duo) -> Self {
        let (parts, answer) = answered(duo);
        let signed = crate::adversary::payload(&json(&answer)["response_jws"]);
        let request_hash = signed["request_hash"].as_str().unwrap().parse().unwrap();
        Self {
            template: parts[0].clone(),
            chain: a2a_wire::StreamChain::new(&request_hash),
            index: 0,
        }
    }

    /// A part of which the data has this many bytes in canonical form.
    fn part(&self, bytes: usize) -> (Vec<u8>, a2a_wire::StreamChain) {
        let data = "x".repeat(bytes - 2);
        let mut chain = self.chain.clone();
        chain.add(&Value::String(data.clone().into()));
        let part = edit(&self.template, |it| {
            it["index"] = json!(self.index);
            it["data"] = json!(data);
            it["chain"] = json!(chain.state().to_string());
        });
        (part, chain)
    }

    fn hear(&mut self, duo: &mut Duo, bytes: usize) -> Result<ClientEvent, Dropped> {
        let (part, chain) = self.part(bytes);
        let heard = duo.hear(&part)?;
        self.chain = chain;
        self.index += 1;
        Ok(heard)
    }
}

#[test]
fn threat_113_the_client_takes_parts_of_64_kib_and_16_mib_in_all() {
    let chunk = 64 * 1024;
    let mut duo = Duo::new();
    let mut server = Forged::new(&mut duo);
    let dropped = server.hear(&mut duo, chunk + 1).unwrap_err();
    assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
    for _ in 0..(ANSWER / chunk) - 1 {
        server.hear(&mut duo, chunk).unwrap();
    }
    server.hear(&mut duo, chunk - 2).unwrap();
    let dropped = server.hear(&mut duo, 3).unwrap_err();
    assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
    server.hear(&mut duo, 2).unwrap();
    let dropped = server.hear(&mut duo, 2).unwrap_err();
    assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
    // Another call begins anew.
    let mut server = Forged::new(&mut duo);
    server.hear(&mut duo, chunk).unwrap();
}

/// Section `stream` of the vectors.
#[test]
fn the_chain_is_that_of_the_vectors() {
    let vectors = crate::vectors::vector();
    let stream = &vectors["stream"];
    let hash = stream["request_hash"].as_str().unwrap().parse().unwrap();
    let mut chain = a2a_wire::StreamChain::new(&hash);
    for entry in stream["chain"].as_array().unwrap() {
        if let Some(data) = entry.get("data") {
            chain.add(&Value::Object(tree(data)));
        }
        assert_eq!(entry["chain"], chain.state().to_string());
    }
}

/// §8.1: a server that does not list `stream` and `cancel` is not asked for them.
#[test]
fn features_that_a_server_does_not_have() {
    use crate::support::{CLIENT, World};
    let mut world = World::with(|config| config.sealing = Sealing::IfRequired);
    let (_, hello) = world.begin(CLIENT);
    let hello = edit(&hello, |it| it["extensions"]["features"] = json!([]));
    let mut client = crate::handshake_server::HandMade::new(CLIENT, hello);
    let challenge = crate::support::sent(world.serve(&client.hello));
    let policy = crate::support::sent(world.serve(&client.prove(&challenge)));
    let (session, _) = crate::support::established(world.serve(&client.accept(&policy)));
    let mut duo = Duo::with(world);
    let id = session.session_id().to_string();
    let now = duo.world.now();
    let mut server = ServerSession::new(now, *session, SessionLimits::default());
    // The same client over another session's machine: it signs, and this session checks.
    let asked = duo.ask(streamed());
    let value = edit(&asked.message, |it| it["session_id"] = json!(id));
    let hash = tree(&json(&value)).digest_without(&["request_jws"]);
    let message = crate::adversary::resign::<{ crate::adversary::REQUEST }>(&value, CLIENT, |it| {
        it["session_id"] = json!(id);
        it["message_hash"] = json!(hash.to_string());
    });
    std::mem::swap(&mut duo.server, &mut server);
    assert!(!duo.start(&message).stream);
}
