//! What the operator says while a session lives (profile §10.3).

use std::time::Duration;

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use policy::EffectivePolicy;
use serde_json::json;

use crate::adversary::check_error;
use crate::session_policy::under;
use crate::support::{echo, tree};

fn complete(policy: serde_json::Value) -> EffectivePolicy {
    let policy = policy::Policy::read(&tree(&policy), 1 << 26).unwrap();
    policy.complete().unwrap()
}

/// §10.3: what the operator tightens holds for live sessions at once.
#[test]
fn a_policy_that_becomes_tighter() {
    let mut duo = under(json!({}));
    duo.is_well();
    let tighter = json!({"blocked_intents": ["echo"], "max_payload_size": 5000,
        "rate_limit": 3, "rate_period": 1000});
    let now = duo.world.now();
    assert!(duo.server.tighten(now, complete(tighter)).is_empty());
    let asked = duo.ask(echo());
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.reason, Some(Reason::IntentBlocked));
    let padding = "x".repeat(6000);
    let asked = duo.ask(json!({"goal": "nlp.translate", "inputs": {"x": padding}}));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.code, ErrorCode::PayloadTooLarge);
    let asked = duo.ask(json!({"goal": "nlp.translate"}));
    duo.start(&asked.message);
    let asked = duo.ask(json!({"goal": "nlp.translate"}));
    assert_eq!(
        duo.refused(&asked.message).failure.code,
        ErrorCode::RateLimitExceeded
    );
}

/// §10.3: so does work that the operator does not allow any more.
#[test]
fn a_policy_that_becomes_tighter_ends_what_it_refuses() {
    let mut duo = under(json!({}));
    let (refused, other) = (duo.ask(echo()), duo.ask(json!({"goal": "nlp.translate"})));
    let running = duo.start(&refused.message);
    let allowed = duo.start(&other.message);
    let now = duo.world.now();
    let ended = duo
        .server
        .tighten(now, complete(json!({"blocked_intents": ["echo"]})));
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].token, running.token);
    let code = ErrorCode::PolicyViolation;
    check_error(&ended[0].answer.message, &code, Some(Reason::IntentBlocked));
    assert_eq!(duo.server.in_flight(), 1);
    // The other is done, and what the agent is blocked for is not.
    duo.respond(allowed.token, json!({"done": 1}));
    let asked = duo.ask(json!({"goal": "nlp.translate"}));
    let running = duo.start(&asked.message);
    let ended = duo.server.block(now);
    assert_eq!(ended[0].token, running.token);
    check_error(&ended[0].answer.message, &code, Some(Reason::AgentBlocked));
    assert_eq!((duo.server.in_flight(), duo.server.is_over()), (0, None));
}

/// §10.3: a shorter life, a shorter memory, and encryption hold for live sessions too.
#[test]
fn a_policy_that_becomes_tighter_in_time_and_secrecy() {
    let mut duo = under(json!({"session_timeout": 100, "data_retention": "7d"}));
    let now = duo.world.now();
    let shorter = json!({"session_timeout": 40, "data_retention": "session"});
    assert!(duo.server.tighten(now, complete(shorter)).is_empty());
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    assert_eq!(start.retention, policy::Retention::Session);
    assert_eq!(start.deadline, now.monotonic + Duration::from_secs(40));
    duo.world.wait(39);
    duo.server.handle_timeout(duo.world.now());
    assert_eq!(duo.server.is_over(), None);
    duo.world.wait(1);
    let ended = duo.server.handle_timeout(duo.world.now());
    assert_eq!(
        (ended.len(), duo.server.is_over()),
        (1, Some(EndReason::Expired))
    );

    // Nothing that was agreed is loosened.
    let mut duo = under(json!({"session_timeout": 100, "data_retention": "session"}));
    let now = duo.world.now();
    let longer = json!({"session_timeout": 3600, "data_retention": "7d"});
    duo.server.tighten(now, complete(longer));
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    assert_eq!(start.retention, policy::Retention::Session);
    assert_eq!(
        duo.server.poll_timeout(),
        Some(now.monotonic + Duration::from_secs(100))
    );
    let ended = duo
        .server
        .tighten(now, complete(json!({"require_encryption": true})));
    assert_eq!(
        (ended.len(), duo.server.is_over()),
        (1, Some(EndReason::Ended))
    );
}
