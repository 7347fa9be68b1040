//! Profile §3: an agent's own keys, from the first to the last.

use a2a_identity::{
    Did, GRACE, Identity, IdentityError, KeyStatus, MAX_AGE, Peer, RootKeys, SWITCH, Signed, sign,
};
use a2a_wire::{AuditPayload, Count, Digest, UnixSeconds, Write as _};
use canonical::Value;
use serde_json::json;

use crate::{NOW, draft, key, kid, signed_at, verify_with};

fn web() -> Did {
    "did:web:a.example.com".parse().unwrap()
}

fn statuses(identity: &Identity) -> Vec<(&str, KeyStatus)> {
    identity
        .keys()
        .iter()
        .map(|own| (own.kid.as_str(), own.status))
        .collect()
}

fn signer(identity: &Identity, now: UnixSeconds) -> &str {
    identity.signing_key(now).unwrap().kid.as_str()
}

/// Proves A-9-13, A-9-14.
#[test]
fn a_key_takes_over_after_an_hour_and_the_old_one_goes_a_day_later() {
    let mut identity = Identity::new(Some(web()), kid("a"), key(1).verifying_key(), NOW);
    identity
        .rotate(kid("b"), key(2).verifying_key(), NOW)
        .unwrap();
    assert_eq!(signer(&identity, NOW.plus(SWITCH - 1)), "a");
    assert!(!identity.advance(NOW.plus(SWITCH - 1)));
    assert_eq!(
        identity.rotate(kid("c"), key(3).verifying_key(), NOW.plus(1)),
        Err(IdentityError::RotationUnderWay)
    );
    let switched = NOW.plus(SWITCH);
    assert_eq!(identity.next_change(NOW), Some(switched));
    assert!(identity.advance(switched));
    assert_eq!(signer(&identity, switched), "b");
    assert_eq!(identity.next_change(switched), Some(switched.plus(GRACE)));
    assert_eq!(
        statuses(&identity),
        [("a", KeyStatus::Deprecated), ("b", KeyStatus::Active)]
    );
    assert_eq!(identity.keys()[0].expires_at, Some(switched.plus(GRACE)));
    assert!(!identity.advance(switched.plus(GRACE - 1)));
    assert!(identity.advance(switched.plus(GRACE)));
    assert_eq!(statuses(&identity), [("b", KeyStatus::Active)]);
    assert_eq!(identity.next_change(switched.plus(GRACE)), None);
}

#[test]
fn the_key_of_a_did_key_stays() {
    let mut identity = Identity::new(None, kid("a"), key(1).verifying_key(), NOW);
    assert_eq!(*identity.did(), crate::did_key(1));
    identity
        .rotate(kid("b"), key(2).verifying_key(), NOW)
        .unwrap();
    let later = NOW.plus(SWITCH);
    identity.advance(later);
    assert_eq!(
        statuses(&identity),
        [("a", KeyStatus::Active), ("b", KeyStatus::Active)]
    );
    assert_eq!(signer(&identity, later), "b");
    assert_eq!(identity.manifest_key(later).unwrap().kid.as_str(), "a");
    assert_eq!(
        identity.revoke("a", later),
        Err(IdentityError::RootOfDidKey)
    );
    identity.revoke("b", later).unwrap();
    assert_eq!(signer(&identity, later), "a");
}

/// A manifest from before the revocation may be shown for thirty days: so long others must see that
/// the key is revoked.
#[test]
fn a_revoked_key_stays_listed_until_no_older_manifest_counts() {
    let mut identity = Identity::new(Some(web()), kid("a"), key(1).verifying_key(), NOW);
    identity
        .rotate(kid("b"), key(2).verifying_key(), NOW)
        .unwrap();
    identity.revoke("a", NOW).unwrap();
    let is_listed = |identity: &Identity| statuses(identity).contains(&("a", KeyStatus::Revoked));
    identity.advance(NOW.plus(MAX_AGE - 1));
    assert!(is_listed(&identity));
    identity.advance(NOW.plus(MAX_AGE));
    assert_eq!(statuses(&identity), [("b", KeyStatus::Active)]);
}

#[test]
fn what_cannot_be_done() {
    let mut identity = Identity::new(Some(web()), kid("a"), key(1).verifying_key(), NOW);
    assert_eq!(identity.revoke("a", NOW), Err(IdentityError::LastKey));
    assert_eq!(
        identity.revoke("x", NOW),
        Err(IdentityError::NoSuchKey("x".into()))
    );
    for (name, seed) in [("a", 9), ("b", 1)] {
        let outcome = identity.rotate(kid(name), key(seed).verifying_key(), NOW);
        assert_eq!(outcome, Err(IdentityError::Duplicate));
    }
    let mut now = NOW;
    for seed in 2..=10 {
        identity
            .rotate(kid(&format!("k{seed}")), key(seed).verifying_key(), now)
            .unwrap();
        now = now.plus(SWITCH);
    }
    let outcome = identity.rotate(kid("k11"), key(11).verifying_key(), now);
    assert_eq!(outcome, Err(IdentityError::TooMany));
}

