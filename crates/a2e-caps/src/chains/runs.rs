//! Chains that are kept: listed, shown, gone on with and cancelled, each by its agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2e_runtime::{
    BoxFuture, Context, CustomMessage, Failure, Outcome, Plugin, Serves, read_custom,
};
use a2e_wire::messages::chain::{ChainRequest, ChainResponse};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Object, Raw, Timestamp, Unknown};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use store::{Chain, ChainHead, ChainState, Chains, Error};

use super::Settings;
use super::answer::{Broken, as_json};
use super::journal::{Fate, Journal, Recalled, Wanted};
use super::keeper::{ASKED_AGAIN, CANCELLED, Keeper};
use super::messages::{
    Cancel, Cancelled, Details, Head, List, Listed, NodeState, Resume, Resumed, Show, Shown,
};
use super::run::Run;
use crate::fresh;

/// The plugin; it goes with [`Chains`](super::Chains).
#[derive(Debug, Clone)]
pub struct Runs {
    settings: Arc<Settings>,
    keeper: Arc<Keeper>,
}

/// What is kept of a chain that has ended.
#[derive(Deserialize)]
struct Kept {
    response: Option<Value>,
    failed: BTreeMap<String, String>,
}

/// Chains in a list.
const LISTED: usize = 100;
/// How often a host goes on with a chain by itself: one that ends its process each time must not do
/// so for ever.
const MAX_RESUMED: u32 = 3;
/// Of a node that somebody was at.
const STARTED: &str = "started";

impl Runs {
    pub(super) const fn new(settings: Arc<Settings>, keeper: Arc<Keeper>) -> Self {
        Self { settings, keeper }
    }

    fn chains(&self, context: &Context) -> Result<Arc<dyn Chains>, Failure> {
        self.keeper.chains(context).map_err(failed)
    }

    async fn list(&self, context: &Context) -> Result<Listed, Failure> {
        let chains = self.chains(context)?;
        let heads = chains.list(fresh::now(), LISTED).await.map_err(failed)?;
        let heads = heads.into_iter().map(|head| self.head(head));
        Ok(Listed {
            chains: heads.collect(),
        })
    }

    async fn show(&self, number: i64, context: &Context) -> Result<Shown, Failure> {
        let chains = self.chains(context)?;
        let found = chains.find(fresh::now(), number).await.map_err(failed)?;
        let Some(chain) = found else {
            return Ok(Shown { chain: None });
        };
        let wanted: Wanted = serde_json::from_slice(&chain.request).map_err(unreadable)?;
        let kept: Option<Kept> = chain
            .outcome
            .as_deref()
            .map(serde_json::from_slice)
            .transpose()
            .map_err(unreadable)?;
        let request = wanted.chain().map_err(unreadable)?;
        let nodes = match &kept {
            Some(kept) => ended_nodes(&request, kept),
            None => {
                let recalled = Recalled::<IgnoredAny>::read(&chains, number).await;
                open_nodes(&request, &recalled.map_err(failed)?)
            }
        };
        Ok(Shown {
            chain: Some(Details {
                head: self.head(chain.head),
                request: wanted.request,
                nodes,
                response: kept.and_then(|kept| kept.response),
            }),
        })
    }

    async fn cancel(&self, number: i64, context: &Context) -> Result<Cancelled, Failure> {
        let chains = self.chains(context)?;
        let found = chains.find(fresh::now(), number).await.map_err(failed)?;
        let error = match found {
            None => unknown(number),
            Some(chain) if chain.head.state != ChainState::Open => {
                format!("chain {number} has ended")
            }
            Some(_) if self.keeper.cancel(number) => String::new(),
            Some(_) => {
                let outcome = CANCELLED.to_vec();
                let state = ChainState::Cancelled;
                let ended = chains.end(fresh::now(), number, state, outcome).await;
                ended.map_err(failed)?;
                String::new()
            }
        };
        Ok(Cancelled {
            success: error.is_empty(),
            error,
        })
    }

