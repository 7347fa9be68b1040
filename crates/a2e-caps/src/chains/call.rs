//! Makes the call of a node: a request to the host this chain runs in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{Context, Failure};
use a2e_wire::messages::proc::{
    ProcKillRequest, ProcSignal, ProcSpawnRequest, ProcSpawnResponse, ProcStdinMode, ProcStreamType,
};
use a2e_wire::messages::skill::SkillCallRequest;
use a2e_wire::messages::tool::ToolCallRequest;
use a2e_wire::{Body, Object, ProcId, Raw};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::plan::{Call, Kind, Plan, Work};

/// Makes calls of one chain.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) context: Context,
    pub(super) plan: Arc<Plan>,
    /// When the chain is over.
    pub(super) deadline: Instant,
}

/// Why a call failed.
struct Failed {
    text: String,
    /// Whether the same call may succeed later.
    may_pass: bool,
}

/// What tools of peers are called before their names.
const PEER: &str = "peer:";
/// What is kept of what a process writes, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Events of a process that wait to be read.
const EVENTS: usize = 16;

impl Caller {
    /// Calls what a node says, again if it may help.
    pub(super) async fn call(
        self,
        node: usize,
        input: Map<String, Value>,
    ) -> Result<Value, String> {
        let Some(node) = self.plan.nodes.get(node) else {
            return Err("there is no such node".to_owned());
        };
        let Work::Call(call) = &node.work else {
            return Err("this node calls nothing".to_owned());
        };
        let (mut wait, mut left) = (node.backoff, node.retries);
        loop {
            let failed = match self.once(call, &input).await {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if left == 0 || !failed.may_pass {
                return Err(failed.text);
            }
            left = left.saturating_sub(1);
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(MAX_WAIT);
        }
    }

    async fn once(&self, call: &Call, input: &Map<String, Value>) -> Result<Value, Failed> {
        match call.kind {
            Kind::Tool => self.tool(&call.name, input).await,
            Kind::Peer if call.name.starts_with(PEER) => self.tool(&call.name, input).await,
            Kind::Peer => self.tool(&format!("{PEER}{}", call.name), input).await,
            Kind::Skill => self.skill(&call.name, input).await,
            Kind::Proc => self.process(input).await,
        }
    }

    async fn tool(&self, name: &str, input: &Map<String, Value>) -> Result<Value, Failed> {
        let request = ToolCallRequest {
            tool_name: Cow::Owned(name.to_owned()),
            arguments: arguments(input)?,
            timeout: self.seconds(),
            ..ToolCallRequest::new()
        };
        let Body::ToolCallResponse(response) = self.context.ask(request).await? else {
            return Err(Failed::for_good(
                "the tool gave another answer than its result",
            ));
        };
        let result = response.data;
        match result.success {
            true => Ok(value(result.data)),
            false => Err(Failed::unsuccessful(result.error, result.error_code)),
        }
    }

    async fn skill(&self, name: &str, input: &Map<String, Value>) -> Result<Value, Failed> {
        let request = SkillCallRequest {
            name: Cow::Owned(name.to_owned()),
            arguments: arguments(input)?,
            timeout: self.seconds(),
            streaming: false,
            ..SkillCallRequest::new()
        };
        let Body::SkillCallResponse(response) = self.context.ask(request).await? else {
            return Err(Failed::for_good(
                "the skill gave another answer than its result",
            ));
        };
        match (response.data, response.error) {
            (Some(result), None) if result.success => Ok(value(result.data)),
            (Some(result), None) => Err(Failed::unsuccessful(result.error, result.error_code)),
            (_, Some(error)) => Err(Failed {
                text: format!("{} ({})", error.message, error.code),
                may_pass: error.retryable,
            }),
            (None, None) => Err(Failed::for_good("the skill gave no result")),
        }
    }

    /// Starts a process and waits for its end.
    async fn process(&self, input: &Map<String, Value>) -> Result<Value, Failed> {
        let request = ProcSpawnRequest {
            cmd: command(input)?,
            cwd: text(input, "cwd").unwrap_or_default().to_owned().into(),
            stdin_mode: ProcStdinMode::Null,
            timeout: self.seconds(),
            ..ProcSpawnRequest::new()
        };
        let (events, mut heard) = mpsc::channel(EVENTS);
        let answer = self.context.ask_with_events(request, Some(events)).await?;
        let Body::ProcSpawnResponse(ProcSpawnResponse {
            proc_id, ok, error, ..
        }) = answer
        else {
            return Err(Failed::for_good(
                "the process gave another answer than its start",
            ));
        };
        if !ok {
            return Err(Failed::for_good(error));
        }
        let mut running = Running {
            context: Some(self.context.clone()),
            id: proc_id.clone(),
        };
        let (mut output, mut code, mut killed) = (String::new(), None, false);
        while let Some(event) = heard.recv().await {
            let Body::ProcReadEvent(event) = event else {
                continue;
            };
            killed |= event.stream_type == ProcStreamType::Killed;
            let data = event.data.0;
            let data: Value = data.raw().deserialize().unwrap_or_default();
            code = data.get("code").and_then(Value::as_i64).or(code);
            let line = data.get("text").and_then(Value::as_str).unwrap_or_default();
            if event.stream_type == ProcStreamType::Stdout
                && output.len() + line.len() <= MAX_OUTPUT
            {
                output.push_str(line);
            }
        }
        running.context = None;
        match (killed, code) {
            (false, Some(0)) => Ok(json!({
                "proc_id": proc_id.as_str(), "status": "completed", "exit_code": 0, "stdout": output,
            })),
            (true, _) => Err(Failed::for_good("the process was killed")),
            (false, code) => Err(Failed {
                text: match code {
                    Some(code) => format!("the process ended with code {code}"),
                    None => "the process ended, and nobody knows how".to_owned(),
                },
                may_pass: true,
            }),
        }
    }

    /// What is left of the chain's time, in whole seconds.
    fn seconds(&self) -> i64 {
        let left = self.deadline.saturating_duration_since(Instant::now());
        i64::try_from(left.as_secs().saturating_add(1)).unwrap_or(i64::MAX)
    }
}

/// A process that ends with its chain.
struct Running {
    /// Nothing any more once it has ended.
    context: Option<Context>,
    id: ProcId<'static>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (Some(context), Ok(runtime)) = (self.context.take(), Handle::try_current()) {
            let request = ProcKillRequest {
                proc_id: self.id.clone(),
                signal: ProcSignal::Kill,
            };
            runtime.spawn(async move {
                if let Err(failure) = context.ask(request).await {
                    tracing::warn!(%failure.message, "a process outlives its chain");
                }
            });
        }
    }
}

