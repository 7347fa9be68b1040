//! The capability `learning`: feedback and experiences, statistics of components, weights that follow
//! from them, and refinements that can be taken back.
//!
//! What is learned is the agent's that taught it, in its [`Ledgers`]. They are of use to others as
//! [`a2e_runtime::Weights`]; environments of the host teach by way of the plugin, a [`Learner`].

mod component;
mod digest;
mod edits;
mod entry;
pub mod export;
mod ledger;
mod ledgers;
mod proposal;
mod refinements;
mod samples;
mod strategy;
mod transcript;

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{
    BoxFuture, Context, Failure, Learner, NEUTRAL, Outcome, Plugin, Resolution, Serves, Session,
};
use a2e_wire::messages::learn::{
    AdaptStrategy, Experience, Feedback, LearnAdaptRequest, LearnAdaptResponse,
    LearnExperienceRequest, LearnExperienceResponse, LearnFeedbackRequest, LearnFeedbackResponse,
    LearnStatsRequest, LearnStatsResponse,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Real, Tag};

use crate::placement::{Placement, placed};

use component::Component;
use ledger::Ledger;
use samples::{Checked, Teller};

pub use edits::{MAX_DEPTH, MAX_EDITS, MAX_NEW_VALUE, MAX_PATH};
pub use ledger::{MAX_KNOWN, MAX_PLANNED};
pub use ledgers::Ledgers;
pub use samples::{MAX_AT_ONCE, MAX_COMPONENT_NAME, MAX_COMPONENTS, MAX_SAMPLE};
pub use strategy::Strategy;
pub use transcript::MAX_PAGE;

/// How it is learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// With fewer samples nothing is concluded.
    pub min_experiences: u64,
    /// After so many experiences the host adapts by itself; never, if 0.
    pub adapt_every: u64,
    /// Proposals below it are not approved.
    pub confidence_threshold: f64,
    /// After so long something counts half in what is decayed.
    pub half_life: Duration,
    /// What the strategy `custom` is.
    pub custom: Strategy,
}

/// The plugin.
#[derive(Debug, Clone)]
pub struct Learning {
    placement: Placement,
    settings: Settings,
    ledgers: Arc<Ledgers>,
}

/// More samples than this, or components of them, are looked at on a thread where nobody else waits.
const MANY: usize = 200;

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_experiences: 32,
            adapt_every: 100,
            confidence_threshold: 0.3,
            half_life: Duration::from_secs(7 * 24 * 3600),
            custom: Strategy::Thompson,
        }
    }
}

impl Learning {
    /// A plugin that learns into ledgers.
    #[must_use]
    pub const fn new(ledgers: Arc<Ledgers>, settings: Settings, placement: Placement) -> Self {
        Self {
            placement,
            settings,
            ledgers,
        }
    }

    async fn feedback(
        &self,
        request: LearnFeedbackRequest<'static>,
        ledger: &Arc<Ledger>,
    ) -> Result<LearnFeedbackResponse, Failure> {
        let count = request.feedbacks.len();
        let feedbacks = request.feedbacks;
        let checked = checked(count, || samples::feedbacks(feedbacks, Teller::Agent)).await?;
        let last = checked.seen.last().and_then(|it| it.names.first());
        let last = last.cloned();
        ledger
            .record(checked, self.settings.half_life)
            .await
            .map_err(failed)?;
        let new_score = match last {
            Some(name) => {
                let scores = ledger.known_of(&name, |_, it| Real::new(it.score.get()));
                scores.await.into_iter().next().flatten()
            }
            None => None,
        };
        Ok(LearnFeedbackResponse {
            recorded: i64::try_from(count).unwrap_or(i64::MAX),
            new_score,
        })
    }

