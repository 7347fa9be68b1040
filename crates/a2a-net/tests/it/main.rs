//! Both ends of every transport, over real sockets and TLS, and programs that we did not write; and two nodes that talk to each other.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod attacks;
mod by_address;
mod certificates;
mod conformance;
mod development;
mod done_once;
mod echo;
mod exchange;
mod fairness;
mod fetches;
mod foreign;
mod github;
mod grpc;
mod hand;
mod held;
mod hostile;
mod link;
mod load;
mod memory;
mod other_protocols;
mod oversize;
mod panicked;
mod reach;
mod resolution;
mod restart;
mod scenarios;
mod secure;
mod sources;
mod strangers;
mod support;
mod sybil;
mod timed;
mod unfinished;
