//! Drives a chain: makes the calls that are due, as many at a time as it may, and tells of them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Context;
use a2e_wire::messages::chain::{ChainEvent, ChainRequest, ChainResponse};
use a2e_wire::messages::tool::ToolListRequest;
use a2e_wire::{Body, ErrorCode};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::answer::{Broken, told};
use super::call::Caller;
use super::journal::{Journal, Recalled};
use super::machine::{Machine, Phase, Place, Task};
use super::plan::{Kind, Plan, Problems};

/// A chain that is about to run.
pub(super) struct Run {
    pub(super) request: ChainRequest<'static>,
    pub(super) context: Context,
    pub(super) settings: Arc<Settings>,
    pub(super) started: Instant,
    /// Ends it early.
    pub(super) end: CancellationToken,
    /// What an earlier process has done of it.
    pub(super) recalled: Recalled,
    pub(super) journal: Option<Journal>,
    told: Told,
}

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    seq: i64,
    /// The nodes that failed, and why.
    pub(super) failed: BTreeMap<String, String>,
}

/// How long a chain may take that does not say.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How much earlier than its time a chain ends.
const MOMENT: Duration = Duration::from_millis(200);
/// What is said of a call that somebody was at when the host ended.
const UNKNOWN: &str = "the host ended while this ran: nobody knows what became of it, and it is not \
                       said to do no harm when it is done again (`idempotent`)";

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
            end: CancellationToken::new(),
            recalled: Recalled::default(),
            journal: None,
            told: Told::default(),
        }
    }

    /// Runs it to its end. Whatever becomes of a chain is a response.
    pub(super) async fn finish(mut self) -> ChainResponse<'static> {
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
        let end = self.end.clone();
        let driven = async {
            let harmless = self.check_tools(&plan).await?;
            self.begin().await?;
            self.drive(plan, &mut machine, deadline, &harmless).await
        };
        let driven = tokio::select! {
            driven = tokio::time::timeout_at(deadline, driven) => driven,
            () = end.cancelled() => Ok(Err(Broken::cancelled())),
        };
        let broken = driven.unwrap_or_else(|_| {
            let text = format!("the chain took longer than its {} s", timeout.as_secs());
            Err(Broken::new(ErrorCode::Timeout, text))
        });
        let response = self.response(machine.ended(), broken.err());
        if let Some(journal) = self.journal.take() {
            let (state, outcome) = self.outcome(&response, &self.told);
            journal.close(state, outcome).await;
        }
        response
    }

    /// Whether there is all that is called: gives the tools that may be called again without harm. Who
    /// may not see the tools learns it node by node.
    async fn check_tools(&self, plan: &Plan) -> Result<HashSet<String>, Broken> {
        let called = plan.called(Kind::Tool);
        if called.is_empty() {
            return Ok(HashSet::new());
        }
        let list = ToolListRequest {
            include_deferred: true,
            ..ToolListRequest::new()
        };
        let Ok(Body::ToolListResponse(list)) = self.context.ask(list).await else {
            return Ok(HashSet::new());
        };
        let known: HashSet<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        let mut problems = Problems::default();
        for name in called.into_iter().filter(|name| !known.contains(name)) {
            problems.add(format!(
                "there is no tool `{name}`; `tool/list` has those there are"
            ));
        }
        if !problems.is_empty() {
            return Err(Broken::new(problems.code(), problems.to_string()));
        }
        let harmless = list.tools.into_iter().filter(|tool| tool.idempotent);
        Ok(harmless.map(|tool| tool.name.into_owned()).collect())
    }

    /// Keeps what was asked for, if chains are kept and this one is not yet.
    async fn begin(&mut self) -> Result<(), Broken> {
        if let (Some(keeper), None) = (&self.settings.keeper, &self.journal) {
            let begun = Journal::begin(keeper, &self.context, &self.request, &self.end).await;
            self.journal = Some(begun.map_err(Broken::not_kept)?);
        }
        Ok(())
    }

    async fn drive(
        &mut self,
        plan: Arc<Plan>,
        machine: &mut Machine,
        deadline: Instant,
        harmless: &HashSet<String>,
    ) -> Result<(), Broken> {
        let caller = Caller {
            context: self.context.clone(),
            plan: Arc::clone(&plan),
            deadline,
        };
        let most = self.settings.max_parallel.max(1);
        // Dropped, it cancels what runs.
        let mut running: JoinSet<(Place, Result<Value, String>)> = JoinSet::new();
        loop {
            let mut due = Vec::new();
            while running.len() + due.len() < most
                && let Some(task) = machine.poll_task()
            {
                consume_budget().await;
                match self.recall(&plan, &task, harmless) {
                    Some(outcome) => machine.finish(task.place, outcome),
                    None => due.push(task),
                }
            }
            // What is told and what is called next follows from what is kept.
            self.keep(&due).await?;
            self.tell(&plan, machine).await;
            if machine.is_over() {
                return Ok(());
            }
            for task in due {
                let caller = caller.clone();
                running.spawn(async move {
                    let outcome = caller.call(task.call, task.input).await;
                    (task.place, outcome)
                });
            }
            let mut joined = running.join_next().await;
            while let Some(ended) = joined {
                let (place, outcome) = ended.map_err(|_| Broken::off())?;
                if let Some(journal) = &mut self.journal {
                    journal.ended(place, &outcome);
                }
                machine.finish(place, outcome);
                joined = running.try_join_next();
            }
        }
    }

    /// What an earlier process knows of a call; nothing if it is to be made, perhaps again.
    fn recall(
        &mut self,
        plan: &Plan,
        task: &Task,
        harmless: &HashSet<String>,
    ) -> Option<Result<Value, String>> {
        if let Some(outcome) = self.recalled.0.remove(&task.place)? {
            return Some(outcome);
        }
        if plan.may_repeat(task.call, harmless) {
            return None;
        }
        let outcome = Err(UNKNOWN.to_owned());
        if let Some(journal) = &mut self.journal {
            journal.ended(task.place, &outcome);
        }
        Some(outcome)
    }

    async fn keep(&mut self, due: &[Task]) -> Result<(), Broken> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        for task in due {
            journal.started(task.place);
        }
        journal.write().await.map_err(Broken::not_kept)
    }

    /// Tells what has happened, if anybody wants to hear it.
    async fn tell(&mut self, plan: &Plan, machine: &mut Machine) {
        while let Some(event) = machine.poll_event() {
            let Some(node) = plan.nodes.get(event.node) else {
                continue;
            };
            if let (Phase::Error(error), None) = (&event.phase, event.item) {
                self.told.failed.insert(node.id.clone(), error.clone());
            }
            if !self.request.streaming {
                continue;
            }
            let body = ChainEvent {
                node_id: node.id.clone().into(),
                seq: self.told.seq,
                ..told(event)
            };
            self.told.seq = self.told.seq.saturating_add(1);
            // Whoever does not wait for it any more cancels the chain.
            let _ = self.context.event(body).await;
        }
    }
}
