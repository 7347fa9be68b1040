//! Sessions that outlive their connection.

use std::time::Duration;

use a2e_session::{CloseReason, HostEvent, Limits};
use a2e_wire::messages::tool::ToolEvent;
use serde_json::json;

use crate::support::{Host, call, kinds, list};

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
    host.session.resume(now, "again".into(), "old".into(), 1);
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
    assert_eq!(
        (&first["req_id"], &first["resumed"], &first["session_id"]),
        (&json!("again"), &json!(true), &json!("old"))
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
    host.session.resume(now, "again".into(), "old".into(), 1);
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
