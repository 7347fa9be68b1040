//! One episode: its world, its count of steps, its limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_runtime::Failure;
use a2e_wire::messages::env::{EnvObservation, EnvPushEventType};
use a2e_wire::messages::learn::Experience;
use a2e_wire::{EpisodeId, ExperienceId, Map, Object, Real, Timestamp};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::environment::{Action, Change, Environment, Opened, World};
use super::failures;
use super::history::{History, Step};
use super::pusher::{Push, Pusher};

/// An episode of a session, open or closed.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) id: EpisodeId<'static>,
    pub(super) environment: Arc<dyn Environment>,
    /// Its place in the order of episodes of the session.
    pub(super) number: u64,
    pub(super) seed: i64,
    pub(super) started: Timestamp,
    pub(super) pusher: Pusher,
    /// Whether each step is pushed as well.
    pub(super) pushes_steps: bool,
    used: Mutex<Instant>,
    running: tokio::sync::Mutex<Running>,
}

/// What an episode begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) id: EpisodeId<'static>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) number: u64,
    pub(super) seed: i64,
    pub(super) pusher: Pusher,
    pub(super) pushes_steps: bool,
    pub(super) max_steps: u64,
    pub(super) max_time: Duration,
    pub(super) history: History,
}

/// What changes in an episode.
pub(super) struct Running {
    /// Nothing once it is closed.
    pub(super) world: Option<Box<dyn World>>,
    pub(super) state: Object<'static>,
    pub(super) steps: i64,
    pub(super) done: bool,
    pub(super) truncated: bool,
    pub(super) history: History,
    max_steps: u64,
    deadline: Instant,
}

/// When something happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    instant: Instant,
    timestamp: Timestamp,
}

/// A step that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) observation: EnvObservation<'static>,
    /// It as learning has it, if that was asked for.
    pub(super) experience: Option<Box<Experience<'static>>>,
}

impl Episode {
    pub(super) fn begin(beginning: Beginning, opened: Opened) -> Self {
        let now = Instant::now();
        Self {
            id: beginning.id,
            environment: beginning.environment,
            number: beginning.number,
            seed: beginning.seed,
            started: timestamp(),
            pusher: beginning.pusher,
            pushes_steps: beginning.pushes_steps,
            used: Mutex::new(now),
            running: tokio::sync::Mutex::new(Running {
                world: Some(opened.world),
                state: opened.state,
                steps: 0,
                done: false,
                truncated: false,
                history: beginning.history,
                max_steps: beginning.max_steps,
                deadline: now + beginning.max_time,
            }),
        }
    }

    /// Takes a step; one at a time, in the order they are asked for.
    pub(super) async fn step(
        &self,
        action: Object<'static>,
        for_learning: bool,
    ) -> Result<Taken, Failure> {
        let action = Action::new(action);
        let mut running = self.running().await;
        let world = running.open_world(&self.id)?;
        let change = match world.step_at_once(&action) {
            Some(change) => change?,
            None => world.step(&action).await?,
        };
        let reward = change.reward;
        let taken = self.taken(&mut running, action, change, (Moment::now(), for_learning));
        if self.pushes_steps {
            let push = Push {
                event: EnvPushEventType::Observation,
                reason: "".into(),
                delta: running.state.clone(),
                reward: Some(reward),
                terminal: taken.observation.done,
            };
            // Whoever is gone need not be told.
            let _ = self.pusher.push(push).await;
        }
        self.pusher.stepped(running.steps);
        Ok(taken)
    }

