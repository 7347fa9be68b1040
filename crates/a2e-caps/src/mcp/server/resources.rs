//! Results that were too large to send, as resources.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2e_runtime::Calling;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use store::json_length;

use super::behind::{self, no_resource};
use super::notices::Notice;
use super::session::{Refusal, Session};

/// The artifacts that a client was told of.
#[derive(Debug, Default)]
pub(super) struct Artifacts(Mutex<VecDeque<Resource>>);

/// How many resources are listed; the oldest go first. They still can be read.
pub const MAX_LISTED: usize = 256;

/// Bytes that the text of a resource may have as JSON. The rest has the tool `artifact_read`.
pub const MAX_READ: usize = 1024 * 1024;

const SCHEME: &str = "frith://artifact/";

impl Artifacts {
    /// Remembers one.
    pub(super) fn note(&self, artifact: &Resource) {
        let mut noted = self.lock();
        if noted.len() >= MAX_LISTED {
            noted.pop_front();
        }
        noted.push_back(artifact.clone());
    }

    /// Those there are, the newest last.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.lock().iter().cloned().collect()
    }

    fn media_type(&self, uri: &str) -> Option<String> {
        let noted = self.lock();
        let found = noted.iter().find(|resource| resource.uri == uri)?;
        found.mime_type.clone()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Resource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers an artifact that a client is told of, and says that there is one more.
pub(super) fn note(session: &Session, artifact: &Resource) {
    session.artifacts.note(artifact);
    session.notices.tell(Notice::Resources);
}

/// All there are: results, and what servers behind the host list.
pub(super) async fn list(session: &Session) -> Vec<Resource> {
    let mut listed = session.artifacts.list();
    listed.extend(behind::resources(session).await);
    listed
}

/// Has the client told when a resource changes. Results never do.
pub(super) async fn subscribe(session: &Session, uri: &str) -> Result<(), ErrorData> {
    match uri.starts_with(SCHEME) {
        true => Ok(()),
        false => behind::subscribe(session, uri).await,
    }
}

/// How their addresses are made.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SCHEME}{{id}}"), "artifact")
        .with_description("A result of a tool that was too large to send")
}

/// The artifacts that a result of a tool speaks of.
pub(super) fn artifacts(data: &Value) -> Vec<Resource> {
    let whole = data
        .get("artifact")
        .map(|artifact| ("result".to_owned(), artifact));
    let members = data.get("artifacts").and_then(Value::as_object);
    let members = members.into_iter().flatten();
    let members = members.map(|(name, artifact)| (name.clone(), artifact));
    whole
        .into_iter()
        .chain(members)
        .filter_map(|(name, artifact)| {
            let id = artifact.get("id")?.as_str()?;
            let media = artifact.get("media_type").and_then(Value::as_str);
            let mut resource = Resource::new(format!("{SCHEME}{id}"), name)
                .with_mime_type(media.unwrap_or("text/plain"));
            resource.size = artifact.get("bytes").and_then(Value::as_u64);
            Some(resource)
        })
        .collect()
}

/// Reads a result, piece by piece, with the tool that agents read them with; all else, from the server
/// behind the host that has it.
pub(super) async fn read(session: &Session, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(id) = uri.strip_prefix(SCHEME) else {
        return behind::read(session, uri).await;
    };
    let (mut text, mut size, mut offset) = (String::new(), 0, Some(0));
    while let Some(at) = offset {
        let arguments = json!({"id": id, "offset": at});
        let tools = session.client.tools();
        let called = tools.call("artifact_read", &arguments, Calling::default());
        let piece = match called.await.map_err(Refusal::from) {
            Ok(piece) => piece,
            Err(Refusal::Host(a2e_runtime::ClientError::Host(error)))
                if error.code == a2e_wire::ErrorCode::ToolError =>
            {
                return Err(no_resource(uri));
            }
            Err(refusal) => return Err(refusal.into()),
        };
        let piece = piece.data.and_then(|data| data.deserialize::<Value>().ok());
        let piece = piece.unwrap_or_default();
        let content = piece["content"].as_str().unwrap_or_default();
        size += json_length(content);
        if size > MAX_READ {
            text.push_str(&format!(
                "\n… the rest can be read with the tool artifact_read, from the offset {at} on"
            ));
            break;
        }
        text.push_str(content);
        offset = piece["next_offset"].as_u64();
    }
    let media = session.artifacts.media_type(uri);
    let contents = ResourceContents::text(text, uri)
        .with_mime_type(media.unwrap_or_else(|| "text/plain".into()));
    Ok(ReadResourceResult::new(vec![contents]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_found_where_results_have_them() {
        let whole = json!({"artifact": {"id": "ab", "bytes": 5, "media_type": "application/json"}});
        let found = artifacts(&whole);
        assert_eq!(found[0].uri, "frith://artifact/ab");
        assert_eq!(found[0].mime_type.as_deref(), Some("application/json"));
        let members =
            json!({"artifacts": {"stdout": {"id": "cd", "bytes": 7}, "stderr": {"id": null}}});
        let found = artifacts(&members);
        assert_eq!((found.len(), found[0].size), (1, Some(7)));
        assert!(artifacts(&json!({"artifact": "text"})).is_empty());
        assert!(artifacts(&json!("artifact")).is_empty());
    }

    #[test]
    fn the_newest_are_listed() {
        let artifacts = Artifacts::default();
        for number in 0..=MAX_LISTED {
            artifacts.note(&Resource::new(format!("{SCHEME}{number}"), "one"));
        }
        let listed = artifacts.list();
        assert_eq!(listed.len(), MAX_LISTED);
        assert_eq!(listed[0].uri, format!("{SCHEME}1"));
    }
}
