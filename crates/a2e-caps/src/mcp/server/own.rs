//! The capabilities that are no tools, as tools: memory, environments, processes; and the search for
//! tools that are not listed.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Handler;
use a2e_wire::Capability;
use a2e_wire::messages::policy::PolicyPermittedRequest;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::session::{Refusal, Session};
use super::tools::{refused, told};

/// A request of A2E as a tool. Its arguments are the members of the request, but for what `Shape` says.
#[derive(Debug)]
pub(super) struct Own {
    name: &'static str,
    about: &'static str,
    capability: Capability<'static>,
    kind: &'static str,
    shape: Shape,
    read_only: bool,
    /// The properties of its arguments, and which of them are required.
    schema: fn() -> (Value, &'static [&'static str]),
}

/// How arguments become members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// As they are.
    Plain,
    /// Also tools that are not listed.
    Search,
    /// Of the memory of a namespace.
    Memory,
    /// The same, and they are one entry.
    Entry,
    /// The output of what is started is kept.
    Spawn,
    /// What was kept is read; the host is not asked.
    Output,
}

/// The longest that a read waits for output, in milliseconds.
const MAX_WAIT: u64 = 30_000;

/// The tool of this name, if its capability is there.
pub(super) fn find(session: &Session, name: &str) -> Option<&'static Own> {
    let own = OWN.iter().find(|own| own.name == name)?;
    session.has(&own.capability).then_some(own)
}

/// Those whose capability is there, and whose requests the client may make.
pub(super) async fn list(session: &Session) -> Vec<Tool> {
    let there: Vec<&Own> = OWN
        .iter()
        .filter(|own| session.has(&own.capability))
        .collect();
    let needed = there.iter().flat_map(|own| own.needs());
    let request = PolicyPermittedRequest {
        types: needed.map(Into::into).collect(),
    };
    let permitted = match session.client.request(request).await {
        Ok(permitted) => permitted.types,
        // A host that is no node of ours does not know: then a call finds out.
        Err(error) => {
            tracing::debug!(%error, "the host does not say which requests are permitted");
            return there.into_iter().map(Own::listed).collect();
        }
    };
    let is_permitted = |kind: &'static str| permitted.iter().any(|it| it == kind);
    let usable = there.into_iter();
    let usable = usable.filter(|own| own.needs().all(is_permitted));
    usable.map(Own::listed).collect()
}

/// The types of requests, and the tools that make them.
pub(super) fn requests() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = OWN.iter().filter(|own| !own.kind.is_empty());
    own.map(|own| (own.kind, own.name))
}

/// Does it.
pub(super) async fn call(
    session: &Session,
    own: &Own,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    match own.ask(session, arguments).await {
        Ok(members) => Ok(told(members.into())),
        Err(Refusal::Arguments(text)) => Err(Refusal::Arguments(text).into()),
        Err(refusal) => refused(refusal),
    }
}

impl Own {
    /// The types of the requests that it makes.
    fn needs(&self) -> impl Iterator<Item = &'static str> {
        let (first, second) = match self.shape {
            Shape::Plain | Shape::Search | Shape::Spawn => (self.kind, None),
            Shape::Memory | Shape::Entry => (self.kind, Some("memory/init/req")),
            // It reads what a program that was started has put out.
            Shape::Output => ("proc/spawn/req", None),
        };
        std::iter::once(first).chain(second)
    }

    fn listed(&self) -> Tool {
        let (properties, required) = (self.schema)();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        let annotations = ToolAnnotations::new().read_only(self.read_only);
        Tool::new(self.name, self.about, Arc::new(schema)).with_annotations(annotations)
    }

    async fn ask(
        &self,
        session: &Session,
        mut arguments: JsonObject,
    ) -> Result<JsonObject, Refusal> {
        let (_, required) = (self.schema)();
        if let Some(missing) = required.iter().find(|name| !arguments.contains_key(**name)) {
            return Err(Refusal::Arguments(format!("`{missing}` is missing")));
        }
        let mut event_callback = Handler::none();
        match self.shape {
            Shape::Plain => {}
            Shape::Search => drop(arguments.insert("include_deferred".into(), true.into())),
            Shape::Memory => {
                if let Some(Value::Array(keys)) = arguments.get_mut("keys") {
                    // Agents store strings as they are, too.
                    let objects: Vec<Value> = keys.iter().map(|key| key_of(key.clone())).collect();
                    keys.extend(objects);
                }
                arguments = in_memory(session, arguments).await?;
            }
            Shape::Entry => {
                let namespace = arguments.remove("namespace");
                if let Some(key) = arguments.get_mut("key") {
                    *key = key_of(key.take());
                }
                let tier = arguments.entry("tier");
                tier.or_insert_with(|| "episodic".into());
                let mut members = JsonObject::new();
                members.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace)));
                members.insert("entries".into(), json!([arguments]));
                arguments = in_memory(session, members).await?;
            }
            Shape::Spawn => event_callback = session.outputs.handler(),
            Shape::Output => return Ok(output(session, &arguments).await),
        }
        let mut members = session.ask(self.kind, arguments, event_callback).await?;
        if let Some(Value::Array(entries)) = members.get_mut("entries") {
            let keys = entries.iter_mut().filter_map(|it| it.get_mut("key"));
            keys.for_each(|key| *key = shown_key(key.take()));
        }
        if let Some(Value::Array(stored)) = members.get_mut("stored") {
            let keys = stored.iter_mut();
            keys.for_each(|key| *key = shown_key(key.take()));
        }
        Ok(members)
    }
}

