//! What must hold for any input.

use a2a_identity::{Did, Peer, Signed, sign};
use a2a_wire::{AuditPayload, Count, Digest, UnixSeconds};
use proptest::prelude::*;

use crate::{NOW, did_key, draft, key, kid, set, signed, verify};

fn jws(log_id: &str, seq: u64) -> String {
    let payload = AuditPayload {
        issuer: did_key(1).to_text().unwrap(),
        timestamp: NOW,
        log_id: log_id.parse().unwrap(),
        seq: Count::new(seq).unwrap(),
        head_hash: Digest::of(log_id.as_bytes()),
    };
    sign(&payload, &kid("k"), &key(1))
}

fn verifies(jws: &str) -> bool {
    let signed = Signed::<AuditPayload>::parse_within(jws, Peer::Baseline, 1 << 20);
    signed
        .and_then(|signed| signed.verify(&set(&[("k", 1)]), NOW))
        .is_ok()
}

/// A flipped bit anywhere in a JWS never verifies: every bit of one is tried.
#[test]
fn no_flipped_bit_of_a_jws_verifies() {
    let good = jws("log", 1);
    assert!(verifies(&good));
    for at in 0..good.len() {
        for bit in 0..7 {
            let mut bytes = good.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let forged = String::from_utf8(bytes).unwrap();
            assert!(!verifies(&forged), "byte {at}, bit {bit}: {forged}");
        }
    }
}

/// The same for a whole manifest: what verifies has the same content.
#[test]
fn no_flipped_bit_of_a_manifest_verifies() {
    let good = signed(&draft(1), 1);
    let hash = verify(&good, 1).unwrap().hash();
    let text = good.to_string();
    for at in 0..text.len() {
        let bit = at % 7;
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1 << bit;
        let Ok(forged) = String::from_utf8(bytes) else {
            continue;
        };
        let Ok(forged) = serde_json::from_str::<serde_json::Value>(&forged) else {
            continue;
        };
        // The name `manifest_hash` may be lost: the member is then one more, and hashed.
        if let Ok(verified) = verify(&forged, 1) {
            assert_eq!(verified.hash(), hash, "byte {at}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_nothing_else(log_id in "[ -~]{0,40}", seq in 0_u64..1 << 53, at in any::<prop::sample::Index>(), bit in 0_u8..7) {
        let good = jws(&log_id, seq);
        prop_assert!(verifies(&good));
        let mut bytes = good.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(!verifies(&String::from_utf8(bytes).unwrap()));
    }

    #[test]
    fn a_canonical_did_is_its_own_canonical_form(text in "did:(web|github|key):[a-zA-Z0-9./:%~_-]{0,40}") {
        if let Ok(did) = Did::parse(&text, Peer::Baseline) {
            let canonical = did.to_string();
            prop_assert_eq!(canonical.parse(), Ok(did));
        }
    }

    #[test]
    fn near_is_three_hundred_seconds_either_way(offset in -1000_i64..1000) {
        let claimed = UnixSeconds(NOW.0 + offset);
        prop_assert_eq!(claimed.is_near(NOW), offset.abs() <= 300);
    }
}
