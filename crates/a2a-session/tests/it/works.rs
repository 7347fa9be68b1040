//! Work that has a name is done once (threat 109; profile §10.5).

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use canonical::Value;
use serde_json::json;

use crate::support::{CLIENT, Duo, MALLORY, World, did, source, tree};

const NAME: &str = "0e9f2a5c-1111-4222-8333-444455556666";

fn named(say: &str) -> serde_json::Value {
    json!({"goal": "echo", "intent_id": NAME, "inputs": {"say": say}})
}

fn finish(duo: &mut Duo, work: WorkId, result: Option<serde_json::Value>) {
    let result = result.map(|result| Value::Object(tree(&result)));
    let now = duo.world.now();
    duo.agents.finish(now, work, result.as_ref());
}

fn started(duo: &mut Duo, say: &str) -> Box<Start> {
    let asked = duo.ask(named(say));
    duo.start(&asked.message)
}

fn keeping(retention: &str) -> Duo {
    let mut world = World::new();
    let policy = tree(&json!({"data_retention": retention}));
    let policy = policy::Policy::read(&policy, 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    Duo::with(world)
}

#[test]
fn threat_109_the_same_work_again() {
    let mut duo = Duo::new();
    let first = started(&mut duo, "hello");
    let Work::Do(Some(work)) = first.work else {
        panic!("{:?}", first.work);
    };
    // While it runs, one joins.
    assert_eq!(started(&mut duo, "hello").work, Work::Join(work));
    // Other work under the same name.
    let asked = duo.ask(named("bye"));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.code, ErrorCode::InvalidIntent);
    assert_eq!(refusal.failure.reason, Some(Reason::IntentIdConflict));
    // Another agent is independent.
    let shaken = duo.world.shake(MALLORY);
    let now = duo.world.now();
    let mut client = ClientSession::new(now, *shaken.client);
    let intent = Value::Object(tree(&named("hello")));
    let asked = client.request(now, intent, &mut duo.world.random).unwrap();
    let mut server = ServerSession::new(now, *shaken.server, SessionLimits::default());
    std::mem::swap(&mut duo.server, &mut server);
    let other = duo.start(&asked.message).work;
    assert!(matches!(other, Work::Do(Some(other)) if other != work));
    std::mem::swap(&mut duo.server, &mut server);
    // Done: the result is there, in another session of the agent too.
    finish(&mut duo, work, Some(json!({"n": 1})));
    let Work::Done(result) = started(&mut duo, "hello").work else {
        panic!("it is not done");
    };
    assert_eq!(*result, Value::Object(tree(&json!({"n": 1}))));
    let (client, server) = duo.another();
    (duo.client, duo.server) = (client, server);
    assert!(matches!(started(&mut duo, "hello").work, Work::Done(_)));
    // For ten minutes at least.
    duo.world.wait(599);
    let (client, server) = duo.another();
    (duo.client, duo.server) = (client, server);
    assert!(matches!(started(&mut duo, "hello").work, Work::Done(_)));
    duo.world.wait(1);
    assert!(matches!(started(&mut duo, "hello").work, Work::Do(Some(_))));
}

/// Proves A-7-8.
#[test]
fn threat_109_141_retention_none_keeps_no_result() {
    let mut duo = keeping("none");
    let Work::Do(Some(work)) = started(&mut duo, "hello").work else {
        panic!("it is not new");
    };
    finish(&mut duo, work, Some(json!({"marker": 1})));
    let asked = duo.ask(named("hello"));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.reason, Some(Reason::AlreadyExecuted));
    assert!(!format!("{:?}", duo.agents).contains("marker"));
}

/// Proves A-7-8.
#[test]
fn threat_142_retention_session_ends_with_it() {
    let mut duo = keeping("session");
    let Work::Do(Some(work)) = started(&mut duo, "hello").work else {
        panic!("it is not new");
    };
    finish(&mut duo, work, Some(json!({"marker": 1})));
    assert!(matches!(started(&mut duo, "hello").work, Work::Done(_)));
    let now = duo.world.now();
    duo.server.end(now, EndReason::Closed, &mut duo.agents);
    assert!(!format!("{:?}", duo.agents).contains("marker"));
    let (client, server) = duo.another();
    (duo.client, duo.server) = (client, server);
    let asked = duo.ask(named("hello"));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.reason, Some(Reason::AlreadyExecuted));
}

