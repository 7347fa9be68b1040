//! Threats 53 to 55: keys as peers write them.

use a2a_identity::{KeyProblem, KeySet, KeySetError, KeyStatus};
use a2a_wire::{PublicKey, Read, UnixSeconds};
use canonical::Value;
use serde_json::json;

use crate::{NOW, jwk, key};

fn read(keys: &serde_json::Value) -> Result<KeySet, KeySetError> {
    let keys = Vec::<PublicKey>::read(&Value::from_serialize(keys).unwrap()).unwrap();
    KeySet::read(&keys, Some(NOW))
}

fn problem(key: &serde_json::Value) -> KeyProblem {
    match read(&json!([key])) {
        Err(KeySetError::Key { index: 0, problem }) => problem,
        other => panic!("{other:?} of {key}"),
    }
}

fn with(changes: serde_json::Value) -> serde_json::Value {
    let mut key = jwk("k", 1);
    for (name, value) in changes.as_object().unwrap() {
        match value.is_null() {
            true => drop(key.as_object_mut().unwrap().remove(name)),
            false => key[name] = value.clone(),
        }
    }
    key
}

/// Proves A-4-11.
#[test]
fn all_forms_of_the_profile_are_taken() {
    let x = jwk("k", 1)["key"].clone();
    for changes in [
        json!({}),
        json!({"kty": null, "use": null}),
        json!({"alg": null}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": x, "key": null}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": x}),
        json!({"kty": "OKP"}),
        json!({"x": x, "key": null}),
        json!({"unheard_of": 1}),
    ] {
        let set = read(&json!([with(changes)])).unwrap();
        assert_eq!(set.get("k").unwrap().key, key(1).verifying_key());
    }
}

#[test]
fn threat_53_keys_that_are_none() {
    let x = jwk("k", 2)["key"].clone();
    let bytes = |length: usize| canonical::base64url::encode(&vec![9; length]);
    let identity = canonical::base64url::encode(&{
        let mut bytes = [0; 32];
        bytes[0] = 1;
        bytes
    });
    for (changes, expected) in [
        (json!({"kty": "RSA"}), KeyProblem::Member("kty")),
        (
            json!({"kty": "OKP", "crv": "X25519"}),
            KeyProblem::Member("crv"),
        ),
        (
            json!({"kty": "OKP", "x": jwk("k", 1)["key"], "key": null}),
            KeyProblem::Member("crv"),
        ),
        (json!({"alg": "ES256"}), KeyProblem::Member("alg")),
        (json!({"use": "enc"}), KeyProblem::Member("use")),
        (json!({"x": x}), KeyProblem::Contradiction),
        (json!({"key": bytes(33)}), KeyProblem::NoBytes),
        (json!({"key": bytes(31)}), KeyProblem::NoBytes),
        (
            json!({"key": format!("{}==", bytes(32))}),
            KeyProblem::NoBytes,
        ),
        (json!({"key": null}), KeyProblem::NoBytes),
        (json!({"kid": null}), KeyProblem::NoKid),
        (json!({"d": "secret"}), KeyProblem::PrivatePart),
    ] {
        assert_eq!(problem(&with(changes.clone())), expected, "{changes}");
    }
    assert!(matches!(
        problem(&with(json!({"key": identity}))),
        KeyProblem::Weak(_)
    ));
    let text = read(&json!([with(json!({"d": "SECRET-MARKER"}))]))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("`d`") && !text.contains("SECRET-MARKER"),
        "{text}"
    );
}

#[test]
fn threat_53_sets_that_are_none() {
    assert_eq!(read(&json!([])), Err(KeySetError::Empty));
    let many = |count: u8| {
        json!(
            (1..=count)
                .map(|seed| jwk(&format!("k{seed}"), seed))
                .collect::<Vec<_>>()
        )
    };
    assert!(read(&many(10)).is_ok());
    assert_eq!(read(&many(11)), Err(KeySetError::TooMany(11)));
    let wrong = |problem| Err(KeySetError::Key { index: 1, problem });
    assert_eq!(
        read(&json!([jwk("k", 1), jwk("k", 2)])),
        wrong(KeyProblem::KidTwice)
    );
    assert_eq!(
        read(&json!([jwk("k", 1), jwk("l", 1)])),
        wrong(KeyProblem::KeyTwice)
    );
}

/// Profile §3: what each status may do, before and after its end.
#[test]
fn threat_54_states_of_a_key() {
    let later = NOW.plus(24 * 3600);
    for (changes, signs, verifies, verifies_later) in [
        (json!({}), true, true, true),
        (json!({"status": "active"}), true, true, true),
        (json!({"expires_at": NOW.0 + 1}), true, true, false),
        (json!({"expires_at": NOW.0}), false, false, false),
        (
            json!({"status": "deprecated", "expires_at": NOW.0 + 1}),
            false,
            true,
            false,
        ),
        (
            json!({"status": "deprecated", "expires_at": later.0 + 1}),
            false,
            true,
            true,
        ),
        (json!({"status": "deprecated"}), false, true, false),
        (json!({"status": "revoked"}), false, false, false),
        (json!({"status": "sleeping"}), false, false, false),
    ] {
        let set = read(&json!([with(changes.clone())])).unwrap();
        let key = set.get("k").unwrap();
        assert_eq!(key.signs_at(NOW), signs, "{changes}");
        assert_eq!(key.verifies_at(NOW), verifies, "{changes}");
        assert_eq!(key.verifies_at(later), verifies_later, "{changes}");
    }
    let set = read(&json!([with(json!({"status": "sleeping"}))])).unwrap();
    assert_eq!(set.get("k").unwrap().status, KeyStatus::Unknown);
}

/// Threat 55: a refresh shows that a key was revoked.
#[test]
fn threat_55_a_revoked_key_is_not_in_the_new_set() {
    let before = read(&json!([jwk("a", 1), jwk("b", 2)])).unwrap();
    let mut revoked = jwk("a", 1);
    revoked["status"] = json!("revoked");
    let after = read(&json!([revoked, jwk("b", 2)])).unwrap();
    let usable =
        |set: &KeySet, now: UnixSeconds| set.get("a").is_some_and(|key| key.verifies_at(now));
    assert!(usable(&before, NOW) && !usable(&after, NOW));
}

/// Threats 1, 3 and 4, as far as they are a comparison of keys.
#[test]
fn threats_1_3_4_claimed_keys_are_compared() {
    let verified = read(&json!([jwk("a", 1), jwk("b", 2)])).unwrap();
    let claims = |keys: serde_json::Value| verified.contains_all(&read(&keys).unwrap());
    assert!(claims(json!([jwk("b", 2)])));
    assert!(!claims(json!([jwk("b", 3)])), "the kid with other bytes");
    assert!(!claims(json!([jwk("a", 1), jwk("c", 3)])), "one key more");
    assert!(!claims(json!([jwk("b", 1)])), "the bytes under another kid");
}
