//! Time, numbers and rates of handshakes (threats 31, 32, 35 to 38; profile §8.4, §8.5).

use std::sync::Arc;
use std::time::Duration;

use a2a_session::*;
use a2a_wire::{ErrorCode, UnixSeconds};

use crate::adversary::{refusal, refused};
use crate::support::{
    CLIENT, MALLORY, World, did, draft, established, json, jwk, key, limits, sent, signed, source,
    text,
};

/// A server on which only the tested limit matters.
fn roomy(change: impl FnOnce(&mut ServerConfig)) -> World {
    World::with(|config| {
        config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap();
        change(config);
    })
}

/// Proves A-5-31, A-5-38, A-5-39.
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

/// Proves A-5-5, A-5-31 to A-5-37, A-5-39.
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

/// A full table evicts the oldest handshake of the source that has the most, so that a flood has none
/// but its own.
#[test]
fn threat_35_a_flood_of_half_open_handshakes_evicts_its_own() {
    let mut world = roomy(|config| config.limits.half_open = limits(100, 50, 0));
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    for number in 0..500 {
        world.source = source(100 + number as u8 % 3);
        let (_, hello) = world.begin(MALLORY);
        sent(world.serve(&hello));
    }
    assert_eq!(world.server.half_open(), 100);
    // What was begun earlier goes on, and so does what is begun now.
    world.source = source(1);
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
    world.source = source(2);
    world.shake(CLIENT);
    world.wait(20);
    let now = world.now();
    world.server.handle_timeout(now);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

/// A server that knows one agent, with little room, and strangers that fill it from many sources: with
/// names of their own, and with that of the agent.
#[test]
fn threat_35_known_and_new_agents_shake_hands_during_a_flood() {
    for victim in [MALLORY, CLIENT] {
        let mut world = roomy(|config| config.limits.half_open = limits(24, 16, 8));
        world.book.added.insert(did(CLIENT).to_string());
        let flood = |world: &mut World| {
            for number in 0..100 {
                world.source = source(100 + number % 20);
                let (_, hello) = world.begin(victim);
                sent(world.serve(&hello));
            }
            assert!(world.server.half_open() >= 8);
        };
        flood(&mut world);
        for (agent, from) in [(CLIENT, 1), (7, 2)] {
            world.source = source(from);
            let (client, hello) = world.begin(agent);
            let challenge = sent(world.serve(&hello));
            let (client, proof) = world.challenged(client, &challenge).unwrap();
            world.source = source(200);
            let (_, other) = world.begin(victim);
            sent(world.serve(&other));
            world.source = source(from);
            let policy = sent(world.serve(&proof));
            let (_, accept) = client.handle_message(world.now(), &policy).unwrap();
            established(world.serve(&accept));
        }
    }
}

/// A peer that claims the name of a known agent has a small share of the reserve, and evicts neither
/// the agent nor strangers.
#[test]
fn threat_36_claims_of_a_known_agent_take_no_places_of_others() {
    let mut world = roomy(|config| config.limits.half_open = limits(64, 32, 16));
    world.book.added.insert(did(CLIENT).to_string());
    world.source = source(1);
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    world.source = source(2);
    let (stranger, hello) = world.begin(7);
    let other = sent(world.serve(&hello));
    for number in 0..200 {
        world.source = source(100 + number % 4);
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    for (client, challenge, from) in [(client, challenge, 1), (stranger, other, 2)] {
        world.source = source(from);
        let (_, proof) = world.challenged(client, &challenge).unwrap();
        sent(world.serve(&proof));
    }
}

/// Threat 36: neither by the name of the agent, nor by others behind the same address.
#[test]
fn threat_36_nobody_is_locked_out_by_name() {
    let mut world = roomy(|_| {});
    for _ in 0..64 {
        let (_, hello) = world.begin(CLIENT);
        sent(world.serve(&hello));
    }
    assert_eq!(world.server.half_open(), 64);
    // At the limit the oldest of the source gives way.
    world.shake(CLIENT);
    assert_eq!(world.server.half_open(), 63);
    world.source = source(2);
    world.shake(CLIENT);
}

/// A did:web that sends along a manifest which a key of its DID document alone has signed: its text
/// must wait for that document.
fn large_hello(world: &mut World) -> Vec<u8> {
    let name = "did:web:web.example.com";
    let mut manifest = draft(name, &[jwk("k", CLIENT)], "web.example.com");
    manifest["description"] = "d".repeat(4000).into();
    manifest["metadata"] = serde_json::json!({"text": "t".repeat(14_000)});
    let manifest = signed(&manifest, "root", 8, crate::support::UNIX - 100);
    let own = Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap();
    let config = world.client_config();
    world.begin_as(Arc::new(own), config).1
}

/// One source has 1 MiB, whatever it sends; past it, its own oldest handshakes give way.
#[test]
fn half_open_handshakes_have_a_share_in_bytes() {
    let mut world = roomy(|_| {});
    world.source = source(2);
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    world.source = source(1);
    let hello = large_hello(&mut world);
    let shown = &json(&hello)["extensions"]["manifest"];
    let size = shown.to_string().len() + 12 * 1024;
    let most = 1024 * 1024 / size;
    assert!((12..50).contains(&most), "{most}");
    for number in 0..60 {
        let hello = large_hello(&mut world);
        sent(world.serve(&hello));
        assert!(world.server.half_open() <= most.min(number + 1) + 1);
    }
    assert!(world.server.half_open() + 4 > most);
    world.source = source(2);
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
}

/// All sources together have a limit in bytes too; what is larger than any share is refused.
#[test]
fn half_open_handshakes_have_a_limit_in_bytes() {
    let mut world = roomy(|config| config.limits.half_open_bytes = limits(300_000, 150_000, 0));
    for number in 0..20 {
        world.source = source(number);
        let hello = large_hello(&mut world);
        sent(world.serve(&hello));
        assert!(world.server.half_open() <= 300_000 / 40_000);
    }
    assert!(world.server.half_open() >= 3);
    let mut world = roomy(|config| config.limits.half_open_bytes = limits(300_000, 30_000, 0));
    let hello = large_hello(&mut world);
    refused(&mut world, &hello, ErrorCode::ServiceUnavailable, None);
    assert_eq!(world.server.half_open(), 0);
}

/// A handshake that no message ends is reported once: who it was, and why it ended.
#[test]
fn handshakes_that_expire_or_are_evicted_are_reported() {
    let mut world = roomy(|config| config.limits.half_open = limits(2, 2, 0));
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
    for _ in 0..2 {
        let (_, hello) = world.begin(MALLORY);
        sent(world.serve(&hello));
    }
    let reported = |world: &mut World| -> Vec<_> {
        let lapsed = world.server.take_lapsed().into_iter();
        let what = |it: Lapsed| (it.agent.to_string(), it.proven, it.failure.code, it.source);
        lapsed.map(what).collect()
    };
    let [agent, mallory] = [CLIENT, MALLORY].map(|seed| did(seed).to_string());
    let evicted = ErrorCode::ServiceUnavailable;
    let from = source(1);
    assert_eq!(reported(&mut world), [(agent, true, evicted, from)]);
    let (_, hello) = world.begin(MALLORY);
    world.wait(20);
    let now = world.now();
    world.server.handle_timeout(now);
    let expired = (mallory, false, ErrorCode::HandshakeTimeout, from);
    assert_eq!(reported(&mut world), [expired.clone(), expired]);
    sent(world.serve(&hello));
    assert_eq!(reported(&mut world), []);
}

/// A number may be written in four letters that is kept in twenty: no manifest is as large as that.
#[test]
fn a_manifest_that_is_too_large_when_it_is_written_out_is_refused() {
    let mut world = roomy(|_| {});
    let (_, hello) = world.begin(CLIENT);
    let mut hello = json(&hello);
    hello["agent_did"] = "did:web:web.example.com".into();
    let manifest = format!("{{\"metadata\":{{\"n\":[{}]}}}}", ["1e20"; 4000].join(","));
    let tree = canonical::Value::parse(manifest.as_bytes()).unwrap();
    hello["manifest_hash"] = tree.digest().to_string().into();
    hello["extensions"]["manifest"] = "HERE".into();
    // As it is, since other libraries would write the numbers out.
    let hello = hello.to_string().replace("\"HERE\"", &manifest);
    refused(
        &mut world,
        hello.as_bytes(),
        ErrorCode::InvalidManifest,
        None,
    );
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

/// Proves A-2-24.
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
    world.source = source(2);
    world.shake(MALLORY);
    world.source = source(3);
    let message = accept(&mut world, 9);
    refused(&mut world, &message, ErrorCode::ServiceUnavailable, None);
    world.server.session_ended(&shaken.server.slot());
    world.shake(9);
}

/// Strangers of one source have a share of the places, and known agents a reserve. All sessions are in use.
#[test]
fn threat_101_sessions_of_one_source_leave_room_for_others() {
    let mut world = roomy(|config| {
        config.limits.sessions = 10;
        config.limits.sessions_per_source = 3;
    });
    world.book.added.insert(did(CLIENT).to_string());
    for from in [1, 2, 3, 4] {
        world.source = source(from);
        let mut seeds = 100..;
        for _ in 0..if from == 4 { 0 } else { 3 } {
            world.shake(from * 10 + seeds.next().unwrap());
        }
        if from < 4 {
            let message = accept(&mut world, from * 10 + 9);
            refused(&mut world, &message, ErrorCode::ServiceUnavailable, None);
        }
    }
    assert_eq!(world.server.sessions(), 9);
    // An agent that the operator knows has a place left, from wherever it comes.
    world.source = source(1);
    world.shake(CLIENT);
    let message = accept(&mut world, 99);
    refused(&mut world, &message, ErrorCode::ServiceUnavailable, None);
}

/// 262,144 nonces are what 42 sources make in the time for which they are remembered: their memory
/// never keeps anybody from shaking hands.
#[test]
fn threat_11_nonces_of_strangers_refuse_nobody() {
    let mut world = roomy(|config| config.limits.nonces = limits(8, 3, 2));
    world.book.added.insert(did(CLIENT).to_string());
    world.source = source(50);
    let new = world.shake(9).messages;
    world.source = source(51);
    let known = world.shake(CLIENT).messages;
    for number in 0..40 {
        world.source = source(100 + number % 3);
        let shaken = world.shake(MALLORY);
        world.server.session_ended(&shaken.server.slot());
        assert!(world.server.nonces() <= 8);
    }
    // Nor does it forget theirs: both are replays still.
    for [hello, ..] in [new, known] {
        let reason = Some(a2a_wire::Reason::NonceReused);
        refused(&mut world, &hello, ErrorCode::ReplayDetected, reason);
    }
    world.source = source(50);
    world.shake(9);
    world.wait(630);
    let now = world.now();
    world.server.handle_timeout(now);
    assert_eq!(world.server.nonces(), 0);
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
