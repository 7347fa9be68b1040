//! Profile §11.1: the fields of a policy.

use canonical::{Object, Value};
use policy::{EffectivePolicy, Lifetime, Policy, Problem, Rate, Retention, limits};
use serde_json::{Value as Json, json};

use crate::{json, policy, rate, read, seconds, server, tree};

#[test]
fn vectors_policy() {
    let vectors = testkit::vectors("a2a/a2a-vectors.json");
    let section = &vectors["policy"];
    let stated = policy(&section["document"]);
    assert_eq!(stated.rate(), Some(rate(1000, 3600)));
    assert_eq!(stated.session_timeout(), Some(3600));
    assert_eq!(stated.max_payload_size(), Some(1_048_576));
    assert_eq!(stated.data_retention(), Some(Retention::Day));
    assert_eq!(stated.require_encryption(), Some(true));
    assert_eq!(stated.max_concurrent_sessions(), Some(100));
    // What is in force lists every field, and so has the hash of the document.
    let sent = stated.complete().unwrap().to_tree();
    let canonical = Value::Object(sent.clone()).to_canonical();
    assert_eq!(canonical, section["canonical"].as_str().unwrap().as_bytes());
    let hash = sent.digest_without(&[]).to_string();
    assert_eq!(hash, section["policy_hash"].as_str().unwrap());
}

/// Proves A-2-16 to A-2-20, A-2-22 to A-2-24.
#[test]
fn defaults_of_a_server() {
    let expected = json!({
        "rate_limit": 1000, "rate_period": 3600, "session_timeout": 3600,
        "max_payload_size": 1_048_576, "allowed_intents": [], "blocked_intents": [],
        "data_retention": "24h", "require_encryption": false, "max_concurrent_sessions": 100,
    });
    assert_eq!(server(&json!({})), EffectivePolicy::default());
    assert_eq!(json(&server(&json!({})).to_tree()), expected);
    assert_eq!(server(&expected), EffectivePolicy::default());
}

/// "unknown content ignored, always hashed"; unknown fields are ignored.
/// Proves A-10-12.
#[test]
fn extensions_are_kept_and_ignored() {
    let document = json!({"extensions": {"rate_limit": 0, "custom": [1.5, null]}, "new": null});
    let stated = policy(&document);
    assert_eq!(stated.rate(), None);
    let kept = tree(&document["extensions"]);
    assert_eq!(stated.extensions(), Some(&kept));
    let sent = stated.complete().unwrap().to_tree();
    assert_eq!(sent.get("extensions"), Some(&Value::Object(kept)));
    assert_eq!(sent.get("new"), None);
    let other = policy(&json!({"extensions": {}}))
        .complete()
        .unwrap()
        .to_tree();
    assert_ne!(sent.digest_without(&[]), other.digest_without(&[]));
}

/// A random salt keeps the hash of a confidential policy from being compared.
#[test]
fn a_salt_changes_the_hash_and_nothing_else() {
    let plain = server(&json!({"extensions": {"x": 1}}));
    let salted = plain.clone().with_salt("c2FsdA").unwrap();
    assert_ne!(
        plain.to_tree().digest_without(&[]),
        salted.to_tree().digest_without(&[])
    );
    let mut expected = json(&plain.to_tree());
    expected["extensions"]["salt"] = json!("c2FsdA");
    assert_eq!(json(&salted.to_tree()), expected);
    assert!(plain.with_salt(&"x".repeat(limits::POLICY)).is_err());
}

#[test]
fn numbers_at_their_limits_and_past_them() {
    let both = |limit: u64, period: u64| json!({"rate_limit": limit, "rate_period": period});
    assert!(read(&both(1, 1)).is_ok());
    assert!(read(&both(10_000_000, 2_592_000)).is_ok());
    for (field, most) in [
        ("session_timeout", 604_800_u64),
        ("max_payload_size", 64 << 20),
        ("max_concurrent_sessions", 1_000_000),
    ] {
        for good in [1, most] {
            assert!(read(&json!({field: good})).is_ok(), "{field}: {good}");
        }
        for wrong in [
            json!(0),
            json!(most + 1),
            json!(-1),
            json!(9_007_199_254_740_991_u64),
        ] {
            let error = read(&json!({field: wrong})).unwrap_err();
            assert_eq!(error.place, field);
            assert_eq!(error.problem, Problem::Range { least: 1, most });
        }
    }
    for (limit, period, place) in [
        (0, 1, "rate_limit"),
        (10_000_001, 1, "rate_limit"),
        (1, 0, "rate_period"),
        (1, 2_592_001, "rate_period"),
    ] {
        assert_eq!(read(&both(limit, period)).unwrap_err().place, place);
    }
}

/// The ceiling of `max_payload_size` is local.
#[test]
fn the_ceiling_of_payloads_is_configured() {
    let stated = tree(&json!({"max_payload_size": 2000}));
    assert!(Policy::read(&stated, 2000).is_ok());
    assert!(Policy::read(&stated, 1999).is_err());
}

/// §10 has a policy with a `rate_limit` alone.
/// Proves A-2-16, A-2-17, A-10-11.
#[test]
fn the_missing_half_of_a_rate_has_its_default() {
    let example = json!({"rate_limit": 1000, "extensions": {
        "custom_field_1": "value", "custom_field_2": {"nested": "data"}}});
    let stated = policy(&example);
    assert_eq!(stated.rate(), Rate::new(1000, 3600));
    assert_eq!(stated.extensions(), Some(&tree(&example["extensions"])));
    assert_eq!(policy(&json!({"rate_limit": 5})).rate(), Rate::new(5, 3600));
    assert_eq!(
        policy(&json!({"rate_period": 5})).rate(),
        Rate::new(1000, 5)
    );
    assert_eq!(policy(&json!({})).rate(), None);
}

