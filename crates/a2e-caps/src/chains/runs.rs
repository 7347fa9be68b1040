//! Chains that are kept: listed, shown, gone on with and cancelled, each by its agent.

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves, failures};
use a2e_wire::messages::chain::{
    self, ChainCancelResponse, ChainDetails, ChainListResponse, ChainRequest, ChainResponse,
    ChainResumeRequest, ChainResumeResponse, ChainShowResponse, ChainSummary,
};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Object, Raw, Tag, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use store::{Chain, ChainHead, ChainState, Chains, Error};

use super::Settings;
use super::answer::Broken;
use super::journal::{Fate, Journal, Recalled, Wanted};
use super::keeper::{CANCELLED, Keeper};
use super::run::Run;
use super::shown::ShownChain;
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
}

/// Chains in a list.
const LISTED: usize = 100;
/// How often a host goes on with a chain by itself: one that ends its process each time must not do
/// so for ever.
const MAX_RESUMED: u32 = 3;

impl Runs {
    pub(super) const fn new(settings: Arc<Settings>, keeper: Arc<Keeper>) -> Self {
        Self { settings, keeper }
    }

    fn chains(&self, context: &Context) -> Result<Arc<dyn Chains>, Failure> {
        self.keeper.chains(context).map_err(failed)
    }

    async fn list(&self, context: &Context) -> Result<ChainListResponse<'static>, Failure> {
        let chains = self.chains(context)?;
        let heads = chains.list(fresh::now(), LISTED).await.map_err(failed)?;
        let heads = heads.into_iter().map(|head| self.summary(head));
        Ok(ChainListResponse {
            chains: heads.collect(),
        })
    }

    async fn show(
        &self,
        number: i64,
        context: &Context,
    ) -> Result<ChainShowResponse<'static>, Failure> {
        let chains = self.chains(context)?;
        let read = tokio::task::spawn_blocking(move || ShownChain::read(&*chains, number));
        let read = read.await.unwrap_or(Err(Error::Closed)).map_err(failed)?;
        let Some(shown) = read else {
            return Ok(ChainShowResponse { chain: None });
        };
        let head = self.summary(shown.head);
        let response = shown.response.as_ref().map(Object::from_serialize);
        let left_out = shown.left_out.into_iter().map(Into::into).collect();
        let details = ChainDetails {
            number: head.number,
            chain_id: head.chain_id,
            state: head.state,
            begun: head.begun,
            ended: head.ended,
            resumed: head.resumed,
            request: Raw::from_serialize(&shown.request).map_err(unreadable)?,
            nodes: shown.nodes,
            response: response.transpose().map_err(unreadable)?,
            left_out: Some(left_out).filter(|it: &Vec<_>| !it.is_empty()),
        };
        Ok(ChainShowResponse {
            chain: Some(details),
        })
    }

    async fn cancel(
        &self,
        number: i64,
        context: &Context,
    ) -> Result<ChainCancelResponse<'static>, Failure> {
        let chains = self.chains(context)?;
        let found = chains.head(fresh::now(), number).await.map_err(failed)?;
        let error = match found {
            None => unknown(number),
            Some(head) if head.state != ChainState::Open => {
                format!("chain {number} has ended")
            }
            Some(_) if self.keeper.cancel(number) => String::new(),
            Some(_) => {
                let outcome = CANCELLED.to_vec();
                let state = ChainState::Cancelled;
                let ended = chains.end(self.keeper.now(), number, state, outcome).await;
                ended.map_err(failed)?;
                String::new()
            }
        };
        Ok(ChainCancelResponse {
            success: error.is_empty(),
            error: error.into(),
        })
    }

    async fn resume(
        &self,
        wanted: ChainResumeRequest,
        context: Context,
    ) -> Result<ChainResumeResponse<'static>, Failure> {
        let chains = self.chains(&context)?;
        let number = wanted.number;
        let found = chains.find(fresh::now(), number).await.map_err(failed)?;
        let refused = |error: String| ChainResumeResponse {
            response: None,
            error: error.into(),
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
        match self.go_on(number, &asked, context, Fate::Open).await? {
            Some(response) => Ok(ChainResumeResponse {
                response: Some(Object::from_record(&response).map_err(unreadable)?),
                ..ChainResumeResponse::new()
            }),
            None => Ok(refused(format!("chain {number} runs"))),
        }
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
            let found = chains.recall(self.keeper.uptime(), number).await;
            let Some(chain) = found.map_err(failed)? else {
                return Ok(None);
            };
            if chain.head.state != ChainState::Open {
                return kept_response(&chain).map(Some);
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

    fn summary(&self, head: ChainHead) -> ChainSummary<'static> {
        let state = match head.state {
            ChainState::Open if self.keeper.is_running(head.number) => chain::ChainState::Running,
            ChainState::Open => chain::ChainState::CutOff,
            ChainState::Done => chain::ChainState::Done,
            ChainState::Failed => chain::ChainState::Failed,
            ChainState::Cancelled => chain::ChainState::Cancelled,
            ChainState::Interrupted => chain::ChainState::Interrupted,
        };
        ChainSummary {
            number: head.number,
            chain_id: head.name.into(),
            state,
            begun: head.begun.0,
            ended: head.ended.map(|ended| ended.0),
            resumed: head.resumed.into(),
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
        Serves::Tags(vec![
            Tag::ChainListRequest,
            Tag::ChainShowRequest,
            Tag::ChainResumeRequest,
            Tag::ChainCancelRequest,
        ])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::ChainListRequest(_) => Outcome::answer(self.list(&context).await?),
                Body::ChainShowRequest(request) => {
                    let _turn = self.keeper.reading.take(&context.identity().agent).await;
                    Outcome::answer(self.show(request.number, &context).await?)
                }
                Body::ChainCancelRequest(request) => {
                    Outcome::answer(self.cancel(request.number, &context).await?)
                }
                Body::ChainResumeRequest(request) => {
                    Outcome::answer(Box::pin(self.resume(request, context.clone())).await?)
                }
                _ => Outcome::Pass,
            })
        })
    }
}

/// What was answered for a chain that has ended.
fn kept_response(chain: &Chain) -> Result<ChainResponse<'static>, Failure> {
    if chain.head.state == ChainState::Interrupted {
        return Ok(ChainResponse {
            chain_id: chain.head.name.clone().into(),
            error: Some(Broken::interrupted().into()),
            ..ChainResponse::new()
        });
    }
    let outcome = chain.outcome.as_deref().unwrap_or_default();
    let kept: Kept = serde_json::from_slice(outcome).map_err(unreadable)?;
    let Some(response) = kept.response else {
        // It was ended before it had one.
        return Err(failures::interrupted());
    };
    let object = Object::from_serialize(&response).map_err(unreadable)?;
    let response: Result<ChainResponse<'_>, _> = object.read(Timestamp::default());
    Ok(response.map_err(unreadable)?.to_static())
}

fn unknown(number: i64) -> String {
    format!("there is no chain {number}; `chain/list/req` has those there are")
}

/// Why a chain that is open does not go on.
fn hindrance(
    chain: &Chain,
    asked: &Wanted,
    wanted: ChainResumeRequest,
    context: &Context,
) -> Option<String> {
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

fn failed(error: Error) -> Failure {
    let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Chain, error.to_string());
    failure.retryable = error == Error::Busy;
    failure
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    let text = format!("what is kept of the chain cannot be read: {error}");
    Failure::new(ErrorCode::RuntimeError, Namespace::Chain, text)
}
