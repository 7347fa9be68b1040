//! What changes for live sessions: the operator's rules and trust anchors, and the keys of agents
//! (profile §10.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use a2a_identity::{Did, KeySet, Peer, Pins, Seen};
use a2a_session::{Directory as _, EndReason, times};

use super::Inner;
use super::live::Live;
use crate::standing::{Rules, lock};

impl Inner {
    /// Goes on with other rules, and ends what they do not allow.
    pub(super) fn set_rules(self: &Arc<Self>, rules: Rules) {
        let before = self.home.standing.rules();
        self.home.standing.set_rules(rules);
        self.forget_changed_pins(&before.pins);
        self.home.recorder.policy_changed();
        self.hold_all();
        let mut agents: BTreeMap<String, Vec<Arc<Live>>> = BTreeMap::new();
        for live in self.sessions.all() {
            agents.entry(live.peer.did.clone()).or_default().push(live);
        }
        let rules = self.home.standing.rules();
        for (did, mut sessions) in agents {
            let most = rules.policy_for(&did).max_concurrent_sessions();
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            if sessions.len() > most {
                sessions.sort_by_cached_key(|live| live.state().created_at);
                for live in sessions.iter().skip(most) {
                    self.end(live, EndReason::Ended);
                }
            }
        }
    }

    /// Holds every session to the rules and trust anchors as they are now.
    pub(super) fn hold_all(self: &Arc<Self>) {
        for live in self.sessions.all() {
            self.hold(&live);
        }
    }

    /// What is cached of an agent was held against the pins of its time: accepted, or refused.
    fn forget_changed_pins(&self, before: &BTreeMap<String, Pins>) {
        let now = &self.home.standing.rules().pins;
        let all = before.keys().chain(now.keys());
        let changed = all.filter(|did| before.get(*did) != now.get(*did));
        for did in changed.filter_map(|did| Did::parse(did, Peer::Profile).ok()) {
            self.home.resolver.forget(&did);
        }
    }

    /// Holds a session to the rules and trust anchors as they are now.
    fn hold(self: &Arc<Self>, live: &Arc<Live>) {
        let now = self.home.clock.now();
        let rules = self.home.standing.rules();
        let (is_trusted, ended, over) = {
            let mut inside = lock(&live.inside);
            let session = &mut inside.session;
            let is_trusted = self.home.still_trusts(session.established());
            let mut ended = session.tighten(now, rules.policy_for(&live.peer.did).clone());
            if rules.blocked.contains(&live.peer.did) {
                ended.extend(session.block(now));
            }
            (is_trusted, ended, session.is_over())
        };
        self.deliver_all(live, ended);
        if let Some(reason) = over.or_else(|| (!is_trusted).then_some(EndReason::Ended)) {
            self.end(live, reason);
        }
    }

    /// Holds a session that has just begun to what was said while its handshake was under way: who
    /// said it has not seen the session.
    pub(super) fn hold_new(self: &Arc<Self>, live: &Arc<Live>) {
        let standing = &self.home.standing;
        let begun = self.home.clock.now().monotonic;
        let begun = begun.saturating_sub(times::HANDSHAKE);
        if standing.changed_since(begun) {
            self.hold(live);
        }
        let is_outdated = {
            let inside = lock(&live.inside);
            let peer = inside.session.established().peer();
            let last = standing.last_seen(peer.did());
            let is_other = |last: Seen| peer.seen().is_some_and(|seen| seen.hash != last.hash);
            last.is_some_and(is_other)
        };
        // Its keys may not be what they were; a new handshake shows.
        if is_outdated {
            self.end(live, EndReason::Ended);
        }
    }

    /// Ends the sessions of an agent whose key is revoked in a newer set.
    pub(super) fn keys_changed(self: &Arc<Self>, did: &str, keys: &KeySet) {
        for live in self.sessions.to_tell(did, keys) {
            let over = {
                let mut inside = lock(&live.inside);
                inside.session.keys_changed(keys);
                inside
                    .session
                    .is_over()
                    .map(|reason| (reason, inside.session.established().peer().manifest_hash()))
            };
            if let Some((reason, manifest)) = over {
                self.home.recorder.key_changed(did, manifest);
                self.end(&live, reason);
            }
        }
    }
}