    async fn experience(
        &self,
        request: LearnExperienceRequest<'static>,
        ledger: &Arc<Ledger>,
    ) -> Result<LearnExperienceResponse, Failure> {
        let stored = i64::try_from(request.experiences.len()).unwrap_or(i64::MAX);
        self.live(request.experiences, Teller::Agent, ledger)
            .await?;
        Ok(LearnExperienceResponse { stored })
    }

    /// Keeps experiences, and adapts if it is time.
    async fn live(
        &self,
        experiences: Vec<Experience<'static>>,
        teller: Teller,
        ledger: &Arc<Ledger>,
    ) -> Result<(), Failure> {
        let count = experiences.len();
        let checked = checked(count, move || samples::experiences(experiences, teller)).await?;
        let count = u64::try_from(checked.samples.len()).unwrap_or(u64::MAX);
        let all = ledger
            .record(checked, self.settings.half_life)
            .await
            .map_err(failed)?;
        let every = self.settings.adapt_every;
        let periods = |count: u64| count.checked_div(every).unwrap_or_default();
        let is_time = periods(all) > periods(all.saturating_sub(count));
        if is_time && all >= self.settings.min_experiences {
            // What came is kept; that nothing followed from it is nobody's failure who brought it.
            if let Err(error) = ledger.adapt("", Strategy::Ppo, &self.settings).await {
                tracing::warn!(%error, "cannot adapt to new experiences");
            }
        }
        Ok(())
    }

    async fn adapt(
        &self,
        request: LearnAdaptRequest<'static>,
        ledger: &Arc<Ledger>,
    ) -> Result<LearnAdaptResponse<'static>, Failure> {
        let name = &*request.component_name;
        let strategy = self.strategy(&request.strategy)?;
        let (count, least) = (ledger.count().await, self.settings.min_experiences);
        let message = match count < least {
            true => format!("{count} samples are too few to adapt; it takes {least}"),
            false => {
                let applied = ledger
                    .adapt(name, strategy, &self.settings)
                    .await
                    .map_err(failed)?;
                let strategy = request.strategy.as_str();
                format!("adapted to {count} samples by {strategy}; {applied} proposals applied")
            }
        };
        Ok(LearnAdaptResponse {
            updated: records(ledger, name).await,
            message: message.into(),
        })
    }

    fn strategy(&self, asked: &AdaptStrategy<'_>) -> Result<Strategy, Failure> {
        match asked {
            AdaptStrategy::Ppo => Ok(Strategy::Ppo),
            AdaptStrategy::Ucb1 => Ok(Strategy::Ucb1),
            AdaptStrategy::EpsilonGreedy => Ok(Strategy::EpsilonGreedy),
            AdaptStrategy::Softmax => Ok(Strategy::Softmax),
            AdaptStrategy::Custom => Ok(self.settings.custom),
            AdaptStrategy::Other(_) => Err(Failure::new(
                ErrorCode::SchemaViolation,
                Namespace::Learn,
                "`strategy` must be ppo, ucb1, epsilon_greedy, softmax or custom",
            )),
        }
    }
}

impl Learner for Learning {
    fn experienced<'a>(
        &'a self,
        agent: &'a str,
        experiences: Vec<Experience<'static>>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let ledger = self.ledgers.of(agent).await?;
            self.live(experiences, Teller::Environment, &ledger).await
        })
    }

    fn rated<'a>(
        &'a self,
        agent: &'a str,
        feedbacks: Vec<Feedback<'static>>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let ledger = self.ledgers.of(agent).await?;
            let count = feedbacks.len();
            let checked =
                checked(count, || samples::feedbacks(feedbacks, Teller::Environment)).await?;
            ledger
                .record(checked, self.settings.half_life)
                .await
                .map(drop)
                .map_err(failed)
        })
    }
}

