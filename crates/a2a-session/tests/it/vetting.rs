//! Finding out who a peer is (threats 54, 73, 82, 86, 89; profile §4 to §6, §8.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use a2a_identity::{Anchor, Did, Issuer, Key, KeySet, KeyStatus, RootKeys, TrustLevel, Want};
use a2a_session::*;
use a2a_wire::{EndorsementPayload, ErrorCode, Reason, UnixSeconds, Write as _};
use canonical::Object;
use serde_json::json;

use crate::adversary::refusal;
use crate::support::{CLIENT, UNIX, World, did, draft, jwk, key, sent, signed, verified};

/// A did:web agent, its published manifest, and what is known of it.
struct Published {
    own: Arc<Own>,
    facts: Facts,
}

fn name() -> Did {
    "did:web:web.example.com".parse().unwrap()
}

/// The agent at some time: these seeds are its keys, the last of them signs messages.
fn published(seeds: &[u8], at: i64) -> Published {
    let kid = |seed: &u8| format!("k{seed}");
    let keys: Vec<_> = seeds.iter().map(|seed| jwk(&kid(seed), *seed)).collect();
    let draft = draft(&name().to_string(), &keys, "web.example.com");
    let manifest = signed(&draft, &kid(&seeds[0]), seeds[0], at);
    let root = seeds.iter().map(|seed| Key {
        kid: kid(seed).parse().unwrap(),
        key: key(*seed).verifying_key(),
        status: KeyStatus::Active,
        expires_at: None,
    });
    let root = RootKeys::Document(KeySet::new(root.collect()).unwrap());
    let verified = verified(&manifest, &name(), &root, UnixSeconds(UNIX));
    let last = seeds.last().unwrap();
    let own = Own::new(manifest, kid(last).parse().unwrap(), key(*last)).unwrap();
    Published {
        own: Arc::new(own),
        facts: Facts {
            endpoints: Vec::new(),
            root,
            manifest: Some(verified),
        },
    }
}

/// The first question about a client.
fn asked(world: &mut World, own: Arc<Own>, show: ShowManifest) -> Box<Proving> {
    let mut config = world.client_config();
    config.show_manifest = show;
    let now = world.now();
    let begun = ExpectChallenge::begin(own, config.into(), now, &mut world.random);
    let (client, hello) = begun.unwrap();
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    let source = world.source;
    let reply = world
        .server
        .handle_message(now, source, &proof, &world.book, &mut world.random);
    match reply {
        Ok(Reply::Resolve(proving)) => proving,
        other => panic!("{other:?}"),
    }
}

fn need(freshness: Freshness, want: Want) -> Need {
    Need::Peer {
        did: name(),
        want,
        freshness,
        shown: None,
    }
}

/// A key that appeared since the cache was filled is found by looking once more; one that was
/// removed is not found by any number of looks, and one is made.
/// Proves A-9-17.
#[test]
fn threat_54_82_a_cache_that_is_behind_is_refreshed_once() {
    let (old, new) = (published(&[5], UNIX - 200), published(&[5, 6], UNIX - 100));
    let mut world = World::new();
    let now = world.now();
    let proving = asked(&mut world, new.own.clone(), ShowManifest::ByHash);
    assert_eq!(*proving.need(), need(Freshness::Any, Want::Manifest));
    let found = Found::Peer(Ok(old.facts.clone()));
    let reply = world.server.handle_found(now, proving, found, &world.book);
    let Ok(Reply::Resolve(proving)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(*proving.need(), need(Freshness::Newer, Want::Manifest));
    let newer = Found::Peer(Ok(new.facts.clone()));
    sent(world.server.handle_found(now, proving, newer, &world.book));
    // The other way round: what it shows was given up.
    let proving = asked(&mut world, old.own, ShowManifest::ByHash);
    let newer = Found::Peer(Ok(new.facts));
    let reply = world
        .server
        .handle_found(now, proving, newer.clone(), &world.book);
    let Ok(Reply::Resolve(proving)) = reply else {
        panic!("{reply:?}");
    };
    let reply = world.server.handle_found(now, proving, newer, &world.book);
    assert_eq!(refusal(reply).failure.code, ErrorCode::InvalidManifest);
    assert_eq!(world.server.half_open(), 1);
}

/// A manifest that is sent along needs its root keys, and must not be older than what is published.
#[test]
fn a_manifest_that_is_sent_along_needs_its_root() {
    let mut world = World::new();
    let now = world.now();
    let agent = published(&[5], UNIX - 100);
    let proving = asked(&mut world, agent.own.clone(), ShowManifest::Inline);
    assert_eq!(*proving.need(), need(Freshness::Any, Want::Manifest));
    let root = Facts {
        endpoints: Vec::new(),
        manifest: None,
        ..agent.facts.clone()
    };
    sent(
        world
            .server
            .handle_found(now, proving, Found::Peer(Ok(root)), &world.book),
    );
    // Another root: not signed by whoever owns the name, also after a second look.
    let proving = asked(&mut world, agent.own, ShowManifest::Inline);
    let other = Facts {
        endpoints: Vec::new(),
        manifest: None,
        ..published(&[9], UNIX - 100).facts
    };
    let found = Found::Peer(Ok(other));
    let reply = world
        .server
        .handle_found(now, proving, found.clone(), &world.book);
    let Ok(Reply::Resolve(proving)) = reply else {
        panic!("{reply:?}");
    };
    let reply = world.server.handle_found(now, proving, found, &world.book);
    let refused = refusal(reply);
    assert_eq!(refused.failure.code, ErrorCode::UnverifiedAgent);
    assert!(refused.proven);
}

#[test]
fn threat_80_trouble_with_the_network_is_told_as_such() {
    let mut world = World::new();
    let now = world.now();
    for (error, code) in [
        (
            a2a_identity::ResolveError::Unavailable("https://web.example.com".into()),
            ErrorCode::ServiceUnavailable,
        ),
        (
            a2a_identity::ResolveError::NotFound("https://web.example.com".into()),
            ErrorCode::UnverifiedAgent,
        ),
    ] {
        let agent = published(&[5], UNIX - 100);
        let proving = asked(&mut world, agent.own, ShowManifest::ByHash);
        let found = Found::Peer(Err(error));
        let refused = refusal(world.server.handle_found(now, proving, found, &world.book));
        assert_eq!(refused.failure.code, code);
        assert!(!String::from_utf8_lossy(&refused.message).contains("example"));
        assert_eq!(world.server.half_open(), 0);
    }
}

/// The usual client with a word of someone for it, signed by the key of a seed.
fn endorsed(issuer: &Did, seed: u8) -> Object<'static> {
    let payload = EndorsementPayload {
        issuer: issuer.to_text().unwrap(),
        issued_at: UnixSeconds(UNIX - 500),
        expires_at: None,
        trust_level: "verified".parse().unwrap(),
        subject: did(CLIENT).to_text().unwrap(),
        subject_keys: None,
        capabilities: None,
    };
    let entry =
        a2a_identity::endorse(&payload, &format!("k{seed}").parse().unwrap(), &key(seed)).unwrap();
    let entry = serde_json::to_value(entry.write()).unwrap();
    let mut draft = draft(
        &did(CLIENT).to_string(),
        &[jwk("k", CLIENT)],
        "a.example.com",
    );
    draft["trust_chain"] = json!([entry]);
    signed(&draft, "k", CLIENT, UNIX - 100)
}

