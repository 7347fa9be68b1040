//! How much memory a client can have a server keep (profile §8.5).

use std::sync::Arc;

use a2a_session::{Own, ServerSession, SessionLimits};
use serde_json::json;

use crate::support::{CLIENT, UNIX, World, did, draft, jwk, key, sent, signed, source, tree};

/// Bytes of memory that this process has resident.
#[expect(
    clippy::disallowed_methods,
    reason = "the crate reads no files; only the kernel knows what it takes"
)]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kibibytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024
}

/// What each of many takes, once what is allocated once is there.
fn taken_by_each<T>(mut make: impl FnMut(u8) -> T) -> usize {
    const MANY: u8 = 100;
    let mut kept: Vec<T> = (0..MANY / 4).map(&mut make).collect();
    let before = resident();
    kept.extend((0..MANY).map(make));
    let taken = resident().saturating_sub(before);
    drop(kept);
    taken / usize::from(MANY)
}

fn world() -> World {
    World::with(|config| config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap())
}

/// A manifest of small values, which take the most memory for their text, with as many keys as there
/// may be.
#[test]
fn a_half_open_handshake_keeps_what_a_manifest_proves_and_not_its_text() {
    for name in [
        &did(CLIENT).to_string(),
        "did:web:a.example.com",
        "did:github:owner/agent",
    ] {
        let mut keys = vec![jwk("k", CLIENT)];
        keys.extend((100..109).map(|seed| jwk(&format!("k{seed:->120}"), seed)));
        let mut manifest = draft(name, &keys, "a.example.com");
        manifest["metadata"] = json!({"small": vec![json!([]); 8000]});
        let manifest = signed(&manifest, "k", CLIENT, UNIX - 100);
        let text = canonical::Value::Object(manifest.clone()).to_canonical();
        let own = Arc::new(Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap());
        let mut world = world();
        let each = taken_by_each(|number| {
            world.source = source(number);
            let (_, hello) = world.begin_as(Arc::clone(&own), world.client_config());
            sent(world.serve(&hello));
        });
        assert!(text.len() > 50_000);
        // What is resident comes in pages.
        assert!(each <= 24 * 1024, "{name}: {each} bytes");
    }
}

/// What was agreed on is kept for the life of the session: its text, and little more.
#[test]
fn a_session_keeps_no_more_of_a_policy_than_its_text() {
    let patterns = |letter: &str| -> Vec<String> {
        (0..1000)
            .map(|number| format!("{letter}{number}"))
            .collect()
    };
    let asked = json!({"allowed_intents": patterns("a"), "blocked_intents": patterns("b")});
    let asked = policy::Policy::read(&tree(&asked), policy::limits::PAYLOAD_CEILING).unwrap();
    let text = canonical::Value::Object(asked.to_tree()).to_canonical();
    let mut world = world();
    let each = taken_by_each(|number| {
        world.source = source(number);
        let mut config = world.client_config();
        config.policy_request = Some(asked.clone());
        // Another agent each time; the first of them are the server and its friends.
        let shaken = world.shake_with(100 + number, config);
        ServerSession::new(world.now(), *shaken.server, SessionLimits::default())
    });
    assert!(text.len() > 12_000);
    assert!(each <= text.len() + 8 * 1024, "{each} bytes");
}
