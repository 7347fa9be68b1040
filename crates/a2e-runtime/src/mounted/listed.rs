//! The tools of a mounted host, as its definitions stand.
//!
//! An agent sees definitions only through us, so what was last listed over a connection is at least
//! as new as what the agent knows.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use a2e_session::Failure;
use a2e_wire::messages::tool::{ToolDefinition, ToolListRequest, ToolListResponse};
use a2e_wire::{ErrorCode, Namespace, Object};
use canonical::Digest;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Client, ClientError};
use crate::definitions::{Definitions, Shown, Standing, pin, quarantined};

/// What was listed over one connection.
#[derive(Debug, Default)]
pub(super) struct Listed(Mutex<Option<Tools>>);

#[derive(Debug)]
struct Tools {
    by_name: HashMap<String, Tool>,
    at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Tool {
    says: Digest,
    is_approved: bool,
    /// Whether nothing of this name ever was.
    is_new: bool,
}

/// What is to be done about a call.
pub(super) enum Call {
    /// It is what was approved; this is what it says.
    Forward(Digest),
    /// The host has no such tool; another plugin may.
    Unknown,
    Refuse(Failure),
}

/// A name that is not there is looked for again, but not more often than this.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 256;

impl Listed {
    /// Something happened by which the host may have other tools.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }

    /// Takes from a list what may not be seen, and remembers the rest. All tools must have been
    /// [seen](see) before: a list may be a part of them.
    pub(super) async fn filter(
        &self,
        definitions: &Definitions,
        source: &str,
        list: &mut ToolListResponse<'static>,
    ) -> Result<(), store::Error> {
        let found = compare(definitions, source, list).await?;
        if let Some(known) = &mut *self.0.lock().await {
            known.by_name.extend(found);
        }
        Ok(())
    }

    /// Whether a tool may be called.
    pub(super) async fn judge(
        &self,
        definitions: &Definitions,
        source: &str,
        client: &Client,
        name: &str,
    ) -> Result<Call, ClientError> {
        let mut listed = self.0.lock().await;
        let is_stale = listed.as_ref().is_none_or(|tools| {
            !tools.by_name.contains_key(name) && tools.at.elapsed() >= LIST_AGAIN
        });
        if is_stale {
            let mut list = client.request(everything()).await?;
            let by_name = match compare(definitions, source, &mut list).await {
                Ok(by_name) => by_name,
                Err(error) => return Ok(Call::Refuse(failed(&error))),
            };
            let at = Instant::now();
            *listed = Some(Tools { by_name, at });
        }
        let tools = listed.as_mut().map(|tools| &mut tools.by_name);
        let Some(tool) = tools.and_then(|tools| tools.get_mut(name)) else {
            return Ok(Call::Unknown);
        };
        let pin = pin(source, name);
        if !tool.is_approved {
            match definitions.is_approved(&pin, tool.says).await {
                Ok(is_approved) => tool.is_approved = is_approved,
                Err(error) => return Ok(Call::Refuse(failed(&error))),
            }
        }
        Ok(match (tool.is_approved, tool.is_new) {
            (true, _) => Call::Forward(tool.says),
            // Nobody was told of it: it must not stand before the tool that is meant.
            (false, true) => Call::Unknown,
            (false, false) => Call::Refuse(quarantined(name, &pin)),
        })
    }
}

/// Looks at all tools of a source that nobody has looked at yet.
pub(super) async fn see(
    definitions: &Definitions,
    source: &str,
    client: &Client,
) -> Result<(), ClientError> {
    let failed = |error: store::Error| ClientError::Unreachable(io::Error::other(error));
    if definitions.was_seen(source).await.map_err(failed)? {
        return Ok(());
    }
    let mut list = client.request(everything()).await?;
    compare(definitions, source, &mut list)
        .await
        .map_err(failed)?;
    definitions.see(source).await.map_err(failed)
}

/// Asks for all tools there are.
fn everything() -> ToolListRequest<'static> {
    ToolListRequest {
        include_deferred: true,
        ..ToolListRequest::new()
    }
}

/// Compares all that is listed with what was approved, and leaves only that in the list.
async fn compare(
    definitions: &Definitions,
    source: &str,
    list: &mut ToolListResponse<'static>,
) -> Result<HashMap<String, Tool>, store::Error> {
    let mut tools = Vec::with_capacity(list.tools.len());
    for tool in std::mem::take(&mut list.tools) {
        match text(&tool) {
            Some(text) => tools.push((tool, text)),
            None => tracing::warn!(
                source,
                "a tool is not served: its name or definition cannot be used"
            ),
        }
    }
    let shown = tools.iter().map(|(tool, text)| Shown {
        source,
        name: &tool.name,
        text,
    });
    let standings = definitions.compare_all(&shown.collect::<Vec<_>>()).await?;
    let mut found = HashMap::new();
    for ((tool, text), standing) in tools.into_iter().zip(standings) {
        let is_approved = match standing {
            Standing::Approved => true,
            Standing::Changed { .. } | Standing::New => false,
            Standing::TooMany => continue,
        };
        let says = Digest::of(text.as_bytes());
        let one = Tool {
            says,
            is_approved,
            is_new: standing == Standing::New,
        };
        found.insert(tool.name.to_string(), one);
        if is_approved {
            list.tools.push(tool);
        }
    }
    Ok(found)
}

/// All that a definition says to an agent; members of its schemas are sorted, since their order says
/// nothing. Nothing for one that has no name to be approved by.
fn text(tool: &ToolDefinition<'_>) -> Option<String> {
    let is_bad = |letter: char| letter.is_whitespace() || letter.is_control();
    let name = &*tool.name;
    if name.is_empty() || name.len() > MAX_NAME || name.contains(is_bad) {
        return None;
    }
    let says: Value = Object::from_record(tool).ok()?.raw().deserialize().ok()?;
    Some(says.to_string())
}

/// What an agent is told when it cannot be found out what was approved.
pub(super) fn failed(error: &store::Error) -> Failure {
    let text = format!("it cannot be found out what the operator approved: {error}");
    let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Tool, text);
    failure.retryable = true;
    failure
}
