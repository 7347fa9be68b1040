//! What changes for a session after its handshake: the operator's word, and the peer's keys (§10.3).

use std::sync::Arc;

use a2a_identity::{Key, KeySet, KeyStatus};
use a2a_wire::Reason;
use policy::{EffectivePolicy, IntentRefused, Rate, Retention};

use super::{EndReason, Ended, ServerSession};
use crate::Now;
use crate::failure::{Failure, violation};
use crate::session::requests::{Running, Token};

impl ServerSession {
    /// Holds the session to a policy that the operator has changed, beside the one agreed on.
    /// Returns the requests that it ends. A session that is to be encrypted now, and is not, is over.
    pub fn tighten(&mut self, now: Now, policy: EffectivePolicy) -> Vec<Ended> {
        if policy.require_encryption() && !self.terms.is_encrypted() {
            self.over.get_or_insert(EndReason::Ended);
            return self.end_requests(now, EndReason::Ended);
        }
        let agreed = self.terms.policy.policy();
        let less = agreed
            .session_timeout()
            .saturating_sub(policy.session_timeout());
        let less = std::time::Duration::from_secs(u64::from(less));
        self.ends = self.terms.deadline.saturating_sub(less);
        self.tightened = Some(Box::new(policy));
        self.end_refused(now, |session, running| session.check_running(running))
    }

    /// Ends what runs, since the operator has blocked the agent. What comes next is refused anyway.
    pub fn block(&mut self, now: Now) -> Vec<Ended> {
        self.end_refused(now, |_, _| Err(blocked()))
    }

    /// Ends the session if a newer set of the peer's keys revokes one that it takes requests from:
    /// that is each key which the peer is known to have, not the one of PROOF alone.
    pub fn keys_changed(&mut self, keys: &KeySet) {
        let is_revoked = |key: &Key| key.status == KeyStatus::Revoked;
        let taken = |revoked: &Key| {
            let renewed = self.renewed.as_deref();
            let mut known = renewed.unwrap_or_else(|| self.terms.peer.keys()).iter();
            known.any(|known| known.key == revoked.key && !is_revoked(known))
        };
        if keys.iter().any(|key| is_revoked(key) && taken(key)) {
            self.over.get_or_insert(EndReason::KeyRevoked);
        }
    }

    /// Goes on with the keys that the peer has by now: see [`Established::renewed_keys`].
    ///
    /// [`Established::renewed_keys`]: crate::Established::renewed_keys
    pub fn renew_keys(&mut self, keys: KeySet) {
        self.keys_changed(&keys);
        self.renewed = Some(Arc::new(keys));
    }

    /// The policy agreed on, and the operator's if it was changed since.
    pub(super) fn policies(&self) -> impl Iterator<Item = &EffectivePolicy> {
        let agreed = std::iter::once(self.terms.policy.policy());
        agreed.chain(self.tightened.as_deref())
    }

    /// How long data may be kept: as agreed, and no longer than the operator says now.
    pub(super) fn retention(&self) -> Retention {
        let all = self.policies().map(EffectivePolicy::data_retention);
        all.min().unwrap_or(Retention::None)
    }

    pub(super) fn rate(&self) -> Rate {
        let agreed = self.terms.policy.policy().rate();
        match &self.tightened {
            Some(policy) => agreed.tightened_by(policy.rate()),
            None => agreed,
        }
    }

    /// Whether what runs may still be asked for.
    fn check_running(&self, running: &Running) -> Result<(), Failure> {
        let (requested, handler) = (&running.requested, Some(&running.handler));
        let mut policies = self.policies();
        policies.try_for_each(|policy| refused(policy.check_intent(requested, handler)))
    }

    fn end_refused(
        &mut self,
        now: Now,
        check: impl Fn(&Self, &Running) -> Result<(), Failure>,
    ) -> Vec<Ended> {
        let refused: Vec<(Token, Failure)> = self
            .requests
            .all()
            .filter_map(|(token, running)| Some((token, check(self, running).err()?)))
            .collect();
        let ended = refused
            .into_iter()
            .filter_map(|(token, failure)| self.end_request(now, token, failure));
        ended.collect()
    }
}

pub(super) fn blocked() -> Failure {
    violation(Reason::AgentBlocked, "the agent is blocked")
}

/// What the lists of a policy say, as a peer is told.
pub(super) fn refused(allowed: Result<(), IntentRefused>) -> Result<(), Failure> {
    allowed.map_err(|refused| {
        let reason = match refused {
            IntentRefused::Blocked => Reason::IntentBlocked,
            IntentRefused::NotAllowed => Reason::IntentNotAllowed,
        };
        violation(reason, refused.to_string())
    })
}
