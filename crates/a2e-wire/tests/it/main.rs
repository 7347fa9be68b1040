//! The A2E wire against the catalogue, the seeds, and what real peers send.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod catalogue;
mod conflicts;
mod corpus;
mod registry;
mod sample;
mod samples;
mod seeds;
