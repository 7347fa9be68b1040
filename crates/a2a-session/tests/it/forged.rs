//! Manifests that somebody else made for an agent's DID, and old ones of its own (profile §4, §5):
//! what a DID's keys are is said by the DID's own method, and nothing that a peer sends along widens it.

use std::sync::Arc;

use a2a_identity::{Did, Key, KeySet, KeyStatus, ManifestRules, Peer, Pins, Resolved, RootKeys};
use a2a_session::*;
use a2a_wire::{ErrorCode, UnixSeconds};
use canonical::{Object, Value};

use crate::support::{CLIENT, UNIX, URL, World, did, draft, jwk, key, sent, signed, verified};

/// The seed of the true agent's key.
const TRUE: u8 = 5;
/// The seed of the attacker's key.
const FORGER: u8 = 66;

/// A did:key, a did:web and a did:github.
fn names() -> [Did; 3] {
    let web = "did:web:web.example.com".parse().unwrap();
    [did(TRUE), web, "did:github:owner/agent".parse().unwrap()]
}

/// How an agent shows its manifest.
const WAYS: [ShowManifest; 2] = [ShowManifest::Inline, ShowManifest::ByHash];

/// Who verifies it.
#[derive(Debug, Clone, Copy)]
enum Verifier {
    Server,
    Client,
}

fn kid(seed: u8) -> String {
    format!("k{seed}")
}

/// A manifest for a DID that lists the keys of these seeds and is signed by the last of them.
fn manifest(name: &Did, seeds: &[u8], at: i64) -> Object<'static> {
    let keys: Vec<_> = seeds.iter().map(|seed| jwk(&kid(*seed), *seed)).collect();
    let draft = draft(&name.to_string(), &keys, "server.example.com");
    let signer = *seeds.last().unwrap();
    signed(&draft, &kid(signer), signer, at)
}

/// An agent with this manifest that signs with the key of a seed.
fn agent(manifest: Object<'static>, seed: u8) -> Arc<Own> {
    Arc::new(Own::new(manifest, kid(seed).parse().unwrap(), key(seed)).unwrap())
}

fn root_key(seed: u8, status: KeyStatus) -> Key {
    Key {
        kid: kid(seed).parse().unwrap(),
        key: key(seed).verifying_key(),
        status,
        expires_at: None,
    }
}

/// What resolving the DID finds: this manifest where the agent publishes it, and no other keys than
/// those of these seeds.
fn facts(name: &Did, published: &Object<'static>, seeds: &[u8]) -> Facts {
    let root = match name {
        Did::Key(it) => RootKeys::DidKey(it.key().clone()),
        Did::Web(_) => {
            let keys = seeds.iter().map(|seed| root_key(*seed, KeyStatus::Active));
            RootKeys::Document(KeySet::new(keys.collect()).unwrap())
        }
        Did::Github(github) => {
            let text = Value::Object(published.clone()).to_canonical();
            let rules = ManifestRules {
                now: UnixSeconds(UNIX),
                peer: Peer::Profile,
                max_age: a2a_identity::MAX_AGE,
                last: None,
                pins: &Pins::default(),
            };
            let resolved = Resolved::by_operator(github.clone(), text);
            resolved.verify(&rules).unwrap().0
        }
    };
    Facts {
        endpoints: Vec::new(),
        manifest: Some(verified(published, name, &root, UnixSeconds(UNIX))),
        root,
    }
}

/// Whether the agent is taken for whom its DID says.
fn verify(
    verifier: Verifier,
    own: &Arc<Own>,
    show: ShowManifest,
    facts: &Facts,
) -> Result<(), ErrorCode> {
    let mut world = World::new();
    world.known.insert(own.did().to_string(), facts.clone());
    match verifier {
        Verifier::Server => {
            let mut config = world.client_config();
            config.show_manifest = show;
            let (client, hello) = world.begin_as(Arc::clone(own), config);
            let challenge = match world.serve(&hello) {
                Err(refused) => return Err(refused.failure.code),
                reply => sent(reply),
            };
            let (_, proof) = world.challenged(client, &challenge).unwrap();
            let reply = world.serve(&proof);
            reply.map(drop).map_err(|refused| refused.failure.code)
        }
        Verifier::Client => {
            let mut config = ServerConfig::new().unwrap();
            config.show_manifest = show;
            world.server = Server::new(Arc::clone(own), config);
            let config = ClientConfig::new(own.did().clone(), URL).unwrap();
            let (client, hello) = world.begin_with(CLIENT, config);
            let challenge = sent(world.serve(&hello));
            let proven = world.challenged(client, &challenge);
            proven.map(drop).map_err(|aborted| aborted.failure.code)
        }
    }
}

