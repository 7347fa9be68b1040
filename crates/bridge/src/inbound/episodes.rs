//! Environments for peers: what their inputs ask for, and what is kept for them in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2a_net::{Call, HandlerError, Holder};
use a2e_runtime::{Failure, Host, Identity, StandIn};
use a2e_wire::messages::env::{
    EnvCloseRequest, EnvObserveRequest, EnvPlanRequest, EnvRenderRequest, EnvResetRequest,
    EnvSpaceRequest, EnvStepRequest,
};
use a2e_wire::wire::{Decode, ToStatic};
use a2e_wire::{Body, ErrorCode, Namespace, Object, Timestamp};
use base::{Limits, Table};
use canonical::Value;
use policy::{IntentName, Retention};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::mapping::to_object;

/// Peers, by intent, whose episodes are kept at a time.
pub const MAX_KEPT: usize = 64;

/// The same of one known agent, or of the strangers of one source; and what strangers leave to agents
/// that are known.
const LIMITS: Limits = Limits {
    total: MAX_KEPT,
    per_holder: 16,
    reserved: 16,
};

/// How long they are kept for a peer that does not come back.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// What a peer may ask of an environment, and what it may say with each.
const VERBS: [(&str, &[&str]); 7] = [
    ("reset", &["seed", "options"]),
    ("step", &["episode_id", "action"]),
    ("observe", &["episode_id"]),
    ("render", &["episode_id", "mode"]),
    ("plan", &["episode_id"]),
    ("space", &[]),
    ("close", &["episode_id"]),
];

/// The A2E sessions of peers in environments, each with the episodes that were begun in it. Those of
/// one intent are not seen by another: what is offered is one environment, and not all of them.
#[derive(Debug)]
pub(super) struct Episodes(Arc<Mutex<Sessions>>);

/// A peer and an intent.
type Key = (String, IntentName);

#[derive(Debug)]
struct Sessions {
    /// Those in which a request was allowed.
    kept: Table<Holder, Key, KeptSession>,
    /// Those in which none was allowed yet, as long as requests in them are decided about.
    undecided: BTreeMap<Key, (Terms, Weak<StandIn>)>,
}

#[derive(Debug)]
struct KeptSession {
    terms: Terms,
    stand_in: Arc<StandIn>,
    used: Instant,
    /// Removes this when the peer's access is revoked.
    watch: AbortHandle,
}

/// What a session begins with. A peer for which this is otherwise than before begins anew.
#[derive(Debug, Clone, PartialEq)]
struct Terms {
    identity: Identity,
    retention: Retention,
}

/// The session of a request, for as long as it is worked on.
#[derive(Debug)]
pub(super) struct SessionLease {
    key: Key,
    holder: Holder,
    terms: Terms,
    stand_in: Arc<StandIn>,
}

impl Default for Episodes {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Sessions {
            kept: Table::new(LIMITS),
            undecided: BTreeMap::new(),
        })))
    }
}

impl Episodes {
    /// The session of a peer that asks by an intent. A new one is kept when [`Episodes::keep`] says so.
    pub(super) fn of(&self, host: &Host, call: &Call, identity: Identity) -> SessionLease {
        let terms = Terms {
            identity,
            retention: call.retention,
        };
        self.session(host, (&call.peer.did, &call.name), call.holder, terms)
    }

    fn session(
        &self,
        host: &Host,
        (did, intent): (&str, &IntentName),
        holder: Holder,
        terms: Terms,
    ) -> SessionLease {
        let key = (did.to_owned(), intent.clone());
        let now = Instant::now();
        // What goes is dropped when nobody waits for the lock: plugins clean up then.
        let mut all = self.lock();
        let gone = all.expire(now);
        let is_good =
            |it: &&mut KeptSession| it.terms == terms && !it.stand_in.access().is_revoked();
        let kept = all.kept.get_mut(&key).filter(is_good);
        let known = match kept {
            Some(kept) => {
                kept.used = now;
                Some(Arc::clone(&kept.stand_in))
            }
            None => {
                let undecided = all.undecided.get(&key).filter(|(it, _)| *it == terms);
                let undecided = undecided.and_then(|(_, session)| session.upgrade());
                undecided.filter(|session| !session.access().is_revoked())
            }
        };
        all.kept.touch(&key);
        let stand_in = known.unwrap_or_else(|| {
            let stand_in = host.stand_in_keeping(terms.identity.clone(), terms.retention);
            let stand_in = Arc::new(stand_in.taking_any_size());
            let undecided = (terms.clone(), Arc::downgrade(&stand_in));
            all.undecided.insert(key.clone(), undecided);
            stand_in
        });
        drop(all);
        drop(gone);
        SessionLease {
            key,
            holder,
            terms,
            stand_in,
        }
    }

