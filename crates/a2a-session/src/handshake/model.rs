//! A model checker for the handshake: everything that an attacker can do, within bounds.
//!
//! An honest client shakes hands twice at once; the attacker carries every message. It may deliver
//! any message it has seen to anyone, as often and in whatever order it likes, or never; it may
//! change a bounded number of them ([`attacker::edits`]); and it has an identity of its own, under
//! which it may also be one of the servers that the client calls. All interleavings are explored.
//!
//! The states are those of the real machines. What a machine does with a message in a state is
//! worked out once and remembered, so that the product of them all is cheap to walk.

mod attacker;
mod machines;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use a2a_wire::{Kind, Received, Transcript};

use self::machines::{CLIENT, Machines, Peer};
use super::Check;

thread_local! {
    /// The checks that are left out, to show that this would be noticed.
    pub(super) static LEFT_OUT: RefCell<Vec<Check>> = const { RefCell::new(Vec::new()) };
}

/// Where everyone is, and what the attacker knows and may still do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    server: usize,
    clients: [usize; 2],
    known: BTreeSet<usize>,
    /// Sessions at the server, by their SESSION message.
    sessions: BTreeSet<usize>,
    /// ACCEPT_POLICY messages that the honest client has sent.
    accepted: BTreeSet<usize>,
    edits: u8,
}

/// What an exploration found.
struct Found {
    states: usize,
    /// States in which both handshakes came to an end at both sides.
    finished: usize,
    violation: Option<&'static str>,
}

/// Explores everything, or stops at the first state that must not be.
fn explore(servers: [Peer; 2], edits: u8) -> Found {
    let mut machines = Machines::new();
    let mut known = BTreeSet::new();
    let clients = servers.map(|server| {
        let (client, hello) = machines.begin(server);
        known.insert(hello);
        client
    });
    let first = State {
        server: machines.server(),
        clients,
        known,
        sessions: BTreeSet::new(),
        accepted: BTreeSet::new(),
        edits,
    };
    let mut seen = BTreeSet::from([first.clone()]);
    let mut queue = VecDeque::from([first]);
    let mut finished = 0;
    while let Some(state) = queue.pop_front() {
        if let Some(violation) = violation(&machines, &state) {
            return Found {
                states: seen.len(),
                finished,
                violation: Some(violation),
            };
        }
        let is_done = |client: &usize| machines.summary(*client).is_some();
        finished += usize::from(state.clients.iter().all(is_done));
        for next in successors(&mut machines, &state) {
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    Found {
        states: seen.len(),
        finished,
        violation: None,
    }
}

/// All states one move away.
fn successors(machines: &mut Machines, state: &State) -> Vec<State> {
    let mut next = Vec::new();
    for message in &state.known {
        deliver(machines, state, *message, &mut next);
    }
    if let Some(left) = state.edits.checked_sub(1) {
        let poorer = State {
            edits: left,
            ..state.clone()
        };
        for message in machines.edits(&state.known) {
            deliver(machines, &poorer, message, &mut next);
        }
    }
    // What the attacker says in its own name costs nothing.
    for message in machines.own_messages(&state.known) {
        deliver(machines, state, message, &mut next);
    }
    next
}

/// Gives a message to everyone who might take it.
fn deliver(machines: &mut Machines, state: &State, message: usize, next: &mut Vec<State>) {
    match machines.kind(message) {
        Kind::Hello | Kind::Proof | Kind::AcceptPolicy => {
            let (server, reply) = machines.serve(state.server, message);
            let mut after = state.clone();
            after.server = server;
            if let Some(reply) = reply {
                after.known.insert(reply);
                if machines.kind(reply) == Kind::Session {
                    after.sessions.insert(reply);
                }
            }
            next.push(after);
        }
        Kind::Challenge | Kind::Policy | Kind::Session => {
            for index in 0..2 {
                // A client that gives up can only do less: nothing follows that matters.
                let Some((client, reply)) = machines.hear(state.clients[index], message) else {
                    continue;
                };
                let mut after = state.clone();
                after.clients[index] = client;
                if let Some(reply) = reply {
                    after.known.insert(reply);
                    if machines.kind(reply) == Kind::AcceptPolicy {
                        after.accepted.insert(reply);
                    }
                }
                next.push(after);
            }
        }
        Kind::Request | Kind::Response | Kind::Error => {}
        Kind::Cancel | Kind::Close | Kind::ResponseChunk => {}
    }
}

/// What must never be: one side established with another peer, policy or transcript than the other.
fn violation(machines: &Machines, state: &State) -> Option<&'static str> {
    let mut used = BTreeMap::new();
    for session in &state.sessions {
        let at_server = machines.session(*session);
        if at_server.peer != CLIENT {
            continue;
        }
        let agrees = |accepted: &&usize| {
            let mut transcript: Transcript = machines.transcript_after(**accepted).clone();
            let message = Received::parse(machines.bytes(*session), 1 << 20).unwrap();
            transcript.add_received(&message);
            *transcript.state() == at_server.transcript
        };
        let Some(accepted) = state.accepted.iter().find(agrees) else {
            return Some("the server has a session that the client never agreed to");
        };
        if used.insert(*accepted, *session).is_some() {
            return Some("the client agreed once and the server has two sessions");
        }
    }
    for client in state.clients {
        let Some(at_client) = machines.summary(client) else {
            continue;
        };
        // What the attacker does as a server is its own business.
        if at_client.peer != machines::SERVER {
            continue;
        }
        let same = |session: &usize| {
            let at_server = machines.session(*session);
            at_server.peer == CLIENT && at_server.agreement == at_client.agreement
        };
        if !state.sessions.iter().any(same) {
            return Some("the client has a session that the server does not have so");
        }
    }
    None
}

fn without(checks: &[Check]) -> Found {
    LEFT_OUT.set(checks.to_vec());
    let found = explore([Peer::Server, Peer::Server], 1);
    LEFT_OUT.set(Vec::new());
    found
}

#[expect(
    clippy::print_stdout,
    reason = "how far the exploration went is its result"
)]
fn holds(servers: [Peer; 2], edits: u8) {
    let found = explore(servers, edits);
    let (states, finished) = (found.states, found.finished);
    println!("{servers:?}, {edits} edits: {states} states, {finished} of them finished");
    assert_eq!(found.violation, None);
    assert!(finished > 0, "the honest run is among them");
}

#[test]
fn nobody_is_established_with_someone_or_something_else() {
    holds([Peer::Server, Peer::Server], 2);
}

#[test]
fn nobody_is_fooled_by_a_server_that_relays() {
    holds([Peer::Server, Peer::Attacker], 1);
}

/// A seeded bug is found: without the transcript, a hop can change what the two sides have seen.
#[test]
fn a_missing_check_is_found() {
    let found = without(&[Check::Transcript]);
    assert!(found.violation.is_some(), "{} states", found.states);
}

/// The transcript covers nonces and audience: without these alone nothing is lost.
#[test]
fn two_checks_are_second_lines_of_defence() {
    assert_eq!(without(&[Check::Nonces, Check::Audience]).violation, None);
}