/// Runs a check for each verifier and each way to show a manifest.
fn each(check: impl Fn(Verifier, ShowManifest)) {
    for verifier in [Verifier::Server, Verifier::Client] {
        for show in WAYS {
            check(verifier, show);
        }
    }
}

#[test]
fn the_true_agent_is_verified_inline_and_by_hash_in_both_roles() {
    for name in names() {
        let published = manifest(&name, &[TRUE], UNIX - 100);
        let (own, facts) = (
            agent(published.clone(), TRUE),
            facts(&name, &published, &[TRUE]),
        );
        each(|verifier, show| {
            let verified = verify(verifier, &own, show, &facts);
            assert_eq!(verified, Ok(()), "{name} {verifier:?} {show:?}");
        });
    }
}

/// A manifest for the DID that lists and is signed by the attacker's key alone, or by a key that it
/// adds to the true one.
#[test]
fn forged_manifests_are_rejected_inline_and_by_hash_in_both_roles() {
    for name in names() {
        let published = manifest(&name, &[TRUE], UNIX - 100);
        let facts = facts(&name, &published, &[TRUE]);
        for seeds in [[FORGER].as_slice(), &[TRUE, FORGER]] {
            let forged = agent(manifest(&name, seeds, UNIX - 10), FORGER);
            each(|verifier, show| {
                let verified = verify(verifier, &forged, show, &facts);
                let refused = [ErrorCode::UnverifiedAgent, ErrorCode::InvalidManifest];
                assert!(
                    verified.as_ref().is_err_and(|code| refused.contains(code)),
                    "{name} {seeds:?} {verifier:?} {show:?}: {verified:?}"
                );
            });
        }
    }
}

/// Even the agent's own key cannot bring another manifest in force than the published one: for a
/// did:github only the place proves which it is.
#[test]
fn a_did_github_shows_no_other_manifest_than_the_published_one() {
    let name: Did = "did:github:owner/agent".parse().unwrap();
    let published = manifest(&name, &[TRUE], UNIX - 100);
    let facts = facts(&name, &published, &[TRUE]);
    let other = agent(manifest(&name, &[FORGER, TRUE], UNIX - 10), FORGER);
    each(|verifier, show| {
        let verified = verify(verifier, &other, show, &facts);
        assert_eq!(
            verified,
            Err(ErrorCode::InvalidManifest),
            "{verifier:?} {show:?}"
        );
    });
    // Signed again, the same content has the same hash.
    let again = agent(manifest(&name, &[TRUE], UNIX - 10), TRUE);
    each(|verifier, show| {
        assert_eq!(verify(verifier, &again, show, &facts), Ok(()));
    });
}

/// The DID document says that the key is revoked; a manifest of before, signed by another key of the
/// document, says that it is not.
#[test]
fn a_key_that_the_did_document_revokes_is_not_revived_by_an_older_manifest() {
    let name: Did = "did:web:web.example.com".parse().unwrap();
    let stolen = FORGER;
    let old = manifest(&name, &[stolen, TRUE], UNIX - 20 * 24 * 3600);
    let keys = [
        root_key(TRUE, KeyStatus::Active),
        root_key(stolen, KeyStatus::Revoked),
    ];
    let facts = Facts {
        endpoints: Vec::new(),
        root: RootKeys::Document(KeySet::new(keys.into()).unwrap()),
        manifest: None,
    };
    for verifier in [Verifier::Server, Verifier::Client] {
        let attacker = agent(old.clone(), stolen);
        let verified = verify(verifier, &attacker, ShowManifest::Inline, &facts);
        assert_eq!(verified, Err(ErrorCode::UnverifiedAgent), "{verifier:?}");
        let itself = agent(old.clone(), TRUE);
        assert_eq!(
            verify(verifier, &itself, ShowManifest::Inline, &facts),
            Ok(())
        );
    }
}

/// What was fetched counts as the manifest accepted last: one that is sent along must be newer.
#[test]
fn an_inline_manifest_older_than_the_fetched_one_is_rejected() {
    let name: Did = "did:web:web.example.com".parse().unwrap();
    let given_up = FORGER;
    let old = manifest(&name, &[given_up, TRUE], UNIX - 1000);
    let published = manifest(&name, &[TRUE], UNIX - 100);
    let facts = facts(&name, &published, &[TRUE]);
    for verifier in [Verifier::Server, Verifier::Client] {
        let attacker = agent(old.clone(), given_up);
        let verified = verify(verifier, &attacker, ShowManifest::Inline, &facts);
        assert_eq!(verified, Err(ErrorCode::InvalidManifest), "{verifier:?}");
        let newer = agent(manifest(&name, &[7, TRUE], UNIX - 10), TRUE);
        let verified = verify(verifier, &newer, ShowManifest::Inline, &facts);
        assert_eq!(verified, Ok(()), "{verifier:?}");
    }
}
