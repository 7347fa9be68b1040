//! How a skill tells how it gets on.

use std::sync::{Mutex, PoisonError};

use a2e_runtime::Context;
use a2e_wire::messages::base::EventKind;
use a2e_wire::messages::skill::SkillEvent;
use a2e_wire::{Envelope, Message, MessageId, Object};
use serde_json::{Value, json};

use crate::tools::now;

/// So many events are kept for an agent that does not want them at once.
pub const MAX_KEPT_EVENTS: usize = 64;

/// Larger events are not kept.
const MAX_KEPT_BYTES: usize = 4096;

/// Where a skill tells how it gets on: each event has the skill, the time and the next number.
#[derive(Debug)]
pub(super) struct Telling {
    context: Context,
    skill: String,
    streaming: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seq: i64,
    kept: Vec<SkillEvent<'static>>,
}

impl Telling {
    pub(super) fn new(context: Context, skill: &str, streaming: bool) -> Self {
        Self {
            context,
            skill: skill.to_owned(),
            streaming,
            state: Mutex::default(),
        }
    }

    pub(super) const fn context(&self) -> &Context {
        &self.context
    }

    /// Tells that something happened. Whoever does not listen any more need not hear it.
    pub(super) async fn tell(&self, kind: &str, data: Value) {
        let event = self.event(kind, data);
        match self.streaming {
            true => drop(self.context.event(event).await),
            false => {
                self.context.progress();
                self.keep(event);
            }
        }
    }

    /// Tells a piece of what a model says; in a result, all of it stands together.
    pub(super) async fn token(&self, text: String) {
        match self.streaming {
            true => self.tell("llm.token", json!({ "token": text })).await,
            false => self.context.progress(),
        }
    }

    fn event(&self, kind: &str, mut data: Value) -> SkillEvent<'static> {
        if let Some(members) = data.as_object_mut() {
            members.insert("skill".to_owned(), json!(self.skill));
            members.insert("ts".to_owned(), json!(now().unix_seconds()));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = state.seq;
        state.seq = seq.saturating_add(1);
        SkillEvent {
            kind: EventKind::from(kind.to_owned()),
            data: Object::from_serialize(&data).unwrap_or_default(),
            seq,
        }
    }

    fn keep(&self, event: SkillEvent<'static>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_small = event.data.raw().as_str().len() <= MAX_KEPT_BYTES;
        if is_small && state.kept.len() < MAX_KEPT_EVENTS {
            state.kept.push(event);
        }
    }

    /// The events of a call whose agent did not want them at once.
    pub(super) fn take_kept(
        &self,
        request: &MessageId<'static>,
    ) -> Vec<Message<'static, SkillEvent<'static>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let message = |event: SkillEvent<'static>| {
            let id = format!("{}.{}", request.as_str(), event.seq);
            let envelope = Envelope::new(id, now()).in_reply_to(request.clone());
            Message::new(envelope, event)
        };
        std::mem::take(&mut state.kept)
            .into_iter()
            .map(message)
            .collect()
    }
}
