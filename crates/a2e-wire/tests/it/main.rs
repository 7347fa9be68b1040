//! The A2E wire against the catalogue, the seeds, and what real peers send.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail as tests do"
)]

mod attacks;
mod catalogue;
mod conflicts;
mod conformance;
mod properties;
mod requests;
mod sample;
mod samples;
mod seeds;
