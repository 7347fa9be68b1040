//! The capability `multi_agent`: agents that agents have.
//!
//! A sub-agent is a model, a tool (of a peer, above all), or a program that is itself an A2E client.
//! Whatever it asks for is asked in the name of the session that has it, so it can do no more than
//! that agent, and no more than it was given. Sub-agents end with what has them.

mod account;
mod answers;
mod command;
mod forest;
mod memory;
mod merge;
mod own;
mod scope;
mod staff;
mod thoughts;
mod tree;
mod wish;
mod work;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use a2e_runtime::{BoxFuture, Context, Errand, Failure, Outcome, Plugin, Serves, Session};
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::messages::subagent::{
    SubagentEvent, SubagentMergeRequest, SubagentMergeResponse, SubagentMessageRequest,
    SubagentStatus,
};
use a2e_wire::{Body, Capability, Message, Namespace, Object, Tag};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fresh;
use crate::placement::{Placement, placed};

use memory::Memories;
use tree::{State, Sub, Tree, Wish};
use work::{Task, Work};

pub use forest::{AgentInfo, Forest};
pub use tree::{Limits, MAX_CONFIG, MAX_INBOX, MAX_MESSAGE};
pub use work::Shop;

/// The member of `metadata` that says which sub-agent has a new one.
const PARENT: &str = "parent_agent_id";

/// The plugin.
#[derive(Debug)]
pub struct Agents {
    placement: Placement,
    shop: Arc<Shop>,
    limits: Limits,
    forest: Arc<Forest>,
}

/// Where a session keeps its sub-agents.
#[derive(Debug, Default)]
struct Slot(OnceLock<Arc<Tree>>);

/// What is said about a sub-agent that is not there.
const UNKNOWN: &str = "Unknown subagent";

impl Agents {
    /// A plugin that makes sub-agents of these, and shows them in a forest.
    #[must_use]
    pub const fn new(
        shop: Arc<Shop>,
        limits: Limits,
        forest: Arc<Forest>,
        placement: Placement,
    ) -> Self {
        Self {
            placement,
            shop,
            limits,
            forest,
        }
    }

    /// The sub-agents of a session; none if it has had none.
    fn existing(session: &Session) -> Option<Arc<Tree>> {
        session.existing::<Slot>()?.0.get().cloned()
    }

    fn all(session: &Session) -> Vec<Arc<Sub>> {
        Self::existing(session).map_or_else(Vec::new, |tree| tree.all())
    }

    fn find(session: &Session, id: &str) -> Option<(Arc<Tree>, Arc<Sub>)> {
        let tree = Self::existing(session)?;
        let sub = tree.find(id)?;
        Some((tree, sub))
    }

    fn tree(&self, session: &Session) -> Result<Arc<Tree>, Failure> {
        let slot = session.state::<Slot>();
        if let Some(tree) = slot.0.get() {
            return Ok(Arc::clone(tree));
        }
        let accounts = &self.forest.accounts;
        let account = accounts.open(session.identity(), Instant::now())?;
        let tree = slot.0.get_or_init(|| {
            let over = session.ended().child_token();
            let tree = Arc::new(Tree::new(account, self.limits, over));
            self.forest.add(&tree);
            tree
        });
        Ok(Arc::clone(tree))
    }

    /// Makes a sub-agent: its id and how it is, `FAILED` and no id if there cannot be one.
    async fn spawn(
        &self,
        context: &Context,
        parent: Option<&str>,
        wish: Wish,
    ) -> Result<(String, SubagentStatus<'static>), Failure> {
        wish::check(&wish)?;
        let id: String = fresh::id(Namespace::MultiAgent)?.chars().take(8).collect();
        let tree = self.tree(context.session())?;
        match tree.add(format!("sub_{id}"), parent, wish) {
            Ok(sub) => {
                tell(
                    context.session(),
                    &sub,
                    "spawned",
                    json!({"name": sub.wish.name}),
                )
                .await;
                Ok((sub.id.clone(), SubagentStatus::Ready))
            }
            Err(why) => {
                tracing::debug!(why, "there is no new sub-agent");
                Ok((String::new(), SubagentStatus::Failed))
            }
        }
    }

    /// Gives a sub-agent its task; whether it takes it, and how it is.
    async fn delegate(
        &self,
        context: &Context,
        id: &str,
        task: Task,
    ) -> (bool, SubagentStatus<'static>) {
        let Some((tree, sub)) = Self::find(context.session(), id) else {
            return (false, SubagentStatus::Failed);
        };
        if !sub.begin(&task.name) {
            return (false, sub.status());
        }
        let session = context.session();
        tell(session, &sub, "delegated", json!({"task": task.name})).await;
        tell(
            session,
            &sub,
            "status_changed",
            json!({"status": "RUNNING"}),
        )
        .await;
        let work = Work {
            shop: Arc::clone(&self.shop),
            errand: context.errand(),
            tree,
            memories: Arc::new(Memories::new(&sub)),
            sub,
            task,
        };
        tokio::spawn(done(work));
        (true, SubagentStatus::Running)
    }

    /// How a sub-agent is once its task has ended.
    async fn rest(context: &Context, id: &str) -> State {
        match Self::find(context.session(), id) {
            Some((_, sub)) => sub.rest().await,
            None => State {
                status: SubagentStatus::Failed,
                task: String::new(),
                result: None,
                error: Some(UNKNOWN.to_owned()),
            },
        }
    }

