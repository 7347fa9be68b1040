//! Handshakes and sessions, byte for byte and under attack.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod adversary;
mod baseline;
mod claims;
mod conformance;
mod encryption;
mod forged;
mod handshake;
mod handshake_client;
mod handshake_limits;
mod handshake_server;
mod held;
mod link;
mod memory;
mod seed004;
mod session_answers;
mod session_policy;
mod sessions;
mod streams;
mod support;
mod vectors;
mod vetting;
mod works;

use a2a_session::fuzzing;

#[test]
fn corpus_of_a2a_handshake_server() {
    testkit::replay("a2a_handshake_server", fuzzing::a2a_handshake_server);
}

#[test]
fn corpus_of_a2a_handshake_client() {
    testkit::replay("a2a_handshake_client", fuzzing::a2a_handshake_client);
}

#[test]
fn corpus_of_a2a_session_ops() {
    testkit::replay("a2a_session_ops", fuzzing::a2a_session_ops);
}

#[test]
fn corpus_of_a2a_decrypt() {
    testkit::replay("a2a_decrypt", fuzzing::a2a_decrypt);
}
