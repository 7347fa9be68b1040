//! Tools that speak HTTP: `http_get` and `http_request`.
//!
//! A name is resolved first, and nothing is connected to unless all its addresses are public; then
//! exactly one of those is. Redirects are told of and not followed, so each step is asked for, decided
//! about and checked anew.

mod address;
mod client;
mod encode;
mod forms;
mod hidden;
mod hosts;
mod places;
mod service;
mod target;
mod tool;

use std::sync::Arc;

use crate::tool::{DefinitionError, Tool};

pub use address::Reach;
pub(crate) use client::{Answer, Ask, Opened};
pub use client::{Client, Settings};
pub(crate) use encode::{Kept, encode};
pub(crate) use hidden::Hidden;
pub(crate) use hosts::{Host, Hosts};
pub(crate) use service::{Request, RequestContent, Service, Statuses};
pub use service::{Web, WebError};
pub(crate) use target::{Target, append_path, headers};
pub(crate) use tool::{HttpTool, get, request, uncompressed};

/// Bytes of a URL.
pub const MAX_URL: usize = 8 * 1024;

/// Headers of a request.
pub const MAX_HEADERS: usize = 64;

/// Bytes of the names and values of a request's headers.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Bytes of the body of a request.
pub const MAX_REQUEST_BODY: usize = 1 << 20;

/// Headers of an answer.
pub const MAX_RESPONSE_HEADERS: usize = 100;

/// Bytes of all that comes before the body of an answer.
pub const MAX_HEAD: usize = 64 * 1024;

/// Requests that one client makes at once; others wait.
pub const MAX_AT_ONCE: usize = 16;

/// The tools.
///
/// # Errors
/// If a definition cannot be used, which nothing can bring about.
pub fn tools(client: &Arc<Client>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let tool = |definition| -> Arc<dyn Tool> {
        let client = Arc::clone(client);
        Arc::new(HttpTool {
            definition,
            client,
            hosts: None,
            hidden: Hidden::default(),
        })
    };
    let get = get("http_get", client, "of any host with a public address")?;
    let request = request("http_request", client, "to any host with a public address")?;
    Ok(vec![tool(get), tool(request)])
}
