//! Environments for peers: what their inputs ask for, and what is kept for them in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_net::HandlerError;
use a2e_runtime::{Host, Identity, StandIn};
use a2e_wire::messages::env::{
    EnvCloseRequest, EnvObserveRequest, EnvPlanRequest, EnvRenderRequest, EnvResetRequest,
    EnvSpaceRequest, EnvStepRequest,
};
use a2e_wire::wire::{Decode, ToStatic};
use a2e_wire::{Body, Object, Timestamp};
use canonical::Value;
use policy::IntentName;
use tokio::time::Instant;

use crate::mapping::to_object;

/// Peers, by intent, whose episodes are kept at a time.
pub const MAX_KEPT: usize = 64;

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

/// Whoever stands in for a peer from one request to the next, with the episodes it has begun. Those of
/// one intent are not seen by another: what is offered is one environment, and not all of them.
#[derive(Debug, Default)]
pub(super) struct Episodes(Mutex<BTreeMap<(String, IntentName), Kept>>);

#[derive(Debug)]
struct Kept {
    identity: Identity,
    stand_in: Arc<StandIn>,
    used: Instant,
}

impl Episodes {
    /// Whoever stands in for a peer that asks by an intent.
    pub(super) fn of(
        &self,
        host: &Host,
        did: &str,
        intent: &IntentName,
        identity: Identity,
    ) -> Result<Arc<StandIn>, HandlerError> {
        let key = (did.to_owned(), intent.clone());
        let now = Instant::now();
        // What goes is dropped when nobody waits for the lock: plugins clean up then.
        let mut gone = Vec::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.extend(all.extract_if(.., |_, it| it.is_free() && it.used + IDLE <= now));
        if let Some(kept) = all.get_mut(&key).filter(|it| it.identity == identity) {
            kept.used = now;
            return Ok(Arc::clone(&kept.stand_in));
        }
        // A peer that is trusted otherwise than before begins anew.
        gone.extend(all.remove_entry(&key));
        if all.len() >= MAX_KEPT {
            let free = all.iter().filter(|(_, it)| it.is_free());
            let oldest = free
                .min_by_key(|(_, it)| it.used)
                .map(|(key, _)| key.clone());
            let Some(oldest) = oldest else {
                return Err(HandlerError::Unavailable(
                    "as many agents as can are in the node's environments",
                ));
            };
            gone.extend(all.remove_entry(&oldest));
        }
        let stand_in = Arc::new(host.stand_in(identity.clone()).taking_any_size());
        let kept = Kept {
            identity,
            stand_in: Arc::clone(&stand_in),
            used: now,
        };
        all.insert(key, kept);
        drop(all);
        Ok(stand_in)
    }

    /// Forgets those of intents that are not offered any more as they were.
    pub(super) fn retain(&self, is_offered: impl Fn(&IntentName) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = all
            .extract_if(.., |(_, intent), _| !is_offered(intent))
            .collect();
        drop(all);
        drop(gone);
    }
}

impl Kept {
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.stand_in) == 1
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

    fn of(
        episodes: &Episodes,
        host: &Host,
        did: &str,
        intent: &str,
        trust: TrustLevel,
    ) -> Result<Arc<StandIn>, HandlerError> {
        let intent = IntentName::parse(intent).unwrap();
        episodes.of(host, did, &intent, Identity::proven(did, did, trust))
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_its_own_for_each_intent_until_it_is_gone() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let own = TrustLevel::Own;
        let find = |did: &str, intent: &str| of(&episodes, &host, did, intent, own).unwrap();
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
        let other = of(&episodes, &host, "a", "y", TrustLevel::Verified).unwrap();
        assert!(!Arc::ptr_eq(&trusted, &other));
        let other = Arc::downgrade(&{ other });
        tokio::time::advance(IDLE).await;
        find("c", "y");
        assert!(other.upgrade().is_none(), "nobody came back");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_kept() {
        let (host, episodes) = (Host::builder().build(), Episodes::default());
        let find = |did: &str| of(&episodes, &host, did, "x", TrustLevel::Own);
        let mut busy = Vec::new();
        for number in 0..MAX_KEPT {
            busy.push(find(&number.to_string()).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(matches!(
            find("one more"),
            Err(HandlerError::Unavailable(_))
        ));
        // Of those in which nothing happens, the one not used for longest makes room.
        let (second, third) = (Arc::downgrade(&busy[1]), Arc::downgrade(&busy[2]));
        drop(busy.drain(1..3));
        assert!(find("one more").is_ok());
        assert!(second.upgrade().is_none());
        assert!(third.upgrade().is_some());
    }
}
