//! How a call tells of its progress.

use std::sync::{Arc, Mutex, PoisonError};

use a2e_runtime::Context;
#[cfg(feature = "mcp")]
use a2e_runtime::Session;
use a2e_wire::messages::base::{
    Event, EventDataArtifact, EventDataLog, EventDataProgress, EventDataStatus, EventKind,
};
use a2e_wire::messages::tool::ToolEvent;
use a2e_wire::{NotAnObject, Object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::mpsc;

/// Where a call tells how it gets on. Whatever it tells, its `timeout` begins anew.
///
/// An agent that wants events gets them as they come; one that does not gets the first of them with
/// the result.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Nobody listens without one.
    context: Option<Context>,
    streaming: bool,
    /// Who hears the events of a call that is part of another request.
    listener: Option<mpsc::Sender<ToolEvent<'static>>>,
    kept: Mutex<Vec<ToolEvent<'static>>>,
}

/// So many events are kept for an agent that does not want them at once.
pub const MAX_KEPT_EVENTS: usize = 64;

/// Larger events are not kept; artifacts above all.
const MAX_KEPT_BYTES: usize = 1024;

impl Progress {
    /// The progress of a request.
    #[must_use]
    pub fn of(context: Context, streaming: bool) -> Self {
        Self(Arc::new(Inner {
            context: Some(context),
            streaming,
            ..Inner::default()
        }))
    }

    /// The progress of a call that is part of another request, whose events these are not yet.
    pub(crate) fn heard_by(listener: mpsc::Sender<ToolEvent<'static>>) -> Self {
        Self(Arc::new(Inner {
            listener: Some(listener),
            ..Inner::default()
        }))
    }

    /// The request that the call is, as records call it; empty for a call that nobody requested.
    #[must_use]
    pub fn request_id(&self) -> &str {
        let context = self.0.context.as_ref();
        context.map_or("", |context| context.id().as_str())
    }

    /// Whether somebody hears of the call while it runs.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.streaming
    }

    /// Gives an event on that somebody else told.
    pub async fn event(&self, event: Event<'static>) {
        let Event { kind, data, .. } = event;
        self.send(kind, Ok::<_, NotAnObject>(data)).await;
    }

    /// The request that the call is, by which it asks for more; nothing for a call that nobody requested.
    pub(crate) fn context(&self) -> Option<&Context> {
        self.0.context.as_ref()
    }

    /// The session that waits for the call.
    #[cfg(feature = "mcp")]
    pub fn session(&self) -> Option<&Arc<Session>> {
        self.0.context.as_ref().map(Context::session)
    }

    /// Says nothing but that the call gets on. Costs little, and needs no runtime.
    pub fn tick(&self) {
        if let Some(context) = &self.0.context {
            context.progress();
        }
    }

    /// So much is done, in per cent.
    pub async fn progress(&self, percent: u8, message: &str) {
        let data = EventDataProgress::new(percent.min(100).into(), message.into());
        self.send(EventKind::Progress, Object::from_record(&data))
            .await;
    }

    /// What is done now.
    pub async fn status(&self, message: &str) {
        let data = EventDataStatus::new(message.into());
        self.send(EventKind::Status, Object::from_record(&data))
            .await;
    }

    /// A line for a log.
    pub async fn log(&self, level: &str, message: &str) {
        let data = EventDataLog::new(level.into(), message.into());
        self.send(EventKind::Log, Object::from_record(&data)).await;
    }

    /// A piece of something that the call makes; `last` if there are no more.
    pub async fn artifact(&self, name: &str, mime: &str, chunk: &[u8], last: bool) {
        let chunk = STANDARD.encode(chunk);
        let data = EventDataArtifact::new(name.into(), mime.into(), chunk.into(), last);
        self.send(EventKind::Artifact, Object::from_record(&data))
            .await;
    }

    /// The events that were kept, taken.
    pub(crate) fn take_kept(&self) -> Vec<ToolEvent<'static>> {
        std::mem::take(&mut *self.kept())
    }

    async fn send<E>(&self, kind: EventKind<'static>, data: Result<Object<'static>, E>) {
        // What is made here is an object of a few texts.
        let Ok(data) = data else { return };
        let event = ToolEvent {
            kind,
            data,
            ..ToolEvent::new()
        };
        if let Some(listener) = &self.0.listener {
            // Who hears no more has ended the call.
            return drop(listener.send(event).await);
        }
        match &self.0.context {
            // Nobody waits any more: the call is about to be dropped.
            Some(context) if self.0.streaming => drop(context.event(event).await),
            _ => {
                self.tick();
                self.keep(event);
            }
        }
    }

    fn keep(&self, mut event: ToolEvent<'static>) {
        let mut kept = self.kept();
        if kept.len() < MAX_KEPT_EVENTS && event.data.raw().as_str().len() <= MAX_KEPT_BYTES {
            event.seq = i64::try_from(kept.len()).unwrap_or(i64::MAX);
            kept.push(event);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<ToolEvent<'static>>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_events_are_kept_in_order() {
        let progress = Progress::default();
        for number in 0..=MAX_KEPT_EVENTS {
            progress.status(&number.to_string()).await;
        }
        let kept = progress.take_kept();
        assert_eq!(kept.len(), MAX_KEPT_EVENTS);
        assert_eq!(kept[63].seq, 63);
        assert_eq!(kept[63].data.raw().as_str(), r#"{"message":"63"}"#);
        assert!(progress.take_kept().is_empty());
    }

    #[tokio::test]
    async fn large_events_are_not_kept() {
        let progress = Progress::default();
        let frame = r#"{"message":""}"#.len();
        progress.status(&"x".repeat(MAX_KEPT_BYTES - frame)).await;
        assert_eq!(progress.take_kept().len(), 1);
        progress
            .status(&"x".repeat(MAX_KEPT_BYTES - frame + 1))
            .await;
        assert_eq!(progress.take_kept().len(), 0);
    }
}
