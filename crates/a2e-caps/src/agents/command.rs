//! A program that is a sub-agent: it runs in the sandbox and speaks A2E over its standard input and
//! output, with a session of its own that has no more than it was given.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{BoxFuture, Context, Failure, Host, Outcome, Plugin, Serves, Source};
use a2e_wire::messages::multi_agent::{
    MultiAgentMessagesResponse, MultiAgentResultRequest, MultiAgentResultResponse,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, MessageKind, Namespace, Raw, Sender, Tag};
use sandbox::{Command, Input, Output, Status};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};

use super::tree::MAX_MESSAGE;
use super::work::Work;

/// The variable that has the task.
const TASK: &str = "A2E_TASK";

/// Requests of a sub-agent about its own task.
const OWN: [Tag; 2] = [Tag::MultiAgentResultRequest, Tag::MultiAgentMessagesRequest];

/// Bytes of a result.
const MAX_RESULT: usize = 16 * MAX_MESSAGE;

/// Bytes of what a program says last on its standard error.
const MAX_COMPLAINT: usize = 1024;

/// How long what a program wrote before its end may take to be read.
const READING: Duration = Duration::from_secs(5);

/// Events of a request that wait to be given on.
const EVENTS: usize = 16;

/// What the program asks through.
struct Desk {
    work: Work,
    result: watch::Sender<Option<Value>>,
}

/// One capability of the program's session.
struct Window {
    desk: Arc<Desk>,
    capability: Capability<'static>,
    name: String,
}

/// Serves [`OWN`].
struct Own(Arc<Desk>);

/// Runs a program until it ends; gives what it said its result is.
pub(super) async fn run(work: &Work, words: &[String]) -> Result<Value, String> {
    let [program, args @ ..] = words else {
        return Err("its command is empty".to_owned());
    };
    let workplace = &work.shop.workplace;
    let share = workplace.commands.take(work.tree.agent());
    let _share = share.map_err(|busy| busy.to_string())?;
    let command = Command {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: workplace.folder.clone(),
        env: vec![(TASK.into(), work.task.to_json().to_string().into())],
        stdin: Input::Pipe,
    };
    let mut profile = workplace.profile.clone();
    // Its task has a time, and what it says is counted message by message.
    profile.limits.wall_time = Duration::MAX;
    profile.limits.output_bytes = u64::MAX;
    let spawned = workplace.launcher.spawn(&command, &profile).await;
    let mut child = spawned.map_err(|error| error.to_string())?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no input or no output".to_owned());
    };
    let desk = Arc::new(Desk {
        work: work.clone(),
        result: watch::Sender::default(),
    });
    let complaint = tokio::spawn(complaint(child.stderr.take()));
    let host = host(&desk);
    let serving = tokio::spawn(async move {
        // Whatever goes wrong between them, the program ends, and that is what counts.
        let _ = host
            .serve(tokio::io::join(stdout, stdin), Source::Own)
            .await;
    });
    let _serving = tokio_util::task::AbortOnDropHandle::new(serving);
    let exit = child.wait().await;
    // It may have ended before its last line was read.
    let mut results = desk.result.subscribe();
    let said = tokio::time::timeout(READING, results.wait_for(Option::is_some));
    let result = match exit.status {
        Status::Code(0) => said.await.ok().and_then(|said| said.ok()?.clone()),
        Status::Code(_) | Status::Signal(_) => None,
    };
    let ended = match (exit.status, result) {
        (Status::Code(0), Some(result)) => return Ok(result),
        (Status::Code(0), None) => "it ended without a `multi_agent/result`".to_owned(),
        (Status::Code(code), _) => format!("it ended with exit code {code}"),
        (Status::Signal(signal), _) => format!("it was ended by signal {signal}"),
    };
    let complaint = tokio::time::timeout(READING, complaint).await;
    match complaint.ok().and_then(Result::ok).unwrap_or_default() {
        said if said.is_empty() => Err(ended),
        said => Err(format!("{ended}: {said}")),
    }
}

/// Reads what a program writes on its standard error, so that it never waits for that, and gives the end
/// of it.
async fn complaint(stderr: Option<Output>) -> String {
    let Some(mut stderr) = stderr else {
        return String::new();
    };
    let (mut last, mut some) = (Vec::new(), vec![0; 8 * 1024]);
    while let Ok(size @ 1..) = stderr.read(&mut some).await {
        last.extend_from_slice(some.get(..size).unwrap_or_default());
        last.drain(..last.len().saturating_sub(MAX_COMPLAINT));
    }
    String::from_utf8_lossy(&last).trim().to_owned()
}

