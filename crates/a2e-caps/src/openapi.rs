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

use std::path::PathBuf;
use std::sync::Arc;

use a2e_runtime::config::OpenApi;

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

/// The tools of a document.
///
/// # Errors
/// If it cannot be read, or one of its operations cannot be a tool and is not excluded: nobody is to
/// find out later that some are missing.
pub fn tools(api: &OpenApi, web: &Web) -> Result<Vec<Arc<dyn Tool>>, OpenApiError> {
    let fail = |problem| OpenApiError {
        document: api.document.clone(),
        problem,
    };
    let document = Document::read(&api.document).map_err(fail)?;
    make(&document, api, web).map_err(fail)
}

fn make(document: &Document, api: &OpenApi, web: &Web) -> Result<Vec<Arc<dyn Tool>>, String> {
    let all = operation::all(document)?;
    security::check_names(document, &api.auth)?;
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
