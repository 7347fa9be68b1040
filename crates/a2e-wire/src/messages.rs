//! What each message and each nested object contains: one file per namespace of the catalogue.
//!
//! Which messages there are, who sends them and what answers them is said once, in the table
//! behind [`Tag`](crate::Tag).

pub mod base;
pub mod chain;
pub mod env;
pub mod learn;
pub mod mcp;
pub mod memory;
pub mod multi_agent;
pub mod planning;
pub mod policy;
pub mod proc;
pub mod skill;
pub mod subagent;
pub mod tool;
pub mod toolkit;
