//! Requests that wait for somebody's consent (`design.md` §2, "One decision point").

use a2e_session::{CancelReason, CloseReason, HostEvent, Limits, failures};
use a2e_wire::Namespace;
use a2e_wire::messages::tool::ToolEvent;
use serde_json::json;

use crate::support::{Host, call, handshake, kinds, list};

fn limits() -> Limits {
    Limits {
        max_parallel: 1,
        max_queue: 2,
        ..Limits::default()
    }
}

#[test]
fn a_held_request_takes_no_place_and_no_time() {
    let mut host = Host::active(limits());
    let mut first = call("1");
    first["timeout"] = json!(5);
    host.say(&first);
    let request = host.started().remove(0);
    let token = request.token;
    let now = host.now();
    host.session.hold(now, request).unwrap();
    assert_eq!(host.session.requests_held(), 1);

    host.say(&call("2"));
    let second = host.started().remove(0);
    assert!(host.wait(20).is_empty(), "nothing has timed out");
    host.respond(second.token, list());

    let now = host.now();
    host.session.release(now, token);
    host.drain();
    let again = host.started().remove(0);
    assert_eq!(again.token, token);
    assert!(
        host.wait(4).is_empty(),
        "its time begins with its second start"
    );
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
}

#[test]
fn it_starts_before_those_that_wait_and_its_events_are_numbered_on() {
    let mut host = Host::active(limits());
    host.say(&call("1"));
    let request = host.started().remove(0);
    let token = request.token;
    let now = host.now();
    host.session.hold(now, request).unwrap();
    host.say(&call("2"));
    host.say(&call("3"));
    let second = host.started().remove(0);
    host.session
        .event(now, token, ToolEvent::new().into())
        .unwrap();
    host.session.release(now, token);
    host.respond(second.token, list());
    let started = host.started();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].token, token);
    host.session
        .event(now, token, ToolEvent::new().into())
        .unwrap();
    let events = host.drain();
    assert_eq!(events.last().unwrap()["seq"], json!(1));
}

#[test]
fn it_can_be_refused() {
    let mut host = Host::active(limits());
    host.say(&call("1"));
    let request = host.started().remove(0);
    let token = request.token;
    let now = host.now();
    host.session.hold(now, request.clone()).unwrap();
    assert!(
        host.session.hold(now, request).is_err(),
        "it is held already"
    );
    let refusal = failures::timeout(Namespace::Tool);
    host.session.respond(now, token, Err(refusal)).unwrap();
    assert_eq!(kinds(&host.drain()), ["timeout"]);
    host.session.release(now, token);
    assert!(host.started().is_empty(), "it is over");
}

#[test]
fn held_requests_count_as_waiting_ones() {
    let mut host = Host::active(limits());
    for id in ["1", "2"] {
        host.say(&call(id));
        let request = host.started().remove(0);
        let now = host.now();
        host.session.hold(now, request).unwrap();
    }
    let answers = host.say(&call("3"));
    assert_eq!(answers[0]["detail"]["reason"], json!("queue_full"));
}

#[test]
fn the_end_of_a_session_ends_them() {
    let mut host = Host::active(limits());
    host.say(&call("1"));
    let request = host.started().remove(0);
    let token = request.token;
    let now = host.now();
    host.session.hold(now, request).unwrap();
    assert!(
        host.wait(250).is_empty(),
        "a session with a held request is not idle"
    );
    host.session
        .shutdown(host.now(), std::time::Duration::from_secs(1));
    assert!(!host.session.is_closed(), "it may still be decided");
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
    assert!(
        host.events
            .contains(&HostEvent::Cancel(token, CancelReason::SessionEnded))
    );
    assert!(
        host.events
            .contains(&HostEvent::Closed(CloseReason::Shutdown))
    );
}

/// A request that is withdrawn ends at once, whether it runs, waits or is held; it has one response.
#[test]
fn a_request_can_be_withdrawn() {
    let mut host = Host::active(limits());
    for id in ["1", "2", "3"] {
        host.say(&call(id));
    }
    let first = host.started().remove(0);
    let withdraw = |id: &str| {
        json!({"a2e": "1.0", "type": "error", "id": format!("w{id}"), "req_id": id,
            "code": "timeout", "message": "no longer"})
    };
    // It waits; what runs goes on.
    let said = host.say(&withdraw("2"));
    assert_eq!(said[0]["req_id"], "2");
    assert_eq!(said[0]["detail"]["reason"], "withdrawn");
    // It runs; the next one starts in its place.
    let said = host.say(&withdraw("1"));
    assert_eq!(kinds(&said), ["timeout"]);
    let cancel = HostEvent::Cancel(first.token, CancelReason::Withdrawn);
    assert!(host.events.contains(&cancel));
    let third = host.started().remove(0);
    // It is held.
    let now = host.now();
    host.session.hold(now, third).unwrap();
    assert_eq!(host.say(&withdraw("3"))[0]["req_id"], "3");
    assert_eq!(host.session.requests_held(), 0);
    // There is nothing more to withdraw, nor is nothing a request.
    assert!(host.say(&withdraw("3")).is_empty());
    assert!(host.say(&withdraw("")).is_empty());
}

/// It was given out, and its host still has to find out what it is about.
#[test]
fn second_handshake_withdraws_an_undecided_request() {
    for is_undecided in [true, false] {
        let mut host = Host::active(limits());
        host.say(&call("1"));
        let token = host.started().remove(0).token;
        host.session.set_undecided(token, true);
        host.session.set_undecided(token, is_undecided);
        let heard = host.say(&handshake(&["tools"]));
        let withdrawn = heard.iter().find(|it| it["req_id"] == "1");
        assert_eq!(withdrawn.is_some(), is_undecided, "{heard:?}");
        if let Some(withdrawn) = withdrawn {
            assert_eq!(withdrawn["detail"]["reason"], "withdrawn");
        }
        let cancelled = HostEvent::Cancel(token, CancelReason::Withdrawn);
        assert_eq!(host.events.contains(&cancelled), is_undecided);
        // Nothing of it comes back.
        let now = host.now();
        let answered = host.session.respond(now, token, Ok(list().into()));
        assert_eq!(answered.is_err(), is_undecided);
    }
}

/// Another session begins on the connection: what has not run is not for it.
#[test]
fn a_second_handshake_withdraws_what_waits_or_is_held() {
    let mut host = Host::active(limits());
    host.say(&call("1"));
    let request = host.started().remove(0);
    let token = request.token;
    let now = host.now();
    host.session.hold(now, request).unwrap();
    host.say(&call("2"));
    let running = host.started().remove(0);
    host.say(&call("3"));
    let heard = host.say(&handshake(&["tools"]));
    let of = |id: &str| heard.iter().find(|it| it["req_id"] == id);
    for id in ["1", "3"] {
        assert_eq!(
            of(id).unwrap()["detail"]["reason"],
            "withdrawn",
            "{heard:?}"
        );
    }
    assert!(of("2").is_none(), "{heard:?}");
    let cancelled = |token| HostEvent::Cancel(token, CancelReason::Withdrawn);
    let events = std::mem::take(&mut host.events);
    assert!(events.contains(&cancelled(token)));
    assert!(!events.contains(&cancelled(running.token)));
    // Nothing of it comes back.
    let now = host.now();
    host.session.release(now, token);
    host.drain();
    assert!(host.started().is_empty());
    assert_eq!(kinds(&host.respond(running.token, list())).len(), 1);
}
