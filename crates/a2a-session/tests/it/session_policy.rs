//! What a request may do and how often (threats 99 to 106, 111, 112, 117, 138, 145).

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use canonical::Value;
use serde_json::json;

use crate::adversary::check_error;
use crate::support::{CLIENT, Duo, MALLORY, World, did, echo, json, source, tree};

/// A session under a policy.
pub(crate) fn under(policy: serde_json::Value) -> Duo {
    let mut world = World::with(|config| config.sealing = Sealing::IfRequired);
    let policy = policy::Policy::read(&tree(&policy), 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    Duo::with(world)
}

/// Requests of a client that does not keep to the agreed rate: made before the session's time counts.
fn many(duo: &mut Duo, client: &mut ClientSession, count: usize) -> Vec<Vec<u8>> {
    let mut now = duo.world.now();
    let mut asked = Vec::new();
    while asked.len() < count {
        let intent = Value::Object(tree(&echo()));
        match client.request(now, intent, &mut duo.world.random) {
            Ok(outgoing) => asked.push(outgoing.message),
            Err(CallError::RateLimited(wait)) => now.monotonic += wait,
            Err(error) => panic!("{error}"),
        }
    }
    asked
}

/// Proves A-2-16, A-2-17, A-6-5, A-7-5, A-9-5.
#[test]
fn threat_99_exactly_the_limit_passes() {
    let mut duo = under(json!({"rate_limit": 100, "rate_period": 1000}));
    let (mut client, server) = duo.another();
    duo.server = server;
    let asked = many(&mut duo, &mut client, 200);
    let mut passed = 0;
    for message in &asked {
        match duo.serve(message) {
            Ok(_) => passed += 1,
            Err(refusal) => {
                check_error(&refusal.message, &ErrorCode::RateLimitExceeded, None);
                let error = json(&refusal.message);
                assert_eq!(error["details"]["limit"], 100);
                assert!(error["details"]["current_rate"].as_u64().unwrap() > 100);
                let reset = error["details"]["reset_at"].as_i64().unwrap();
                assert_eq!(reset, duo.world.now().unix.0 + 10);
                assert!(error["error_jws"].is_string(), "it is signed");
                assert_eq!(refusal.record.checks.rate_limit, Check::Failed);
                assert_eq!(refusal.record.checks.signature_verified, Check::Passed);
            }
        }
    }
    assert_eq!(passed, 100);
    // A client of ours waits by itself.
    let mut duo = under(json!({"rate_limit": 1, "rate_period": 10}));
    duo.ask(echo());
    let now = duo.world.now();
    let intent = Value::Object(tree(&echo()));
    let again = duo.client.request(now, intent, &mut duo.world.random);
    let ten = std::time::Duration::from_secs(10);
    assert_eq!(again, Err(CallError::RateLimited(ten)));
}

#[test]
fn threat_100_the_agent_bucket_holds_over_sessions() {
    let mut duo = under(json!({"rate_limit": 10, "rate_period": 1000}));
    let mut passed = 0;
    for _ in 0..5 {
        let (mut client, server) = duo.another();
        duo.server = server;
        for message in many(&mut duo, &mut client, 10) {
            match duo.serve(&message) {
                Ok(_) => passed += 1,
                Err(refusal) => {
                    let error = json(&refusal.message);
                    assert_eq!(error["details"]["scope"], "agent", "{error}");
                }
            }
        }
        // Coming back does not refill it.
        let now = duo.world.now();
        duo.server.end(now, EndReason::Ended, &mut duo.agents);
    }
    assert_eq!(passed, 10);
}

#[test]
fn threat_101_sybils_share_a_budget() {
    let mut duo = under(json!({}));
    duo.agents = Agents::new(AgentLimits {
        newcomers: policy::Rate::new(20, 1000).unwrap(),
        ..AgentLimits::default()
    });
    let mut passed = 0;
    for seed in 100..140 {
        duo.world.source = source(seed);
        let shaken = duo.world.shake(seed);
        let now = duo.world.now();
        let mut client = ClientSession::new(now, *shaken.client);
        duo.server = ServerSession::new(now, *shaken.server, SessionLimits::default());
        let message = many(&mut duo, &mut client, 1).remove(0);
        passed += usize::from(duo.serve(&message).is_ok());
    }
    assert_eq!(passed, 20);
}

/// Threat 101: of the tokens that all strangers share, those of one source have a quarter.
#[test]
fn strangers_of_one_source_leave_tokens_to_others() {
    let mut duo = under(json!({}));
    duo.agents = Agents::new(AgentLimits {
        newcomers: policy::Rate::new(20, 1000).unwrap(),
        ..AgentLimits::default()
    });
    let mut passed = |seed: u8, from: u8| {
        duo.world.source = source(from);
        (duo.client, duo.server) = duo.session_of(seed, None);
        let message = duo.ask(echo()).message;
        duo.serve(&message).is_ok()
    };
    let of_one = (100..110).filter(|seed| passed(*seed, 1)).count();
    assert_eq!(of_one, 5);
    assert!(passed(110, 2));
}

fn one_in(seconds: u32) -> policy::Policy {
    let asked = tree(&json!({"rate_limit": 1, "rate_period": seconds}));
    policy::Policy::read(&asked, 1 << 26).unwrap()
}

/// Threat 101: names cost nothing, and a client may agree on a rate under which a bucket takes a month
/// to fill. Neither keeps others out.
#[test]
fn threat_101_buckets_of_strangers_keep_no_agent_out() {
    let mut duo = under(json!({}));
    duo.agents = Agents::new(AgentLimits {
        buckets: base::Limits {
            total: 8,
            per_holder: 3,
            reserved: 2,
        },
        ..AgentLimits::default()
    });
    for seed in 100..140 {
        duo.world.source = source(seed / 5);
        (duo.client, duo.server) = duo.session_of(seed, Some(one_in(2_592_000)));
        duo.is_well();
    }
    assert_eq!(duo.agents.buckets(), 6, "the rest is kept for known agents");
    for seed in [50, 51, 52] {
        let known = did(seed).to_string();
        duo.world.book.added.insert(known);
        duo.world.source = source(200);
        duo.become_agent(seed);
        duo.is_well();
    }
    duo.world.source = source(201);
    duo.become_agent(60);
    duo.is_well();
    assert_eq!(duo.agents.buckets(), 8);
    // At the server's rate a bucket is full again after four seconds, and then it goes.
    duo.world.wait(4);
    let now = duo.world.now();
    duo.agents.handle_timeout(now);
    assert_eq!(duo.agents.buckets(), 0);
}

/// What one session agreed on is no limit for the other sessions of its agent.
/// Proves A-2-13.
#[test]
fn an_agreed_rate_is_that_of_its_session() {
    let mut duo = under(json!({"rate_limit": 3, "rate_period": 1000}));
    let scope_and_limit = |refusal: &Refusal| {
        let error = json(&refusal.message);
        (
            error["details"]["scope"].clone(),
            error["details"]["limit"].clone(),
        )
    };
    let (mut client, server) = duo.session_of(CLIENT, Some(one_in(1000)));
    duo.server = server;
    let asked = many(&mut duo, &mut client, 2);
    duo.start(&asked[0]);
    let refusal = duo.refused(&asked[1]);
    assert_eq!(scope_and_limit(&refusal), (json!("session"), json!(1)));
    let (mut client, server) = duo.another();
    duo.server = server;
    let asked = many(&mut duo, &mut client, 3);
    duo.start(&asked[0]);
    duo.start(&asked[1]);
    let refusal = duo.refused(&asked[2]);
    assert_eq!(scope_and_limit(&refusal), (json!("agent"), json!(3)));
}

/// Proves A-2-21, A-6-6, A-7-6, A-8-3, A-8-6, A-9-6.
#[test]
fn threat_103_block_list_evasion() {
    let mut duo = under(json!({"blocked_intents": ["delete_database"]}));
    let blocked = [
        json!({"goal": "delete_database"}),
        json!({"goal": "DELETE_Database"}),
        json!({"domain": "db", "goal": "delete_database"}),
        json!({"domain": "", "goal": "db.delete_database"}),
        json!({"goal": "delete_database.v2"}),
    ];
    for intent in blocked {
        let asked = duo.ask(intent.clone());
        let refusal = duo.refused(&asked.message);
        let code = ErrorCode::PolicyViolation;
        check_error(&refusal.message, &code, Some(Reason::IntentBlocked));
        assert_eq!(refusal.record.checks.intent_allowed, Check::Failed);
        assert_eq!(
            refusal.record.intent_goal.as_deref(),
            intent["goal"].as_str()
        );
    }
    for goal in [
        "delete_database.",
        "delete_database ",
        "delete_datab\u{430}se",
        "delete%5fdatabase",
        "delete_database\0",
        "",
    ] {
        let asked = duo.ask(json!({"goal": goal}));
        let refusal = duo.refused(&asked.message);
        check_error(
            &refusal.message,
            &ErrorCode::InvalidIntent,
            Some(Reason::BadField),
        );
        assert_eq!(json(&refusal.message)["details"]["field"], "intent.goal");
    }
    duo.is_well();
}

/// Proves A-2-20, A-6-6, A-7-6.
#[test]
fn threat_104_the_resolved_version_counts() {
    let mut duo = under(json!({"blocked_intents": ["db.drop.v2"]}));
    let asked = duo.ask(json!({"goal": "db.drop"}));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.reason, Some(Reason::IntentBlocked));
    let asked = duo.ask(json!({"goal": "db.drop.v1"}));
    assert_eq!(duo.start(&asked.message).handler.as_str(), "db.drop.v1");
    let mut duo = under(json!({"allowed_intents": ["db.drop.v1", "echo"]}));
    let asked = duo.ask(json!({"goal": "db.drop"}));
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.reason, Some(Reason::IntentNotAllowed));
    duo.is_well();
}