/// "Wrong type, out of range, unknown retention, bad pattern → policy invalid"; `null` is as if the
/// member were missing.
#[test]
fn wrong_values_name_their_place() {
    for (document, place) in [
        (json!({"rate_limit": "5", "rate_period": 5}), "rate_limit"),
        (json!({"session_timeout": true}), "session_timeout"),
        (json!({"session_timeout": 1.5}), "session_timeout"),
        (json!({"max_payload_size": []}), "max_payload_size"),
        (json!({"allowed_intents": "nlp.*"}), "allowed_intents"),
        (
            json!({"allowed_intents": ["nlp.*", "a*"]}),
            "allowed_intents[1]",
        ),
        (json!({"blocked_intents": [1]}), "blocked_intents[0]"),
        (json!({"blocked_intents": {}}), "blocked_intents"),
        (json!({"data_retention": "1d"}), "data_retention"),
        (json!({"data_retention": "None"}), "data_retention"),
        (json!({"data_retention": 24}), "data_retention"),
        (json!({"require_encryption": 1}), "require_encryption"),
        (json!({"require_encryption": "true"}), "require_encryption"),
        (
            json!({"max_concurrent_sessions": {}}),
            "max_concurrent_sessions",
        ),
        (json!({"extensions": []}), "extensions"),
    ] {
        assert_eq!(read(&document).unwrap_err().place, place, "{document}");
    }
    let full = EffectivePolicy::default().to_tree();
    for (field, _) in full.iter().chain([("extensions", &Value::Null)]) {
        let mut document = full.clone();
        document.remove(field);
        let without = Policy::read(&document, limits::PAYLOAD_CEILING).unwrap();
        document.insert(field.to_owned(), Value::Null);
        let null = Policy::read(&document, limits::PAYLOAD_CEILING).unwrap();
        assert_eq!(null, without, "{field}");
    }
    // Profile §1: `1.0` is not an integer.
    let real = Value::parse(b"{\"session_timeout\":5.0}").unwrap();
    let error = Policy::read(real.as_object().unwrap(), limits::PAYLOAD_CEILING).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`session_timeout` must be written as an integer"
    );
}

#[test]
fn lists_at_the_limit_and_past_it() {
    for field in ["allowed_intents", "blocked_intents"] {
        let list = |count: usize| json!({field: vec!["a"; count]});
        assert!(read(&list(limits::INTENT_PATTERNS)).is_ok());
        let error = read(&list(limits::INTENT_PATTERNS + 1)).unwrap_err();
        assert_eq!(error.place, field);
        assert!(matches!(error.problem, Problem::TooMany { .. }));
    }
}

/// A policy, its extensions included, has at most 16 KiB.
#[test]
fn sizes_at_the_limit_and_past_it() {
    let frame = r#"{"extensions":{"x":""}}"#.len();
    let filled = |bytes: usize| json!({"extensions": {"x": "y".repeat(bytes)}});
    assert!(read(&filled(limits::POLICY - frame)).is_ok());
    assert!(read(&filled(limits::POLICY - frame + 1)).is_err());
    // With all fields, as it is sent.
    let defaults = canonical(&server(&json!({})).to_tree());
    let frame = defaults + r#","extensions":{"x":""}"#.len();
    assert!(policy(&filled(limits::POLICY - frame)).complete().is_ok());
    assert!(
        policy(&filled(limits::POLICY - frame + 1))
            .complete()
            .is_err()
    );
    // `session` is four bytes longer than `24h`.
    let full = policy(&filled(limits::POLICY - frame - 3))
        .complete()
        .unwrap();
    let session = policy(&json!({"data_retention": "session"}));
    assert!(full.tightened_by_manifest(&session).is_err());
    assert!(full.tightened_by(&session).is_err());
    let full = policy(&filled(limits::POLICY - frame - 4))
        .complete()
        .unwrap();
    assert!(full.tightened_by_manifest(&session).is_ok());
}

fn canonical(tree: &Object<'_>) -> usize {
    Value::Object(tree.clone()).to_canonical().len()
}

/// Threat 106: a body of exactly `max_payload_size` is too large.
#[test]
fn threat_106_bodies_are_smaller_than_max_payload_size() {
    let policy = server(&json!({"max_payload_size": 1000}));
    assert!(policy.admits_body(999));
    assert!(!policy.admits_body(1000));
    assert!(!policy.admits_body(u64::MAX));
}

/// Threat 142: `session` ends with the session, `24h` after a day, and an hour later it is gone.
/// Proves A-2-22.
#[test]
fn threat_142_how_long_data_is_kept() {
    let words = ["none", "session", "24h", "7d", "30d", "permanent"];
    let all = words.map(|word| Retention::from_name(word).unwrap());
    assert!(all.is_sorted(), "a shorter one is less");
    assert_eq!(all.map(Retention::as_str), words);
    let day = 24 * 3600;
    assert_eq!(
        all.map(Retention::lifetime),
        [
            Lifetime::Answer,
            Lifetime::Session,
            Lifetime::After(seconds(day)),
            Lifetime::After(seconds(7 * day)),
            Lifetime::After(seconds(30 * day)),
            Lifetime::Unlimited,
        ]
    );
    assert_eq!(seconds(day) + Retention::GRACE, seconds(25 * 3600));
    assert_eq!(Retention::from_name("24H"), None);
}

/// What is stated is written as it is read.
#[test]
fn a_part_of_a_policy_is_sent_as_that_part() {
    let document: Json = json!({"rate_limit": 5, "rate_period": 7, "data_retention": "7d"});
    assert_eq!(json(&policy(&document).to_tree()), document);
    assert_eq!(json(&policy(&json!({})).to_tree()), json!({}));
}
