//! A plugin with five small tools: to try a host with, and to copy from.

use std::borrow::Cow;
use std::future::ready;
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_session::Failure;
use a2e_wire::messages::tool::{
    ToolCallRequest, ToolCallResponse, ToolDefinition, ToolEvent, ToolListRequest,
    ToolListResponse, ToolParameter, ToolParameterType, ToolResult,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Object, Raw, Tag, Timestamp};

use crate::plugin::{BoxFuture, Context, Outcome, Plugin, Serves};

/// Tools `echo`, `clock`, `fail`, `stream` and `wait`.
#[derive(Debug, Clone)]
pub struct Demo {
    name: String,
    priority: i64,
    exclusive: bool,
}

impl Default for Demo {
    fn default() -> Self {
        Self::named("demo", 0, false)
    }
}

impl Plugin for Demo {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> i64 {
        self.priority
    }

    fn exclusive(&self) -> bool {
        self.exclusive
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolListRequest, Tag::ToolCallRequest])
    }

    fn outlives(&self, _request: &Message<'_>) -> bool {
        false
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
        let answer = match request.body {
            Body::ToolListRequest(filter) => Ok(Outcome::answer(list(&filter))),
            Body::ToolCallRequest(call) => match call.tool_name.as_ref() {
                "stream" | "wait" => return Box::pin(self.take_time(call, context)),
                _ => call_at_once(call),
            },
            _ => Ok(Outcome::Pass),
        };
        Box::pin(ready(answer))
    }
}

impl Demo {
    /// The plugin as a configuration describes it.
    #[must_use]
    pub fn named(name: &str, priority: i64, exclusive: bool) -> Self {
        Self {
            name: name.to_owned(),
            priority,
            exclusive,
        }
    }

    async fn take_time(
        &self,
        call: ToolCallRequest<'static>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        let data = match call.tool_name.as_ref() {
            "stream" => self.stream(&call, &context).await?,
            _ => wait(&call).await?,
        };
        Ok(succeeded(call.tool_name, data))
    }

    /// Counts to `count` (at most 1000), with an event for each number if the caller wants events.
    async fn stream(
        &self,
        call: &ToolCallRequest<'_>,
        context: &Context,
    ) -> Result<Raw<'static>, Failure> {
        let arguments: Count = call.arguments.raw().deserialize().map_err(|error| {
            let text = format!("`stream` needs a number `count`: {error}");
            Failure::new(ErrorCode::ToolError, Namespace::Tool, text)
        })?;
        let count = arguments.count.min(1000);
        for number in 1..=count {
            let event = ToolEvent {
                kind: "progress".into(),
                data: Object::parse(&format!("{{\"number\":{number}}}"))
                    .map(a2e_wire::wire::ToStatic::to_static)
                    .unwrap_or_default(),
                ..ToolEvent::new()
            };
            // Nobody waits any more: the task is about to be dropped.
            if call.streaming && context.event(event).await.is_err() {
                break;
            }
        }
        Ok(json(&format!("{{\"counted\":{count}}}")))
    }
}

/// What needs no time needs no future of its own either.
fn call_at_once(call: ToolCallRequest<'static>) -> Result<Outcome, Failure> {
    let data = match call.tool_name.as_ref() {
        "echo" => call.arguments.into_raw(),
        "clock" => json(&format!("{{\"unix_seconds\":{}}}", now().unix_seconds())),
        "fail" => {
            let text = "this tool always fails";
            return Err(Failure::new(ErrorCode::ToolError, Namespace::Tool, text));
        }
        _ => return Ok(Outcome::Pass),
    };
    Ok(succeeded(call.tool_name, data))
}

fn succeeded(tool: Cow<'static, str>, data: Raw<'static>) -> Outcome {
    let result = ToolResult {
        data: Some(data),
        ..ToolResult::new(true, tool, 0)
    };
    Outcome::answer(ToolCallResponse::new(result, now()))
}

/// Does nothing for so many seconds.
async fn wait(call: &ToolCallRequest<'_>) -> Result<Raw<'static>, Failure> {
    let arguments: Wait = call.arguments.raw().deserialize().map_err(|error| {
        let text = format!("`wait` needs a number `seconds`: {error}");
        Failure::new(ErrorCode::ToolError, Namespace::Tool, text)
    })?;
    let seconds = arguments.seconds.min(3600);
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
    Ok(json(&format!("{{\"waited\":{seconds}}}")))
}

#[derive(serde::Deserialize)]
struct Wait {
    seconds: u64,
}

#[derive(serde::Deserialize)]
struct Count {
    count: u64,
}

fn list(filter: &ToolListRequest<'_>) -> ToolListResponse<'static> {
    let tools = [
        ("echo", "Gives its arguments back", vec![]),
        ("clock", "Tells the time of the host", vec![]),
        ("fail", "Always fails", vec![]),
        (
            "stream",
            "Counts, with an event for each number",
            vec![("count", "How far to count, 1000 at most")],
        ),
        (
            "wait",
            "Does nothing for a while",
            vec![("seconds", "How long")],
        ),
    ];
    let tools = tools
        .into_iter()
        .filter(|(name, text, _)| matches(&filter.query, name) || matches(&filter.query, text))
        .map(|(name, text, parameters)| ToolDefinition {
            input_parameters: parameters
                .into_iter()
                .map(|(name, text)| ToolParameter {
                    required: true,
                    ..ToolParameter::new(name.into(), ToolParameterType::Integer, text.into())
                })
                .collect(),
            streaming: name == "stream",
            tags: vec!["demo".into()],
            ..ToolDefinition::new(name.into(), text.into())
        });
    ToolListResponse {
        tools: tools.collect(),
    }
}

fn matches(query: &str, text: &str) -> bool {
    text.to_lowercase().contains(&query.to_lowercase())
}

fn json(text: &str) -> Raw<'static> {
    Raw::parse(text, a2e_wire::OWN_VALUES).map_or(Raw::NULL, Raw::into_owned)
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_unix_seconds(elapsed.as_secs_f64()).unwrap_or_default()
}
