//! The built-in capabilities of A2E, one module each: plugins that a host is given.
//!
//! - [`tool`]: what a tool is, whoever makes it, and the catalogue of those there are
//! - [`tools`]: the capability `tools`: lists, searches and calls them
//! - [`files`]: tools that read, write and search files below given folders
//! - [`http`]: tools that make HTTP requests
//! - [`toolkits`]: the capability `toolkits`: bundles of tools that agents configure
//! - [`agents`]: the capability `multi_agent`: agents that agents have
//! - [`commands`]: tools that run commands and code in the sandbox
//! - `components`: tools that are WebAssembly components (feature `wasm`)
//! - `mcp`: the Model Context Protocol (feature `mcp`)
//! - [`endpoints`]: tools that are HTTP requests with places for arguments
//! - [`openapi`]: tools that an OpenAPI document describes
//! - [`peers`]: tools that are intents of other agents
//! - [`scripts`]: tools that are programs of a folder
//! - [`memory`]: the capability `memory`: what agents remember
//! - [`chains`]: the capability `chains`: requests that follow from one another
//! - [`model`]: language models, and the talk in which one uses tools
//! - [`time`]: the tool that tells the time
//! - [`proc`](mod@proc): the capability `proc`: programs that run for as long as their session wants
//! - [`planning`]: the capability `planning`: plans, whose tasks stand in columns
//! - [`learning`]: the capability `learning`: feedback, experiences, and what follows from them
//! - [`env`](mod@env): the capability `env`: worlds to act in
//! - [`skills`]: the capability `skill`: prepared instructions, and models that follow them
//! - [`workplace`]: where foreign programs run
//! - [`shares`]: what one agent can have under way at a time
//!
//! A host with tools for one folder:
//!
//! ```
//! use std::sync::Arc;
//!
//! use a2e_caps::files::{Access, Roots};
//! use a2e_caps::tool::{Catalogue, Source};
//! use a2e_caps::tools::{Settings, Tools};
//! use a2e_runtime::Host;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir();
//! let roots = Roots::one(&folder, Access::ReadWrite)?;
//! let catalogue = Arc::new(Catalogue::default());
//! catalogue.set(Source::BuiltIn, a2e_caps::files::tools(roots)?);
//! let tools = Tools::new(Arc::clone(&catalogue), Settings::default())?;
//! let host = Host::builder().plugin(tools).build();
//! # drop(host);
//! # Ok(())
//! # }
//! ```
//!
//! It is deliberately without decisions about who may do what: those fell before a plugin sees a
//! request (`a2e_runtime::Policies`). What a tool may reach is given to it when it is made.
//!
//! Reading order: [`tool`], `tool::definition`, `tool::schema`, `tool::catalogue`, [`tools`],
//! [`files`], `files::roots`, [`toolkits`], `tool::own`, [`http`].

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

/// How to get an optional part: ends the message about one that was not built in.
pub const FULL_BUILD: &str =
    "this build leaves out (`cargo build --release --features full` has it)";

pub mod agents;
pub mod chains;
pub mod commands;
#[cfg(feature = "wasm")]
pub mod components;
pub mod endpoints;
pub mod env;
mod expressions;
pub mod files;
mod fresh;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod learning;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod memory;
pub mod model;
pub mod openapi;
pub mod peers;
pub mod permissions;
mod placement;
pub mod planning;
pub mod proc;
mod ranking;
pub mod scripts;
pub mod shares;
pub mod skills;
mod template;
pub mod time;
pub mod tool;
pub mod toolkits;
pub mod tools;
mod truncate;
mod turns;
pub mod workplace;

pub use placement::Placement;
