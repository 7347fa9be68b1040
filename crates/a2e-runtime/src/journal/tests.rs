use std::time::Duration;

use a2e_session::{HostEvent, Limits, Now, Offer, OfferedCapability};
use a2e_wire::Body;
use serde_json::json;

use super::*;
use crate::snapshot::MemoryStore;

fn now() -> Now {
    Now {
        monotonic: Duration::from_secs(5),
        unix: Timestamp::default(),
    }
}

fn owner() -> Owner {
    Owner {
        agent: "me".into(),
        user: None,
        did: None,
    }
}

fn opened(max_replay: usize) -> HostSession {
    let tools = OfferedCapability {
        capability: Capability::Tools,
        name: "t".into(),
        priority: 0,
        exclusive: false,
    };
    let offer = Offer {
        capabilities: vec![tools],
        ..Offer::default()
    };
    let limits = Limits {
        max_replay,
        ..Limits::default()
    };
    let mut count = 0_u128;
    let random = Box::new(move || {
        count += 1;
        count
    });
    let mut session = HostSession::new(now(), limits, offer, random);
    let handshake = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"]});
    say(&mut session, &handshake);
    session
}

fn say(session: &mut HostSession, message: &serde_json::Value) -> Vec<Token> {
    session.handle_line(now(), Ok(message.to_string().as_bytes()));
    let mut started = Vec::new();
    while let Some(event) = session.poll_event() {
        match event {
            HostEvent::Login(_) => session.login_accepted(now()),
            HostEvent::Start(request) => started.push(request.token),
            HostEvent::Opened(_)
            | HostEvent::Cancel(..)
            | HostEvent::Reply(_)
            | HostEvent::HandshakeRefused(_)
            | HostEvent::Refused(_)
            | HostEvent::Closed(_) => {}
        }
    }
    started
}

fn ask(session: &mut HostSession, id: &str) -> Vec<Token> {
    say(session, &json!({"type": "tool/list/req", "id": id}))
}

fn journal(session: &HostSession, max_replay: usize) -> (Arc<MemoryStore>, Journal) {
    let store = Arc::new(MemoryStore::default());
    let kept: Arc<dyn SnapshotStore> = Arc::<MemoryStore>::clone(&store);
    let journal = Journal::begin(kept, session, owner(), max_replay);
    (store, journal)
}

fn answer() -> Body<'static> {
    a2e_wire::messages::tool::ToolListResponse::new().into()
}

/// It may be the first thing that is recorded; what was written before follows.
#[test]
fn request_is_open_before_it_is_executed() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    ask(&mut session, "1");
    journal.record_open(&session).unwrap();
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.open, ["1".into()]);
    assert_eq!(restored.saved.last_eid, 0);
    journal.record(&mut session).unwrap();
    ask(&mut session, "\"2\"\n");
    journal.record_open(&session).unwrap();
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.open, ["1".into(), "\"2\"\n".into()]);
    assert_eq!(restored.saved.last_eid, 1);
}

#[test]
fn what_is_on_record_can_be_gone_on_with() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    journal.record(&mut session).unwrap();
    let first = ask(&mut session, "1")[0];
    ask(&mut session, "2");
    journal.record(&mut session).unwrap();
    session.respond(now(), first, Ok(answer())).unwrap();
    journal.record(&mut session).unwrap();
    for state in ["{\"n\":1}", "{\"n\":2}"] {
        journal
            .plugin("counter", &Raw::parse(state, a2e_wire::OWN_VALUES).unwrap())
            .unwrap();
    }
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.owner, owner());
    assert_eq!(restored.saved.session_id, *session.session_id());
    assert_eq!(restored.saved.accepted, [Capability::Tools]);
    assert_eq!(restored.saved.last_eid, 2);
    assert_eq!(restored.open, ["2".into()]);
    let eids: Vec<_> = restored.saved.written.iter().map(|(eid, _)| *eid).collect();
    assert_eq!(eids, [1, 2]);
    assert_eq!(restored.states.len(), 1);
    assert_eq!(restored.states[0].state, "{\"n\":2}");
}

/// `kill -9` may cut the last line off anywhere.
#[test]
fn a_record_that_was_cut_off() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    ask(&mut session, "1");
    journal.record(&mut session).unwrap();
    let whole = store.get(&key(session.session_id())).unwrap().unwrap();
    let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for length in 0..whole.len() {
        let restored = read(&whole[..length]);
        assert_eq!(restored.is_some(), length >= first_line, "cut at {length}");
        if let Some(restored) = restored {
            assert!(restored.open.is_empty(), "cut at {length}");
        }
    }
    assert_eq!(read(&whole).unwrap().open, ["1".into()]);
}

#[test]
fn a_record_is_begun_anew_before_it_grows_without_end() {
    let mut session = opened(500);
    let (store, mut journal) = journal(&session, 500);
    ask(&mut session, "open");
    let mut longest = 0;
    for number in 0..2000 {
        say(
            &mut session,
            &json!({"type": "ping", "id": number.to_string()}),
        );
        journal.record(&mut session).unwrap();
        while session.poll_transmit(now()).is_some() {}
        let record = store.get(&key(session.session_id())).unwrap().unwrap();
        longest = longest.max(record.len());
    }
    assert!(longest < journal.max_length + 1000, "{longest}");
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.saved.last_eid, 2001);
    assert_eq!(restored.open, ["open".into()]);
}