impl Failed {
    fn for_good(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            may_pass: false,
        }
    }

    fn unsuccessful(error: Option<Cow<'_, str>>, code: Option<Cow<'_, str>>) -> Self {
        let text = match (error, code) {
            (Some(error), Some(code)) => format!("{error} ({code})"),
            (Some(text), None) | (None, Some(text)) => text.into_owned(),
            (None, None) => "it failed without saying why".to_owned(),
        };
        Self {
            text,
            may_pass: true,
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self {
            text: format!("{} ({})", failure.message, failure.code.as_str()),
            may_pass: failure.retryable,
        }
    }
}

fn arguments(input: &Map<String, Value>) -> Result<Object<'static>, Failed> {
    let problem = |error| Failed::for_good(format!("its input cannot be sent: {error}"));
    Object::from_serialize(input).map_err(problem)
}

fn value(data: Option<Raw<'_>>) -> Value {
    data.and_then(|data| data.deserialize().ok())
        .unwrap_or_default()
}

fn text<'a>(input: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}

/// `command` or `cmd`: a list of words, or words with spaces between them.
fn command(input: &Map<String, Value>) -> Result<Vec<Cow<'static, str>>, Failed> {
    let given = input.get("command").or_else(|| input.get("cmd"));
    let words = match given {
        Some(Value::String(text)) => {
            let words = text.split_whitespace();
            Some(words.map(|word| Cow::Owned(word.to_owned())).collect())
        }
        Some(Value::Array(words)) => words
            .iter()
            .map(|word| Some(Cow::Owned(word.as_str()?.to_owned())))
            .collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => None,
    };
    words.ok_or_else(|| Failed::for_good("`input.command` must be a text or a list of words"))
}
