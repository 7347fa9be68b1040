//! Handshakes and sessions, byte for byte and under attack.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod adversary;
mod baseline;
mod encryption;
mod handshake;
mod handshake_client;
mod handshake_limits;
mod handshake_server;
mod session_answers;
mod session_policy;
mod sessions;
mod streams;
mod support;
mod vectors;
mod works;
