//! Sessions that outlive their connection.

use std::time::Duration;

use a2e_session::{CloseReason, HostEvent, HostSession, Limits, Saved, failures};
use a2e_wire::messages::tool::ToolEvent;
use serde_json::{Value, json};

use crate::support::{Host, call, counter, kinds, list, offer};

#[test]
fn a_peer_that_comes_back_gets_what_it_missed() {
    let mut host = Host::active(Limits::default());
    host.say(&call("1"));
    let token = host.started()[0].token;
    let now = host.now();
    host.session
        .event(now, token, ToolEvent::new().into())
        .unwrap();
    assert_eq!(host.drain()[0]["eid"], 2);
    host.session.disconnected(now);
    // Work goes on without the peer, and nothing is written to nobody.
    host.session
        .event(now, token, ToolEvent::new().into())
        .unwrap();
    assert!(host.respond(token, list()).is_empty());
    host.session.resume(now, "again".into(), 1);
    let written = host.drain();
    assert_eq!(
        kinds(&written),
        [
            "handshake/resp",
            "tool/event",
            "tool/event",
            "tool/list/resp"
        ]
    );
    let first = &written[0];
    let session = host.session.session_id().as_str();
    assert_eq!(
        (&first["req_id"], &first["resumed"], &first["session_id"]),
        (&json!("again"), &json!(true), &json!(session))
    );
    assert_eq!(first.get("missed"), None);
    let eids: Vec<_> = written[1..]
        .iter()
        .map(|message| message["eid"].as_u64().unwrap())
        .collect();
    assert_eq!(eids, [2, 3, 4]);
}

#[test]
fn what_is_no_longer_kept_is_named() {
    let mut host = Host::active(Limits {
        max_replay: 0,
        ..Limits::default()
    });
    host.say(&json!({"type": "ping", "id": "p"}));
    let now = host.now();
    host.session.disconnected(now);
    host.session.resume(now, "again".into(), 1);
    assert_eq!(host.drain()[0]["missed"], json!([2, 2]));
}

#[test]
fn a_peer_that_does_not_come_back_is_let_go() {
    let mut host = Host::active(Limits {
        resume: Duration::from_secs(30),
        ..Limits::default()
    });
    host.say(&json!({"type": "tool/list/req", "id": "1"}));
    let token = host.started()[0].token;
    let now = host.now();
    host.session.disconnected(now);
    host.wait(29);
    assert!(!host.session.is_closed());
    host.wait(1);
    assert_eq!(
        host.events,
        [
            HostEvent::Cancel(token, a2e_session::CancelReason::SessionEnded),
            HostEvent::Closed(CloseReason::Disconnected)
        ]
    );
}

#[test]
fn without_a_handshake_or_a_window_a_broken_connection_is_the_end() {
    for mut host in [
        Host::new(Limits::default()),
        Host::active(Limits {
            resume: Duration::ZERO,
            ..Limits::default()
        }),
    ] {
        let now = host.now();
        host.session.disconnected(now);
        host.drain();
        assert_eq!(host.events, [HostEvent::Closed(CloseReason::Disconnected)]);
    }
}

/// A session of an earlier process: the peer gets what it has not, and an answer to what was cut off.
#[test]
fn a_session_survives_its_process() {
    let mut host = Host::active(Limits::default());
    host.say(&json!({"type": "ping", "id": "p"}));
    host.say(&call("1"));
    let lines = host.session.take_unrecorded().split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let number = |line| serde_json::from_slice::<Value>(line).unwrap()["eid"].as_u64();
    let written: Vec<_> = lines
        .map(|line| (number(line).unwrap(), line.to_vec()))
        .collect();
    let saved = Saved {
        session_id: host.session.session_id().clone(),
        accepted: host.session.accepted().to_vec(),
        last_eid: host.session.last_eid(),
        written,
        open: host
            .session
            .open_requests(None)
            .map(|(_, id)| (id.clone(), failures::interrupted().into_message().into()))
            .collect(),
    };
    let open: Vec<_> = saved.open.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(open, ["1".into()]);
    host.started();
    let now = host.now();
    let limits = Limits::default();
    host.session = HostSession::restore(now, limits, offer(), counter(), saved);
    assert!(host.drain().is_empty(), "nobody is there yet");
    host.session.resume(now, "again".into(), 1);
    let written = host.drain();
    assert_eq!(kinds(&written), ["handshake/resp", "pong", "runtime_error"]);
    assert_eq!(written[0]["accepted_caps"].as_array().unwrap().len(), 2);
    let error = &written[2];
    assert_eq!((&error["req_id"], &error["eid"]), (&json!("1"), &json!(3)));
    assert_eq!(error["detail"]["reason"], "host_restarted");
    assert_eq!(error["retryable"], false);
    host.say(&call("2"));
    assert_eq!(host.started().len(), 1, "it goes on as before");
}

/// A transport that can be reattached asks for what its reader has not seen.
#[test]
fn a_reader_can_go_back() {
    let mut host = Host::active(Limits::default());
    for id in ["a", "b", "c"] {
        host.say(&json!({"type": "ping", "id": id}));
    }
    host.session.rewind(host.now(), 2);
    let ids: Vec<_> = host
        .drain()
        .iter()
        .map(|pong| pong["req_id"].clone())
        .collect();
    assert_eq!(ids, ["b", "c"]);
}

/// What it has not seen and cannot be sent any more it is told of, outside of what is numbered.
#[test]
fn a_reader_that_goes_back_too_far_is_told() {
    let mut host = Host::active(Limits {
        max_replay: 0,
        ..Limits::default()
    });
    for id in ["a", "b"] {
        host.say(&json!({"type": "ping", "id": id}));
        host.drain();
    }
    host.session.rewind(host.now(), 1);
    let written = host.drain();
    assert_eq!(kinds(&written), ["runtime_error"]);
    let missed = json!({"reason": "missed", "missed": [2, 3]});
    assert_eq!(
        (&written[0]["detail"], written[0].get("eid")),
        (&missed, None)
    );
}
