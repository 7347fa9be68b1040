//! Stores, as their users meet them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod contract;
mod files;
mod forgotten;
mod keys;
mod kill;
mod learning_kill;
mod many;
mod memory_model;
mod model;
mod plan_model;
mod power;
mod restart;
mod restored;
mod subject;
mod versions;
