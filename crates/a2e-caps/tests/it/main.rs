//! The built-in capabilities behind a real host, asked by a real client.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod agents;
mod agents_tree;
mod calls;
mod chains;
mod chains_kept;
mod chains_large;
#[cfg(feature = "wasm")]
mod components;
mod composed_rules;
mod confinement;
mod corpora;
mod endpoint_guards;
mod endpoints;
mod env;
mod env_learning;
mod env_limits;
mod env_views;
mod fetches;
mod file_limits;
mod files;
mod filesystem;
mod http;
mod isolation;
mod large_results;
mod learning;
#[cfg(feature = "mcp")]
mod mcp_client;
#[cfg(feature = "mcp")]
mod mcp_notices;
#[cfg(feature = "mcp")]
mod mcp_server;
mod memory;
mod memory_embed;
#[cfg(feature = "embed")]
mod memory_local;
mod memory_quality;
mod model_double;
mod openapi;
mod openapi_refused;
mod own_tools;
mod pinning;
mod planning;
mod ranking;
mod searching;
mod skills;
mod skills_model;
mod skills_programs;
mod skills_ranked;
mod sqlite;
mod support;
mod toolkits;
mod vault;
mod web;
mod wire;
