//! MCP servers that the node uses: how they are, and how they come into the configuration.

pub(crate) mod add;
pub(crate) mod clients;
mod consent;
mod found;
mod grants;
pub(crate) mod operate;
mod resolve;
pub(crate) mod show;
mod trial;

pub(crate) use consent::Consent;
pub(crate) use found::{Candidate, Candidates};
pub(crate) use trial::{Adopted, State, Trials};
