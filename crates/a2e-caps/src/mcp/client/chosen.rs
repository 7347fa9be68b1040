//! The servers that a request is about, found before it is decided about.

use std::sync::Arc;

use a2e_runtime::{Resolution, Session};
use a2e_wire::{Body, ServerId};
use canonical::Digest;
use serde_json::json;

use super::Mcp;
use super::server::Server;

/// The servers that a request is about.
#[derive(Debug)]
pub(super) struct Chosen(pub(super) Vec<Arc<Server>>);

impl Mcp {
    /// What a request stands for that is about servers: the one it names, or all that its agent may use.
    /// Nothing if there is no such server.
    pub(super) fn chosen(&self, body: &Body<'_>, session: &Session) -> Option<Resolution> {
        let named = server_id(body)?;
        let mut servers = self.fleet.of(&session.identity().agent);
        if !named.is_empty() {
            servers.retain(|server| server.name() == named.as_str());
            servers.truncate(1);
            if servers.is_empty() {
                return None;
            }
        }
        let names = servers.iter().map(|server| server.name().to_owned());
        let resolution = match named.is_empty() {
            true => Resolution::of_all("server_id", names.collect()),
            false => Resolution::default(),
        };
        let configured = || servers.iter().map(|server| &server.configuration);
        let digests: Vec<String> = configured().map(|it| it.digest().to_string()).collect();
        let shown: Vec<_> = configured().map(|it| it.shown()).collect();
        let digest = Digest::of(json!(digests).to_string().as_bytes());
        let resolution = resolution.target(digest, json!({ "servers": shown }));
        Some(resolution.object(Arc::new(Chosen(servers))))
    }
}

/// The server that a request names, if it is about what servers have.
const fn server_id<'b>(body: &'b Body<'_>) -> Option<&'b ServerId<'b>> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others are about no server's things"
    )]
    match body {
        Body::McpResourceListRequest(request) => Some(&request.server_id),
        Body::McpResourceReadRequest(request) => Some(&request.server_id),
        Body::McpResourceSubscribeRequest(request) => Some(&request.server_id),
        Body::McpPromptListRequest(request) => Some(&request.server_id),
        Body::McpPromptGetRequest(request) => Some(&request.server_id),
        _ => None,
    }
}
