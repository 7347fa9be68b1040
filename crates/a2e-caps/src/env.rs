//! The capability `env`: worlds to act in, one episode at a time or many.
//!
//! An episode is its session's: nobody else sees it, and it ends with it. It is begun by a reset and
//! stays until it is closed, nobody uses it any more, or others take its place.

mod batch;
mod cartpole;
mod counter;
mod environment;
mod episode;
mod failures;
mod gridworld;
mod history;
mod html;
mod picture;
mod png;
mod pusher;
mod random;
mod recorded;
mod screen;
mod settings;
mod table;
mod terminal;
mod web;

use std::fmt::Write as _;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session};
use a2e_wire::messages::env::{
    EnvBatchStepRequest, EnvBatchStepResponse, EnvCloseRequest, EnvCloseResponse, EnvListResponse,
    EnvObservation, EnvObserveRequest, EnvObserveResponse, EnvPlanRequest, EnvPlanResponse,
    EnvRenderMode, EnvRenderRequest, EnvRenderResponse, EnvResetRequest, EnvResetResponse,
    EnvSpaceRequest, EnvSpaceResponse, EnvStepRequest, EnvStepResponse, EnvSummary,
};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, Envelope, EpisodeId, Message, MessageId, Object, Raw, Tag};
use serde_json::json;

use crate::placement::placed;

use batch::{Audience, Planned};
use episode::{Beginning, Episode, timestamp};
use history::History;
use table::{Table, close_unasked};

pub use cartpole::CartPole;
pub use counter::Counter;
pub use environment::{Action, Change, EnvError, Environment, Opened, Opening, Spaces, World};
pub use gridworld::{GridWorld, MAX_SIDE};
pub use history::{MAX_EPISODE_BYTES, MAX_SESSION_BYTES};
pub use picture::{Colour, Picture};
pub use pusher::{Push, Pusher};
pub use random::Random;
pub use settings::{PushSpellings, Settings};
pub use table::MAX_CLOSED;
pub use terminal::{MAX_KEYS, MAX_TERMINALS, Terminal};
pub use web::{MAX_BACK, WebPages};

/// The plugin.
#[derive(Debug)]
pub struct Environments {
    settings: Settings,
    environments: Vec<Arc<dyn Environment>>,
}

/// Episodes that one request steps.
pub const MAX_BATCH: usize = 10_000;

/// The environments that need nothing but themselves.
#[must_use]
pub fn built_in() -> Vec<Arc<dyn Environment>> {
    vec![
        Arc::new(Counter::default()),
        Arc::new(GridWorld::default()),
        Arc::new(CartPole::default()),
    ]
}

