//! What an environment is, whoever makes it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_wire::{Object, Raw};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::picture::Picture;
use super::pusher::Pusher;
use super::random::Random;

/// A kind of world, by its name: it opens episodes.
pub trait Environment: fmt::Debug + Send + Sync {
    /// Its name: what `env_name` says.
    fn name(&self) -> &str;

    /// What it is, in a line.
    fn description(&self) -> &str;

    /// What may be done in it and what is seen of it.
    fn spaces(&self) -> &Spaces;

    /// After how many steps an episode is cut off, if nothing else is said.
    fn max_steps(&self) -> Option<u64> {
        None
    }

    /// How many episodes of it a session may have, where one takes more than memory.
    fn max_episodes(&self) -> usize {
        usize::MAX
    }

    /// Begins an episode.
    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>>;
}

/// One run of an environment. It ends when it is dropped.
pub trait World: Send {
    /// Acts, where that takes no time to speak of; nothing where it must be waited for. What is
    /// refused has changed nothing.
    fn step_at_once(&mut self, _action: &Action) -> Option<Result<Change, EnvError>> {
        None
    }

    /// Acts, and waits for what comes of it.
    fn step<'a>(&'a mut self, action: &'a Action) -> BoxFuture<'a, Result<Change, EnvError>> {
        let nothing = || Err(EnvError::Failed("nothing can be done in it".to_owned()));
        let stepped = self.step_at_once(action).unwrap_or_else(nothing);
        Box::pin(std::future::ready(stepped))
    }

    /// How it looks now, if that is not how it looked after the last step.
    fn look(&mut self) -> Option<Object<'static>> {
        None
    }

    /// It as text, if it has a form of its own.
    fn text(&self) -> Option<String> {
        None
    }

    /// It as a picture, if it can be drawn.
    fn picture(&self) -> Option<Picture> {
        None
    }

    /// Actions that make sense now, or in that state.
    fn plan(&self, _state: Option<&Object<'_>>) -> Vec<Object<'static>> {
        Vec::new()
    }
}

/// What may be done in an environment and what is seen of it, as JSON Schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spaces {
    /// Of an action.
    pub action: Object<'static>,
    /// Of a state.
    pub state: Object<'static>,
}

/// What an episode begins with.
#[derive(Debug)]
pub struct Opening {
    /// Whose it is.
    pub agent: Arc<str>,
    /// Where chance comes from: with the same seed the same.
    pub random: Random,
    /// What was asked for beside.
    pub options: Object<'static>,
    /// Tells the agent what happens between steps.
    pub pusher: Pusher,
}

/// An episode that has begun.
pub struct Opened {
    /// It.
    pub world: Box<dyn World>,
    /// How it looks.
    pub state: Object<'static>,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// How it looks now.
    pub state: Object<'static>,
    /// What it was worth.
    pub reward: f64,
    /// Whether the episode has come to its end.
    pub done: bool,
}

/// An action as an agent says it: any object.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    object: Object<'static>,
}

/// Why something cannot be done in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvError {
    /// The action or the options are not what it takes.
    Wrong(String),
    /// It failed by itself.
    Failed(String),
}

/// The parts of an action that every environment understands.
#[derive(Deserialize)]
struct Parts {
    action_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    action: Option<Value>,
}

impl Spaces {
    /// Both as JSON; what is no object is an empty one.
    #[must_use]
    pub fn new(action: &Value, state: &Value) -> Self {
        let object = |value: &Value| Object::from_serialize(value).unwrap_or_default();
        Self {
            action: object(action),
            state: object(state),
        }
    }
}

impl Opening {
    /// The options as an environment reads them.
    ///
    /// # Errors
    /// If one is of the wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, EnvError> {
        let read = self.options.raw().deserialize();
        read.map_err(|error| EnvError::Wrong(format!("`options`: {error}")))
    }
}

impl Action {
    /// An action.
    #[must_use]
    pub const fn new(object: Object<'static>) -> Self {
        Self { object }
    }

    /// The whole of it.
    #[must_use]
    pub const fn object(&self) -> &Object<'static> {
        &self.object
    }

    /// The whole of it, taken.
    #[must_use]
    pub fn into_object(self) -> Object<'static> {
        self.object
    }

    /// Which of these it is: by its verb (`action_type`, else `type`), or by its place in the list
    /// (`action`, as Gymnasium numbers actions).
    ///
    /// # Errors
    /// If it is none of them.
    pub fn choose(&self, verbs: &[&str]) -> Result<usize, EnvError> {
        let parts: Parts = self.read()?;
        let found = match (&parts.action, parts.action_type.or(parts.kind)) {
            (_, Some(verb)) => verbs.iter().position(|known| *known == verb),
            (Some(Value::String(verb)), None) => verbs.iter().position(|known| known == verb),
            (Some(number), None) => number
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .filter(|number| *number < verbs.len()),
            (None, None) => None,
        };
        found.ok_or_else(|| {
            let last = verbs.len().saturating_sub(1);
            EnvError::Wrong(format!(
                "an action is {{\"type\": VERB}} with one of {}, or {{\"action\": NUMBER}} from 0 \
                 to {last}",
                verbs.join(", ")
            ))
        })
    }

    /// The action as an environment reads it.
    ///
    /// # Errors
    /// If a part is of the wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, EnvError> {
        let read = self.object.raw().deserialize();
        read.map_err(|error| EnvError::Wrong(format!("the action: {error}")))
    }
}

impl EnvError {
    /// What is wrong, for a person.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Wrong(text) | Self::Failed(text) => text,
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A state that is written here; a number that JSON cannot say makes it empty.
pub(super) fn state(text: impl Into<Cow<'static, str>>) -> Object<'static> {
    match text.into() {
        Cow::Borrowed(text) => Object::parse(text).unwrap_or_default(),
        Cow::Owned(text) => {
            let raw = Raw::parse(&text, a2e_wire::OWN_VALUES).map(Raw::into_owned);
            raw.ok().and_then(Object::new).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &'static str) -> Option<usize> {
        let action = Action::new(Object::parse(text).unwrap());
        action.choose(&["up", "down"]).ok()
    }

    /// Conflict 103: any object; the verb is `action_type`, else `type`.
    #[test]
    fn verbs_and_numbers_choose() {
        for (text, expected) in [
            (r#"{"type":"up"}"#, Some(0)),
            (r#"{"action_type":"down","type":"up"}"#, Some(1)),
            (
                r#"{"action_type":"down","payload":[],"metadata":{}}"#,
                Some(1),
            ),
            (r#"{"action":1}"#, Some(1)),
            (r#"{"action":"down"}"#, Some(1)),
            (r#"{"action":2}"#, None),
            (r#"{"action":-1}"#, None),
            (r#"{"action":0.5}"#, None),
            (r#"{"type":"left","action":0}"#, None),
            (r#"{"type":5}"#, None),
            ("{}", None),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
    }
}
