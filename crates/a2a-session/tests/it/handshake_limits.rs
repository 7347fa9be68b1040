//! Time, numbers and rates of handshakes (threats 31, 32, 35 to 38; profile §8.4, §8.5).

use std::time::Duration;

use a2a_session::*;
use a2a_wire::{ErrorCode, UnixSeconds};

use crate::adversary::{refusal, refused};
use crate::support::{CLIENT, MALLORY, World, established, json, sent, source, text};

/// A server on which only the tested limit matters.
fn roomy(change: impl FnOnce(&mut ServerConfig)) -> World {
    World::with(|config| {
        config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap();
        change(config);
    })
}

#[test]
fn threat_32_a_server_waits_no_longer_than_it_says() {
    for (wait, in_time) in [(19, true), (20, false)] {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let challenge = sent(world.serve(&hello));
        let (_, proof) = world.challenged(client, &challenge).unwrap();
        world.wait(wait);
        assert_eq!(world.serve(&proof).is_ok(), in_time, "{wait}");
        world.wait(20);
        let now = world.now();
        world.server.handle_timeout(now);
        assert_eq!(world.server.half_open(), 0);
        assert_eq!(world.server.poll_timeout(), None);
    }
    // Each step in time, the whole not.
    let mut world = World::new();
    let (mut client, hello) = world.begin(CLIENT);
    client.sent(world.now());
    let challenge = sent(world.serve(&hello));
    world.wait(9);
    let (mut client, proof) = world.challenged(client, &challenge).unwrap();
    world.wait(9);
    client.sent(world.now());
    let policy = sent(world.serve(&proof));
    world.wait(9);
    let (_, accept) = client.handle_message(world.now(), &policy).unwrap();
    world.wait(3);
    refused(&mut world, &accept, ErrorCode::HandshakeTimeout, None);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

#[test]
fn threat_32_a_client_waits_no_longer_than_it_says() {
    let shaken = World::new().shake(CLIENT);
    let world = World::new();
    let at = |seconds: u64| Now {
        monotonic: world.time + Duration::from_secs(seconds),
        unix: UnixSeconds(world.now().unix.0),
    };
    let second = Duration::from_secs(1);
    // HELLO must be sent within 5 s, and is answered within 10 s after that.
    for (sent_at, heard_at, in_time) in [(4, 13, true), (4, 14, false)] {
        let mut world = World::new();
        let (mut client, _) = world.begin(CLIENT);
        assert_eq!(client.deadline(), world.time + 5 * second);
        client.sent(at(sent_at));
        assert_eq!(client.deadline(), world.time + 14 * second);
        let step = client.handle_message(at(heard_at), &shaken.messages[1], &world.memory);
        let timed_out = step.err().map(|aborted| aborted.failure.code);
        let expected = Some(ErrorCode::HandshakeTimeout);
        assert_eq!(timed_out != expected, in_time, "{timed_out:?}");
    }
    // Finding out who the server is takes 10 s at most, POLICY 10 s, SESSION 10 s, and all 30 s.
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let now = world.now();
    let step = client
        .handle_message(now, &challenge, &world.memory)
        .unwrap();
    let ServerStep::Resolve(check) = step else {
        panic!("{step:?}");
    };
    assert_eq!(check.deadline(), world.time + 10 * second);
    let found = world.find(check.need().unwrap());
    world.wait(9);
    let step = check.handle_found(world.now(), found).unwrap();
    let ServerStep::Proven { mut next, message } = step else {
        panic!("{step:?}");
    };
    next.sent(world.now());
    assert_eq!(next.deadline(), world.time + 10 * second);
    let policy = sent(world.serve(&message));
    world.wait(9);
    let (mut next, accept) = next.handle_message(world.now(), &policy).unwrap();
    assert_eq!(next.deadline(), world.time + 5 * second);
    next.sent(world.now());
    assert_eq!(next.deadline(), world.time + 10 * second);
    let (_, session) = established(world.serve(&accept));
    world.wait(10);
    let aborted = next.handle_message(world.now(), &session).unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::HandshakeTimeout);
    assert_eq!(
        Aborted::timed_out().failure.code,
        ErrorCode::HandshakeTimeout
    );
}

