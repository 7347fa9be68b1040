//! The policy object (profile §11.1): what is stated, and what is in force.

mod merge;
mod read;

use std::sync::Arc;

use canonical::{Number, Object, Value};

use crate::patterns::IntentPatterns;
use crate::{Error, IntentList, IntentName, IntentPattern, Rate, Retention};

/// What an agent states: any part of a policy. A manifest's `policy`, a client's `policy_request`,
/// and POLICY as it was received.
///
/// Only [`Policy::read`] makes one, so every value in it is within its range.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    rate: Option<Rate>,
    session_timeout: Option<u32>,
    max_payload_size: Option<u64>,
    allowed_intents: Option<IntentPatterns>,
    blocked_intents: Option<IntentPatterns>,
    data_retention: Option<Retention>,
    require_encryption: Option<bool>,
    max_concurrent_sessions: Option<u32>,
    extensions: Option<Object<'static>>,
}

/// What is in force: every field has a value, and peers take it.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectivePolicy {
    rate: Rate,
    session_timeout: u32,
    max_payload_size: u64,
    allowed_intents: IntentPatterns,
    blocked_intents: IntentPatterns,
    data_retention: Retention,
    require_encryption: bool,
    max_concurrent_sessions: u32,
    /// Its own, which every session shares.
    extensions: Option<Arc<Object<'static>>>,
}

/// Why an intent is refused: `POLICY_VIOLATION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntentRefused {
    /// `intent_blocked`
    #[error("the intent is blocked")]
    Blocked,
    /// `intent_not_allowed`
    #[error("the intent is not among those allowed")]
    NotAllowed,
}

impl Policy {
    /// The policy of a server that states this: what it leaves open has the defaults of §11.1.
    ///
    /// # Errors
    /// If with all its fields it is larger than peers take.
    pub fn complete(self) -> Result<EffectivePolicy, Error> {
        let default = EffectivePolicy::default();
        let policy = EffectivePolicy {
            rate: self.rate.unwrap_or(default.rate),
            session_timeout: self.session_timeout.unwrap_or(default.session_timeout),
            max_payload_size: self.max_payload_size.unwrap_or(default.max_payload_size),
            allowed_intents: self.allowed_intents.unwrap_or_default(),
            blocked_intents: self.blocked_intents.unwrap_or_default(),
            data_retention: self.data_retention.unwrap_or(default.data_retention),
            require_encryption: self
                .require_encryption
                .unwrap_or(default.require_encryption),
            max_concurrent_sessions: self
                .max_concurrent_sessions
                .unwrap_or(default.max_concurrent_sessions),
            extensions: self.extensions.map(Arc::new),
        };
        policy.checked()
    }

    /// The members, as they are sent: those that are stated.
    #[must_use]
    pub fn to_tree(&self) -> Object<'static> {
        let mut tree = Object::default();
        let mut put = |name: &'static str, value: Option<Value<'static>>| {
            if let Some(value) = value {
                tree.insert(name, value);
            }
        };
        let count = |value: Option<u32>| value.map(|value| number(u64::from(value)));
        put("rate_limit", count(self.rate.map(Rate::limit)));
        put("rate_period", count(self.rate.map(Rate::period)));
        put("session_timeout", count(self.session_timeout));
        put("max_payload_size", self.max_payload_size.map(number));
        put("allowed_intents", self.allowed_intents.as_ref().map(list));
        put("blocked_intents", self.blocked_intents.as_ref().map(list));
        let retention = self.data_retention;
        put("data_retention", retention.map(|it| text(it.as_str())));
        put(
            "require_encryption",
            self.require_encryption.map(Value::Bool),
        );
        put(
            "max_concurrent_sessions",
            count(self.max_concurrent_sessions),
        );
        put("extensions", self.extensions.clone().map(Value::Object));
        tree
    }

    /// `rate_limit` and `rate_period`; `None` states no limit.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Seconds that a session lives.
    #[must_use]
    pub const fn session_timeout(&self) -> Option<u32> {
        self.session_timeout
    }

    /// The body of a request must be smaller than this.
    #[must_use]
    pub const fn max_payload_size(&self) -> Option<u64> {
        self.max_payload_size
    }

    /// How long payload data is kept.
    #[must_use]
    pub const fn data_retention(&self) -> Option<Retention> {
        self.data_retention
    }

    /// Whether messages must be encrypted.
    #[must_use]
    pub const fn require_encryption(&self) -> Option<bool> {
        self.require_encryption
    }

    /// Sessions that a remote agent may have at once.
    #[must_use]
    pub const fn max_concurrent_sessions(&self) -> Option<u32> {
        self.max_concurrent_sessions
    }

    /// What others put there: kept, hashed, and without meaning here.
    #[must_use]
    pub const fn extensions(&self) -> Option<&Object<'static>> {
        self.extensions.as_ref()
    }

    /// Whether an intent may be asked for; a list that is not stated forbids nothing.
    ///
    /// # Errors
    /// Which list forbids it.
    pub fn check_intent(
        &self,
        requested: &IntentName,
        handler: Option<&IntentName>,
    ) -> Result<(), IntentRefused> {
        let lists = (&self.allowed_intents, &self.blocked_intents);
        check_lists(lists.0.as_ref(), lists.1.as_ref(), requested, handler)
    }
}

