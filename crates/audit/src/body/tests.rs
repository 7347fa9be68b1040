use canonical::Value;

use super::*;
use crate::line::RESERVED;

fn canonical(body: &Body<'_>) -> String {
    let mut out = Vec::new();
    body.push_canonical(&mut out, Some(Digest::of(b"ip")));
    String::from_utf8(out).unwrap()
}

/// Every member that there is, with texts of this content.
fn full<'a>(text: &'a str, did: &'a str) -> Body<'a> {
    let (number, hash) = (u64::MAX, Digest::of(b""));
    Body {
        agent: Some(text),
        approval_id: Some(text),
        binding: Some(Binding::Baseline),
        capability: Some(text),
        correlation_id: Some(text),
        count: Some(number),
        encrypted: Some(false),
        input_bytes: Some(number),
        intent_domain: Some(text),
        intent_goal: Some(text),
        intent_id: Some(text),
        kid: Some(text),
        manifest_hash: Some(hash),
        message_type: Some(text),
        name: Some(text),
        output_bytes: Some(number),
        policy_checks: Some(PolicyChecks {
            approval: Some(Check::Skipped),
            capability_accepted: Some(Check::Skipped),
            intent_allowed: Some(Check::Skipped),
            payload_size: Some(Check::Skipped),
            rate_limit: Some(Check::Skipped),
            rule_allowed: Some(Check::Skipped),
            session_valid: Some(Check::Skipped),
            signature_verified: Some(Check::Skipped),
        }),
        policy_hash: Some(hash),
        processing_time_ms: Some(number),
        reason: Some(text),
        remote_agent_did: Some(DidText(did)),
        remote_ip: Some(IpAddr::from([0; 16])),
        request_hash: Some(hash),
        request_id: Some(text),
        response_hash: Some(hash),
        response_status: Some(text),
        result: Some(Verdict::Rejected),
        rule: Some(text),
        rule_hash: Some(hash),
        session_id: Some(text),
        transport: Some(text),
        trust_level: Some(text),
    }
}

#[test]
fn members_stand_in_canonical_order_and_none_is_reserved() {
    for names in [Body::NAMES, PolicyChecks::NAMES] {
        assert!(names.is_sorted());
        assert!(names.iter().all(|name| !RESERVED.contains(name)));
    }
    for body in [Body::default(), full("a\"\\\u{1}é", "did:x")] {
        let text = canonical(&body);
        let tree = Value::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(tree.to_canonical()).unwrap(), text);
    }
    let text = canonical(&full("x", "did:x"));
    let tree = Value::parse(text.as_bytes()).unwrap();
    let names: Vec<&str> = tree.as_object().unwrap().iter().map(|(n, _)| n).collect();
    assert_eq!(names, Body::NAMES);
}

/// The body has the room of [`MAX_BODY`] and uses it, whatever a peer writes.
#[test]
fn threat_137_no_text_makes_a_body_too_long() {
    for text in ["a", "\u{1b}", "é", "\u{1f600}", "\"", "\u{202e}"] {
        for (length, did) in [(256, 512), (10_240, 10_240), (10_240, 0)] {
            let text = text.repeat(length);
            let did = ["d", "\u{1b}"].map(|letter| letter.repeat(did));
            for did in did {
                let written = canonical(&full(&text, &did));
                assert!(written.len() <= MAX_BODY, "{} bytes", written.len());
                assert!(!written.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
            }
        }
    }
    let body = |text| Body {
        name: Some(text),
        ..Body::default()
    };
    let at = "a".repeat(MAX_TEXT);
    assert_eq!(canonical(&body(&at)), format!("{{\"name\":\"{at}\"}}"));
    let past = "a".repeat(MAX_TEXT + 1);
    let past = canonical(&body(&past));
    assert!(past.ends_with("aa…\"}"), "{past}");
    let did = "d".repeat(MAX_DID);
    let whole = Body {
        remote_agent_did: Some(DidText(&did)),
        ..Body::default()
    };
    assert!(canonical(&whole).contains(&did));
}

#[test]
fn integers_stay_exact() {
    for (value, text) in [
        (0, "0"),
        (9, "9"),
        (10, "10"),
        (1234, "1234"),
        ((1 << 53) - 1, "9007199254740991"),
        (1 << 53, "9007199254740991"),
    ] {
        let mut out = Vec::new();
        push_integer(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