    /// Takes a step, and what is refused is seen in the observation; the action is given back if that
    /// would have to be waited for.
    pub(super) fn step_at_once(
        &self,
        action: Object<'static>,
        now: (Moment, bool),
    ) -> Result<Taken, Object<'static>> {
        let Ok(mut running) = self.running.try_lock() else {
            return Err(action);
        };
        if self.pushes_steps {
            return Err(action);
        }
        let action = Action::new(action);
        let stepped = match running.open_world(&self.id) {
            Ok(world) => match world.step_at_once(&action) {
                Some(stepped) => stepped.map_err(Failure::from),
                None => return Err(action.into_object()),
            },
            Err(failure) => Err(failure),
        };
        Ok(match stepped {
            Ok(change) => {
                let taken = self.taken(&mut running, action, change, now);
                self.pusher.stepped(running.steps);
                taken
            }
            Err(failure) => Taken {
                observation: self.refused_in(&running, &failure),
                experience: None,
            },
        })
    }

    /// A step was taken: what it changes, and how it looks now.
    fn taken(
        &self,
        running: &mut Running,
        action: Action,
        change: Change,
        (now, for_learning): (Moment, bool),
    ) -> Taken {
        let reward = change.reward;
        let experience = for_learning.then(|| {
            Box::new(Experience {
                experience_id: ExperienceId::default(),
                state: running.state.clone(),
                action: action.object().clone(),
                reward: Real::new(reward).unwrap_or_default(),
                next_state: change.state.clone(),
                done: change.done,
                episode_id: self.id.clone(),
                step: running.steps.saturating_add(1),
                ts: now.timestamp,
            })
        });
        running.take(action.into_object(), change, now.instant);
        self.touch(now.instant);
        Taken {
            observation: self.observation(running, reward, now.timestamp),
            experience,
        }
    }

    /// How it looks now; that is worth nothing.
    pub(super) async fn observe(&self) -> EnvObservation<'static> {
        let mut running = self.running().await;
        if let Some(state) = running.world.as_mut().and_then(|world| world.look()) {
            running.state = state;
        }
        self.touch(Instant::now());
        self.observation(&running, 0.0, self.started)
    }

    /// How it looks after a step that was refused.
    pub(super) async fn refused(&self, failure: &Failure) -> EnvObservation<'static> {
        self.refused_in(&*self.running().await, failure)
    }

    fn refused_in(&self, running: &Running, failure: &Failure) -> EnvObservation<'static> {
        let error = json!({"error": {
            "code": failure.code.as_str(),
            "message": failure.message,
            "detail": failure.detail.raw().deserialize::<Value>().unwrap_or_default(),
        }});
        EnvObservation {
            metadata: Object::from_serialize(&error).ok(),
            ..self.observation(running, 0.0, timestamp())
        }
    }

    /// Its world and what is known of it, when no step is under way.
    pub(super) async fn running(&self) -> MutexGuard<'_, Running> {
        // Without the runtime's count of how much a task may do in one go: a batch does much.
        match self.running.try_lock() {
            Ok(running) => running,
            Err(_) => self.running.lock().await,
        }
    }

    /// Whether a step is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.running.try_lock().is_err()
    }

    /// It was used.
    pub(super) fn touch(&self, now: Instant) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// When it was last used.
    pub(super) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its world, after the step that is under way.
    pub(super) async fn close(&self) {
        let world = self.running().await.world.take();
        drop(world);
    }

    fn observation(
        &self,
        running: &Running,
        reward: f64,
        created_at: Timestamp,
    ) -> EnvObservation<'static> {
        // Both ends at once: `done` alone would not say that it also ended by itself.
        let metadata = match running.done && running.truncated {
            true => Object::parse(r#"{"terminated":true}"#).unwrap_or_default(),
            false => Object::EMPTY,
        };
        EnvObservation {
            episode_id: self.id.clone(),
            step_num: running.steps,
            state: running.state.clone(),
            done: running.is_over(),
            truncated: running.truncated,
            reward: Real::new(reward),
            created_at,
            metadata: Some(metadata),
            others: Map::default(),
        }
    }
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            instant: Instant::now(),
            timestamp: timestamp(),
        }
    }
}

impl Running {
    /// Whether no further step can be taken.
    pub(super) const fn is_over(&self) -> bool {
        self.done || self.truncated
    }

    fn open_world(&mut self, id: &EpisodeId<'_>) -> Result<&mut Box<dyn World>, Failure> {
        match self.world.as_mut() {
            Some(_) if self.done || self.truncated => Err(failures::finished(id)),
            Some(world) => Ok(world),
            None => Err(failures::unknown_episode(id)),
        }
    }

    fn take(&mut self, action: Object<'static>, change: Change, now: Instant) {
        let state = std::mem::replace(&mut self.state, change.state);
        self.steps = self.steps.saturating_add(1);
        self.history.add(Step {
            number: self.steps,
            state,
            action,
            reward: change.reward,
        });
        self.done = change.done;
        let steps = u64::try_from(self.steps).unwrap_or_default();
        self.truncated = steps >= self.max_steps || now >= self.deadline;
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("state", &self.state)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

pub(super) fn timestamp() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs_f64();
    Timestamp::from_unix_seconds(seconds).unwrap_or_default()
}