    /// Keeps a session for the peer's next request, since one in it was allowed.
    ///
    /// # Errors
    /// If as many are in use as may be.
    pub(super) fn keep(&self, lease: &SessionLease) -> Result<(), Failure> {
        let SessionLease {
            key,
            holder,
            terms,
            stand_in,
        } = lease;
        let now = Instant::now();
        let mut all = self.lock();
        let mut gone = all.expire(now);
        let kept = all.kept.get(key);
        if kept.is_some_and(|kept| Arc::ptr_eq(&kept.stand_in, stand_in)) {
            return Ok(());
        }
        all.undecided.remove(key);
        gone.extend(all.kept.remove(key));
        all.mark_used();
        let kept = KeptSession {
            terms: terms.clone(),
            stand_in: Arc::clone(stand_in),
            used: now,
            watch: self.watch(stand_in, key.clone()),
        };
        let inserted = all.kept.insert(*holder, holder.class(), key.clone(), kept);
        drop(all);
        drop(gone);
        match inserted {
            Ok(_evicted) => Ok(()),
            Err(_full) => {
                let text =
                    "as many agents as may be are in the node's environments; try again later";
                let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Env, text);
                failure.retryable = true;
                Err(failure)
            }
        }
    }

    /// Forgets those of intents that are not offered any more as they were.
    pub(super) fn retain(&self, is_offered: impl Fn(&IntentName) -> bool) {
        let mut all = self.lock();
        all.undecided.retain(|(_, intent), _| is_offered(intent));
        let gone = all.remove(|(_, intent), _| !is_offered(intent));
        drop(all);
        drop(gone);
    }

    /// Forgets a session when the peer's access is revoked.
    fn watch(&self, stand_in: &Arc<StandIn>, key: Key) -> AbortHandle {
        let revoked = stand_in.access().revoked().clone();
        let (all, stand_in) = (Arc::downgrade(&self.0), Arc::downgrade(stand_in));
        let watching = async move {
            revoked.cancelled().await;
            let Some(all) = all.upgrade() else { return };
            let is_it = |it: &KeptSession| Weak::ptr_eq(&Arc::downgrade(&it.stand_in), &stand_in);
            let gone = lock(&all).remove(|known, it| *known == key && is_it(it));
            drop(gone);
        };
        tokio::spawn(watching).abort_handle()
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.0)
    }
}

impl Drop for KeptSession {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn lock(all: &Mutex<Sessions>) -> MutexGuard<'_, Sessions> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Removes sessions that have been idle for too long.
    fn expire(&mut self, now: Instant) -> Vec<KeptSession> {
        self.undecided
            .retain(|_, (_, session)| session.strong_count() > 0);
        self.remove(|_, it| it.is_free() && it.used + IDLE <= now)
    }

    fn remove(&mut self, is_meant: impl Fn(&Key, &KeptSession) -> bool) -> Vec<KeptSession> {
        let meant = self.kept.iter().filter(|(key, it)| is_meant(key, it));
        let meant: Vec<Key> = meant.map(|(key, _)| key.clone()).collect();
        let removed = meant.iter().filter_map(|key| self.kept.remove(key));
        removed.collect()
    }

    /// Sees to it that none is evicted in which a request is worked on.
    fn mark_used(&mut self) {
        let all = self.kept.iter();
        let all: Vec<(Key, bool)> = all.map(|(key, it)| (key.clone(), !it.is_free())).collect();
        for (key, is_used) in all {
            self.kept.set_in_use(&key, is_used);
        }
    }
}

impl KeptSession {
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.stand_in) == 1
    }
}

impl SessionLease {
    pub(super) fn stand_in(&self) -> &StandIn {
        &self.stand_in
    }
}

/// The request of an environment that inputs are.
pub(super) fn request(
    env: &str,
    mut inputs: canonical::Object<'static>,
) -> Result<Body<'static>, HandlerError> {
    let verb = inputs.remove("do");
    let verb = verb.as_ref().and_then(Value::as_str).unwrap_or_default();
    let Some((verb, members)) = VERBS.iter().find(|(known, _)| *known == verb) else {
        return Err(wrong(
            "intent.inputs.do",
            "must be one of reset, step, observe, render, plan, space and close",
        ));
    };
    if inputs.iter().any(|(name, _)| !members.contains(&name)) {
        let cause = "the inputs have a member that this `do` does not take";
        return Err(wrong("intent.inputs", cause));
    }
    if matches!(*verb, "reset" | "space") {
        inputs.insert("env_name", Value::String(env.to_owned().into()));
    }
    let inputs = to_object(inputs);
    match *verb {
        "reset" => read::<EnvResetRequest<'_>>(&inputs),
        "step" => read::<EnvStepRequest<'_>>(&inputs),
        "observe" => read::<EnvObserveRequest<'_>>(&inputs),
        "render" => read::<EnvRenderRequest<'_>>(&inputs),
        "plan" => read::<EnvPlanRequest<'_>>(&inputs),
        "space" => read::<EnvSpaceRequest<'_>>(&inputs),
        _ => read::<EnvCloseRequest<'_>>(&inputs),
    }
}

