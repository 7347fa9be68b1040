//! Requests of one session that touch the same state take effect in order of arrival (seed 002, "Message
//! Ordering"); the others run at once.

use a2e_session::{Limits, OfferedCapability, Request};
use a2e_wire::Capability;
use serde_json::{Value, json};

use crate::support::{Host, call, handshake, list, offer};

fn host(limits: Limits) -> Host {
    let mut offer = offer();
    let toolkits = Capability::Toolkits;
    offer.capabilities.push(OfferedCapability {
        name: "toolkits".into(),
        capability: toolkits,
        priority: 0,
        exclusive: false,
    });
    let mut host = Host::with_offer(limits, offer);
    host.say(&handshake(&["tools", "memory", "proc", "toolkits"]));
    host
}

fn store(id: &str) -> Value {
    json!({"type": "memory/store/req", "id": id, "entries": []})
}

fn retrieve(id: &str) -> Value {
    json!({"type": "memory/retrieve/req", "id": id})
}

fn ids(requests: &[Request]) -> Vec<&str> {
    let ids = requests.iter().map(|request| &request.message.envelope.id);
    ids.map(|id| id.as_str()).collect()
}

/// Proves M-34.
#[test]
fn a_read_waits_for_the_writes_before_it_and_a_write_for_the_reads() {
    let mut host = host(Limits::default());
    for message in [
        store("1"),
        store("2"),
        retrieve("3"),
        retrieve("4"),
        store("5"),
    ] {
        host.say(&message);
    }
    let mut order = Vec::new();
    loop {
        let started = host.started();
        if started.is_empty() {
            break;
        }
        order.push(ids(&started).join(" "));
        for request in started {
            host.respond(request.token, list());
        }
    }
    assert_eq!(order, ["1", "2", "3 4", "5"]);
}

#[test]
fn those_that_wait_take_no_place_of_independent_ones() {
    let mut host = host(Limits {
        max_parallel: 2,
        ..Limits::default()
    });
    for message in [store("1"), store("2"), store("3"), call("4"), call("5")] {
        host.say(&message);
    }
    let started = host.started();
    assert_eq!(ids(&started), ["1", "4"]);
    assert_eq!(host.session.requests_waiting(), 3);
    host.respond(started[1].token, list());
    assert_eq!(ids(&host.started()), ["5"]);
    host.respond(started[0].token, list());
    assert_eq!(ids(&host.started()), ["2"]);
}

#[test]
fn a_call_waits_for_the_configuration_before_it_and_not_the_other_way_round() {
    let configure = |id: &str| json!({"type": "toolkit/configure/req", "id": id, "toolkit_name": "k", "config": {}});
    let mut host = host(Limits::default());
    for message in [call("1"), configure("2"), call("3")] {
        host.say(&message);
    }
    let started = host.started();
    assert_eq!(ids(&started), ["1", "2"]);
    host.respond(started[1].token, list());
    assert_eq!(ids(&host.started()), ["3"]);
}

#[test]
fn a_request_that_waits_for_its_operator_lets_later_ones_pass() {
    let mut host = host(Limits::default());
    host.say(&store("1"));
    host.say(&store("2"));
    host.say(&store("3"));
    let first = host.started().remove(0);
    let token = first.token;
    let now = host.now();
    host.session.hold(now, first).unwrap();
    host.drain();
    let second = host.started().remove(0);
    assert_eq!(second.message.envelope.id.as_str(), "2");
    // Approved meanwhile, it waits for the one that runs, and comes before those that wait.
    host.session.release(now, token);
    host.drain();
    assert!(host.started().is_empty());
    host.respond(second.token, list());
    assert_eq!(ids(&host.started()), ["1"]);
    host.respond(token, list());
    assert_eq!(ids(&host.started()), ["3"]);
}

#[test]
fn one_that_is_cancelled_lets_the_next_go_on() {
    let mut host = host(Limits::default());
    host.say(&store("1"));
    host.say(&store("2"));
    assert_eq!(ids(&host.started()), ["1"]);
    host.say(&json!({"type": "error", "req_id": "1", "code": "timeout", "message": ""}));
    assert_eq!(ids(&host.started()), ["2"]);
}