impl Plugin for Learning {
    placed!(placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Learning)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::LearnFeedbackRequest,
            Tag::LearnExperienceRequest,
            Tag::LearnAdaptRequest,
            Tag::LearnStatsRequest,
            Tag::LearnRefinementPlanRequest,
            Tag::LearnRefinementReviewRequest,
            Tag::LearnRefinementApplyRequest,
            Tag::LearnRefinementRollbackRequest,
            Tag::LearnRefinementHistoryRequest,
            Tag::LearnSamplesRequest,
        ])
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "others name no component")]
            let named = match &request.body {
                Body::LearnStatsRequest(request) => &request.component_name,
                Body::LearnAdaptRequest(request) => &request.component_name,
                Body::LearnRefinementPlanRequest(request) => &request.component_name,
                _ => return Ok(None),
            };
            if !named.is_empty() {
                return Ok(None);
            }
            let ledger = self.ledgers.of(&session.identity().agent).await?;
            let names = ledger.names().await;
            Ok(Some(Resolution::of_all("component_name", names)))
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let ledger = &self.ledgers.of(&context.identity().agent).await?;
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::LearnFeedbackRequest(it) => Outcome::answer(self.feedback(it, ledger).await?),
                Body::LearnExperienceRequest(it) => {
                    Outcome::answer(self.experience(it, ledger).await?)
                }
                Body::LearnAdaptRequest(it) => Outcome::answer(self.adapt(it, ledger).await?),
                Body::LearnStatsRequest(LearnStatsRequest { component_name }) => {
                    let components = records(ledger, &component_name).await;
                    Outcome::answer(LearnStatsResponse { components })
                }
                Body::LearnRefinementPlanRequest(it) => {
                    Outcome::answer(self.plan(it, ledger).await?)
                }
                Body::LearnRefinementReviewRequest(it) => {
                    Outcome::answer(self.review(it, ledger).await?)
                }
                Body::LearnRefinementApplyRequest(it) => {
                    Outcome::answer(Self::apply(it, ledger).await?)
                }
                Body::LearnRefinementRollbackRequest(it) => {
                    Outcome::answer(Self::roll_back(it, ledger).await?)
                }
                Body::LearnRefinementHistoryRequest(_) => {
                    Outcome::answer(Self::history(ledger).await?)
                }
                Body::LearnSamplesRequest(it) => {
                    Outcome::answer(transcript::page(it, ledger).await?)
                }
                _ => Outcome::Pass,
            })
        })
    }
}

async fn records(
    ledger: &Ledger,
    name: &str,
) -> Vec<a2e_wire::messages::learn::ComponentPerformanceRecord<'static>> {
    let weights = ledger.weights();
    let weight = |name: &str| weights.get(name).copied().unwrap_or(NEUTRAL);
    let record = |name: &str, component: &Component| component.record(name, weight(name));
    ledger.known_of(name, record).await
}

/// Checks samples; many of them where nobody else waits for that.
async fn checked(
    count: usize,
    check: impl FnOnce() -> Result<Checked, Failure> + Send + 'static,
) -> Result<Checked, Failure> {
    if count <= MANY {
        return check();
    }
    let checked = tokio::task::spawn_blocking(check).await;
    checked.unwrap_or_else(|error| {
        let text = error.to_string();
        Err(Failure::new(
            ErrorCode::RuntimeError,
            Namespace::Learn,
            text,
        ))
    })
}

/// Does what computes for long, between waiting for a store, where nobody else waits for it.
async fn at_leisure<T: Send + 'static>(
    work: impl Future<Output = Result<T, store::Error>> + Send + 'static,
) -> Result<T, store::Error> {
    let runtime = tokio::runtime::Handle::current();
    apart(move || runtime.block_on(work)).await
}

/// Does what takes a while where nobody else waits for it.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, store::Error> + Send + 'static,
) -> Result<T, store::Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(store::Error::Closed))
}

fn failed(error: store::Error) -> Failure {
    Failure {
        // The table says no for what a learner does wrong; a store that is busy is something else.
        retryable: matches!(error, store::Error::Busy),
        ..Failure::new(ErrorCode::RuntimeError, Namespace::Learn, error.to_string())
    }
}
