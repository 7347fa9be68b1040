//! A link that an adversary owns, on virtual time: it drops, replays, reorders, splices and edits.
//!
//! The script is a list of bytes, so that a failing one shrinks to a short one.

use std::collections::BTreeMap;

use a2a_session::*;
use canonical::Value;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{CLIENT, Duo, World, echo, json, text, tree};

/// The bytes of a script, one after the other.
struct Script<'s>(std::slice::Iter<'s, u8>);

impl Script<'_> {
    fn next(&mut self) -> Option<usize> {
        self.0.next().map(|byte| usize::from(*byte))
    }

    fn pick<'v, T>(&mut self, values: &'v [T]) -> Option<&'v T> {
        let index = self.next()?;
        values.get(index.checked_rem(values.len())?)
    }

    /// One of the messages seen, perhaps with a member changed, taken from another, or left out.
    fn message(&mut self, seen: &[Vec<u8>]) -> Option<Vec<u8>> {
        let message = self.pick(seen)?.clone();
        let mut value = json(&message);
        let members = value.as_object_mut().unwrap();
        let names: Vec<String> = members.keys().cloned().collect();
        match self.next()? % 6 {
            0 => {
                let name = self.pick(&names)?;
                let other = json(self.pick(seen)?);
                if let Some(spliced) = other.get(name) {
                    members.insert(name.clone(), spliced.clone());
                }
            }
            1 => drop(members.remove(self.pick(&names)?)),
            2 => drop(members.insert("added".into(), json!(1))),
            // As it was.
            _ => return Some(message),
        }
        Some(text(&value))
    }
}

#[derive(Debug)]
enum Client {
    Challenge(ExpectChallenge),
    Policy(Box<ExpectPolicy>),
    Session(Box<ExpectSession>),
    Done(Box<Established<policy::Policy>>),
}

/// Hands a message to a client; what it cannot take ends it.
fn hear(
    world: &mut World,
    client: Client,
    message: &[u8],
    seen: &mut Vec<Vec<u8>>,
) -> Option<Client> {
    let now = world.now();
    Some(match client {
        Client::Challenge(client) => {
            let (next, message) = world.challenged(client, message).ok()?;
            seen.push(message);
            Client::Policy(next)
        }
        Client::Policy(client) => {
            let (next, message) = client.handle_message(now, message).ok()?;
            seen.push(message);
            Client::Session(next)
        }
        Client::Session(client) => Client::Done(client.handle_message(now, message).ok()?),
        done @ Client::Done(_) => done,
    })
}

/// Whatever the adversary does, whoever gets through agrees with the other side.
fn handshakes(script: &[u8]) {
    let mut script = Script(script.iter());
    let mut world = World::with(|config| {
        config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap();
    });
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut clients = Vec::new();
    let mut sessions = BTreeMap::new();
    while let Some(operation) = script.next() {
        match operation % 8 {
            0 if clients.len() < 3 => {
                let (client, hello) = world.begin(CLIENT);
                seen.push(hello);
                clients.push(Client::Challenge(client));
            }
            1..=3 => {
                let Some(message) = script.message(&seen) else {
                    continue;
                };
                match world.serve(&message) {
                    Ok(Reply::Send(reply)) => seen.push(reply),
                    Ok(Reply::Established {
                        session, message, ..
                    }) => {
                        sessions.insert(session.session_id().to_string(), session);
                        seen.push(message);
                    }
                    Ok(Reply::Resolve(_) | Reply::GivenUp(_)) | Err(_) => {}
                }
            }
            4..=6 if !clients.is_empty() => {
                let index = script.next().unwrap_or_default() % clients.len();
                let Some(message) = script.message(&seen) else {
                    continue;
                };
                let client = clients.swap_remove(index);
                clients.extend(hear(&mut world, client, &message, &mut seen));
            }
            7 => world.wait(script.next().unwrap_or_default() as u64 % 7),
            _ => {}
        }
        assert!(world.server.half_open() <= seen.len());
    }
    for client in clients {
        if let Client::Done(client) = client {
            let server = &sessions[client.session_id().as_str()];
            assert_eq!(client.transcript(), server.transcript());
            assert_eq!(client.policy().hash(), server.policy().hash());
            assert_eq!(server.peer().did(), &crate::support::did(CLIENT));
        }
    }
    world.wait(30);
    let now = world.now();
    world.server.handle_timeout(now);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

/// Whatever the adversary does, each request runs once at most, and each answer is the true one.
fn sessions(script: &[u8], sealed: bool) {
    let mut script = Script(script.iter());
    let mut duo = match sealed {
        true => Duo::sealed(),
        false => Duo::new(),
    };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    let mut asked = Vec::new();
    while let Some(operation) = script.next() {
        match operation % 8 {
            0 | 1 if asked.len() < 20 => {
                let now = duo.world.now();
                let intent = Value::Object(tree(&echo()));
                let random = &mut duo.world.random;
                if let Ok(outgoing) = duo.client.request(now, intent, random) {
                    asked.push(outgoing.request_id.to_string());
                    up.push(outgoing.message);
                }
            }
            2..=4 => {
                let Some(message) = script.message(&up) else {
                    continue;
                };
                let id = json(&message)["request_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                match duo.serve(&message) {
                    Ok(Handled::Start(start)) => {
                        *runs.entry(id.clone()).or_default() += 1;
                        let answer = duo.respond(start.token, json!({"to": id}));
                        down.push(answer.message);
                    }
                    Ok(Handled::Answer { answer, .. }) => down.push(answer.message),
                    Err(refusal) => down.push(refusal.message),
                }
            }
            5 | 6 => {
                let Some(message) = script.message(&down) else {
                    continue;
                };
                if let Ok(ClientEvent::Response {
                    request_id, result, ..
                }) = duo.hear(&message)
                {
                    assert_eq!(result, Value::Object(tree(&json!({"to": request_id}))));
                }
            }
            _ => duo.world.wait(script.next().unwrap_or_default() as u64 % 5),
        }
    }
    for (id, count) in runs {
        assert_eq!(count, 1);
        assert!(asked.contains(&id), "nobody asked {id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_link_and_handshakes(script in proptest::collection::vec(any::<u8>(), 0..160)) {
        handshakes(&script);
    }

    #[test]
    fn a_hostile_link_and_sessions(script in proptest::collection::vec(any::<u8>(), 0..160), sealed: bool) {
        sessions(&script, sealed);
    }
}

/// A script that lets two handshakes through in turns, with every message sent twice.
#[test]
fn everything_twice_and_in_turns() {
    let mut world = World::new();
    let mut clients: Vec<_> = (0..2)
        .map(|_| {
            let (client, hello) = world.begin(CLIENT);
            (Some(Client::Challenge(client)), hello)
        })
        .collect();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        for (client, message) in &mut clients {
            let first = world.serve(message);
            assert!(world.serve(message).is_err(), "the second is refused");
            let reply = match first.unwrap() {
                Reply::Send(reply) => reply,
                Reply::Established {
                    session, message, ..
                } => {
                    sessions.push(session);
                    message
                }
                other @ (Reply::Resolve(_) | Reply::GivenUp(_)) => panic!("{other:?}"),
            };
            let mut said = Vec::new();
            *client = hear(&mut world, client.take().unwrap(), &reply, &mut said);
            *message = said.pop().unwrap_or_default();
        }
    }
    for ((client, _), server) in clients.into_iter().zip(sessions) {
        let Some(Client::Done(client)) = client else {
            panic!("{client:?}");
        };
        assert_eq!(client.transcript(), server.transcript());
    }
}