#[test]
fn threat_105_disjoint_lists_allow_nothing() {
    let mut world = World::with(|config| config.sealing = Sealing::IfRequired);
    let read = |policy: serde_json::Value| policy::Policy::read(&tree(&policy), 1 << 26).unwrap();
    world.book.policy = read(json!({"allowed_intents": ["echo"]}))
        .complete()
        .unwrap();
    let mut config = world.client_config();
    config.policy_request = Some(read(json!({"allowed_intents": ["nlp.translate"]})));
    let shaken = world.shake_with(CLIENT, config);
    let mut duo = Duo::with(world);
    let now = duo.world.now();
    duo.client = ClientSession::new(now, *shaken.client);
    duo.server = ServerSession::new(now, *shaken.server, SessionLimits::default());
    for goal in ["echo", "nlp.translate", "db.drop.v1"] {
        let asked = duo.ask(json!({"goal": goal}));
        let refusal = duo.refused(&asked.message);
        assert_eq!(refusal.failure.reason, Some(Reason::IntentBlocked));
    }
}

/// Proves A-2-19, A-6-7, A-7-3, A-7-7.
#[test]
fn threat_106_bodies_are_smaller_than_max_payload_size() {
    let mut duo = under(json!({"max_payload_size": 4000}));
    let small = duo.ask(echo()).message.len();
    let padded =
        |size: usize| json!({"goal": "echo", "inputs": {"say": "hello", "x": "x".repeat(size)}});
    let overhead = duo.ask(padded(0)).message.len();
    assert!(small < overhead);
    let fits = duo.ask(padded(3999 - overhead));
    assert_eq!(fits.message.len(), 3999);
    duo.start(&fits.message);
    let now = duo.world.now();
    let intent = Value::Object(tree(&padded(4000 - overhead)));
    let refused = duo.client.request(now, intent, &mut duo.world.random);
    let expected = CallError::TooLarge {
        size: 4000,
        limit: 4000,
    };
    assert_eq!(refused, Err(expected));
    // A client that sends it nevertheless: white space counts too.
    let fits = duo.ask(padded(3999 - overhead));
    let mut message = fits.message;
    message.push(b' ');
    let refusal = duo.refused(&message);
    check_error(&refusal.message, &ErrorCode::PayloadTooLarge, None);
    let details = json(&refusal.message)["details"].clone();
    assert_eq!(
        (&details["limit"], &details["size"]),
        (&json!(4000), &json!(4000))
    );
    assert_eq!(refusal.record.checks.payload_size, Check::Failed);
}

