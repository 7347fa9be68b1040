//! Profile §5, when a manifest counts: expiry, age, rollback, and what an operator pinned.

use a2a_identity::{
    Did, MAX_AGE, ManifestCheck, ManifestError, ManifestSummary, Peer, Pins, RootKeys, Seen,
    verify_manifest,
};
use a2a_wire::{ErrorCode, Reason};
use serde_json::{Value, json};

use crate::manifests::made;
use crate::{NOW, did_key, draft, key, signed, signed_at, verify, verify_with};

fn root() -> RootKeys {
    RootKeys::DidKey(key(1).verifying_key())
}

#[test]
fn threat_68_times() {
    let ends = |end: Value| made(|m| m["expires_at"] = end);
    assert!(ends(json!(NOW.0 + 1)).is_ok() && ends(Value::Null).is_ok());
    let error = ends(json!(NOW.0)).unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (ErrorCode::InvalidManifest, Reason::ManifestExpired)
    );
    let at = |offset: i64| verify(&signed_at(&draft(1), "k", 1, NOW.plus(offset)), 1);
    assert!(at(300).is_ok());
    let error = at(301).unwrap_err();
    assert_eq!(
        (&error, error.reason()),
        (&ManifestError::Future, Reason::ManifestInvalid)
    );
    let month = 30 * 24 * 3600;
    assert!(at(-month).is_ok());
    let error = at(-month - 1).unwrap_err();
    assert_eq!(
        (&error, error.reason()),
        (&ManifestError::TooOld, Reason::ManifestInvalid)
    );
}

#[test]
fn threat_69_rollback() {
    let check = |manifest: &Value, last: Option<Seen>| {
        verify_with(manifest, &did_key(1), &root(), |check| check.last = last)
    };
    let old = signed_at(&draft(1), "k", 1, NOW.plus(-100));
    let mut newer = draft(1);
    newer["agent_id"] = json!("newer");
    let new = signed_at(&newer, "k", 1, NOW.plus(-50));
    let seen_old = check(&old, None).unwrap().seen(None);
    let seen_new = check(&new, Some(seen_old)).unwrap().seen(Some(seen_old));
    // What is remembered is plain data: it survives a restart wherever it is kept.
    let restored = Seen {
        hash: seen_new.hash.to_string().parse().unwrap(),
        ..seen_new
    };
    let error = check(&old, Some(restored)).unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (ErrorCode::InvalidManifest, Reason::ManifestRollback)
    );
    let same_time = signed_at(&draft(1), "k", 1, NOW.plus(-50));
    assert_eq!(
        check(&same_time, Some(seen_new)).unwrap_err(),
        ManifestError::Rollback
    );
    let later = signed_at(&draft(1), "k", 1, NOW.plus(-49));
    assert!(
        check(&later, Some(seen_new)).is_ok(),
        "old content, signed anew, is no rollback"
    );
    // An older signature over the same content is fine, and does not turn the memory back.
    let replica = signed_at(&newer, "k", 1, NOW.plus(-200));
    let verified = check(&replica, Some(seen_new)).unwrap();
    assert_eq!(verified.seen(Some(seen_new)), seen_new);
    assert_eq!(
        check(&same_time, Some(verified.seen(Some(seen_new)))).unwrap_err(),
        ManifestError::Rollback
    );
}

#[test]
fn threat_70_pins() {
    let manifest = signed(&draft(1), 1);
    let hash = verify(&manifest, 1).unwrap().hash();
    let check = |pins: Pins| {
        let root = root();
        let did = did_key(1);
        let check = ManifestCheck {
            did: &did,
            root: &root,
            now: NOW,
            peer: Peer::Profile,
            max_age: MAX_AGE,
            last: None,
            pins: &pins,
        };
        verify_manifest(manifest.to_string().as_bytes(), &check).map(drop)
    };
    let (mine, other) = (
        key(1).verifying_key().digest(),
        key(2).verifying_key().digest(),
    );
    assert!(
        check(Pins {
            manifest: Some(hash),
            keys: vec![other, mine]
        })
        .is_ok()
    );
    for pins in [
        Pins {
            manifest: Some(a2a_wire::Digest::of(b"")),
            keys: vec![],
        },
        Pins {
            manifest: None,
            keys: vec![other],
        },
    ] {
        let error = check(pins).unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (ErrorCode::InvalidManifest, Reason::PinMismatch)
        );
    }
}

