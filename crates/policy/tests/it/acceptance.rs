//! Profile §11.2: whether a client accepts a policy.

use policy::{Demands, Encryption, Retention, Unacceptable};
use serde_json::json;

use crate::{name, policy, rate};

#[test]
fn nothing_demanded_accepts_anything() {
    let demands = Demands::default();
    assert_eq!(demands.accept(&policy(&json!({}))), Ok(()));
    let strict = json!({
        "blocked_intents": ["*"], "session_timeout": 1, "data_retention": "permanent",
        "rate_limit": 1, "rate_period": 2_592_000,
    });
    assert_eq!(demands.accept(&policy(&strict)), Ok(()));
}

#[test]
fn each_demand_at_its_limit_and_past_it() {
    let demands = Demands {
        max_retention: Retention::Day,
        encryption: Encryption::Needed,
        min_session_timeout: 60,
        min_payload_size: 1000,
        min_rate: Some(rate(10, 60)),
        intents: vec![name("nlp.translate"), name("db.read.v2")],
    };
    let good = json!({
        "data_retention": "24h", "require_encryption": true, "session_timeout": 60,
        "max_payload_size": 1000, "rate_limit": 1, "rate_period": 6,
        "allowed_intents": ["nlp.*", "read"], "blocked_intents": ["db.read.v1"],
    });
    assert_eq!(demands.accept(&policy(&good)), Ok(()));
    let refused = |field: &str, value: serde_json::Value| {
        let mut other = good.clone();
        other[field] = value;
        demands.accept(&policy(&other)).unwrap_err()
    };
    let (offered, most) = (Retention::Week, Retention::Day);
    assert_eq!(
        refused("data_retention", json!("7d")),
        Unacceptable::Retention { offered, most }
    );
    assert_eq!(
        refused("require_encryption", json!(false)),
        Unacceptable::Encryption
    );
    let (offered, least) = (59, 60);
    assert_eq!(
        refused("session_timeout", json!(59)),
        Unacceptable::SessionTimeout { offered, least }
    );
    let (offered, least) = (999, 1000);
    assert_eq!(
        refused("max_payload_size", json!(999)),
        Unacceptable::PayloadSize { offered, least }
    );
    let (offered, least) = (rate(1, 7), rate(10, 60));
    assert_eq!(
        refused("rate_period", json!(7)),
        Unacceptable::Rate { offered, least }
    );
    for (field, value, missing) in [
        ("allowed_intents", json!(["nlp.*"]), "db.read.v2"),
        ("blocked_intents", json!(["nlp.translate"]), "nlp.translate"),
        ("blocked_intents", json!(["*"]), "nlp.translate"),
    ] {
        assert_eq!(refused(field, value), Unacceptable::Intent(name(missing)));
    }
}

/// What a baseline peer's POLICY does not state it does not promise, and does not limit.
/// Proves A-4-14.
#[test]
fn what_is_not_stated() {
    let silent = policy(&json!({}));
    let offered = Retention::Permanent;
    let keeps = Demands {
        max_retention: Retention::Month,
        ..Demands::default()
    };
    let most = Retention::Month;
    assert_eq!(
        keeps.accept(&silent),
        Err(Unacceptable::Retention { offered, most })
    );
    let encrypts = Demands {
        encryption: Encryption::Needed,
        ..Demands::default()
    };
    assert_eq!(encrypts.accept(&silent), Err(Unacceptable::Encryption));
    let demands = Demands {
        min_session_timeout: 60,
        min_payload_size: 1000,
        min_rate: Some(rate(10, 60)),
        intents: vec![name("a")],
        ..Demands::default()
    };
    assert_eq!(demands.accept(&silent), Ok(()));
}