#[test]
fn a_revoked_signing_key_hands_over_at_once() {
    let mut identity = Identity::new(Some(web()), kid("a"), key(1).verifying_key(), NOW);
    identity
        .rotate(kid("b"), key(2).verifying_key(), NOW)
        .unwrap();
    identity.revoke("a", NOW).unwrap();
    assert_eq!(signer(&identity, NOW), "b");
    assert_eq!(statuses(&identity)[0], ("a", KeyStatus::Revoked));
}

#[test]
fn the_record_survives() {
    let mut identity = Identity::new(None, kid("a"), key(1).verifying_key(), NOW);
    identity
        .rotate(kid("b"), key(2).verifying_key(), NOW)
        .unwrap();
    identity.revoke("b", NOW).unwrap();
    let record = identity.to_record();
    assert_eq!(Identity::from_record(&record), Ok(identity));
    let text = String::from_utf8(Value::Object(record.clone()).to_canonical()).unwrap();
    assert!(!text.contains("\"d\""), "{text}");
    for name in ["did", "keys"] {
        let mut damaged = record.clone();
        damaged.remove(name);
        assert!(Identity::from_record(&damaged).is_err());
    }
    let mut other = record;
    other.insert("did", Value::String(crate::did_key(9).to_string().into()));
    assert!(
        Identity::from_record(&other).is_err(),
        "not the key of this did:key"
    );
}

/// The keys of an agent whose DID document has another key than those of its manifest.
fn keys_of(manifest: &a2a_identity::VerifiedManifest) -> a2a_identity::KeySet {
    let root = RootKeys::Document(crate::set(&[("other", 77)]));
    root.agent_keys(None, Some(manifest)).unwrap()
}

/// Rotation end to end: at each moment what the agent signs is verified by whoever has the
/// manifest of that moment, and a message signed just before the switch still is.
/// Proves A-9-15.
#[test]
fn threat_54_rotation_end_to_end() {
    let mut identity = Identity::new(Some(web()), kid("k1"), key(1).verifying_key(), NOW);
    let manifest = |identity: &Identity, now: UnixSeconds| {
        let mut draft = draft(1);
        draft["agent_did"] = json!(identity.did().to_string());
        draft["public_keys"] = serde_json::to_value(identity.public_keys().write()).unwrap();
        let own = identity.manifest_key(now).unwrap();
        let seed = if own.kid.as_str() == "k1" { 1 } else { 2 };
        let document = signed_at(&draft, own.kid.as_str(), seed, now);
        let root = RootKeys::Document(
            a2a_identity::KeySet::read(&identity.public_keys(), Some(now)).unwrap(),
        );
        verify_with(&document, identity.did(), &root, |check| check.now = now).unwrap()
    };
    let message = |identity: &Identity, now: UnixSeconds| {
        let own = identity.signing_key(now).unwrap();
        let seed = if own.kid.as_str() == "k1" { 1 } else { 2 };
        let payload = AuditPayload {
            issuer: identity.did().to_text().unwrap(),
            timestamp: now,
            log_id: "l".parse().unwrap(),
            seq: Count::new(1).unwrap(),
            head_hash: Digest::of(b""),
        };
        sign(&payload, &own.kid, &key(seed))
    };
    let accepts = |manifest: &a2a_identity::VerifiedManifest, jws: &str, now: UnixSeconds| {
        let signed: Signed<AuditPayload> =
            Signed::parse(&jws.parse().unwrap(), Peer::Profile).unwrap();
        signed.verify(&keys_of(manifest), now).is_ok()
    };
    let first = manifest(&identity, NOW);
    identity
        .rotate(kid("k2"), key(2).verifying_key(), NOW)
        .unwrap();
    let both = manifest(&identity, NOW.plus(1));
    let before = message(&identity, NOW.plus(SWITCH - 1));
    assert!(
        accepts(&first, &before, NOW.plus(SWITCH - 1))
            && accepts(&both, &before, NOW.plus(SWITCH - 1))
    );
    let now = NOW.plus(SWITCH);
    identity.advance(now);
    let after = message(&identity, now);
    let third = manifest(&identity, now);
    assert!(
        accepts(&both, &after, now),
        "caches of the last hour have the new key"
    );
    assert!(
        !accepts(&first, &after, now),
        "an older cache must be refreshed once"
    );
    assert!(
        accepts(&third, &after, now) && accepts(&third, &before, now),
        "grace"
    );
    assert!(
        !accepts(&third, &before, now.plus(GRACE)),
        "the grace is over"
    );
    identity.advance(now.plus(GRACE));
    let last = manifest(&identity, now.plus(GRACE));
    assert!(keys_of(&last).get("k1").is_none());
    assert!(!accepts(&last, &before, now.plus(GRACE)), "removed");
}