impl Default for EffectivePolicy {
    /// The defaults of a server (§11.1).
    fn default() -> Self {
        Self {
            rate: Rate::DEFAULT,
            session_timeout: 3600,
            max_payload_size: 1_048_576,
            allowed_intents: IntentPatterns::default(),
            blocked_intents: IntentPatterns::default(),
            data_retention: Retention::Day,
            require_encryption: false,
            max_concurrent_sessions: 100,
            extensions: None,
        }
    }
}

impl EffectivePolicy {
    /// Sets `extensions.salt`, which keeps the hash of a confidential policy from being guessed
    /// (§11.2). The salt comes from whoever has randomness.
    ///
    /// # Errors
    /// If the policy is too large for it.
    pub fn with_salt(mut self, salt: &str) -> Result<Self, Error> {
        let extensions = self.extensions.get_or_insert_default();
        Arc::make_mut(extensions).insert("salt", text(salt));
        self.checked()
    }

    /// The members of POLICY: every field with its value. Their hash is `policy_hash`.
    #[must_use]
    pub fn to_tree(&self) -> Object<'static> {
        self.to_stated().to_tree()
    }

    /// The same, as what is stated.
    #[must_use]
    pub fn to_stated(&self) -> Policy {
        Policy {
            rate: Some(self.rate),
            session_timeout: Some(self.session_timeout),
            max_payload_size: Some(self.max_payload_size),
            allowed_intents: Some(self.allowed_intents.clone()),
            blocked_intents: Some(self.blocked_intents.clone()),
            data_retention: Some(self.data_retention),
            require_encryption: Some(self.require_encryption),
            max_concurrent_sessions: Some(self.max_concurrent_sessions),
            extensions: self.extensions.as_deref().cloned(),
        }
    }

    /// Whether an intent may be asked for. The block list holds for the name requested and for that
    /// of its handler, the allow list for the handler's (without a handler, for the one requested).
    ///
    /// # Errors
    /// Which list forbids it.
    pub fn check_intent(
        &self,
        requested: &IntentName,
        handler: Option<&IntentName>,
    ) -> Result<(), IntentRefused> {
        let (allowed, blocked) = (&self.allowed_intents, &self.blocked_intents);
        check_lists(Some(allowed), Some(blocked), requested, handler)
    }

    /// Whether a body of this many bytes is small enough: smaller than `max_payload_size`.
    #[must_use]
    pub const fn admits_body(&self, bytes: u64) -> bool {
        bytes < self.max_payload_size
    }

    /// `rate_limit` and `rate_period`.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Seconds that a session lives.
    #[must_use]
    pub const fn session_timeout(&self) -> u32 {
        self.session_timeout
    }

    /// The body of a request must be smaller than this.
    #[must_use]
    pub const fn max_payload_size(&self) -> u64 {
        self.max_payload_size
    }

    /// The intents that are allowed; none means all.
    pub fn allowed_intents(&self) -> impl Iterator<Item = IntentPattern<&str>> {
        self.allowed_intents.iter()
    }

    /// Bytes that its lists take in memory: all of it that a client can make large.
    #[must_use]
    pub fn size(&self) -> usize {
        let (allowed, blocked) = (self.allowed_intents.size(), self.blocked_intents.size());
        allowed.saturating_add(blocked)
    }

    /// How long payload data is kept.
    #[must_use]
    pub const fn data_retention(&self) -> Retention {
        self.data_retention
    }

    /// Whether messages must be encrypted.
    #[must_use]
    pub const fn require_encryption(&self) -> bool {
        self.require_encryption
    }

    /// Sessions that a remote agent may have at once.
    #[must_use]
    pub const fn max_concurrent_sessions(&self) -> u32 {
        self.max_concurrent_sessions
    }

    fn checked(self) -> Result<Self, Error> {
        read::check_size(&self.to_tree())?;
        Ok(self)
    }
}

fn check_lists(
    allowed: Option<&IntentPatterns>,
    blocked: Option<&IntentPatterns>,
    requested: &IntentName,
    handler: Option<&IntentName>,
) -> Result<(), IntentRefused> {
    let resolved = handler.unwrap_or(requested);
    let blocks = |pattern: IntentPattern<&str>| {
        let list = IntentList::Blocked;
        pattern.matches(requested, list) || pattern.matches(resolved, list)
    };
    if blocked.is_some_and(|blocked| blocked.iter().any(blocks)) {
        return Err(IntentRefused::Blocked);
    }
    let allows = |pattern: IntentPattern<&str>| pattern.matches(resolved, IntentList::Allowed);
    match allowed.is_none_or(|allowed| allowed.is_empty() || allowed.iter().any(allows)) {
        true => Ok(()),
        false => Err(IntentRefused::NotAllowed),
    }
}

fn number(value: u64) -> Value<'static> {
    let number = i64::try_from(value).ok().and_then(Number::integer);
    number.map_or(Value::Null, Value::Number)
}

fn text(text: &str) -> Value<'static> {
    Value::String(text.to_owned().into())
}

fn list(patterns: &IntentPatterns) -> Value<'static> {
    let texts = patterns.iter().map(|pattern| text(pattern.as_str()));
    Value::Array(texts.collect())
}