/// A key as every host takes it: a text in an object.
fn key_of(key: Value) -> Value {
    match key {
        Value::String(text) => json!({ "key": text }),
        other => other,
    }
}

/// The text of such a key.
fn shown_key(key: Value) -> Value {
    let object = key.as_object().filter(|key| key.len() == 1);
    let text = object.and_then(|key| key.get("key"));
    let text = text.filter(|text| text.is_string()).cloned();
    text.unwrap_or(key)
}

/// The same, in the memory that `namespace` names.
async fn in_memory(session: &Session, mut arguments: JsonObject) -> Result<JsonObject, Refusal> {
    let namespace = match arguments.remove("namespace") {
        None => "default".to_owned(),
        Some(Value::String(namespace)) => namespace,
        Some(_) => return Err(Refusal::Arguments("`namespace` is a text".into())),
    };
    let id = session.memory(&namespace).await?;
    arguments.insert("memory_id".into(), id.as_str().into());
    Ok(arguments)
}

async fn output(session: &Session, arguments: &JsonObject) -> JsonObject {
    let id = arguments.get("proc_id").and_then(Value::as_str);
    let wait = arguments.get("wait_ms").and_then(Value::as_u64);
    let wait = Duration::from_millis(wait.unwrap_or(1000).min(MAX_WAIT));
    match session.outputs.read(id.unwrap_or_default(), wait).await {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn namespace() -> Value {
    text("Which memory; `default` unless given")
}

fn tier() -> Value {
    json!({"type": "string", "enum": ["working", "episodic", "semantic"],
        "description": "working ends with the session, episodic lasts, semantic is for facts"})
}

fn episode() -> Value {
    text("The episode, as env_reset gave it")
}

fn process() -> Value {
    text("The process, as proc_spawn gave it")
}

const OWN: &[Own] = &[
    Own {
        name: "tool_search",
        about: "Finds tools by what they do, those included that are not listed; all can be called",
        capability: Capability::Tools,
        kind: "tool/list/req",
        shape: Shape::Search,
        read_only: true,
        schema: || {
            (
                json!({"query": text("What the tool should do")}),
                &["query"],
            )
        },
    },
    Own {
        name: "memory_store",
        about: "Remembers something under a key",
        capability: Capability::Memory,
        kind: "memory/store/req",
        shape: Shape::Entry,
        read_only: false,
        schema: || {
            let properties = json!({
                "namespace": namespace(),
                "key": text("What it is remembered as"),
                "content": {"description": "What to remember, any JSON"},
                "tier": tier(),
                "tags": texts("Words that lead to it"),
                "ttl": {"type": "integer", "minimum": 0, "description": "Seconds until it is forgotten; 0 for never"},
            });
            (properties, &["key", "content"])
        },
    },
    Own {
        name: "memory_recall",
        about: "Looks for what was remembered; all that is given must match",
        capability: Capability::Memory,
        kind: "memory/retrieve/req",
        shape: Shape::Memory,
        read_only: true,
        schema: || {
            let properties = json!({
                "namespace": namespace(),
                "query": text("Words to look for"),
                "keys": texts("The keys it was remembered as"),
                "tags": texts("Tags that it must have"),
                "tier": tier(),
                "limit": {"type": "integer", "minimum": 1, "description": "How many entries at most; 10 unless given"},
            });
            (properties, &[])
        },
    },
    Own {
        name: "memory_forget",
        about: "Forgets what has these keys or these tags",
        capability: Capability::Memory,
        kind: "memory/forget/req",
        shape: Shape::Memory,
        read_only: false,
        schema: || {
            let properties = json!({
                "namespace": namespace(),
                "keys": texts("The keys to forget"),
                "tags": texts("Forget all that has these tags"),
                "tier": tier(),
            });
            (properties, &[])
        },
    },
    Own {
        name: "env_space",
        about: "Tells which actions and states an environment has",
        capability: Capability::Env,
        kind: "env/space/req",
        shape: Shape::Plain,
        read_only: true,
        schema: || (json!({"env_name": text("The environment")}), &["env_name"]),
    },
    Own {
        name: "env_reset",
        about: "Starts an episode of an environment",
        capability: Capability::Env,
        kind: "env/reset/req",
        shape: Shape::Plain,
        read_only: false,
        schema: || {
            let properties = json!({
                "env_name": text("The environment"),
                "seed": {"type": "integer", "description": "The same seed gives the same episode"},
                "options": {"type": "object", "description": "What the environment takes beside"},
            });
            (properties, &["env_name"])
        },
    },
    Own {
        name: "env_step",
        about: "Acts in an episode, and tells what is seen then",
        capability: Capability::Env,
        kind: "env/step/req",
        shape: Shape::Plain,
        read_only: false,
        schema: || {
            let action = json!({"type": "object", "description": "What to do, as env_space tells"});
            (
                json!({"episode_id": episode(), "action": action}),
                &["episode_id", "action"],
            )
        },
    },
    Own {
        name: "env_observe",
        about: "Tells what is seen in an episode now",
        capability: Capability::Env,
        kind: "env/observe/req",
        shape: Shape::Plain,
        read_only: true,
        schema: || (json!({"episode_id": episode()}), &["episode_id"]),
    },
    Own {
        name: "env_render",
        about: "Shows an episode",
        capability: Capability::Env,
        kind: "env/render/req",
        shape: Shape::Plain,
        read_only: true,
        schema: || {
            let mode =
                json!({"type": "string", "enum": ["text", "json", "screenshot", "rgb_array"]});
            (
                json!({"episode_id": episode(), "mode": mode}),
                &["episode_id"],
            )
        },
    },
    Own {
        name: "env_close",
        about: "Ends an episode",
        capability: Capability::Env,
        kind: "env/close/req",
        shape: Shape::Plain,
        read_only: false,
        schema: || (json!({"episode_id": episode()}), &["episode_id"]),
    },
    Own {
        name: "proc_spawn",
        about: "Starts a program that goes on; it ends with this session",
        capability: Capability::Proc,
        kind: "proc/spawn/req",
        shape: Shape::Spawn,
        read_only: false,
        schema: || {
            let properties = json!({
                "cmd": texts("The program and its arguments"),
                "cwd": text("Where to run it; the workspace unless given"),
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables"},
                "timeout": {"type": "integer", "minimum": 0, "description": "Seconds that it may run; 0 for no limit of its own"},
            });
            (properties, &["cmd"])
        },
    },
    Own {
        name: "proc_read",
        about: "Reads what a program has put out since it was last read",
        capability: Capability::Proc,
        kind: "",
        shape: Shape::Output,
        read_only: false,
        schema: || {
            let wait = json!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Milliseconds to wait for output; 1000 unless given"});
            (json!({"proc_id": process(), "wait_ms": wait}), &["proc_id"])
        },
    },
    Own {
        name: "proc_write",
        about: "Writes to the standard input of a program",
        capability: Capability::Proc,
        kind: "proc/write/req",
        shape: Shape::Plain,
        read_only: false,
        schema: || {
            let eof = json!({"type": "boolean", "description": "Whether that was all"});
            (
                json!({"proc_id": process(), "data": text("What to write"), "eof": eof}),
                &["proc_id"],
            )
        },
    },
    Own {
        name: "proc_kill",
        about: "Sends a program a signal",
        capability: Capability::Proc,
        kind: "proc/kill/req",
        shape: Shape::Plain,
        read_only: false,
        schema: || {
            let signal = json!({"type": "string", "enum": ["SIGTERM", "SIGKILL", "SIGINT"]});
            (
                json!({"proc_id": process(), "signal": signal}),
                &["proc_id"],
            )
        },
    },
    Own {
        name: "proc_status",
        about: "Tells how a program is doing; without one, how all are",
        capability: Capability::Proc,
        kind: "proc/status/req",
        shape: Shape::Plain,
        read_only: true,
        schema: || (json!({"proc_id": process()}), &[]),
    },
];
