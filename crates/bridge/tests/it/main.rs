//! What joins both protocols, from outside.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod corpus;
mod login;