    async fn message(context: &Context, request: SubagentMessageRequest<'_>) -> bool {
        let id = request.to_subagent_id.as_str();
        let Some((_, sub)) = Self::find(context.session(), id) else {
            return false;
        };
        let content: Value = request.message.content.deserialize().unwrap_or_default();
        let message = json!({"from": request.from_subagent_id.as_str(),
            "type": request.message.kind, "content": content});
        let is_taken = sub.tell(message);
        if is_taken {
            let from = json!({"from": request.from_subagent_id.as_str()});
            tell(context.session(), &sub, "message_received", from).await;
        }
        is_taken
    }

    /// Ends a sub-agent with all that it has.
    async fn terminate(context: &Context, id: &str) -> bool {
        let Some((tree, sub)) = Self::find(context.session(), id) else {
            return false;
        };
        let below = tree.below(id);
        sub.close(SubagentStatus::Terminated);
        tell(context.session(), &sub, "terminated", json!({})).await;
        for child in below {
            if child.close(SubagentStatus::Terminated) {
                tell(context.session(), &child, "terminated_parent", json!({})).await;
            }
        }
        true
    }

    async fn merge(
        context: &Context,
        request: SubagentMergeRequest<'_>,
    ) -> SubagentMergeResponse<'static> {
        let find = |id: &str| Self::find(context.session(), id).map(|(_, sub)| sub);
        // Each counts once, so that there are no more results than sub-agents.
        let mut seen = HashSet::new();
        let ids = request.subagent_ids.iter().map(|id| id.as_str().to_owned());
        let ids = ids.filter(|id| seen.insert(id.clone()));
        let result = |id: String| {
            let result = find(&id).and_then(|sub| sub.state().result);
            (id, result)
        };
        let results: Vec<(String, Option<Value>)> = ids.map(result).collect();
        let merged = merge::merge(&request.strategy, &results);
        if let Some(sub) = results.first().and_then(|(id, _)| find(id)) {
            let told = json!({"strategy": request.strategy.as_str()});
            tell(context.session(), &sub, "merged", told).await;
        }
        SubagentMergeResponse::new(Object::from_serialize(&merged).unwrap_or_default())
    }
}

/// Cancels a sub-agent and all that it has; gives those that were not at rest.
fn cancel(tree: &Tree, id: &str) -> Vec<Arc<Sub>> {
    let below = tree.below(id);
    let all = tree.find(id).into_iter().chain(below);
    all.filter(|sub| sub.close(SubagentStatus::Cancelled))
        .collect()
}

/// Does a task in the background.
async fn done(work: Work) {
    let outcome = work.run().await;
    let (session, sub): (&Errand, &Arc<Sub>) = (&work.errand, &work.sub);
    let is_timeout = outcome
        .as_ref()
        .is_err_and(|text| text.starts_with("timeout"));
    let changed = sub.finish(outcome);
    // Whatever it has goes on no longer than its task.
    for child in work.tree.below(&sub.id) {
        child.close(SubagentStatus::Cancelled);
    }
    if changed {
        if is_timeout {
            tell(session.session(), sub, "timeout", json!({})).await;
        }
        let status = json!({"status": sub.status().as_str()});
        tell(session.session(), sub, "status_changed", status).await;
    }
    work.memories.forget_own(&work.errand, sub).await;
}

/// Tells the agent what happened to a sub-agent of its, if it speaks the vocabulary that has events.
async fn tell(session: &Session, sub: &Sub, event: &'static str, content: Value) {
    if !sub.wish.is_told {
        return;
    }
    let event = SubagentEvent {
        content: object(&content),
        ..SubagentEvent::new(sub.id.clone().into(), event.into())
    };
    // Who is gone need not hear it.
    let _ = session.push(event).await;
}

/// A result as the wire has it: one that is no object is in one.
fn object(value: &Value) -> Object<'static> {
    let wrapped = match value.is_object() {
        true => Object::from_serialize(value),
        false => Object::from_serialize(&json!({ "data": value })),
    };
    wrapped.unwrap_or_default()
}

impl Plugin for Agents {
    placed!(placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::MultiAgent)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::MultiAgentSpawnRequest,
            Tag::MultiAgentDelegateRequest,
            Tag::MultiAgentAwaitRequest,
            Tag::MultiAgentListRequest,
            Tag::MultiAgentTerminateRequest,
            Tag::SubagentSpawnRequest,
            Tag::SubagentDelegateRequest,
            Tag::SubagentAwaitRequest,
            Tag::SubagentMessageRequest,
            Tag::SubagentListRequest,
            Tag::SubagentCancelRequest,
            Tag::SubagentTerminateRequest,
            Tag::SubagentMergeRequest,
        ])
    }

    /// A sub-agent may be a program of the operator's.
    fn executes(&self, request: &Message<'_>) -> Option<ProcSpawnRequest<'static>> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else starts one")]
        let model = match &request.body {
            Body::MultiAgentSpawnRequest(spawn) => &*spawn.model,
            Body::SubagentSpawnRequest(spawn) => &*spawn.agent.model,
            _ => return None,
        };
        let words = self.shop.commands.get(model)?;
        Some(ProcSpawnRequest {
            cmd: words.iter().map(|word| word.clone().into()).collect(),
            ..ProcSpawnRequest::new()
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            match request.body.tag().map(Tag::namespace) {
                Some(Namespace::Subagent) => self.older(request.body, &context).await,
                _ => self.newer(request.body, &context).await,
            }
        })
    }

    fn clear(&self, session: &Session) {
        if let Some(tree) = Self::existing(session) {
            tree.end();
        }
    }
}
