//! Tightening a server's policy by what a client asks for (profile §11.2).

use std::collections::BTreeSet;

use super::read::TOO_MANY_PATTERNS;
use super::{EffectivePolicy, Policy};
use crate::pattern_index::Index;
use crate::patterns::IntentPatterns;
use crate::{Error, IntentPattern, limits};

impl EffectivePolicy {
    /// This policy, tightened by a client's `policy_request`: whatever is asked for, the result
    /// allows nothing that this one does not.
    ///
    /// # Errors
    /// If the lists of both together are longer than a policy may have.
    pub fn tightened_by(&self, request: &Policy) -> Result<Self, Error> {
        let mut policy = self.with_client_data_of(request);
        if let Some(asked) = request.rate {
            policy.rate = self.rate.tightened_by(asked);
        }
        let (timeout, size) = (request.session_timeout, request.max_payload_size);
        policy.session_timeout = least(self.session_timeout, timeout);
        policy.max_payload_size = least(self.max_payload_size, size);
        let sessions = request.max_concurrent_sessions;
        policy.max_concurrent_sessions = least(self.max_concurrent_sessions, sessions);
        if let Some(asked) = &request.blocked_intents {
            policy.blocked_intents = union(&self.blocked_intents, asked)?;
        }
        if let Some(asked) = &request.allowed_intents {
            match intersection(&self.allowed_intents, asked)? {
                Some(allowed) => policy.allowed_intents = allowed,
                // No pattern is left, and an empty list would mean all of them.
                None => policy.blocked_intents = [IntentPattern::parse("*")?].into_iter().collect(),
            }
        }
        policy.checked()
    }

    /// This policy, tightened by that of a client's manifest, of which only `data_retention` and
    /// `require_encryption` count: they are about the client's own data.
    ///
    /// # Errors
    /// If it is then larger than peers take.
    pub fn tightened_by_manifest(&self, manifest: &Policy) -> Result<Self, Error> {
        self.with_client_data_of(manifest).checked()
    }

    fn with_client_data_of(&self, client: &Policy) -> Self {
        Self {
            data_retention: least(self.data_retention, client.data_retention),
            require_encryption: self.require_encryption
                || client.require_encryption.unwrap_or_default(),
            ..self.clone()
        }
    }
}

fn least<T: Ord>(own: T, asked: Option<T>) -> T {
    match asked {
        Some(asked) => own.min(asked),
        None => own,
    }
}

/// The own patterns, then those of the other side that are new.
fn union(own: &IntentPatterns, asked: &IntentPatterns) -> Result<IntentPatterns, Error> {
    let mut known: BTreeSet<IntentPattern<&str>> = own.iter().collect();
    let fresh = asked.iter().filter(|pattern| known.insert(pattern.clone()));
    let all: Vec<_> = own.iter().chain(fresh).collect();
    match all.len() > limits::INTENT_PATTERNS {
        true => Err(Error::at("blocked_intents", TOO_MANY_PATTERNS)),
        false => Ok(all.into_iter().collect()),
    }
}

/// What both lists allow; `None` if that is nothing.
fn intersection(
    own: &IntentPatterns,
    asked: &IntentPatterns,
) -> Result<Option<IntentPatterns>, Error> {
    if own.is_empty() || asked.is_empty() {
        let one = if own.is_empty() { asked } else { own };
        return Ok(Some(one.clone()));
    }
    let asked: BTreeSet<_> = asked.iter().collect();
    let (index, mut shared) = (Index::of(&asked), BTreeSet::new());
    // The same pattern twice allows no more than once.
    let own: BTreeSet<_> = own.iter().collect();
    for own in &own {
        let candidates = index.candidates(own).into_iter();
        shared.extend(candidates.filter_map(|asked| own.intersection(asked)));
        if shared.len() > limits::INTENT_PATTERNS {
            return Err(Error::at("allowed_intents", TOO_MANY_PATTERNS));
        }
    }
    match shared.is_empty() {
        true => Ok(None),
        false => Ok(Some(shared.into_iter().collect())),
    }
}