    async fn resume(&self, wanted: Resume, context: Context) -> Result<Resumed, Failure> {
        let chains = self.chains(&context)?;
        let number = wanted.number;
        let found = chains.find(fresh::now(), number).await.map_err(failed)?;
        let refused = |error: String| Resumed {
            response: None,
            error,
        };
        let chain = match found {
            Some(chain) if chain.head.state == ChainState::Open => chain,
            Some(_) => return Ok(refused(format!("chain {number} has ended"))),
            None => return Ok(refused(unknown(number))),
        };
        let asked: Wanted = serde_json::from_slice(&chain.request).map_err(unreadable)?;
        if let Some(error) = hindrance(&chain, &asked, wanted, &context) {
            return Ok(refused(error));
        }
        Ok(
            match self.go_on(number, &asked, context, Fate::Open).await? {
                Some(response) => Resumed {
                    response: Some(as_json(&response)),
                    error: String::new(),
                },
                None => refused(format!("chain {number} runs")),
            },
        )
    }

    /// Goes on with a chain that is open; nothing if somebody does already.
    async fn go_on(
        &self,
        number: i64,
        asked: &Wanted,
        context: Context,
        fate: Fate,
    ) -> Result<Option<ChainResponse<'static>>, Failure> {
        let chains = self.chains(&context)?;
        let request = ChainRequest {
            streaming: false,
            ..asked.chain().map_err(unreadable)?
        };
        let mut run = Run::new(request, context.clone(), Arc::clone(&self.settings));
        let Some(entered) = self.keeper.enter(number, &run.end) else {
            return Ok(None);
        };
        chains.resume(number).await.map_err(failed)?;
        run.recalled = Recalled::read(&chains, number).await.map_err(failed)?;
        run.journal = Some(Journal::of(chains, entered, context, fate));
        Ok(Some(run.finish().await))
    }

    /// What comes of a request that an earlier process was sent, too; nothing if it is new.
    pub(super) async fn asked_again(
        &self,
        request: &ChainRequest<'static>,
        context: &Context,
    ) -> Result<Option<ChainResponse<'static>>, Failure> {
        let before = self.keeper.asked_before(request, context).await;
        match before.map_err(failed)? {
            Some(number) => Box::pin(self.again(number, context)).await,
            None => Ok(None),
        }
    }

    /// What comes, or came, of a chain of an earlier process: whoever is at it, it is done once.
    /// Nothing if nobody knows any more.
    async fn again(
        &self,
        number: i64,
        context: &Context,
    ) -> Result<Option<ChainResponse<'static>>, Failure> {
        let chains = self.chains(context)?;
        loop {
            let found = chains.find(fresh::now(), number).await.map_err(failed)?;
            let Some(chain) = found else {
                return Ok(None);
            };
            if let Some(ended) = chain.head.ended {
                let is_late = ended.plus(ASKED_AGAIN) < fresh::now();
                return match is_late {
                    true => Ok(None),
                    false => kept_response(&chain).map(Some),
                };
            }
            if let Some(over) = self.keeper.over(number) {
                over.cancelled().await;
                continue;
            }
            let asked: Wanted = serde_json::from_slice(&chain.request).map_err(unreadable)?;
            // Its agent is here again, and if it leaves it does not want the chain any more.
            let fate = Fate::Cancelled;
            if let Some(response) = self.go_on(number, &asked, context.clone(), fate).await? {
                return Ok(Some(response));
            }
        }
    }

    fn head(&self, head: ChainHead) -> Head {
        let state = match head.state {
            ChainState::Open if self.keeper.is_running(head.number) => "running",
            ChainState::Open => "cut_off",
            ChainState::Done => "done",
            ChainState::Failed => "failed",
            ChainState::Cancelled => "cancelled",
        };
        Head {
            number: head.number,
            chain_id: head.name,
            state: state.to_owned(),
            begun: head.begun.0,
            ended: head.ended.map(|ended| ended.0),
            resumed: head.resumed,
        }
    }
}

impl Plugin for Runs {
    fn name(&self) -> &str {
        "chain_runs"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        let types = [List::TYPE, Show::TYPE, Resume::TYPE, Cancel::TYPE];
        Serves::Types(types.map(str::to_owned).to_vec())
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            match request.type_name() {
                List::TYPE => answer(&context, &self.list(&context).await?),
                Show::TYPE => {
                    let Show { number } = read(&request)?;
                    answer(&context, &self.show(number, &context).await?)
                }
                Cancel::TYPE => {
                    let Cancel { number } = read(&request)?;
                    answer(&context, &self.cancel(number, &context).await?)
                }
                Resume::TYPE => {
                    let wanted = read(&request)?;
                    let resumed = Box::pin(self.resume(wanted, context.clone())).await?;
                    answer(&context, &resumed)
                }
                _ => Ok(Outcome::Pass),
            }
        })
    }
}

