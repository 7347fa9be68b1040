//! Stores, as their users meet them.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod contract;
mod files;
mod forgotten;
mod keys;
mod kill;
mod memory_model;
mod model;
mod restart;
mod subject;
mod versions;