/// Who vouches is asked for; who is not found counts for nothing.
#[test]
fn threat_86_89_those_who_vouch() {
    let mut world = World::with(|config| {
        config.trust.min_trust_level = TrustLevel::Verified;
        config.trust.anchors = vec![Anchor {
            did: name(),
            public_key: None,
            min_trust_level: TrustLevel::Verified,
        }];
    });
    let own = |issuer: &Did| {
        let manifest = endorsed(issuer, 9);
        Arc::new(Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap())
    };
    let now = world.now();
    let proving = asked(&mut world, own(&name()), ShowManifest::Inline);
    assert_eq!(*proving.need(), Need::Issuers(vec![name()]));
    let facts = published(&[9], UNIX - 1000).facts;
    let known = Issuer::resolved(&facts.root, facts.manifest);
    let found = Found::Issuers(BTreeMap::from([(name().to_string(), known)]));
    sent(world.server.handle_found(now, proving, found, &world.book));
    let proving = asked(&mut world, own(&name()), ShowManifest::Inline);
    let nothing = Found::Issuers(BTreeMap::new());
    let refused = refusal(
        world
            .server
            .handle_found(now, proving, nothing, &world.book),
    );
    assert_eq!(refused.failure.reason, Some(Reason::TrustLevel));

    let stranger: Did = "did:web:stranger.example.com".parse().unwrap();
    let config = world.client_config();
    let begun = ExpectChallenge::begin(own(&stranger), config.into(), now, &mut world.random);
    let (client, hello) = begun.unwrap();
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    // An anchor might vouch for the stranger, so one question is asked, and no more.
    let resolutions = world.resolutions;
    let refused = refusal(world.serve(&proof));
    assert_eq!(refused.failure.reason, Some(Reason::TrustLevel));
    assert_eq!(world.resolutions, resolutions + 1);
}

/// A manifest is kept only of who has proven itself. Known again, it is still refused when it has ended.
#[test]
fn a_known_manifest_does_not_outlive_its_end() {
    let mut world = World::new();
    let keys = [jwk("k", CLIENT)];
    let mut draft = draft(&did(CLIENT).to_string(), &keys, "a.example.com");
    draft["expires_at"] = json!(UNIX + 100);
    let manifest = signed(&draft, "k", CLIENT, UNIX - 10);
    let own = Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap();
    let (own, config) = (Arc::new(own), world.client_config());
    let kept = |world: &World| world.book.known_manifest(&did(CLIENT));

    let (client, hello) = world.begin_as(Arc::clone(&own), config.clone());
    let challenge = sent(world.serve(&hello));
    assert!(kept(&world).is_none(), "it has proven nothing yet");
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
    let first = kept(&world).unwrap();

    world.shake_as(Arc::clone(&own), config.clone());
    assert!(Arc::ptr_eq(&first, &kept(&world).unwrap()), "it is known");
    world.wait(100);
    let (_, hello) = world.begin_as(own, config);
    let failure = refusal(world.serve(&hello)).failure;
    assert_eq!(
        (failure.code, failure.reason),
        (ErrorCode::InvalidManifest, Some(Reason::ManifestExpired))
    );
}
