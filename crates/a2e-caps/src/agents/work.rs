//! A task of a sub-agent, by what the sub-agent is: a model, a tool, or a program.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, Errand};
use a2e_wire::messages::tool::{ToolCallRequest, ToolDefinition, ToolListRequest};
use a2e_wire::{Body, Object};
use serde_json::{Map, Value, json};

use super::command;
use super::memory::Memories;
use super::staff::Order;
use super::thoughts::Thought;
use super::tree::{Sub, Tree};
use crate::model::{Hands, Model, ModelError, Models, Offered, Spent, Talk, called};
use crate::tool::schema_of;
use crate::workplace::Workplace;

/// The tool by which a model reads what others tell it.
const MESSAGES: &str = "read_messages";

/// The tag of tools that are other agents.
const PEER: &str = "peer";

/// How long a tool may take, in seconds.
const TOOL_SECONDS: i64 = 300;

/// What sub-agents are made of.
#[derive(Debug, Clone)]
pub struct Shop {
    /// Models.
    pub models: Arc<Models>,
    /// Programs that are agents, by name.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Where programs run.
    pub workplace: Arc<Workplace>,
}

/// A task, and who does it for whom.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) shop: Arc<Shop>,
    pub(super) errand: Errand,
    pub(super) tree: Arc<Tree>,
    pub(super) sub: Arc<Sub>,
    pub(super) memories: Arc<Memories>,
    pub(super) task: Task,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) instruction: String,
    pub(super) criteria: Vec<String>,
}

impl Task {
    pub(super) fn to_json(&self) -> Value {
        json!({"name": self.name, "instruction": self.instruction,
            "success_criteria": self.criteria})
    }
}

impl Work {
    /// Does it, within its time, unless the sub-agent is ended first.
    pub(super) async fn run(&self) -> Result<Value, String> {
        let limit = self.sub.wish.timeout.min(self.tree.limits.timeout);
        let done = tokio::time::timeout(limit, self.done());
        tokio::select! {
            biased;
            () = self.sub.over.cancelled() => Err("it was ended".to_owned()),
            outcome = done => outcome.unwrap_or_else(|_| {
                Err(format!("timeout: it took longer than {} s", limit.as_secs()))
            }),
        }
    }

    async fn done(&self) -> Result<Value, String> {
        let model = self.sub.wish.model.as_str();
        if let Some(tool) = model.strip_prefix("tool:") {
            return self.by_tool(tool).await;
        }
        if model.starts_with("did:") {
            let tool = self.tool_of(model).await?;
            return self.by_tool(&tool).await;
        }
        if let Some(words) = self.shop.commands.get(model) {
            return command::run(self, words).await;
        }
        match self.shop.models.find(model) {
            Some(model) => self.by_model(model).await,
            None => Err(format!(
                "there is no model `{model}`: the operator names models in `models` and programs \
                 in `commands` of `type: multi_agent`; `tool:NAME` is a tool, a DID is an agent of `peers`"
            )),
        }
    }

