//! Tools that an OpenAPI document describes: each of its operations is one.
//!
//! The document is the operator's, read once from a file; nothing it refers to is fetched. What an
//! operation takes becomes one JSON Schema (draft 2020-12) with a member for each parameter and
//! `body`; an argument never is more than the part of the request that its parameter stands for.

mod body;
mod document;
mod names;
mod operation;
mod parameter;
mod schema;
mod security;
mod select;
mod server;
mod style;
mod tool;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use a2e_runtime::config::{Filling, OpenApi};

use crate::http::Web;
use crate::tool::Tool;

use document::Document;
use operation::Operation;

pub use document::{MAX_DEPTH, MAX_DOCUMENT};
pub use names::MAX_TOOL_NAME;
pub use operation::{MAX_OPERATIONS, MAX_PARAMETERS};
pub use schema::MAX_DEFINITIONS;

/// Why a document has no tools.
#[derive(Debug, thiserror::Error)]
#[error("the OpenAPI document {}: {problem}", document.display())]
pub struct OpenApiError {
    document: PathBuf,
    problem: String,
}

/// Operations that cannot be tools are told of at once, so many.
const MAX_TOLD: usize = 10;

/// A document that was read.
pub struct Loaded {
    /// Its operations.
    pub tools: Vec<Arc<dyn Tool>>,
    /// All it says, as JSON with sorted members: that is what an operator approves.
    pub text: String,
}

/// Reads a document.
///
/// # Errors
/// If it cannot be read, or one of its operations cannot be a tool and is not excluded: nobody is to
/// find out later that some are missing.
pub fn load(api: &OpenApi, web: &Web) -> Result<Loaded, OpenApiError> {
    let fail = |problem| OpenApiError {
        document: api.document.clone(),
        problem,
    };
    let document = Document::read(&api.document).map_err(fail)?;
    Ok(Loaded {
        tools: make(&document, api, web).map_err(fail)?,
        text: document.root.to_string(),
    })
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|tool| tool.definition().name());
        f.debug_list().entries(names).finish()
    }
}

/// Secrets go where the operator says, and nowhere else: a document could name any server, for all of
/// its operations or for one of them.
fn check_server(api: &OpenApi) -> Result<(), String> {
    let is_secret = |(_, filling): &(String, Filling)| matches!(filling, Filling::Secret(_));
    let has_secrets = !api.auth.is_empty() || api.headers.iter().any(is_secret);
    match has_secrets && api.server.is_none() {
        true => Err(
            "say in `server` where its requests go: it has secrets in `auth` or `headers`, and \
             what the document says about servers does not decide who is sent those"
                .to_owned(),
        ),
        false => Ok(()),
    }
}

fn make(document: &Document, api: &OpenApi, web: &Web) -> Result<Vec<Arc<dyn Tool>>, String> {
    let all = operation::all(document)?;
    security::check_names(document, &api.auth)?;
    check_server(api)?;
    let chosen: Vec<&Operation<'_>> = select::select(&all, &api.include, &api.exclude)?;
    let names = names::names(&api.prefix, &chosen)?;
    let (mut tools, mut problems) = (Vec::new(), Vec::new());
    for (operation, name) in chosen.into_iter().zip(names) {
        match tool::make(document, operation, name, api, web) {
            Ok(tool) => tools.push(tool),
            Err(problem) => problems.push(format!("{operation}: {problem}")),
        }
    }
    if problems.is_empty() {
        return Ok(tools);
    }
    let told = problems.iter().take(MAX_TOLD).cloned();
    let told = told.collect::<Vec<_>>().join("\n  ");
    let more = match problems.len().saturating_sub(MAX_TOLD) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(format!(
        "these operations cannot be tools; change that, or name them in `exclude`:\n  {told}{more}"
    ))
}
