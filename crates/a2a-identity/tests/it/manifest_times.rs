//! Profile §5, when a manifest counts: expiry, age, rollback, and what an operator pinned.

use a2a_identity::{ManifestError, Pins, RootKeys, Seen, verify_manifest};
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
        let check = a2a_identity::ManifestCheck {
            did: &did,
            root: &root,
            now: NOW,
            peer: a2a_identity::Peer::Profile,
            max_age: a2a_identity::MAX_AGE,
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