    /// The tool that is another agent: the one intent of it that can be asked for here, or the one that
    /// `metadata` names.
    async fn tool_of(&self, did: &str) -> Result<String, String> {
        let listed = self.listed(ToolListRequest {
            include_deferred: true,
            ..ToolListRequest::new()
        });
        let listed = listed.await;
        let wanted = self.sub.wish.config.pointer("/metadata/intent");
        let wanted = wanted.and_then(Value::as_str);
        let has = |tool: &ToolDefinition<'_>, word: &str| tool.tags.iter().any(|tag| tag == word);
        let fits = |tool: &&ToolDefinition<'_>| {
            has(tool, PEER) && has(tool, did) && wanted.is_none_or(|intent| has(tool, intent))
        };
        let tools: Vec<&str> = listed.iter().filter(fits).map(|tool| &*tool.name).collect();
        match tools.as_slice() {
            [tool] => Ok((*tool).to_owned()),
            [] => Err(format!(
                "no tool of this host is the agent {did}{}: the operator names agents and what they \
                 are asked for in `peers`",
                wanted.map_or_else(String::new, |intent| format!(" with the intent `{intent}`"))
            )),
            several => Err(format!(
                "{did} can be asked for more than one thing: say which by `intent` in `metadata`, or \
                 `tool:NAME` with one of {}",
                several.join(", ")
            )),
        }
    }

    /// A tool does it: that of a peer, above all.
    async fn by_tool(&self, name: &str) -> Result<Value, String> {
        if !self.sub.scope.has_tool(name) {
            return Err(format!("it has not been given the tool `{name}`"));
        }
        let arguments = json!({ "instruction": self.task.instruction });
        self.call(name, &arguments).await
    }

    async fn by_model(&self, model: &Model) -> Result<Value, String> {
        let tools = self.offered().await?;
        let own = Spent::new(model.max_tokens());
        let talk = Talk {
            model,
            tools: &tools,
            max_turns: self.sub.wish.max_steps,
            spent: &[&own, &self.tree.spent],
        };
        let done = talk.run(self.messages(), self).await;
        let done = done.map_err(|error| format!("{}: {}", error.code, error.message))?;
        let summary: String = done.text.chars().take(500).collect();
        Ok(
            json!({"text": done.text, "summary": summary, "turns": done.turns,
            "tokens": done.tokens, "tool_calls": done.calls}),
        )
    }

    fn messages(&self) -> Vec<Value> {
        let wish = &self.sub.wish;
        let mut system = vec![format!("You are {}.", wish.name)];
        if !wish.role.is_empty() {
            system.push(format!("Your role: {}", wish.role));
        }
        system.push(wish.system_prompt.clone());
        let mut task = vec![self.task.instruction.clone()];
        if !self.task.criteria.is_empty() {
            task.push(format!(
                "It is done when: {}",
                self.task.criteria.join("; ")
            ));
        }
        let messages = self.sub.take_messages();
        if !messages.is_empty() {
            task.push(format!("Messages for you: {}", Value::Array(messages)));
        }
        vec![
            json!({"role": "system", "content": system.join("\n").trim()}),
            json!({"role": "user", "content": task.join("\n")}),
        ]
    }

    /// The tools of the sub-agent, as far as the agent that has it sees them.
    async fn offered(&self) -> Result<Vec<Offered>, String> {
        let listed = self.listed(ToolListRequest::new()).await;
        let is_given = |tool: &&ToolDefinition<'_>| self.sub.scope.has_tool(&tool.name);
        let given = listed.iter().filter(is_given).map(|tool| Offered {
            name: tool.name.clone().into_owned(),
            description: tool.description.clone().into_owned(),
            schema: schema_of(tool),
        });
        let own = Offered {
            name: MESSAGES.to_owned(),
            description: "Reads what other agents have told you since you last looked".to_owned(),
            schema: Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), json!({})),
            ]),
        };
        let own = [own].into_iter().chain(self.thoughts()).chain(self.staff());
        Ok(given.chain(own).collect())
    }

    /// The tools that the agent sees that has this one.
    async fn listed(&self, request: ToolListRequest<'static>) -> Vec<ToolDefinition<'static>> {
        match self.errand.ask(self.sub.next_id(), request, None).await {
            Ok(Body::ToolListResponse(list)) => list.tools,
            Ok(_) => Vec::new(),
            Err(failure) => {
                tracing::debug!(error = %failure.message, "a sub-agent has no tools");
                Vec::new()
            }
        }
    }

    async fn call(&self, name: &str, arguments: &Value) -> Result<Value, String> {
        self.tree.step().map_err(|error| error.message)?;
        let request = ToolCallRequest {
            tool_name: name.to_owned().into(),
            arguments: Object::from_serialize(arguments).unwrap_or_default(),
            timeout: TOOL_SECONDS,
            ..ToolCallRequest::new()
        };
        match self.errand.ask(self.sub.next_id(), request, None).await {
            Ok(Body::ToolCallResponse(response)) => called(response.data),
            Ok(_) => Err("the host gave no result".to_owned()),
            Err(failure) => Err(format!("{}: {}", failure.code, failure.message)),
        }
    }
}

impl Hands for Work {
    fn token(&self, _: String) -> BoxFuture<'_, ()> {
        // Nobody reads along: the result has all of it.
        Box::pin(std::future::ready(()))
    }

    fn call(
        &self,
        name: String,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            if name == MESSAGES {
                return Ok(Value::Array(self.sub.take_messages()));
            }
            if let Some(order) = Order::read(&name, &arguments) {
                return self.order(order?).await;
            }
            if let Some(thought) = Thought::read(&name, &arguments) {
                return self.think(thought?).await;
            }
            Self::call(self, &name, &Value::Object(arguments)).await
        })
    }

    fn may_go_on(&self) -> Result<(), ModelError> {
        self.tree.check_steps()
    }
}
