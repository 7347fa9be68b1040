//! What an episode says without being asked.

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use a2e_runtime::{SendError, Session};
use a2e_wire::messages::env::{EnvPushEventType, EnvStatePush};
use a2e_wire::{EpisodeId, Object, Real, Tag};

use super::settings::PushSpellings;

/// Tells the agent of an episode what happens in it. It holds no session open.
#[derive(Debug, Clone)]
pub struct Pusher {
    session: Weak<Session>,
    episode: EpisodeId<'static>,
    /// Another spelling in which all of it is said as well.
    also: Option<&'static str>,
    /// The steps that were taken.
    step: Arc<AtomicI64>,
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    /// What kind of thing.
    pub event: EnvPushEventType<'static>,
    /// Why, for a person.
    pub reason: Cow<'static, str>,
    /// What is different now.
    pub delta: Object<'static>,
    /// What it was worth, if anything.
    pub reward: Option<f64>,
    /// Whether the episode is over with it.
    pub terminal: bool,
}

impl Pusher {
    pub(super) fn new(
        session: &Arc<Session>,
        episode: EpisodeId<'static>,
        spellings: PushSpellings,
    ) -> Self {
        Self {
            session: Arc::downgrade(session),
            episode,
            also: match spellings {
                PushSpellings::Catalogue => None,
                PushSpellings::Both => Tag::EnvStatePush.aliases().first().copied(),
            },
            step: Arc::default(),
        }
    }

    /// Tells it. Waits while the agent is behind.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn push(&self, push: Push) -> Result<(), SendError> {
        let session = self.session.upgrade().ok_or(SendError)?;
        let body = EnvStatePush {
            reason: push.reason,
            delta: push.delta,
            reward: push.reward.and_then(Real::new),
            terminal: push.terminal,
            ..EnvStatePush::new(
                self.episode.clone(),
                self.step.load(Ordering::Relaxed),
                push.event,
            )
        };
        session.push_also(body, self.also).await
    }

    /// So many steps were taken.
    pub(super) fn stepped(&self, steps: i64) {
        self.step.store(steps, Ordering::Relaxed);
    }
}
