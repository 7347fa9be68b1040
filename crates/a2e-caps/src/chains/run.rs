//! Drives a chain: makes the calls that are due, as many at a time as it may, and tells of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Context;
use a2e_wire::messages::chain::{ChainError, ChainEvent, ChainPhase, ChainRequest, ChainResponse};
use a2e_wire::messages::tool::ToolListRequest;
use a2e_wire::{Body, ChainId, ErrorCode, Object, Raw};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Settings;
use super::call::Caller;
use super::machine::{Ended, Event, Machine, Phase, Place};
use super::plan::{Kind, Plan, Problems};

/// A chain that is about to run.
pub(super) struct Run {
    request: ChainRequest<'static>,
    context: Context,
    settings: Arc<Settings>,
    started: Instant,
}

/// Why a chain ended before its last node.
struct Broken {
    code: ErrorCode<'static>,
    text: String,
}

/// How long a chain may take that does not say.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How much earlier than its time a chain ends.
const MOMENT: Duration = Duration::from_millis(200);

impl Run {
    pub(super) fn new(
        request: ChainRequest<'static>,
        context: Context,
        settings: Arc<Settings>,
    ) -> Self {
        Self {
            request,
            context,
            settings,
            started: Instant::now(),
        }
    }

    /// Runs it to its end. Whatever becomes of a chain is a response.
    pub(super) async fn finish(self) -> ChainResponse<'static> {
        let plan = match Plan::of(&self.request, self.settings.limits) {
            Ok(plan) => Arc::new(plan),
            Err(problems) => return self.refused(&problems),
        };
        let seconds = u64::try_from(self.request.timeout).unwrap_or_default();
        let timeout = match seconds {
            0 => TIMEOUT,
            seconds => Duration::from_secs(seconds),
        };
        // The host ends what is late without a word of what it has done: a chain is a moment earlier.
        let moment = (timeout / 20).min(MOMENT);
        let deadline = self.started.checked_add(timeout.saturating_sub(moment));
        let deadline = deadline.unwrap_or_else(|| self.started + TIMEOUT);
        let limits = self.settings.limits;
        let mut machine = Machine::new(Arc::clone(&plan), limits, self.settings.max_parallel);
        let driven = async {
            self.check_tools(&plan).await?;
            self.drive(plan, &mut machine, deadline).await
        };
        let driven = tokio::time::timeout_at(deadline, driven).await;
        let broken = driven.unwrap_or_else(|_| {
            let text = format!("the chain took longer than its {} s", timeout.as_secs());
            Err(Broken {
                code: ErrorCode::Timeout,
                text,
            })
        });
        self.response(machine.ended(), broken.err())
    }

    /// Whether there is all that is called. Who may not see the tools learns it node by node.
    async fn check_tools(&self, plan: &Plan) -> Result<(), Broken> {
        let called = plan.called(Kind::Tool);
        if called.is_empty() {
            return Ok(());
        }
        let list = ToolListRequest {
            include_deferred: true,
            ..ToolListRequest::new()
        };
        let Ok(Body::ToolListResponse(list)) = self.context.ask(list).await else {
            return Ok(());
        };
        let known: HashSet<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        let mut problems = Problems::default();
        for name in called.into_iter().filter(|name| !known.contains(name)) {
            problems.add(format!(
                "there is no tool `{name}`; `tool/list` has those there are"
            ));
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Broken {
                code: problems.code(),
                text: problems.to_string(),
            }),
        }
    }

    async fn drive(
        &self,
        plan: Arc<Plan>,
        machine: &mut Machine,
        deadline: Instant,
    ) -> Result<(), Broken> {
        let caller = Caller {
            context: self.context.clone(),
            plan: Arc::clone(&plan),
            deadline,
        };
        let mut seq = 0;
        // Dropped, it cancels what runs.
        let mut running: JoinSet<(Place, Result<Value, String>)> = JoinSet::new();
        loop {
            while running.len() < self.settings.max_parallel.max(1) {
                let task = machine.poll_task();
                self.tell(&plan, machine, &mut seq).await;
                let Some(task) = task else { break };
                let caller = caller.clone();
                running.spawn(async move {
                    let outcome = caller.call(task.call, task.input).await;
                    (task.place, outcome)
                });
            }
            self.tell(&plan, machine, &mut seq).await;
            if machine.is_over() {
                return Ok(());
            }
            match running.join_next().await {
                Some(Ok((place, outcome))) => machine.finish(place, outcome),
                Some(Err(_)) | None => {
                    return Err(Broken {
                        code: ErrorCode::ChainError,
                        text: "a node broke off; the operator finds the reason in the log".into(),
                    });
                }
            }
        }
    }

    /// Tells what has happened, if anybody wants to hear it.
    async fn tell(&self, plan: &Plan, machine: &mut Machine, seq: &mut i64) {
        while let Some(event) = machine.poll_event() {
            if !self.request.streaming {
                continue;
            }
            let Some(node) = plan.nodes.get(event.node) else {
                continue;
            };
            let body = ChainEvent {
                node_id: node.id.clone().into(),
                seq: *seq,
                ..told(event)
            };
            *seq = seq.saturating_add(1);
            // Whoever does not wait for it any more cancels the chain.
            let _ = self.context.event(body).await;
        }
    }

    fn refused(&self, problems: &Problems) -> ChainResponse<'static> {
        let broken = Broken {
            code: problems.code(),
            text: problems.to_string(),
        };
        ChainResponse {
            chain_id: self.chain_id(),
            duration_ms: self.took(),
            error: Some(broken.into()),
            ..ChainResponse::new()
        }
    }

    fn response(&self, ended: Ended, broken: Option<Broken>) -> ChainResponse<'static> {
        let nodes_run = i64::try_from(ended.outputs.len()).unwrap_or(i64::MAX);
        let aborted = ended.aborted.map(|text| Broken {
            code: ErrorCode::ChainNodeError,
            text,
        });
        let error = aborted.or(broken);
        let outputs: Map<String, Value> = ended
            .outputs
            .into_iter()
            .map(|(id, output)| (id, Arc::unwrap_or_clone(output)))
            .collect();
        ChainResponse {
            chain_id: self.chain_id(),
            success: ended.success && error.is_none(),
            outputs: Object::from_serialize(&outputs).unwrap_or_default(),
            final_output: raw(&ended.last),
            duration_ms: self.took(),
            nodes_run,
            error: error.map(ChainError::from),
        }
    }

    fn chain_id(&self) -> ChainId<'static> {
        self.request.chain_id.clone()
    }

    fn took(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl From<Broken> for ChainError<'static> {
    fn from(broken: Broken) -> Self {
        Self {
            code: broken.code.as_str().to_owned().into(),
            message: broken.text.into(),
        }
    }
}

fn told(event: Event) -> ChainEvent<'static> {
    let (phase, output, error) = match event.phase {
        Phase::Start => (ChainPhase::Start, None, Cow::Borrowed("")),
        Phase::Done(output) => (ChainPhase::Done, Some(raw(&output)), Cow::Borrowed("")),
        Phase::Error(error) => (ChainPhase::Error, None, Cow::Owned(error)),
        Phase::Skip => (ChainPhase::Skip, None, Cow::Borrowed("")),
    };
    let data = event
        .item
        .map(|item| Object::from_serialize(&json!({"item": item})));
    let empty = ChainEvent::new();
    ChainEvent {
        phase,
        output: output.unwrap_or_else(|| empty.output.clone()),
        error,
        data: data.and_then(Result::ok).unwrap_or_default(),
        ..empty
    }
}

/// A value as the wire has it; one that is too deep for it is null.
fn raw(value: &Value) -> Raw<'static> {
    Raw::from_serialize(value).unwrap_or_else(|error| {
        tracing::warn!(%error, "a result of a chain cannot be sent");
        ChainResponse::new().final_output
    })
}
