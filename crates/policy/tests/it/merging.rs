//! Profile §11.2: a server's policy, tightened by what a client asks for.

use policy::{IntentRefused, Rate, limits};
use serde_json::{Value as Json, json};

use crate::{name, policy, rate, server};

fn merged(own: &Json, asked: &Json) -> Json {
    let merged = server(own).tightened_by(&policy(asked)).unwrap();
    crate::json(&merged.to_tree())
}

#[test]
fn the_tighter_value_of_each_field() {
    let own = json!({
        "rate_limit": 100, "rate_period": 60, "session_timeout": 600, "max_payload_size": 5000,
        "data_retention": "7d", "require_encryption": false, "max_concurrent_sessions": 10,
        "blocked_intents": ["a"], "extensions": {"mine": 1},
    });
    let tighter = json!({
        "rate_limit": 50, "rate_period": 60, "session_timeout": 60, "max_payload_size": 500,
        "data_retention": "session", "require_encryption": true, "max_concurrent_sessions": 1,
        "blocked_intents": ["b", "a"], "allowed_intents": ["c"], "extensions": {"yours": 1},
    });
    let looser = json!({
        "rate_limit": 200, "rate_period": 60, "session_timeout": 6000, "max_payload_size": 50_000,
        "data_retention": "permanent", "require_encryption": false,
        "max_concurrent_sessions": 100, "blocked_intents": [], "allowed_intents": [],
    });
    let mut expected = tighter.clone();
    expected["blocked_intents"] = json!(["a", "b"]);
    expected["extensions"] = json!({"mine": 1});
    assert_eq!(merged(&own, &tighter), expected);
    let complete = merged(&own, &json!({}));
    assert_eq!(merged(&own, &looser), complete);
    assert_eq!(complete["session_timeout"], 600);
}

/// Of a manifest only what concerns the client's own data counts.
#[test]
fn a_manifest_tightens_retention_and_encryption_only() {
    let own = server(&json!({}));
    let manifest = policy(&json!({
        "data_retention": "none", "require_encryption": true, "session_timeout": 1,
        "rate_limit": 1, "rate_period": 1000, "blocked_intents": ["*"],
    }));
    let expected = json!({"data_retention": "none", "require_encryption": true});
    assert_eq!(own.tightened_by_manifest(&manifest), Ok(server(&expected)));
}

/// Rates are compared as limit/period.
#[test]
fn rates_are_compared_by_limit_over_period() {
    for (own, asked, expected) in [
        ((1000, 3600), (1, 1), (1, 4)),
        ((1000, 3600), (10, 3600), (10, 3600)),
        ((1000, 3600), (1001, 3600), (1000, 3600)),
        ((1000, 3600), (500, 1800), (500, 1800)),
    ] {
        let own = rate(own.0, own.1);
        let merged = own.tightened_by(rate(asked.0, asked.1));
        assert_eq!(merged, rate(expected.0, expected.1));
        assert!(merged.is_within(own));
    }
}

/// "Never looser than the server's own": a lower rate with a larger bucket must not be a way to
/// send much at once.
#[test]
fn a_slower_rate_does_not_buy_a_larger_bucket() {
    let own = rate(1000, 3600);
    let asked = rate(700_000, 2_592_000);
    assert!(asked.is_at_most(own));
    let merged = own.tightened_by(asked);
    assert_eq!(merged.limit(), 1000);
    assert!(merged.is_within(own) && merged.is_at_most(asked));
    let extreme = rate(limits::RATE_LIMIT, limits::RATE_PERIOD).tightened_by(rate(1, 1));
    assert_eq!(extreme, rate(1, 1));
    let smallest = Rate::new(1, 1).unwrap().tightened_by(rate(2, 1));
    assert_eq!(smallest, rate(1, 1));
}

#[test]
fn what_both_lists_allow() {
    for (own, asked, expected) in [
        (json!([]), json!([]), json!([])),
        (json!([]), json!(["a"]), json!(["a"])),
        (json!(["a"]), json!([]), json!(["a"])),
        (json!(["*"]), json!(["a", "b.*"]), json!(["a", "b.*"])),
        (
            json!(["nlp.*"]),
            json!(["nlp.translate", "db.drop"]),
            json!(["nlp.translate"]),
        ),
        (
            json!(["nlp.*"]),
            json!(["translate"]),
            json!(["nlp.translate"]),
        ),
        (
            json!(["nlp.*"]),
            json!(["translate.v2"]),
            json!(["nlp.translate.v2"]),
        ),
        (json!(["a.b.*"]), json!(["a.*"]), json!(["a.b.*"])),
        (
            json!(["translate"]),
            json!(["nlp.translate"]),
            json!(["nlp.translate"]),
        ),
        (json!(["a.b"]), json!(["a.b.v2"]), json!(["a.b.v2"])),
        (json!(["b.v2"]), json!(["a.b"]), json!(["a.b.v2"])),
    ] {
        let merged = merged(
            &json!({"allowed_intents": own}),
            &json!({"allowed_intents": asked}),
        );
        assert_eq!(merged["allowed_intents"], expected, "{own} and {asked}");
        assert_eq!(merged["blocked_intents"], json!([]));
    }
}

/// Threat 105: if the lists have nothing in common, nothing is allowed, never all.
#[test]
fn threat_105_disjoint_lists_allow_nothing() {
    for (own, asked) in [
        (json!(["nlp.*"]), json!(["db.*"])),
        (json!(["a"]), json!(["b"])),
        (json!(["a.b.v1"]), json!(["a.b.v2"])),
        (json!(["nlp.*"]), json!(["v2"])),
    ] {
        let merged = server(&json!({"allowed_intents": own}))
            .tightened_by(&policy(&json!({"allowed_intents": asked})))
            .unwrap();
        for text in [
            "nlp.a",
            "nlp.v2",
            "nlp.nlp.nlp",
            "db.x",
            "a",
            "b",
            "a.b.v1",
            "v2",
            "x.v2",
        ] {
            let refused = merged.check_intent(&name(text), None);
            assert_eq!(
                refused,
                Err(IntentRefused::Blocked),
                "{own}, {asked}: {text}"
            );
        }
        assert_eq!(
            crate::json(&merged.to_tree())["blocked_intents"],
            json!(["*"])
        );
    }
}

#[test]
fn lists_that_do_not_fit_together_are_an_error() {
    let list = |letter: char, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("{letter}{n}")).collect()
    };
    let own = server(&json!({"blocked_intents": list('a', 600)}));
    let fits = policy(&json!({"blocked_intents": list('b', 424)}));
    assert!(own.tightened_by(&fits).is_ok());
    let past = policy(&json!({"blocked_intents": list('b', 425)}));
    assert_eq!(
        own.tightened_by(&past).unwrap_err().place,
        "blocked_intents"
    );
    // Few patterns, but too many bytes.
    let long = |letter: &str| -> Vec<String> {
        let label = letter.repeat(50);
        (0..100).map(|n| format!("{label}.{label}{n}")).collect()
    };
    let own = server(&json!({"blocked_intents": long("a")}));
    let past = policy(&json!({"blocked_intents": long("b")}));
    assert!(own.tightened_by(&past).is_err());
}
