//! Profile §4: how long what was learnt holds.

use std::time::Duration;

use a2a_identity::{Cache, Did, Found, Lookup, ResolveError, time_to_live};
use base::{Class, Limits};
use serde_json::json;

use crate::{NOW, did_key, draft, jwk, signed, verify};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: Duration = at(3600);

const LIMITS: Limits = Limits {
    total: 10,
    per_holder: 10,
    reserved: 2,
};

/// A stranger, named by its source.
const fn stranger(source: u8) -> (u8, Class) {
    (source, Class::Stranger)
}

fn failure() -> ResolveError {
    ResolveError::Unavailable("x".into())
}

#[test]
fn what_is_known_holds_for_its_time() {
    let mut cache = Cache::new(LIMITS);
    let did = did_key(1);
    assert_eq!(cache.look_up(&did, at(0)), Lookup::Fetch);
    cache.finish(stranger(1), &did, at(0), Ok((5, HOUR)));
    assert_eq!(cache.look_up(&did, at(3599)), Lookup::Known(5));
    assert_eq!(cache.look_up(&did, at(3600)), Lookup::Fetch);
}

/// Threat 83: a failure is believed for a minute; the cache is bounded.
#[test]
fn threat_83_failures_are_believed_for_a_minute() {
    let mut cache = Cache::<u8, u8>::new(LIMITS);
    let did = did_key(1);
    assert_eq!(cache.look_up(&did, at(0)), Lookup::Fetch);
    cache.finish(stranger(1), &did, at(2), Err(failure()));
    for second in [2, 30, 61] {
        assert_eq!(cache.look_up(&did, at(second)), Lookup::Failed(failure()));
    }
    assert_eq!(cache.look_up(&did, at(62)), Lookup::Fetch);
    for n in 0..100 {
        let did: Did = format!("did:web:a{n}.example.com").parse().unwrap();
        assert_eq!(cache.look_up(&did, at(100)), Lookup::Fetch);
        cache.finish(stranger(1), &did, at(100), Err(failure()));
    }
    assert_eq!(cache.len(), 8);
}

/// What one source has looked up takes no place from known agents, nor from other sources.
#[test]
fn a_flood_of_names_evicts_its_own() {
    let mut cache = Cache::new(LIMITS);
    let [known, other] = [did_key(1), did_key(2)];
    cache.finish((0, Class::Known), &known, at(0), Ok((1, HOUR)));
    cache.finish(stranger(2), &other, at(0), Ok((2, HOUR)));
    for n in 0..100 {
        let did: Did = format!("did:web:a{n}.example.com").parse().unwrap();
        cache.finish(stranger(1), &did, at(1), Err(failure()));
    }
    assert_eq!(cache.look_up(&known, at(2)), Lookup::Known(1));
    assert_eq!(cache.look_up(&other, at(2)), Lookup::Known(2));
}

#[test]
fn the_least_recently_used_go_first() {
    let mut cache = Cache::new(Limits {
        total: 2,
        per_holder: 2,
        reserved: 0,
    });
    let [a, b, c] = [did_key(1), did_key(2), did_key(3)];
    for did in [&a, &b] {
        cache.finish(stranger(1), did, at(0), Ok((1, HOUR)));
    }
    assert_eq!(cache.look_up(&a, at(1)), Lookup::Known(1));
    cache.finish(stranger(1), &c, at(2), Ok((1, HOUR)));
    assert_eq!(cache.look_up(&a, at(3)), Lookup::Known(1));
    assert_eq!(cache.look_up(&b, at(3)), Lookup::Fetch);
    cache.forget(&a);
    assert_eq!(cache.look_up(&a, at(4)), Lookup::Fetch);
}

/// Threat 82: a thousand bad signatures cause one refresh a minute, and spoil nothing.
#[test]
fn threat_82_a_refresh_a_minute() {
    let mut cache = Cache::new(LIMITS);
    let did = did_key(1);
    cache.finish(stranger(1), &did, at(0), Ok((1, HOUR)));
    assert_eq!(cache.look_up_newer(&did, at(10)), Lookup::Fetch);
    assert_eq!(
        cache.look_up(&did, at(10)),
        Lookup::Known(1),
        "others go on meanwhile"
    );
    cache.finish(stranger(1), &did, at(11), Err(failure()));
    cache.refreshed(&did, at(10));
    for _ in 0..1000 {
        assert_eq!(cache.look_up_newer(&did, at(69)), Lookup::Known(1));
    }
    assert_eq!(cache.look_up_newer(&did, at(70)), Lookup::Fetch);
    cache.finish(stranger(1), &did, at(70), Ok((2, HOUR)));
    assert_eq!(cache.look_up(&did, at(71)), Lookup::Known(2));
}

#[test]
fn an_expired_entry_is_not_kept_alive_by_a_failed_refresh() {
    let mut cache = Cache::new(LIMITS);
    let did = did_key(1);
    cache.finish(stranger(1), &did, at(0), Ok((1, at(100))));
    assert_eq!(cache.look_up_newer(&did, at(99)), Lookup::Fetch);
    cache.finish(stranger(1), &did, at(99), Err(failure()));
    assert_eq!(cache.look_up(&did, at(99)), Lookup::Known(1));
    assert_eq!(cache.look_up(&did, at(100)), Lookup::Failed(failure()));
}

#[test]
fn times_to_live() {
    let ttl = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut draft = draft(1);
        change(&mut draft);
        time_to_live(&verify(&signed(&draft, 1), 1).unwrap(), Found::ByDid, NOW)
    };
    assert_eq!(ttl(&|_| {}), HOUR);
    assert_eq!(ttl(&|d| d["expires_at"] = json!(NOW.0 + 60)), at(60));
    assert_eq!(ttl(&|d| d["expires_at"] = json!(NOW.0 + 7200)), HOUR);
    let second = |change: &dyn Fn(&mut serde_json::Value)| {
        ttl(&|d| {
            let mut key = jwk("l", 2);
            change(&mut key);
            d["public_keys"].as_array_mut().unwrap().push(key);
        })
    };
    assert_eq!(second(&|key| key["expires_at"] = json!(NOW.0 + 30)), at(30));
    assert_eq!(
        second(&|key| key["expires_at"] = json!(NOW.0 - 30)),
        HOUR,
        "a key that is gone caps nothing"
    );
    let manifest = verify(&signed(&draft(1), 1), 1).unwrap();
    assert_eq!(
        time_to_live(&manifest, Found::ByOperator, NOW),
        at(24 * 3600)
    );
    let did: Did = "did:github:o/r".parse().unwrap();
    let mut github = draft(1);
    github["agent_did"] = json!(did.to_string());
    let (_, manifest) = crate::resolved_github(&did, &signed(&github, 1)).unwrap();
    let manifest = manifest.unwrap();
    assert_eq!(time_to_live(&manifest, Found::ByDid, NOW), at(6 * 3600));
}