impl Environments {
    /// A plugin for these environments.
    #[must_use]
    pub const fn new(environments: Vec<Arc<dyn Environment>>, settings: Settings) -> Self {
        Self {
            settings,
            environments,
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Environment>> {
        self.environments.iter().find(|it| it.name() == name)
    }

    async fn reset(
        &self,
        request: EnvResetRequest<'static>,
        session: &Arc<Session>,
    ) -> Result<Outcome, Failure> {
        let Some(environment) = self.find(&request.env_name) else {
            return Ok(Outcome::Pass);
        };
        let limits = self.settings.limits(environment, &request.options)?;
        let (id, seed) = fresh(request.seed)?;
        let pusher = Pusher::new(session, id.clone(), self.settings.pushes);
        let opening = Opening {
            agent: session.identity().agent.as_str().into(),
            random: Random::seeded(seed),
            options: request.options,
            pusher: pusher.clone(),
        };
        let opened = environment.open(opening).await?;
        let table = session.state::<Table>();
        let beginning = Beginning {
            id,
            environment: Arc::clone(environment),
            number: table.next_number(),
            seed,
            pusher,
            pushes_steps: limits.push,
            max_steps: limits.max_steps,
            max_time: limits.max_time,
            history: History::new(Arc::clone(&table.bytes)),
        };
        let episode = Arc::new(Episode::begin(beginning, opened));
        let first = episode.observe().await;
        let inserted = table.insert(session, &episode, self.settings.max_episodes);
        if let Some(goes) = inserted? {
            close_unasked(&goes, "closed: a newer episode took its place").await;
        }
        table.sweep(self.settings.idle);
        let metadata = Object::from_serialize(&json!({ "seed": seed })).unwrap_or_default();
        Ok(Outcome::answer(EnvResetResponse::new(EnvObservation {
            metadata: Some(metadata),
            ..first
        })))
    }

    async fn step(
        &self,
        request: EnvStepRequest<'static>,
        session: &Arc<Session>,
    ) -> Result<Outcome, Failure> {
        let Some(episode) = session.state::<Table>().find(&request.episode_id) else {
            return Ok(Outcome::Pass);
        };
        let audience = self.audience(session);
        let observation = audience.step(&episode, request.action).await?;
        Ok(Outcome::answer(EnvStepResponse::new(observation)))
    }

    async fn batch_step(
        &self,
        id: &MessageId<'static>,
        request: EnvBatchStepRequest<'static>,
        session: &Arc<Session>,
    ) -> Result<Outcome, Failure> {
        let ids = &request.episode_ids;
        if ids.len() != request.actions.len() || ids.len() > MAX_BATCH {
            return Err(failures::wrong(format!(
                "there must be as many `actions` as `episode_ids`, and at most {MAX_BATCH}"
            )));
        }
        let found = session.state::<Table>().find_all(ids);
        if !ids.is_empty() && found.iter().all(Option::is_none) {
            return Ok(Outcome::Pass);
        }
        let mut planned = Vec::with_capacity(ids.len());
        for ((id, episode), action) in ids.iter().zip(found).zip(request.actions) {
            let episode = episode.ok_or_else(|| failures::unknown_episode(id))?;
            planned.push(Planned { episode, action });
        }
        if let Some(twice) = batch::twice(&planned) {
            let text = format!("`episode_ids` has `{twice}` twice; a batch steps each once");
            return Err(failures::wrong(text));
        }
        let taken = self.audience(session).step_all(planned).await?;
        // When all of it happened.
        let first = taken.first();
        let ts = first.map_or_else(timestamp, |taken| taken.observation.created_at);
        let results = taken.into_iter().enumerate().map(|(index, taken)| {
            let envelope = Envelope::new(part_id(id, index), ts).in_reply_to(id.clone());
            let obs = taken.observation;
            Message {
                envelope,
                body: EnvStepResponse { obs },
            }
        });
        Ok(Outcome::answer(EnvBatchStepResponse::new(
            results.collect(),
        )))
    }

    async fn observe(
        &self,
        request: EnvObserveRequest<'static>,
        session: &Session,
    ) -> Result<Outcome, Failure> {
        let Some(episode) = session.state::<Table>().find(&request.episode_id) else {
            return Ok(Outcome::Pass);
        };
        let observation = episode.observe().await;
        Ok(Outcome::answer(EnvObserveResponse::new(observation)))
    }

    async fn close(
        &self,
        request: EnvCloseRequest<'static>,
        session: &Session,
    ) -> Result<Outcome, Failure> {
        let Some(episode) = session.state::<Table>().remove(&request.episode_id) else {
            return Ok(Outcome::Pass);
        };
        episode.close().await;
        Ok(Outcome::answer(EnvCloseResponse { closed: true }))
    }

    fn list(&self) -> EnvListResponse<'static> {
        let environments = self.environments.iter().map(|environment| EnvSummary {
            name: environment.name().to_owned().into(),
            description: environment.description().to_owned().into(),
            max_steps: environment
                .max_steps()
                .and_then(|it| i64::try_from(it).ok()),
        });
        EnvListResponse {
            environments: environments.collect(),
        }
    }

    fn space(&self, request: &EnvSpaceRequest<'_>) -> Outcome {
        let Some(environment) = self.find(&request.env_name) else {
            return Outcome::Pass;
        };
        let Spaces { action, state } = environment.spaces().clone();
        Outcome::answer(EnvSpaceResponse::new(action, state))
    }

    async fn render(
        &self,
        request: EnvRenderRequest<'static>,
        session: &Session,
    ) -> Result<Outcome, Failure> {
        let Some(episode) = session.state::<Table>().find(&request.episode_id) else {
            return Ok(Outcome::Pass);
        };
        let running = episode.running().await;
        let world = running.world.as_ref();
        let picture = || world.and_then(|world| world.picture());
        let mode = request.mode.unwrap_or(EnvRenderMode::Screenshot);
        let raw = |value: &serde_json::Value| Raw::from_serialize(value);
        let render = match mode {
            EnvRenderMode::Text => {
                let text = world.and_then(|world| world.text());
                raw(&json!(
                    text.unwrap_or_else(|| running.state.raw().as_str().to_owned())
                ))
            }
            EnvRenderMode::Json => Ok(running.state.raw().clone()),
            EnvRenderMode::RgbArray => raw(&json!(picture().map(|it| it.array()))),
            EnvRenderMode::Screenshot => raw(&json!(picture().map(|it| it.png_base64()))),
            EnvRenderMode::Other(_) => Ok(Raw::NULL),
        };
        drop(running);
        episode.touch(tokio::time::Instant::now());
        let render = render.map_err(|error| failures::failed(error.to_string()))?;
        Ok(Outcome::answer(EnvRenderResponse::new(render)))
    }

    /// Without an episode it is about the one that was used last.
    async fn plan(
        &self,
        request: EnvPlanRequest<'static>,
        context: &Context,
    ) -> Result<Outcome, Failure> {
        let table = context.session().state::<Table>();
        let id = request.episode_id.filter(|id| !id.is_empty());
        let episode = match (&id, context.resolved::<Episodes>()) {
            (Some(id), _) => table.find(id),
            // The one that the decision was about.
            (None, Some(decided)) => decided.0.first().cloned(),
            (None, None) => table.latest(),
        };
        let suggested_actions = match (&episode, id) {
            (None, Some(_)) => return Ok(Outcome::Pass),
            (None, None) => Vec::new(),
            (Some(episode), _) => {
                let running = episode.running().await;
                let world = running.world.as_ref().filter(|_| !running.is_over());
                world.map_or_else(Vec::new, |world| world.plan(request.state.as_ref()))
            }
        };
        Ok(Outcome::answer(EnvPlanResponse { suggested_actions }))
    }

    fn audience(&self, session: &Arc<Session>) -> Audience {
        Audience {
            session: Arc::clone(session),
            learner: self.settings.learner.clone(),
        }
    }
}

impl Plugin for Environments {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Env)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::EnvResetRequest,
            Tag::EnvStepRequest,
            Tag::EnvBatchStepRequest,
            Tag::EnvObserveRequest,
            Tag::EnvCloseRequest,
            Tag::EnvSpaceRequest,
            Tag::EnvRenderRequest,
            Tag::EnvPlanRequest,
            Tag::EnvExpListRequest,
            Tag::EnvListRequest,
        ])
    }

    /// Episodes end with the process, and with them whatever could be done in them again.
    fn outlives(&self, _request: &Message<'_>) -> bool {
        false
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        let table = session.state::<Table>();
        #[expect(clippy::wildcard_enum_match_arm, reason = "others name their episode")]
        let episodes = match &request.body {
            Body::EnvPlanRequest(request) if request.episode_id.is_none() => {
                Some(table.latest().into_iter().collect())
            }
            Body::EnvExpListRequest(request) if request.episode_id.is_empty() => Some(table.all()),
            _ => None,
        };
        let resolution = episodes.map(|episodes: Vec<Arc<Episode>>| {
            let ids = episodes
                .iter()
                .map(|episode| episode.id.as_str().to_owned());
            let resolution = Resolution::of_all("episode_id", ids.collect());
            resolution.object(Arc::new(Episodes(episodes)))
        });
        Box::pin(std::future::ready(Ok(resolution)))
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let session = context.session();
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::EnvResetRequest(request) => self.reset(request, session).await,
                Body::EnvStepRequest(request) => self.step(request, session).await,
                Body::EnvBatchStepRequest(batch) => {
                    self.batch_step(&request.envelope.id, batch, session).await
                }
                Body::EnvObserveRequest(request) => self.observe(request, session).await,
                Body::EnvCloseRequest(request) => self.close(request, session).await,
                Body::EnvSpaceRequest(request) => Ok(self.space(&request)),
                Body::EnvListRequest(_) => Ok(Outcome::answer(self.list())),
                Body::EnvRenderRequest(request) => self.render(request, session).await,
                Body::EnvPlanRequest(request) => self.plan(request, &context).await,
                Body::EnvExpListRequest(request) => recorded::list(request, &context).await,
                _ => Ok(Outcome::Pass),
            }
        })
    }

    fn clear(&self, session: &Session) {
        if let Some(table) = session.existing::<Table>() {
            table.clear();
        }
    }
}

/// The episodes that a request is about which names none, as they were decided about.
#[derive(Debug)]
struct Episodes(Vec<Arc<Episode>>);

/// The id of one of the answers to a request.
fn part_id(id: &MessageId<'_>, index: usize) -> String {
    let mut text = String::with_capacity(id.as_str().len().saturating_add(8));
    text.push_str(id.as_str());
    // Nothing fails in a string.
    let _ = write!(text, ".{index}");
    text
}

/// An id for an episode, and its seed: the one that was asked for, or any.
fn fresh(seed: Option<i64>) -> Result<(EpisodeId<'static>, i64), Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| failures::failed("the system gives no random bytes"))?;
    let (id, chance) = bytes.split_at(8);
    let id = EpisodeId::from(format!("e-{}", hex::encode(id))).to_static();
    // Programs that count in doubles should be able to give it back.
    let chance = chance
        .iter()
        .take(6)
        .fold(0, |sum, byte| (sum << 8) | i64::from(*byte));
    Ok((id, seed.unwrap_or(chance)))
}