/// What was answered for a chain that has ended.
fn kept_response(chain: &Chain) -> Result<ChainResponse<'static>, Failure> {
    let outcome = chain.outcome.as_deref().unwrap_or_default();
    let kept: Kept = serde_json::from_slice(outcome).map_err(unreadable)?;
    let Some(response) = kept.response else {
        return Ok(ChainResponse {
            chain_id: chain.head.name.clone().into(),
            error: Some(Broken::cancelled().into()),
            ..ChainResponse::new()
        });
    };
    let object = Object::from_serialize(&response).map_err(unreadable)?;
    let response: Result<ChainResponse<'_>, _> = object.read(Timestamp::default());
    Ok(response.map_err(unreadable)?.to_static())
}

/// Why a chain that is open does not go on.
fn unknown(number: i64) -> String {
    format!("there is no chain {number}; `chain/list/req` has those there are")
}

fn hindrance(chain: &Chain, asked: &Wanted, wanted: Resume, context: &Context) -> Option<String> {
    let number = wanted.number;
    if asked.proven && context.identity().proven.is_none() {
        return Some(format!(
            "chain {number} is of an agent that has proved its DID; it goes on when that agent asks \
             for it"
        ));
    }
    let resumed = chain.head.resumed;
    (wanted.by_itself && resumed >= MAX_RESUMED).then(|| {
        format!("chain {number} was cut off {resumed} times; it goes on when its agent asks for it")
    })
}

fn ended_nodes(request: &ChainRequest<'_>, kept: &Kept) -> Vec<NodeState> {
    let outputs = kept.response.as_ref().and_then(|it| it.get("outputs"));
    let nodes = request.nodes.iter().map(|node| {
        let id = node.node_id.as_str();
        let error = kept.failed.get(id);
        let is_done = outputs.and_then(|outputs| outputs.get(id)).is_some();
        node_state(id, error.map(String::as_str), is_done)
    });
    nodes.collect()
}

fn open_nodes(request: &ChainRequest<'_>, recalled: &Recalled<IgnoredAny>) -> Vec<NodeState> {
    let mut nodes: Vec<NodeState> = request
        .nodes
        .iter()
        .map(|node| node_state(node.node_id.as_str(), None, false))
        .collect();
    for (place, outcome) in &recalled.0 {
        let Some(node) = nodes.get_mut(place.node) else {
            continue;
        };
        let id = node.node_id.clone();
        match (place.item, outcome) {
            (None, Some(outcome)) => {
                let error = outcome.as_ref().err();
                *node = node_state(&id, error.map(String::as_str), true);
            }
            (Some(_), Some(_)) => {
                node.items = node.items.saturating_add(1);
                STARTED.clone_into(&mut node.state);
            }
            (_, None) => STARTED.clone_into(&mut node.state),
        }
    }
    nodes
}

fn node_state(id: &str, error: Option<&str>, is_done: bool) -> NodeState {
    let state = match (error, is_done) {
        (Some(_), _) => "failed",
        (None, true) => "done",
        (None, false) => "waiting",
    };
    NodeState {
        node_id: id.to_owned(),
        state: state.to_owned(),
        items: 0,
        error: error.unwrap_or_default().to_owned(),
    }
}

fn read<M: CustomMessage>(request: &Message<'_>) -> Result<M, Failure> {
    read_custom(request).map_err(|error| {
        let text = format!("`{}` needs `number`: {error}", M::TYPE);
        Failure::new(ErrorCode::SchemaViolation, Namespace::Chain, text)
    })
}

fn answer<M: CustomMessage>(context: &Context, message: &M) -> Result<Outcome, Failure> {
    let mut answer = serde_json::to_value(message).map_err(unreadable)?;
    if let Some(members) = answer.as_object_mut() {
        members.insert("type".into(), M::TYPE.into());
        members.insert("req_id".into(), context.id().as_str().into());
    }
    Ok(Outcome::answer(Body::Unknown(Unknown {
        type_name: M::TYPE.into(),
        raw: Raw::from_serialize(&answer).map_err(unreadable)?,
    })))
}

fn failed(error: Error) -> Failure {
    let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Chain, error.to_string());
    failure.retryable = error == Error::Busy;
    failure
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    let text = format!("what is kept of the chain cannot be read: {error}");
    Failure::new(ErrorCode::RuntimeError, Namespace::Chain, text)
}
