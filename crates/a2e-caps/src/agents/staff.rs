//! Sub-agents of a model that is a sub-agent: it has them by tools.
//!
//! What these ask for is asked of the node as an agent would: the rules decide, it is on record, and
//! the limits of the whole agent count.

use a2e_wire::messages::multi_agent::{
    MultiAgentAwaitRequest, MultiAgentDelegateRequest, MultiAgentSpawnRequest,
    MultiAgentTerminateRequest,
};
use a2e_wire::messages::subagent::{
    SubagentMessagePayload, SubagentMessageRequest, SubagentStatus,
};
use a2e_wire::{Body, Capability, Object, Raw};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::work::Work;
use crate::model::Offered;

const SPAWN: &str = "spawn_agent";
const AWAIT: &str = "await_agent";
const MESSAGE: &str = "message_agent";
const TERMINATE: &str = "terminate_agent";

/// What a model wants of its sub-agents.
pub(super) enum Order {
    Spawn(Spawn),
    Await(Whom),
    Message(Words),
    Terminate(Whom),
}

/// A sub-agent with its task.
#[derive(Deserialize)]
pub(super) struct Spawn {
    name: String,
    instruction: String,
    #[serde(default)]
    role: String,
    model: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    max_steps: Option<i64>,
    timeout_seconds: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Whom {
    agent_id: String,
}

#[derive(Deserialize)]
pub(super) struct Words {
    agent_id: String,
    text: String,
}

impl Order {
    /// The order that a call of a tool is; nothing if the tool is another.
    pub(super) fn read(name: &str, arguments: &Map<String, Value>) -> Option<Result<Self, String>> {
        Some(match name {
            SPAWN => given(arguments).map(Self::Spawn),
            AWAIT => given(arguments).map(Self::Await),
            MESSAGE => given(arguments).map(Self::Message),
            TERMINATE => given(arguments).map(Self::Terminate),
            _ => return None,
        })
    }
}

pub(super) fn given<T: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<T, String> {
    let read = serde_json::from_value(Value::Object(arguments.clone()));
    read.map_err(|error| format!("the arguments are not what it takes: {error}"))
}

impl Work {
    /// The tools by which a model has sub-agents; none if it may not, or would be too deep.
    pub(super) fn staff(&self) -> Vec<Offered> {
        let may = self.sub.scope.has(&Capability::MultiAgent);
        if !may || self.sub.depth >= self.tree.limits.depth {
            return Vec::new();
        }
        let text = |what: &str| json!({"type": "string", "description": what});
        let number = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
        let whom = text("What `spawn_agent` called it");
        let spawn = json!({
            "name": text("What to call it"),
            "instruction": text("Its task, in full: it knows nothing else of what you do"),
            "role": text("What it is good at"),
            "model": text("The model that it is; your own unless given"),
            "tools": {"type": "array", "items": {"type": "string"}, "description": "Tools of yours \
                that it may use, by name; `multi_agent` if it may have agents itself"},
            "max_steps": number("Turns that it may take"),
            "timeout_seconds": number("How long it may take"),
        });
        vec![
            offered(
                SPAWN,
                "Gives a task to an agent of your own, which begins at once; gives its `agent_id`",
                &spawn,
                &["name", "instruction"],
            ),
            offered(
                AWAIT,
                "Waits until an agent of yours has ended; gives its result, or why there is none",
                &json!({"agent_id": whom}),
                &["agent_id"],
            ),
            offered(
                MESSAGE,
                "Tells something to an agent of yours that is at work",
                &json!({"agent_id": whom, "text": text("What to tell it")}),
                &["agent_id", "text"],
            ),
            offered(
                TERMINATE,
                "Ends an agent of yours, with all agents that it has, and makes room for another",
                &json!({"agent_id": whom}),
                &["agent_id"],
            ),
        ]
    }

