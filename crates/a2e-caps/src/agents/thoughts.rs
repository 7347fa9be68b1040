//! The memory of a model that is a sub-agent: by tools, and whose it is says its `memory_scope`.

use a2e_wire::lenient::MemoryKey;
use a2e_wire::messages::memory::{
    MemoryEntry, MemoryRetrieveRequest, MemoryStoreRequest, MemoryTier,
};
use a2e_wire::{Body, Capability, Raw};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::staff::{NO_ANSWER, given, offered};
use super::work::Work;
use crate::model::Offered;
use crate::tools::now;

const REMEMBER: &str = "remember";
const RECALL: &str = "recall";

/// Entries that are recalled unless a model says otherwise, and at most.
const FEW: i64 = 10;
const MANY: i64 = 100;

/// What a model wants of its memory.
pub(super) enum Thought {
    Remember(Remembered),
    Recall(Sought),
}

#[derive(Deserialize)]
pub(super) struct Remembered {
    key: String,
    content: Value,
}

#[derive(Deserialize)]
pub(super) struct Sought {
    #[serde(default)]
    query: String,
    limit: Option<i64>,
}

impl Thought {
    /// The thought that a call of a tool is; nothing if the tool is another.
    pub(super) fn read(name: &str, arguments: &Map<String, Value>) -> Option<Result<Self, String>> {
        Some(match name {
            REMEMBER => given(arguments).map(Self::Remember),
            RECALL => given(arguments).map(Self::Recall),
            _ => return None,
        })
    }
}

impl Work {
    /// The tools by which a model has a memory, if it was given that.
    pub(super) fn thoughts(&self) -> Vec<Offered> {
        if !self.sub.scope.has(&Capability::Memory) {
            return Vec::new();
        }
        let text = |what: &str| json!({"type": "string", "description": what});
        vec![
            offered(
                REMEMBER,
                "Remembers something; what was remembered by the same key is replaced",
                &json!({"key": text("What to call it"), "content": {"description": "What it is"}}),
                &["key", "content"],
            ),
            offered(
                RECALL,
                "Finds what was remembered, the best first",
                &json!({"query": text("Words to look for; without them, what is newest"),
                    "limit": {"type": "integer", "minimum": 1, "maximum": MANY}}),
                &[],
            ),
        ]
    }

    /// Does what a model wants of its memory.
    pub(super) async fn think(&self, thought: Thought) -> Result<Value, String> {
        match thought {
            Thought::Remember(Remembered { key, content }) => {
                let raw = |value: &Value| Raw::from_serialize(value).map_err(|it| it.to_string());
                let key = MemoryKey::new(raw(&Value::String(key))?);
                let key = key.ok_or("the key must be a text")?;
                let tier = MemoryTier::Episodic;
                let entry = MemoryEntry::new(key, raw(&content)?, tier, now(), now());
                let asked = MemoryStoreRequest {
                    entries: vec![entry],
                    ..MemoryStoreRequest::new()
                };
                let Body::MemoryStoreResponse(kept) = self.asked(asked).await? else {
                    return Err(NO_ANSWER.to_owned());
                };
                match kept.errors.is_empty() {
                    true => Ok(json!("remembered")),
                    false => Err(kept.errors.join("; ")),
                }
            }
            Thought::Recall(Sought { query, limit }) => {
                let asked = MemoryRetrieveRequest {
                    query: query.into(),
                    limit: limit.unwrap_or(FEW).clamp(1, MANY),
                    ..MemoryRetrieveRequest::new()
                };
                let Body::MemoryRetrieveResponse(found) = self.asked(asked).await? else {
                    return Err(NO_ANSWER.to_owned());
                };
                let entry = |entry: &MemoryEntry<'_>| {
                    let content: Value = entry.content.deserialize().unwrap_or_default();
                    let key: Value = entry.key.raw().deserialize().unwrap_or_default();
                    json!({"key": key, "content": content})
                };
                Ok(found.entries.iter().map(entry).collect())
            }
        }
    }
}