fn read<'a, T>(inputs: &'a Object<'static>) -> Result<Body<'static>, HandlerError>
where
    T: Decode<'a> + ToStatic,
    T::Static: Into<Body<'static>>,
{
    let request: Result<T, _> = inputs.read(Timestamp::default());
    let cause = "a member that this `do` needs is missing or of another kind";
    let request = request.map_err(|_| wrong("intent.inputs", cause))?;
    Ok(request.to_static().into())
}

const fn wrong(field: &'static str, cause: &'static str) -> HandlerError {
    HandlerError::Invalid { field, cause }
}

#[cfg(test)]
mod tests {
    use policy::TrustLevel;
    use serde_json::json;

    use super::*;

    fn asked(inputs: &serde_json::Value) -> Result<Body<'static>, HandlerError> {
        let Value::Object(inputs) = Value::parse(inputs.to_string().as_bytes())
            .unwrap()
            .into_owned()
        else {
            panic!("{inputs} are no inputs");
        };
        request("counter", inputs)
    }

    #[test]
    fn inputs_are_requests_of_the_one_environment() {
        let Ok(Body::EnvResetRequest(reset)) = asked(&json!({"do": "reset", "seed": 7})) else {
            panic!("no reset");
        };
        assert_eq!((&*reset.env_name, reset.seed), ("counter", Some(7)));
        let step = json!({"do": "step", "episode_id": "e", "action": {"type": "inc"}});
        assert!(matches!(asked(&step), Ok(Body::EnvStepRequest(_))));
        for (name, members) in VERBS {
            let mut inputs = json!({ "do": name });
            if members.contains(&"episode_id") {
                inputs["episode_id"] = json!("e");
            }
            if members.contains(&"action") {
                inputs["action"] = json!({});
            }
            assert!(asked(&inputs).is_ok(), "{name}");
            inputs["more"] = json!(1);
            assert!(asked(&inputs).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for inputs in [
            json!({}),
            json!({"do": 1}),
            json!({"do": "batch_step"}),
            json!({"do": "step", "action": {}}),
            json!({"do": "step", "episode_id": "e"}),
            json!({"do": "step", "episode_id": "e", "action": 1}),
            json!({"do": "observe"}),
            // Another environment than the one that is offered.
            json!({"do": "reset", "env_name": "terminal"}),
            json!({"do": "space", "env_name": "terminal"}),
        ] {
            assert!(
                matches!(asked(&inputs), Err(HandlerError::Invalid { .. })),
                "{inputs}"
            );
        }
    }

    /// A request of an agent that is allowed.
    fn allowed(
        episodes: &Episodes,
        host: &Host,
        (did, intent): (&str, &str),
        holder: Holder,
        trust: TrustLevel,
    ) -> Result<SessionLease, Failure> {
        let held = asked_by(episodes, host, (did, intent), holder, trust);
        episodes.keep(&held).map(|()| held)
    }

    /// A request of an agent that is still to be decided about.
    fn asked_by(
        episodes: &Episodes,
        host: &Host,
        (did, intent): (&str, &str),
        holder: Holder,
        trust: TrustLevel,
    ) -> SessionLease {
        let intent = IntentName::parse(intent).unwrap();
        let terms = Terms {
            identity: Identity::proven(did, did, trust),
            retention: Retention::Day,
        };
        episodes.session(host, (did, &intent), holder, terms)
    }

    fn known(did: &str) -> Holder {
        Holder::Agent(canonical::Digest::of(did.as_bytes()))
    }

    fn stranger(source: u8) -> Holder {
        Holder::Source(std::net::IpAddr::from([192, 0, 2, source]).into())
    }

    #[tokio::test]
    async fn episodes_of_a_revoked_peer_are_forgotten() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let find = |did: &str| {
            let held = allowed(&episodes, &host, (did, "x"), known(did), TrustLevel::Own);
            held.unwrap().stand_in
        };
        let kept = ["a", "b"].map(|did| Arc::downgrade(&find(did)));
        let revoked = host.revoke_access(|it| it.did.as_deref() == Some("a"));
        revoked.await.unwrap();
        assert_eq!(kept.map(|it| it.upgrade().is_some()), [false, true]);
        assert_eq!(host.acting(|it| it.agent == "a"), 0);
        assert!(!find("a").access().is_revoked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_its_own_for_each_intent_until_it_is_gone() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let own = TrustLevel::Own;
        let find = |did: &str, intent: &str| {
            let held = allowed(&episodes, &host, (did, intent), known(did), own);
            held.unwrap().stand_in
        };
        let first = Arc::downgrade(&find("a", "x"));
        let is_first = |other: Arc<StandIn>| std::ptr::eq(first.as_ptr(), Arc::as_ptr(&other));
        assert!(is_first(find("a", "x")));
        assert!(!is_first(find("a", "y")));
        assert!(!is_first(find("b", "x")));
        tokio::time::advance(IDLE / 2).await;
        assert!(is_first(find("a", "x")));
        tokio::time::advance(IDLE / 2).await;
        find("c", "x");
        assert!(first.upgrade().is_some(), "it was used since");
        episodes.retain(|name| name.as_str() == "y");
        assert!(first.upgrade().is_none(), "its intent is gone");
        let trusted = find("a", "y");
        let verified = TrustLevel::Verified;
        let other = allowed(&episodes, &host, ("a", "y"), known("a"), verified).unwrap();
        assert!(!Arc::ptr_eq(&trusted, &other.stand_in));
        let other = Arc::downgrade(&{ other }.stand_in);
        tokio::time::advance(IDLE).await;
        find("c", "y");
        assert!(other.upgrade().is_none(), "nobody came back");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_kept() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let find = |did: &str| {
            let held = allowed(&episodes, &host, (did, "x"), known(did), TrustLevel::Own);
            held.map(|held| held.stand_in)
        };
        let mut busy = Vec::new();
        for number in 0..MAX_KEPT {
            busy.push(find(&number.to_string()).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let refused = find("one more").unwrap_err();
        assert_eq!(
            (refused.code, refused.retryable),
            (ErrorCode::RuntimeError, true)
        );
        // Of those in which nothing happens, the one not used for longest makes room.
        let (second, third) = (Arc::downgrade(&busy[1]), Arc::downgrade(&busy[2]));
        drop(busy.drain(1..3));
        assert!(find("one more").is_ok());
        assert!(second.upgrade().is_none());
        assert!(third.upgrade().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_not_allowed_evict_no_session() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let own = TrustLevel::Own;
        let kept = allowed(&episodes, &host, ("a", "x"), stranger(1), own).unwrap();
        let kept = Arc::downgrade(&{ kept }.stand_in);
        for number in 0..10 * MAX_KEPT {
            let did = number.to_string();
            asked_by(&episodes, &host, (&did, "x"), known(&did), own);
        }
        assert!(kept.upgrade().is_some());
        assert!(episodes.lock().undecided.len() <= 1);
    }

    /// Requests that come at once, and of which none is decided about yet, have one session.
    #[tokio::test(start_paused = true)]
    async fn first_requests_at_once_share_their_session() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let ask = || asked_by(&episodes, &host, ("a", "x"), stranger(1), TrustLevel::Own);
        let (first, second) = (ask(), ask());
        assert!(Arc::ptr_eq(&first.stand_in, &second.stand_in));
        episodes.keep(&second).unwrap();
        episodes.keep(&first).unwrap();
        drop((first, second));
        assert_eq!(episodes.lock().kept.len(), 1);
        let third = ask();
        assert_eq!(Arc::strong_count(&third.stand_in), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agents_own_oldest_gives_way_and_strangers_before_known_agents() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let begin = |did: &str, holder: Holder| {
            let held = allowed(&episodes, &host, (did, "x"), holder, TrustLevel::Own);
            Arc::downgrade(&held.unwrap().stand_in)
        };
        let others: Vec<_> = (0..LIMITS.reserved)
            .map(|number| begin(&format!("known{number}"), known(&format!("known{number}"))))
            .collect();
        let neighbor = begin("neighbor", stranger(2));
        // Strangers of one source past their share.
        let flood: Vec<_> = (0..3 * MAX_KEPT)
            .map(|number| begin(&format!("flood{number}"), stranger(1)))
            .collect();
        let left = flood.iter().filter(|it| it.upgrade().is_some()).count();
        assert_eq!(left, LIMITS.per_holder);
        assert!(flood.last().unwrap().upgrade().is_some());
        // Of many sources.
        for source in 10..=255 {
            begin(&format!("source{source}"), stranger(source));
        }
        assert!(others.iter().all(|it| it.upgrade().is_some()));
        assert!(neighbor.upgrade().is_none(), "the oldest of the strangers");
        assert_eq!(episodes.lock().kept.len(), MAX_KEPT);
        begin("new", known("new"));
        assert!(others.iter().all(|it| it.upgrade().is_some()));
    }
}
