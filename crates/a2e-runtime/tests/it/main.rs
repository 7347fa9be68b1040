//! A host and a client over real streams: one set of scenarios for every transport.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod bad_input;
mod buffers;
mod client;
mod conformance;
mod decisions;
mod http_server;
mod interrupted;
mod newcomers;
mod own_tools;
mod plugins;
mod revoked;
mod scenarios;
mod session_limits;
mod support;
mod survival;
mod take_over;
