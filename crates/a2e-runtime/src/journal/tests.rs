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

fn begin(journal: &mut Journal, id: &str) {
    let begun = Begun {
        id: id.into(),
        content: Digest::of(id.as_bytes()),
    };
    journal.begin_request(now().monotonic, begun).unwrap();
}

/// The requests that must not be begun again.
fn begun(restored: &Restored) -> Vec<&str> {
    let mut begun: Vec<_> = restored.begun.keys().map(String::as_str).collect();
    begun.sort_unstable();
    begun
}

fn answer() -> Body<'static> {
    a2e_wire::messages::tool::ToolListResponse::new().into()
}

/// The first thing on record may be that a request is begun; what was written before follows.
#[test]
fn a_request_that_is_begun_before_anything_is_on_record() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    ask(&mut session, "1");
    begin(&mut journal, "1");
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.saved.open, ["1".into()]);
    assert_eq!((begun(&restored), restored.saved.last_eid), (vec!["1"], 0));
    journal.record(&mut session).unwrap();
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!((begun(&restored), restored.saved.last_eid), (vec!["1"], 1));
}

/// Requests that came to nothing may be done again; one that gets no answer is not owed any.
#[test]
fn what_may_be_done_again() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    journal.record(&mut session).unwrap();
    for id in ["failed", "silent", "again", "\"quoted\"\n"] {
        ask(&mut session, id);
        begin(&mut journal, id);
    }
    journal.forget_request("failed", Gets::Answer).unwrap();
    journal.forget_request("silent", Gets::Nothing).unwrap();
    journal.forget_request("again", Gets::Answer).unwrap();
    begin(&mut journal, "again");
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    let open = ["failed", "again", "\"quoted\"\n"].map(MessageId::from);
    assert_eq!(restored.saved.open, open);
    assert_eq!(begun(&restored), ["\"quoted\"\n", "again"]);
}

/// What was answered long ago is no longer owed, but must still not be done twice.
#[test]
fn a_record_that_is_begun_anew_knows_what_was_done() {
    let mut session = opened(0);
    let (store, mut journal) = journal(&session, 0);
    for number in 0..1000 {
        let id = number.to_string();
        let token = ask(&mut session, &id)[0];
        begin(&mut journal, &id);
        if number > 0 {
            session.respond(now(), token, Ok(answer())).unwrap();
        }
        journal.record(&mut session).unwrap();
        while session.poll_transmit(now()).is_some() {}
    }
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert!(restored.answers.len() < 1000, "it was begun anew");
    assert_eq!(restored.begun.len(), 1000);
    assert_eq!(restored.saved.open, ["0".into()]);
    // And so does the next process.
    let (store, mut next) = self::journal(&session, 0);
    next.adopt(now().monotonic, Vec::new(), restored.begun);
    next.record(&mut session).unwrap();
    let restored = load(&*store, session.session_id()).unwrap().unwrap();
    assert_eq!(restored.begun.len(), 1000);
}

#[test]
fn what_is_on_record_can_be_gone_on_with() {
    let mut session = opened(1000);
    let (store, mut journal) = journal(&session, 1000);
    journal.record(&mut session).unwrap();
    let first = ask(&mut session, "1")[0];
    begin(&mut journal, "1");
    ask(&mut session, "2");
    begin(&mut journal, "2");
    ask(&mut session, "3");
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
    assert_eq!(restored.saved.open, ["2".into(), "3".into()]);
    assert_eq!(begun(&restored), ["1", "2"], "the third was only taken");
    let eids: Vec<_> = restored.saved.written.iter().map(|(eid, _)| *eid).collect();
    assert_eq!(eids, [1, 2]);
    let answered: Vec<_> = restored.answers.keys().collect();
    assert_eq!(answered, ["1"], "the handshake has no answer to remember");
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
            assert!(restored.saved.open.is_empty(), "cut at {length}");
        }
    }
    assert_eq!(read(&whole).unwrap().saved.open, ["1".into()]);
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
    assert_eq!(restored.saved.open, ["open".into()]);
}
