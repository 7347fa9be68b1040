//! The Model Context Protocol, both ways.
//!
//! [`server`] shows a host's tools, memory, environments, processes, skills and large results to any
//! MCP client, of the protocol's older eras (sessions that begin with `initialize`) and of its newer
//! one (requests that stand for themselves). What a client asks for becomes requests of an A2E session
//! of its agent, so policy, approval and audit see it as they see everything else.
//!
//! [`client`] is the other way: the servers that agents use through this host.

#![expect(
    clippy::indexing_slicing,
    reason = "a value of JSON gives null for what it does not have"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON and the messages of a foreign protocol have more kinds than are of interest"
)]

pub mod client;
pub mod server;
