//! Stores, as their users meet them.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod contract;

mod model;

mod subject;
