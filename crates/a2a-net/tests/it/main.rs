//! Both ends of every transport, over real sockets and TLS, and programs that we did not write.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod development;
mod echo;
mod exchange;
mod foreign;
mod grpc;
mod hostile;
mod reach;
mod secure;