#[test]
fn threat_111_nobody_serves_that() {
    let mut duo = Duo::new();
    let asked = duo.ask(json!({"goal": "unheard.of"}));
    let refusal = duo.refused(&asked.message);
    check_error(&refusal.message, &ErrorCode::UnsupportedCapability, None);
    duo.is_well();
}

#[test]
fn threat_112_138_what_a_handler_fails_with() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    let now = duo.world.now();
    let failure = Failure::internal("incident-7", "the handler panicked");
    let answer = duo.server.respond(now, start.token, Err(failure)).unwrap();
    check_error(&answer.message, &ErrorCode::InternalError, None);
    let error = json(&answer.message);
    assert_eq!(error["details"], json!({"incident": "incident-7"}));
    assert!(!error.to_string().contains("panicked"));
    let event = duo.hear(&answer.message).unwrap();
    let ClientEvent::Failed { failure, .. } = event else {
        panic!("{event:?}");
    };
    assert_eq!(failure.code, ErrorCode::InternalError);
    // The record cannot be written: it is not executed.
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    let failure = Failure::unavailable("the audit log is full");
    let answer = duo.server.respond(now, start.token, Err(failure)).unwrap();
    check_error(&answer.message, &ErrorCode::ServiceUnavailable, None);
    duo.is_well();
}

