//! The capability `tools`: lists, searches and calls the tools of a catalogue.
//!
//! A call is looked up, its arguments are checked, what is known already is given again, the tool
//! runs, its result is checked, and what is too large to send becomes an artifact.

mod artifact_tools;
mod artifacts;
mod cache;
mod cut;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use a2e_runtime::definitions::quarantined;
use a2e_runtime::{
    BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session, Weights,
};
use a2e_wire::messages::tool::{
    ToolCallRequest, ToolCallResponse, ToolDefinition, ToolListRequest, ToolListResponse,
    ToolResult,
};
use a2e_wire::{
    Body, Capability, Envelope, ErrorCode, Message, MessageId, Namespace, Object, Raw, Tag,
    Timestamp,
};
use serde_json::json;

use crate::placement::{Placement, placed};
use crate::ranking;
use crate::tool::{
    Call, Caller, Catalogue, Definition, DefinitionError, Output, Progress, Snapshot, Source,
    Violation,
};

pub use artifacts::{Artifacts, MAX_ARTIFACT_BYTES};
use cache::Cache;
pub use cache::MAX_CACHED;
pub use cut::INLINE_LIMIT;

/// The plugin.
#[derive(Debug)]
pub struct Tools {
    settings: Settings,
    catalogue: Arc<Catalogue>,
    artifacts: Arc<Artifacts>,
    /// Ranks what a search finds.
    weights: Option<Arc<dyn Weights>>,
    /// Counts what may have changed the results of tools, of all sessions: they share the world.
    changes: AtomicU64,
}

/// How the plugin is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it stands among plugins.
    pub placement: Placement,
    /// How many bytes of JSON a result may have; what is larger becomes an artifact.
    pub inline_limit: usize,
    /// How many bytes of artifacts each agent may have; the oldest go first.
    pub artifact_bytes: usize,
}

/// What came of a call, ready to be answered with.
#[derive(Debug, Clone)]
struct Finished {
    data: Raw<'static>,
    summary: Option<String>,
    truncated: bool,
    exit_code: Option<i64>,
    error: Option<String>,
}

/// A tool runs that may change what others give; when it starts and when it ends, however it ends.
struct Change<'a>(&'a AtomicU64);

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("tools"),
            inline_limit: INLINE_LIMIT,
            artifact_bytes: MAX_ARTIFACT_BYTES,
        }
    }
}

impl Tools {
    /// The plugin for a catalogue, to which it adds the tools that read artifacts.
    ///
    /// # Errors
    /// If a definition of these tools cannot be used, which no configuration can bring about.
    pub fn new(catalogue: Arc<Catalogue>, settings: Settings) -> Result<Self, DefinitionError> {
        let artifacts = Arc::new(Artifacts::new(settings.artifact_bytes));
        let tools = artifact_tools::tools(&artifacts)?;
        catalogue.set(Source::Artifacts, tools);
        Ok(Self {
            settings,
            catalogue,
            artifacts,
            weights: None,
            changes: AtomicU64::new(0),
        })
    }

    /// Ranks what a search finds by how well it has done for the agent, too.
    #[must_use]
    pub fn ranked_by(mut self, weights: Arc<dyn Weights>) -> Self {
        self.weights = Some(weights);
        self
    }

    /// The tools that are asked for.
    async fn list(&self, request: &ToolListRequest<'_>, agent: &str) -> ToolListResponse<'static> {
        let tools = self.catalogue.current_for(agent).await.list(request);
        let Some(weights) = self.weights.as_ref().filter(|_| !request.query.is_empty()) else {
            return ToolListResponse { tools };
        };
        let weight = |tool: &ToolDefinition<'static>| {
            // Who names a tool means it.
            match tool.name.eq_ignore_ascii_case(request.query.trim()) {
                true => f64::INFINITY,
                false => weights.weight(agent, &tool.name),
            }
        };
        ToolListResponse {
            tools: ranking::by_weight(tools, weight),
        }
    }

    async fn call(
        &self,
        request: &MessageId<'static>,
        call: ToolCallRequest<'static>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        let started = Instant::now();
        let agent = &context.identity().agent;
        // A call that the operator has approved is of the tool that was approved.
        let snapshot = match context.resolved::<Snapshot>() {
            Some(snapshot) => snapshot,
            None => self.catalogue.current_for(agent).await,
        };
        let Some(entry) = snapshot.find(&call.tool_name) else {
            return match snapshot.quarantined(&call.tool_name) {
                Some(one) => Err(quarantined(one.name(), &one.pin)),
                None => Ok(Outcome::Pass),
            };
        };
        let definition = entry.tool.definition();
        let arguments = definition
            .input_schema()
            .arguments(call.arguments.into_raw());
        let arguments = arguments.map_err(|violations| {
            let what = format!(
                "the arguments of `{}` are not what it takes",
                definition.name()
            );
            violated(Namespace::Tool, &what, &violations)
        })?;
        let caller = caller(context.session());
        let progress = Progress::of(context.clone(), call.streaming);
        let work = Call {
            arguments,
            caller,
            progress: progress.clone(),
            over: context.over().clone(),
        };
        let cache = context.session().state::<Cache>();
        let key = definition.is_cacheable();
        let key = key.then(|| Cache::key(&entry.hash, &work.arguments));
        let before = self.changes.load(Ordering::SeqCst);
        let known = key.and_then(|key| cache.get(&key, before));
        let finished = match known {
            Some(known) => known,
            None => {
                let changing = definition.changes_others().then(|| self.change());
                let output = entry.tool.call(work).await?;
                drop(changing);
                let limit = match context.takes_any_size() {
                    true => usize::MAX,
                    false => self.settings.inline_limit,
                };
                let finished = self.finish(definition, context.session(), output, limit)?;
                if let Some(key) = key {
                    cache.put(key, before, &finished);
                }
                finished
            }
        };
        let events = progress.take_kept().into_iter().map(|event| {
            let id = format!("{}.{}", request.as_str(), event.seq);
            let envelope = Envelope::new(id, now()).in_reply_to(request.clone());
            Message::new(envelope, event)
        });
        let took = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let result = ToolResult {
            data: Some(finished.data),
            summary: finished
                .summary
                .and_then(|text| Raw::from_serialize(&text).ok()),
            truncated: Some(finished.truncated),
            exit_code: finished.exit_code,
            error_code: finished
                .error
                .as_ref()
                .map(|_| ErrorCode::ToolError.as_str().to_owned().into()),
            error: finished.error.clone().map(Into::into),
            events: events.collect(),
            ..ToolResult::new(finished.error.is_none(), call.tool_name, took)
        };
        Ok(Outcome::answer(ToolCallResponse::new(result, now())))
    }