fn usual<'a>(did: &'a Did, root: &'a RootKeys, pins: &'a Pins) -> ManifestCheck<'a> {
    ManifestCheck {
        did,
        root,
        now: NOW,
        peer: Peer::Profile,
        max_age: MAX_AGE,
        last: None,
        pins,
    }
}

/// What is known again is refused for all that a new manifest is refused for, and with the same error.
#[test]
fn a_known_manifest_is_judged_like_a_new_one() {
    let mut draft = draft(1);
    draft["expires_at"] = json!(NOW.0 + 1000);
    draft["public_keys"][0]["expires_at"] = json!(NOW.0 + 500);
    let text = serde_json::to_vec(&signed_at(&draft, "k", 1, NOW.plus(-100))).unwrap();
    let (did, root, none) = (did_key(1), root(), Pins::default());
    let usual = usual(&did, &root, &none);
    let known = ManifestSummary::verify(&text, &usual).unwrap();
    let hash = known.manifest().hash();
    let other = canonical::Digest::of(b"other");
    let key_hash = key(1).verifying_key().digest();
    let mut checks = vec![usual.clone()];
    for at in [-401, -400, 0, 499, 500, 999, 1000, MAX_AGE] {
        let now = NOW.plus(at);
        checks.push(ManifestCheck {
            now,
            ..usual.clone()
        });
    }
    for max_age in [99, 100] {
        checks.push(ManifestCheck {
            max_age,
            ..usual.clone()
        });
    }
    for (hash, at) in [(hash, 0), (other, -101), (other, -100)] {
        let timestamp = NOW.plus(at);
        let last = Some(Seen { hash, timestamp });
        checks.push(ManifestCheck {
            last,
            ..usual.clone()
        });
    }
    let pins = [
        (Some(hash), vec![other, key_hash]),
        (Some(other), Vec::new()),
        (None, vec![other]),
    ]
    .map(|(manifest, keys)| Pins { manifest, keys });
    for pins in &pins {
        checks.push(ManifestCheck {
            pins,
            ..usual.clone()
        });
    }
    let mut refused = Vec::new();
    for check in &checks {
        let new = ManifestSummary::verify(&text, check).map(drop);
        assert_eq!(known.verify_again(&text, check), Some(new.clone()));
        refused.extend(new.err());
    }
    for error in [
        ManifestError::Future,
        ManifestError::NoDidKey,
        ManifestError::Expired,
        ManifestError::TooOld,
        ManifestError::Rollback,
        ManifestError::Pin,
    ] {
        assert!(refused.contains(&error), "{error:?} of {refused:?}");
    }
}

/// Only the very text is known again, of the same agent, verified in the same way.
#[test]
fn another_manifest_is_not_known() {
    let text = serde_json::to_vec(&signed_at(&draft(1), "k", 1, NOW)).unwrap();
    let (did, other, root, none) = (did_key(1), did_key(2), root(), Pins::default());
    let usual = usual(&did, &root, &none);
    let known = ManifestSummary::verify(&text, &usual).unwrap();
    assert_eq!(known.verify_again(&text, &usual), Some(Ok(())));
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        assert_eq!(known.verify_again(&changed, &usual), None);
    }
    let longer = [&text[..], b" "].concat();
    assert_eq!(known.verify_again(&longer, &usual), None);
    for root in [
        RootKeys::DidKey(key(2).verifying_key()),
        RootKeys::Document(root.agent_keys(None, Some(known.manifest())).unwrap()),
        {
            let did = "did:github:o/r".parse().unwrap();
            let mut github = draft(1);
            github["agent_did"] = serde_json::json!("did:github:o/r");
            crate::resolved_github(&did, &signed(&github, 1)).unwrap().0
        },
    ] {
        let root = &root;
        let check = ManifestCheck {
            root,
            ..usual.clone()
        };
        assert_eq!(known.verify_again(&text, &check), None);
    }
    let did = &other;
    let check = ManifestCheck {
        did,
        ..usual.clone()
    };
    assert_eq!(known.verify_again(&text, &check), None);
    let peer = Peer::Baseline;
    let check = ManifestCheck { peer, ..usual };
    assert_eq!(known.verify_again(&text, &check), None);
}
