//! What a sub-agent is asked to be, in both vocabularies, and how it is listed.

use std::time::Duration;

use a2e_runtime::Failure;
use a2e_wire::messages::multi_agent::MultiAgentSpawnRequest;
use a2e_wire::messages::subagent::{
    MemoryScope, SubagentConfig, SubagentInfo, SubagentSpawnRequest, ToolScope,
};
use a2e_wire::wire::ToStatic;
use a2e_wire::{ErrorCode, Namespace, Object};
use serde_json::{Value, json};

use super::PARENT;
use super::scope::{Memory, Scope};
use super::tree::{MAX_CONFIG, MAX_LISTED_TEXT, Sub, Wish};
use crate::tools::now;
use crate::truncate::truncate;

/// How long a task may take, where nobody says.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Bytes of what a list says of what sub-agents were asked to be.
pub(super) const MAX_LISTED_CONFIGS: usize = 1024 * 1024;

/// Steps of one task, at most.
const MAX_STEPS: usize = 1000;

/// The older vocabulary.
pub(super) fn older(request: &SubagentSpawnRequest<'_>) -> (Option<String>, Wish) {
    let agent = &request.agent;
    let words: Vec<String> = agent.capabilities.iter().map(ToString::to_string).collect();
    let text =
        |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
    let wish = Wish {
        name: agent.name.to_string(),
        role: text(&agent.role),
        model: agent.model.to_string(),
        system_prompt: text(&agent.system_prompt),
        scope: Scope::asked(&agent.tool_scope, &words),
        memory: Memory::of(&agent.memory_scope),
        max_steps: steps(agent.max_steps),
        timeout: seconds(agent.timeout_seconds),
        is_told: true,
        config: as_value(agent),
    };
    let parent = request
        .parent_agent_id
        .as_ref()
        .map(|id| id.as_str().to_owned());
    // The agent itself may be named, too.
    (parent.filter(|id| id.starts_with("sub_")), wish)
}

/// The newer vocabulary, in which `metadata` says what the older one has members for.
pub(super) fn newer(request: &MultiAgentSpawnRequest<'_>) -> (Option<String>, Wish) {
    let more: Value = request.metadata.raw().deserialize().unwrap_or_default();
    let text = |name: &str| {
        let text = more.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let words = ["capabilities", "tools"].iter().flat_map(|name| {
        let list = more.get(*name).and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned)
    });
    let words: Vec<String> = words.collect();
    let tools = match text("tool_scope") {
        scope if scope.is_empty() => ToolScope::Restricted,
        scope => ToolScope::from(scope),
    };
    let memory = match text("memory_scope") {
        scope if scope.is_empty() => MemoryScope::Shared,
        scope => MemoryScope::from(scope),
    };
    let timeout = more.get("timeout_seconds").and_then(Value::as_i64);
    let parent = more.get(PARENT).and_then(Value::as_str).map(str::to_owned);
    let wish = Wish {
        name: request.name.to_string(),
        role: request.role.to_string(),
        model: request.model.to_string(),
        system_prompt: text("system_prompt"),
        scope: Scope::asked(&tools, &words),
        memory: Memory::of(&memory),
        max_steps: steps(request.max_steps),
        timeout: timeout.map_or(TIMEOUT, seconds),
        is_told: false,
        config: json!({"name": request.name, "role": request.role, "model": request.model,
            "capabilities": words, "tool_scope": tools.as_str(), "memory_scope": memory.as_str(),
            "max_steps": request.max_steps, "metadata": more}),
    };
    (parent, wish)
}

fn steps(asked: i64) -> usize {
    usize::try_from(asked).unwrap_or(0).clamp(1, MAX_STEPS)
}

fn seconds(asked: i64) -> Duration {
    match u64::try_from(asked) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds),
        _ => TIMEOUT,
    }
}

fn as_value(config: &SubagentConfig<'_>) -> Value {
    let object = Object::from_record(config).unwrap_or_default();
    object.raw().deserialize().unwrap_or_default()
}

/// Refuses a sub-agent of which too much is said.
pub(super) fn check(wish: &Wish) -> Result<(), Failure> {
    let size = wish.config.to_string().len();
    if size <= MAX_CONFIG {
        return Ok(());
    }
    let text = format!(
        "what the sub-agent is to be has {size} bytes as JSON; it may have {MAX_CONFIG}: give it long \
         texts as messages, or with its task"
    );
    Err(Failure::new(
        ErrorCode::SchemaViolation,
        Namespace::MultiAgent,
        text,
    ))
}

/// A text as lists have it.
fn listed(text: &str) -> String {
    truncate(text.to_owned(), MAX_LISTED_TEXT)
}

/// A sub-agent as the newer vocabulary lists it.
pub(super) fn told(sub: &Sub) -> Value {
    let (wish, state) = (&sub.wish, sub.state());
    json!({"subagent_id": sub.id, "name": listed(&wish.name), "role": listed(&wish.role),
        "model": listed(&wish.model), "status": state.status.as_str(), "task": state.task,
        "parent_agent_id": sub.parent, "depth": sub.depth, "error": state.error})
}

/// A sub-agent as the older vocabulary lists it: with what it was asked to be as long as there is room.
pub(super) fn info(sub: &Sub, agent: &str, room: &mut usize) -> SubagentInfo<'static> {
    let object = Object::from_serialize(&sub.wish.config).unwrap_or_default();
    let left = room.checked_sub(object.raw().as_str().len());
    let config = left.and_then(|left| {
        *room = left;
        object.read::<SubagentConfig<'_>>(now()).ok()
    });
    let config = config.map(ToStatic::to_static);
    let plain = || {
        SubagentConfig::new(
            listed(&sub.wish.name).into(),
            listed(&sub.wish.model).into(),
        )
    };
    let parent = sub.parent.clone().unwrap_or_else(|| agent.to_owned());
    SubagentInfo {
        parent_agent_id: Some(parent.into()),
        root_agent_id: Some(agent.to_owned().into()),
        depth: i64::try_from(sub.depth).unwrap_or(i64::MAX),
        ..SubagentInfo::new(
            sub.id.clone().into(),
            listed(&sub.wish.name).into(),
            sub.status(),
            config.unwrap_or_else(plain),
        )
    }
}