#[test]
fn work_that_failed_may_be_tried_again() {
    let mut duo = Duo::new();
    let Work::Do(Some(work)) = started(&mut duo, "hello").work else {
        panic!("it is not new");
    };
    finish(&mut duo, work, None);
    assert!(matches!(started(&mut duo, "hello").work, Work::Do(Some(_))));
}

fn limited(entries: base::Limits, bytes: usize) -> Duo {
    let mut duo = Duo::new();
    duo.agents = Agents::new(AgentLimits {
        works: WorkLimits {
            entries,
            bytes: base::Limits {
                total: bytes,
                per_holder: bytes,
                reserved: 0,
            },
        },
        ..AgentLimits::default()
    });
    duo
}

fn numbered(duo: &mut Duo, number: u8) -> Vec<u8> {
    let id = format!("0e9f2a5c-1111-4222-8333-4444555566{number:02}");
    duo.ask(json!({"goal": "echo", "intent_id": id})).message
}

/// Begins new work of this number.
fn begun(duo: &mut Duo, number: u8) -> WorkId {
    let message = numbered(duo, number);
    let Work::Do(Some(work)) = duo.start(&message).work else {
        panic!("it is not new");
    };
    work
}

#[test]
fn work_has_limits() {
    let entries = base::Limits {
        total: 3,
        per_holder: 2,
        reserved: 0,
    };
    let mut duo = limited(entries, 20);
    let works = [begun(&mut duo, 0), begun(&mut duo, 1)];
    let message = numbered(&mut duo, 2);
    assert_eq!(
        duo.refused(&message).failure.code,
        ErrorCode::ServiceUnavailable
    );
    // Two results do not fit: of the second the store is asked.
    for work in works {
        finish(&mut duo, work, Some(json!({"result": "abc"})));
    }
    let message = numbered(&mut duo, 0);
    assert!(matches!(duo.start(&message).work, Work::Done(_)));
    let again = begun(&mut duo, 1);
    assert!(!works.contains(&again));
    // Work that runs is never forgotten; finished work makes room, and its result too.
    let third = begun(&mut duo, 2);
    let message = numbered(&mut duo, 1);
    assert_eq!(duo.start(&message).work, Work::Join(again));
    finish(&mut duo, third, Some(json!({"result": "abc"})));
    let message = numbered(&mut duo, 2);
    assert!(matches!(duo.start(&message).work, Work::Done(_)));
    // Another source has one more place in all.
    for (number, fits) in [(2, true), (3, true), (4, false)] {
        duo.world.source = source(number);
        duo.become_agent(100 + number);
        let message = numbered(&mut duo, 0);
        assert_eq!(duo.serve(&message).is_ok(), fits);
    }
}

/// Strangers that finish a lot of work push out their own, and nothing that runs.
#[test]
fn threat_109_strangers_do_not_fill_the_table_of_work() {
    let entries = base::Limits {
        total: 10,
        per_holder: 3,
        reserved: 2,
    };
    let mut duo = limited(entries, 1 << 20);
    duo.world.book.added.insert(did(50).to_string());
    duo.become_agent(50);
    let known = begun(&mut duo, 0);
    finish(&mut duo, known, Some(json!({"known": true})));
    let stranger = duo.session_of(CLIENT, None);
    let known = duo.go_on(stranger);
    let running = begun(&mut duo, 0);
    let mut stranger = None;
    for seed in 100..140 {
        duo.world.source = source(seed / 5);
        let other = duo.session_of(seed, None);
        let before = duo.go_on(other);
        stranger.get_or_insert(before);
        for number in 0..3 {
            let work = begun(&mut duo, number);
            finish(&mut duo, work, Some(json!({"flood": number})));
        }
    }
    duo.go_on(stranger.unwrap());
    let message = numbered(&mut duo, 0);
    assert_eq!(duo.start(&message).work, Work::Join(running));
    begun(&mut duo, 1);
    duo.go_on(known);
    let message = numbered(&mut duo, 0);
    assert!(matches!(duo.start(&message).work, Work::Done(_)));
    for number in 1..3 {
        begun(&mut duo, number);
    }
}