    /// Checks a result and cuts it to size.
    fn finish(
        &self,
        definition: &Definition,
        session: &Session,
        output: Output,
        limit: usize,
    ) -> Result<Finished, Failure> {
        if let Some(schema) = definition.output_schema()
            && let Err(violations) = schema.check(&output.data)
        {
            let what = format!(
                "the result of `{}` is not what its definition says; tell whoever maintains it",
                definition.name()
            );
            return Err(violated(Namespace::Tool, &what, &violations));
        }
        let exit_code = exit_code(&output.data);
        let caller = caller(session);
        let keep = |text: String| {
            let id = self.artifacts.keep(&caller, text);
            // The tool ran on while its session ended: nothing clears what was kept after that.
            if session.ended().is_cancelled() {
                self.artifacts.clear(&caller);
                return None;
            }
            id
        };
        let cut = cut::cut(output.data, limit, keep);
        Ok(Finished {
            summary: output.summary.or(cut.summary),
            data: cut.data,
            truncated: output.truncated || cut.truncated,
            exit_code,
            error: output.error,
        })
    }

    fn change(&self) -> Change<'_> {
        self.changes.fetch_add(1, Ordering::SeqCst);
        Change(&self.changes)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Plugin for Tools {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolListRequest, Tag::ToolCallRequest])
    }

    fn outlives(&self, request: &Message<'_>) -> bool {
        let Body::ToolCallRequest(call) = &request.body else {
            return false;
        };
        // One that is not for everybody may be the agent's own.
        let snapshot = self.catalogue.current();
        let entry = snapshot.find(&call.tool_name);
        entry.is_none_or(|entry| entry.tool.definition().changes_others())
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        Box::pin(async move {
            let Body::ToolCallRequest(call) = &request.body else {
                return Ok(None);
            };
            let snapshot = self.catalogue.current_for(&session.identity().agent).await;
            if let Some(entry) = snapshot.find(&call.tool_name) {
                let (digest, shown) = entry.identity();
                let resolution = Resolution::default().target(digest, shown);
                return Ok(Some(resolution.object(snapshot)));
            }
            match snapshot.quarantined(&call.tool_name) {
                Some(one) => Err(quarantined(one.name(), &one.pin)),
                None => Ok(None),
            }
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::ToolListRequest(list) => {
                    let agent = &context.identity().agent;
                    Ok(Outcome::answer(self.list(&list, agent).await))
                }
                Body::ToolCallRequest(call) => self.call(&request.envelope.id, call, context).await,
                _ => Ok(Outcome::Pass),
            }
        })
    }

    fn clear(&self, session: &Session) {
        self.artifacts.clear(&caller(session));
    }
}

/// Who calls, for a session.
pub(crate) fn caller(session: &Session) -> Caller {
    Caller {
        agent: session.identity().agent.as_str().into(),
        session: session.key().into(),
    }
}

/// The `exit_code` of a result that has one.
fn exit_code(data: &Raw<'_>) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Ended {
        exit_code: i64,
    }
    // Most results have none, and are not read again to find that out.
    let may_have = data.as_str().starts_with('{') && data.as_str().contains("\"exit_code\"");
    let ended = may_have.then(|| data.deserialize::<Ended>().ok());
    ended.flatten().map(|ended| ended.exit_code)
}

/// Something does not fit its schema.
pub(crate) fn violated(namespace: Namespace, what: &str, violations: &[Violation]) -> Failure {
    let place = |path: &str| match path {
        "" => "as a whole".to_owned(),
        path => format!("at `{path}`"),
    };
    let told = violations
        .iter()
        .map(|violation| format!("{}: {}", place(&violation.path), violation.text));
    let told: Vec<String> = told.collect();
    let text = format!("{what}, {}", told.join("; "));
    let list = violations
        .iter()
        .map(|violation| json!({"path": violation.path, "message": violation.text}));
    let first = violations.first().map(|violation| violation.path.as_str());
    let detail = json!({"path": first, "violations": list.collect::<Vec<_>>()});
    Failure {
        detail: Object::from_serialize(&detail).unwrap_or_default(),
        ..Failure::new(ErrorCode::SchemaViolation, namespace, text)
    }
}

pub(crate) fn now() -> Timestamp {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_unix_seconds(elapsed.as_secs_f64()).unwrap_or_default()
}