#[test]
fn threat_35_a_flood_of_half_open_handshakes() {
    let mut world = roomy(|config| config.limits.half_open = 100);
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    for number in 1..100 {
        world.source = source(number);
        let (_, hello) = world.begin(MALLORY);
        sent(world.serve(&hello));
    }
    assert_eq!(world.server.half_open(), 100);
    for _ in 0..10 {
        let (_, hello) = world.begin(MALLORY);
        let refused = refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
        let wait = &json(&refused.message)["details"]["retry_after_ms"];
        assert_eq!(*wait, serde_json::json!(20_000));
    }
    // What was begun earlier goes on.
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
    world.wait(20);
    let now = world.now();
    world.server.handle_timeout(now);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

#[test]
fn threat_36_nobody_is_locked_out_by_name() {
    let mut world = roomy(|_| {});
    for _ in 0..64 {
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    let (_, hello) = world.begin(CLIENT);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
    world.source = source(2);
    world.shake(CLIENT);
}

/// What one takes is what it keeps: its text as it is written out, and 8 KiB.
#[test]
fn half_open_handshakes_have_a_limit_in_bytes() {
    let room = 100_000;
    let mut world = roomy(|config| config.limits.half_open_bytes = room);
    let (_, hello) = world.begin(CLIENT);
    let shown = &json(&hello)["extensions"]["manifest"];
    let size = shown.to_string().len() + 8 * 1024;
    // Each needs room for all of its HELLO while it is looked at.
    for _ in 0..=(room - 8 * 1024 - hello.len()) / size {
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    let (_, hello) = world.begin(CLIENT);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
}

/// A number may be written in four letters that is kept in twenty.
#[test]
fn what_grows_when_it_is_written_out_counts_as_it_is_kept() {
    let of_web = |world: &mut World, numbers: usize| {
        let (_, hello) = world.begin(CLIENT);
        let numbers = vec!["1e20"; numbers].join(",");
        let mut hello = json(&hello);
        hello["agent_did"] = "did:web:web.example.com".into();
        let manifest = format!("{{\"metadata\":{{\"n\":[{numbers}]}}}}");
        let tree = canonical::Value::parse(manifest.as_bytes()).unwrap();
        hello["manifest_hash"] = tree.digest().to_string().into();
        hello["extensions"]["manifest"] = "HERE".into();
        // As it is, since other libraries would write the numbers out.
        hello
            .to_string()
            .replace("\"HERE\"", &manifest)
            .into_bytes()
    };
    let mut world = roomy(|config| config.limits.half_open_bytes = 80_000);
    let hello = of_web(&mut world, 2000);
    assert!(hello.len() < 12_000);
    sent(world.serve(&hello));
    let hello = of_web(&mut world, 2000);
    sent(world.serve(&hello));
    let hello = of_web(&mut world, 2000);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
    // No manifest is as large as that.
    let mut world = roomy(|_| {});
    let hello = of_web(&mut world, 4000);
    refused(&mut world, &hello, ErrorCode::InvalidManifest, None);
}

#[test]
fn a_source_begins_so_often_and_no_more() {
    let mut world = World::new();
    for _ in 0..20 {
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    let (_, hello) = world.begin(CLIENT);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
    world.source = source(2);
    sent(world.serve(&hello));
    world.source = source(1);
    world.wait(1);
    for _ in 0..10 {
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    let (_, hello) = world.begin(CLIENT);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
}

#[test]
fn sources_are_addresses_or_networks() {
    let of = |text: &str| Source::from(text.parse::<std::net::IpAddr>().unwrap());
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
}

#[test]
fn threat_37_no_one_is_asked_before_a_valid_proof() {
    let mut world = roomy(|_| {});
    let (_, hello) = world.begin(CLIENT);
    for number in 0..50 {
        let hello = crate::adversary::edit(&hello, |it| {
            it["agent_did"] = format!("did:web:host{number}.example.com").into();
            it["extensions"].as_object_mut().unwrap().remove("manifest");
        });
        let challenge = json(&sent(world.serve(&hello)));
        let proof = serde_json::json!({
            "type": "proof", "agent_did": format!("did:web:host{number}.example.com"),
            "proof_jws": crate::adversary::forge::<{ crate::adversary::PROOF }>(
                &serde_json::json!({"nonce_b": challenge["nonce_b"]}), MALLORY),
        });
        refused(&mut world, &text(&proof), ErrorCode::UnverifiedAgent, None);
    }
    assert_eq!(world.resolutions, 0);
}

/// Goes on until ACCEPT_POLICY is there.
fn accept(world: &mut World, seed: u8) -> Vec<u8> {
    let (client, hello) = world.begin(seed);
    let challenge = sent(world.serve(&hello));
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    client.handle_message(world.now(), &policy).unwrap().1
}

#[test]
fn threat_38_sessions_of_one_agent() {
    let mut world = roomy(|_| {});
    let tree = crate::support::tree(&serde_json::json!({"max_concurrent_sessions": 5}));
    let policy = policy::Policy::read(&tree, 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    let ready: Vec<_> = (0..25).map(|_| accept(&mut world, CLIENT)).collect();
    let mut sessions = Vec::new();
    for message in ready {
        match world.serve(&message) {
            Ok(Reply::Established { session, .. }) => sessions.push(session),
            other => {
                let refused = refusal(other);
                assert_eq!(refused.failure.code, ErrorCode::RateLimitExceeded);
                let details = &json(&refused.message)["details"];
                assert_eq!(details["scope"], "concurrent_sessions");
                assert_eq!(details["limit"], 5);
            }
        }
    }
    assert_eq!((sessions.len(), world.server.sessions()), (5, 5));
    // Already at PROOF, and another agent is not affected.
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    refused(&mut world, &proof, ErrorCode::RateLimitExceeded, None);
    world.is_well();
    world.server.session_ended(&sessions[0].slot());
    world.shake(CLIENT);
}

#[test]
fn sessions_have_a_limit_in_all() {
    let mut world = roomy(|config| config.limits.sessions = 2);
    let shaken = world.shake(CLIENT);
    world.shake(MALLORY);
    let message = accept(&mut world, 9);
    refused(&mut world, &message, ErrorCode::ServiceUnavailable, None);
    world.server.session_ended(&shaken.server.slot());
    world.shake(9);
}

#[test]
fn nonces_have_a_limit() {
    let mut world = roomy(|config| config.limits.nonces = 2);
    world.shake(CLIENT);
    world.shake(CLIENT);
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    refused(&mut world, &proof, ErrorCode::ServiceUnavailable, None);
    assert_eq!(world.server.half_open(), 0);
    world.wait(630);
    world.shake(CLIENT);
}

#[test]
fn threat_31_a_session_that_nobody_uses_ends() {
    let mut world = World::new();
    let shaken = world.shake(CLIENT);
    let limits = SessionLimits::default();
    let mut session = ServerSession::new(world.now(), *shaken.server, limits);
    assert_eq!(
        session.poll_timeout(),
        Some(world.time + Duration::from_secs(60))
    );
    world.wait(59);
    session.handle_timeout(world.now());
    assert_eq!(session.is_over(), None);
    world.wait(1);
    session.handle_timeout(world.now());
    assert_eq!(session.is_over(), Some(EndReason::Unclaimed));
    world.server.session_ended(&session.established().slot());
    assert_eq!(world.server.sessions(), 0);
}
