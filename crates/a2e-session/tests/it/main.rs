//! Both ends of a session, against each other and against scripted peers, on virtual time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod agent;
mod handshake;
mod hold;
mod host;
mod operations;
mod order;
mod resume;
mod support;
