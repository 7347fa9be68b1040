//! Many sessions of several agents at once, with hostile messages among theirs, and a restart in the
//! middle. `a2a_load` of the benchmarks is the same at full size, over real connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2a_net::transport::Place;
use a2a_net::*;
use a2a_session::{ClientEvent, Own};
use serde_json::json;
use store::{Options, Sqlite, Store};
use tokio::task::JoinSet;

use crate::hand::*;
use crate::support::*;

const AGENTS: u8 = 5;
const SESSIONS: usize = 4;
/// Requests of each session before the restart, and after it.
const REQUESTS: usize = 10;

/// All messages come from one address, and shake hands more often than one may.
fn raised(settings: &mut ServerSettings) {
    settings.config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap();
    settings.source_rate = policy::Rate::new(1_000_000, 1).unwrap();
}

/// How often each piece of work was done, over all nodes.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<BTreeMap<String, usize>>>);

impl Done {
    fn register(&self, server: &Server) {
        let this = self.clone();
        server.register(name("work"), move |call: Call| {
            let id = call.intent_id.clone().unwrap();
            *this.0.lock().unwrap().entry(id).or_default() += 1;
            async move { Ok(call.inputs.get("number").unwrap().clone()) }
        });
    }

    fn counts(&self) -> Vec<usize> {
        self.0.lock().unwrap().values().copied().collect()
    }
}

fn work(number: usize) -> serde_json::Value {
    let intent_id = format!("6f1c5b8e-3f57-4d1e-9a53-{number:012x}");
    json!({"goal": "work", "intent_id": intent_id, "inputs": {"number": number}})
}

/// A session of each agent and number.
async fn sessions(world: &World<InMemory>) -> Vec<Hand> {
    let mut hands = Vec::new();
    for agent in 0..AGENTS {
        for _ in 0..SESSIONS {
            let seed = 100 + agent;
            let own = Own::new(manifest(seed), "k".parse().unwrap(), key(seed)).unwrap();
            hands.push(Hand::of(&world.server, world.client_home.standing(), own).await);
        }
    }
    hands
}

/// What somebody makes of a message that it saw, and what it gets for that.
fn hostile(kind: usize, seen: &[u8]) -> (Vec<u8>, &'static str) {
    let mut forged: serde_json::Value = serde_json::from_slice(seen).unwrap();
    match kind % 4 {
        0 => return (seen.to_vec(), "REPLAY_DETECTED"),
        1 => return (b"{\"type\":".to_vec(), "INVALID_MESSAGE"),
        2 => forged["request_id"] = json!("6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d14"),
        _ => forged["session_id"] = json!("A".repeat(43)),
    }
    let code = if kind % 4 == 2 {
        "UNVERIFIED_AGENT"
    } else {
        "SESSION_EXPIRED"
    };
    (forged.to_string().into_bytes(), code)
}

/// Every session sends its requests, all at once, with a hostile message to every fifth. Returns what
/// was sent.
async fn round(hands: &mut [Hand]) -> Vec<Vec<u8>> {
    let (mut sent, mut answers) = (Vec::new(), JoinSet::new());
    for request in 0..REQUESTS {
        for (index, hand) in hands.iter_mut().enumerate() {
            let number = index * REQUESTS + request;
            let message = hand.request(&work(number));
            sent.push(message.clone());
            let server = hand.server.clone();
            answers.spawn(async move {
                let answer = send(&server, Place::Request, message.clone()).await;
                if number.is_multiple_of(5) {
                    let (bad, code) = hostile(number / 5, &message);
                    assert_eq!(code_of(&send(&server, Place::Request, bad).await), code);
                }
                (index, number, answer)
            });
        }
    }
    while let Some(answered) = answers.join_next().await {
        let (index, number, answer) = answered.unwrap();
        let hand = &mut hands[index];
        let event = hand.session.handle_message(hand.clock.now(), &answer);
        let ClientEvent::Response { result, .. } = event.unwrap() else {
            panic!("{answer:?}");
        };
        assert_eq!(json_of(&result), json!(number));
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_with_hostile_messages_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let open = || Store::new(Sqlite::open(&Options::new(&path)).unwrap());
    let done = Done::default();
    let all = usize::from(AGENTS) * SESSIONS;
    let sent = {
        let world = World::<InMemory>::on(Rules::default(), open(), raised).await;
        done.register(&world.server);
        let mut hands = sessions(&world).await;
        let sent = round(&mut hands).await;
        assert_eq!(done.counts(), vec![1; all * REQUESTS]);
        let sessions = world.server.sessions();
        assert_eq!((sessions.len(), world.server.half_open()), (all, 0));
        assert!(sessions.iter().all(|session| session.in_flight == 0));
        let records = world.served("request_received");
        // Only what is refused to somebody known is on record by itself: here, replays.
        let good = records
            .iter()
            .filter(|it| it["response_status"] == "success");
        assert_eq!(good.count(), all * REQUESTS);
        sent
    };
    let world = World::<InMemory>::on(Rules::default(), open(), raised).await;
    done.register(&world.server);
    for message in sent {
        let answer = send(&world.server, Place::Request, message).await;
        assert_eq!(code_of(&answer), "SESSION_EXPIRED");
    }
    // The same work again, by the same agents over other sessions: answered, and not done.
    let mut hands = sessions(&world).await;
    round(&mut hands).await;
    assert_eq!(done.counts(), vec![1; all * REQUESTS]);
}
