//! What a decision is about.

use std::fmt;

use canonical::{Object, Value};

use crate::TrustLevel;

/// A call that an agent wants to make.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Who makes it.
    pub agent: Agent<'a>,
    /// The capability it uses.
    pub capability: &'a str,
    /// The name of what is called, exactly as it will be dispatched: of a tool, the canonical name
    /// of an intent, or where there is no such name the type of the message.
    pub name: &'a str,
    /// With what. Read only if a rule that matches otherwise has a condition.
    pub arguments: &'a dyn Arguments,
}

/// An agent, as it was found to be; never as it calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent<'a> {
    /// The agent its credential belongs to.
    pub id: &'a str,
    /// Its DID in canonical form, if it has proved one.
    pub did: Option<&'a str>,
    /// How much its DID is trusted.
    pub trust: Option<TrustLevel>,
}

/// The arguments of a call, in whatever form they are at hand.
pub trait Arguments {
    /// The arguments as conditions see them: exactly the value that the tool will see.
    ///
    /// # Errors
    /// If they cannot be read; the call is denied then.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments>;
}

/// Arguments that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the arguments cannot be read")]
pub struct UnreadableArguments;

/// A call without arguments: an empty object.
impl Arguments for () {
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        Ok(serde_json::Value::Object(serde_json::Map::new()))
    }
}

impl Arguments for serde_json::Value {
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        Ok(self.clone())
    }
}

impl Arguments for Value<'_> {
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        serde_json::to_value(self).map_err(|_| UnreadableArguments)
    }
}

impl Arguments for Object<'_> {
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        let members = self
            .iter()
            .map(|(name, value)| Ok((name.to_owned(), value.to_json()?)));
        members
            .collect::<Result<_, _>>()
            .map(serde_json::Value::Object)
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("agent", &self.agent)
            .field("capability", &self.capability)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