    /// Does what a model wants of its sub-agents.
    pub(super) async fn order(&self, order: Order) -> Result<Value, String> {
        match order {
            Order::Spawn(spawn) => self.engage(spawn).await,
            Order::Await(Whom { agent_id }) => {
                let asked = MultiAgentAwaitRequest::new(agent_id.into());
                let Body::MultiAgentAwaitResponse(ended) = self.asked(asked).await? else {
                    return Err(NO_ANSWER.to_owned());
                };
                let result: Value = match ended.result {
                    Some(result) => result.raw().deserialize().unwrap_or_default(),
                    None => Value::Null,
                };
                Ok(json!({"status": ended.status.as_str(), "result": result,
                    "error": ended.error}))
            }
            Order::Message(Words { agent_id, text }) => {
                let content = Raw::from_serialize(&text).map_err(|error| error.to_string())?;
                let message = SubagentMessagePayload::new("text".into(), content);
                let from = self.sub.id.clone();
                let asked = SubagentMessageRequest::new(from.into(), agent_id.into(), message);
                let Body::SubagentMessageResponse(told) = self.asked(asked).await? else {
                    return Err(NO_ANSWER.to_owned());
                };
                match told.delivered {
                    true => Ok(json!("told")),
                    false => Err("it was not told: it has ended, or has much to read".to_owned()),
                }
            }
            Order::Terminate(Whom { agent_id }) => {
                let asked = MultiAgentTerminateRequest::new(agent_id.into());
                let Body::MultiAgentTerminateResponse(ended) = self.asked(asked).await? else {
                    return Err(NO_ANSWER.to_owned());
                };
                Ok(json!({"ended": ended.success}))
            }
        }
    }

    /// Makes a sub-agent and gives it its task.
    async fn engage(&self, spawn: Spawn) -> Result<Value, String> {
        let mut more = json!({"tools": spawn.tools});
        if let (Some(seconds), Some(members)) = (spawn.timeout_seconds, more.as_object_mut()) {
            members.insert("timeout_seconds".to_owned(), json!(seconds));
        }
        let mut asked = MultiAgentSpawnRequest {
            role: spawn.role.into(),
            model: spawn
                .model
                .unwrap_or_else(|| self.sub.wish.model.clone())
                .into(),
            metadata: Object::from_serialize(&more).unwrap_or_default(),
            ..MultiAgentSpawnRequest::new(spawn.name.clone().into())
        };
        if let Some(steps) = spawn.max_steps {
            asked.max_steps = steps;
        }
        let Body::MultiAgentSpawnResponse(made) = self.asked(asked).await? else {
            return Err(NO_ANSWER.to_owned());
        };
        if made.status == SubagentStatus::Failed {
            let limits = &self.tree.limits;
            return Err(format!(
                "there can be no more agents: {} at a time in all sessions, {} deep; end one that you do not need",
                limits.agents, limits.depth
            ));
        }
        let task = MultiAgentDelegateRequest::new(
            made.subagent_id.clone(),
            spawn.name.into(),
            spawn.instruction.into(),
        );
        let Body::MultiAgentDelegateResponse(begun) = self.asked(task).await? else {
            return Err(NO_ANSWER.to_owned());
        };
        match begun.accepted {
            true => Ok(json!({"agent_id": made.subagent_id.as_str()})),
            false => Err("it did not take the task: it has ended".to_owned()),
        }
    }

    /// Asks as this sub-agent may; a step of all.
    pub(super) async fn asked(
        &self,
        body: impl Into<Body<'static>>,
    ) -> Result<Body<'static>, String> {
        let body = body.into();
        let refused =
            |failure: a2e_runtime::Failure| format!("{}: {}", failure.code, failure.message);
        self.sub.scope.permit(&body).map_err(refused)?;
        self.tree.step().map_err(|error| error.message)?;
        let body = self.own(body)?;
        let body = self.memories.prepare(body, &self.errand, &self.sub).await;
        let body = body.map_err(refused)?;
        let answer = self.errand.ask(self.sub.next_id(), body, None).await;
        answer.map_err(refused)
    }
}

/// What is said of an answer that says nothing.
pub(super) const NO_ANSWER: &str = "the host gave no result";

pub(super) fn offered(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
) -> Offered {
    Offered {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), properties.clone()),
            ("required".to_owned(), json!(required)),
        ]),
    }
}