/// The host that the program sees: what it was given, and nothing else.
fn host(desk: &Arc<Desk>) -> Host {
    let mut builder = Host::builder().plugin(Own(Arc::clone(desk)));
    for name in Capability::ENUMERATION.values {
        let capability = Capability::from_name(name);
        let given = capability.filter(|it| desk.work.sub.scope.has(it));
        if let Some(capability) = given {
            builder = builder.plugin(Window {
                desk: Arc::clone(desk),
                capability,
                name: (*name).to_owned(),
            });
        }
    }
    builder.build()
}

impl Desk {
    async fn ask(&self, body: Body<'static>, context: &Context) -> Result<Outcome, Failure> {
        let Work {
            errand, tree, sub, ..
        } = &self.work;
        sub.scope.permit(&body)?;
        let namespace = body.tag().map_or(Namespace::Base, Tag::namespace);
        let failed = |text: String| Failure::new(ErrorCode::ToolDenied, namespace, text);
        tree.step().map_err(|error| failed(error.message))?;
        let body = self
            .work
            .own(body)
            .map_err(|text| failed(text.to_owned()))?;
        let body = self.work.memories.prepare(body, errand, sub).await?;
        let (events, mut heard) = mpsc::channel(EVENTS);
        let asking = errand.ask(sub.next_id(), body, Some(events));
        tokio::pin!(asking);
        let answer = loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => {
                    let _ = context.event(event).await;
                }
                answer = &mut asking => break answer?,
            }
        };
        while let Ok(event) = heard.try_recv() {
            let _ = context.event(event).await;
        }
        Ok(Outcome::answer(self.shown(answer)))
    }

    /// An answer as this sub-agent may see it.
    fn shown(&self, answer: Body<'static>) -> Body<'static> {
        let Work { tree, sub, .. } = &self.work;
        let below = tree.below(&sub.id);
        let is_own = |id: &str| below.iter().any(|known| known.id == id);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest stays as it is")]
        match answer {
            Body::ToolListResponse(mut list) => {
                list.tools.retain(|tool| sub.scope.has_tool(&tool.name));
                list.into()
            }
            Body::SubagentListResponse(mut list) => {
                list.subagents.retain(|it| is_own(it.subagent_id.as_str()));
                list.into()
            }
            Body::MultiAgentListResponse(mut list) => {
                list.subagents.retain(|it| {
                    let it: Value = it.raw().deserialize().unwrap_or_default();
                    let id = it.get("subagent_id").and_then(Value::as_str);
                    id.is_some_and(is_own)
                });
                list.into()
            }
            answer => self.work.memories.shown(answer),
        }
    }
}

impl Plugin for Window {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(self.capability.clone())
    }

    fn serves(&self) -> Serves {
        let served = Tag::ALL.iter().filter(|tag| {
            tag.kind() == MessageKind::Request
                && tag.may_be_sent_by(Sender::Agent)
                && !OWN.contains(tag)
                && tag.namespace().capability().as_ref() == Some(&self.capability)
        });
        Serves::Tags(served.copied().collect())
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move { self.desk.ask(request.body, &context).await })
    }
}

impl Plugin for Own {
    fn name(&self) -> &str {
        "multi_agent_task"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        Serves::Tags(OWN.to_vec())
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        _: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        let wrong =
            |text: String| Failure::new(ErrorCode::SchemaViolation, Namespace::MultiAgent, text);
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::MultiAgentResultRequest(MultiAgentResultRequest { result }) => {
                    if result.raw().as_str().len() > MAX_RESULT {
                        return Err(wrong(format!("a result may have {MAX_RESULT} bytes")));
                    }
                    let result = result
                        .raw()
                        .deserialize()
                        .map_err(|it| wrong(it.to_string()))?;
                    self.0.result.send_replace(Some(Value::Object(result)));
                    Ok(Outcome::answer(MultiAgentResultResponse { success: true }))
                }
                Body::MultiAgentMessagesRequest(_) => {
                    let messages = self.0.work.sub.take_messages();
                    let messages = messages.iter().map(Raw::from_serialize).collect();
                    let messages: Result<Vec<_>, _> = messages;
                    let messages = messages.map_err(|it| wrong(it.to_string()))?;
                    Ok(Outcome::answer(MultiAgentMessagesResponse { messages }))
                }
                _ => Ok(Outcome::Pass),
            }
        })
    }
}