#[test]
fn threat_117_blocked_during_a_session() {
    let mut duo = Duo::new();
    duo.is_well();
    duo.host.blocked = true;
    let asked = duo.ask(echo());
    let refusal = duo.refused(&asked.message);
    let code = ErrorCode::PolicyViolation;
    check_error(&refusal.message, &code, Some(Reason::AgentBlocked));
    duo.host.blocked = false;
    duo.is_well();
}

#[test]
fn a_session_runs_so_many_at_once() {
    let mut duo = Duo::new();
    let shaken = duo.world.shake(MALLORY);
    let now = duo.world.now();
    let limits = SessionLimits {
        in_flight: 3,
        ..SessionLimits::default()
    };
    duo.client = ClientSession::new(now, *shaken.client);
    duo.server = ServerSession::new(now, *shaken.server, limits);
    let tokens: Vec<_> = (0..3)
        .map(|_| {
            let asked = duo.ask(echo());
            duo.start(&asked.message).token
        })
        .collect();
    let asked = duo.ask(echo());
    let refusal = duo.refused(&asked.message);
    check_error(&refusal.message, &ErrorCode::RateLimitExceeded, None);
    duo.respond(tokens[1], json!({}));
    duo.is_well();
}

/// Every outcome comes with exactly one record, and what was checked stands in it.
/// Proves A-7-9, A-9-20.
#[test]
fn threat_145_records() {
    let mut duo = under(json!({"blocked_intents": ["delete_database"], "max_payload_size": 5000}));
    let asked = duo.ask(json!({"goal": "translate", "domain": "nlp",
        "intent_id": "0e9f2a5c-1111-4222-8333-444455556666"}));
    let start = duo.start(&asked.message);
    let answer = duo.respond(start.token, json!({"text": "Hola"}));
    let record = *answer.record;
    let passed = Checks {
        session_valid: Check::Passed,
        signature_verified: Check::Passed,
        rate_limit: Check::Passed,
        intent_allowed: Check::Passed,
        payload_size: Check::Passed,
    };
    assert_eq!(record.checks, passed);
    assert!(record.approved && record.reason.is_none());
    assert_eq!(record.response_status, "success");
    assert_eq!(record.intent_goal.as_deref(), Some("translate"));
    assert_eq!(record.intent_domain.as_deref(), Some("nlp"));
    assert_eq!(record.request_id, Some(asked.request_id.to_string()));
    assert_eq!(record.kid.unwrap().as_str(), "k");
    assert_eq!(record.binding, Some(Binding::Profile));
    assert!(!record.encrypted && record.request_hash.is_some() && record.response_hash.is_some());
    assert_eq!(record.trust_level, Some(a2a_identity::TrustLevel::Own));

    let asked = duo.ask(json!({"goal": "delete_database"}));
    let refusal = duo.refused(&asked.message);
    let expected = Checks {
        intent_allowed: Check::Failed,
        payload_size: Check::Skipped,
        ..passed
    };
    assert_eq!(refusal.record.checks, expected);
    assert_eq!(refusal.record.response_status, "POLICY_VIOLATION");
}
