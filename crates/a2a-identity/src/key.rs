//! Ed25519 keys. The only code that signs or verifies bytes.

mod often;

use std::fmt;
use std::sync::LazyLock;

use aws_lc_rs::signature::Ed25519KeyPair;
use canonical::Digest;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::{EdwardsPoint, Scalar};
use ed25519_dalek::Signer as _;
use sha2::{Digest as _, Sha512};
use zeroize::Zeroizing;

use crate::{NoRandomness, Randomness};

/// A public key that can be trusted to mean something: a canonical point that is not of small
/// order. A key of small order would let one fixed signature pass for any message.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

/// How the points of small order are spelled.
static SMALL_ORDER: LazyLock<[[u8; 32]; 8]> =
    LazyLock::new(|| EIGHT_TORSION.map(|point| point.compress().to_bytes()));

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
        if let Some(known) = often::known(bytes) {
            return Ok(known);
        }
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| WeakKey)?;
        match is_canonical(bytes) && !key.is_weak() {
            true => Ok(Self(key)),
            false => Err(WeakKey),
        }
    }

    /// The 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The key of these bytes, if it is this one: then it need not be decoded, which costs a square
    /// root.
    pub(crate) fn if_spelled(&self, bytes: &[u8; 32]) -> Option<Self> {
        (self.0.as_bytes() == bytes).then(|| self.clone())
    }

    /// The hash of the raw key, as endorsements and pins name it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Whether this key made the signature; strictly (RFC 8032, S reduced, R canonical and not of
    /// small order).
    ///
    /// This says what `verify_strict` of ed25519-dalek says, in three quarters of its time. That
    /// decodes R to see whether it is of small order, then computes the point that R must be, and
    /// compares the encodings: if those are equal, the computed point is R. What it computed has one encoding, and so
    /// has each point of small order, so those are compared, and R, which costs a square root to decode, is not decoded.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let (r, s) = signature.split_at(32);
        let Ok(s) = s.try_into() else { return false };
        let s: Option<Scalar> = Scalar::from_canonical_bytes(s).into();
        let Some(s) = s else { return false };
        let mut hash = Sha512::new();
        hash.update(r);
        hash.update(self.0.as_bytes());
        hash.update(message);
        let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        let minus_a = -self.0.to_edwards();
        let multiples = often::multiples_of(self.0.as_bytes());
        let expected = multiples.and_then(|multiples| often::sum(&multiples, &k, &s));
        let expected = expected.unwrap_or_else(|| {
            EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &minus_a, &s)
                .compress()
                .to_bytes()
        });
        let verifies = expected == r && !SMALL_ORDER.contains(&expected);
        if verifies {
            often::has_signed(self, &minus_a);
        }
        verifies
    }
}

/// Whether these are the one spelling of their point: y, the 255 low bits, must be below
/// p = 2^255 − 19. (The top bit is the sign of x; only where x is 0 it could be set or not, and
/// those points are of small order.)
fn is_canonical(bytes: &[u8; 32]) -> bool {
    let [first, middle @ .., last] = bytes;
    let all_ones = middle.iter().all(|byte| *byte == 0xff) && last & 0x7f == 0x7f;
    !all_ones || *first < 0xed
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
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    /// The same key where it signs twice as fast. RFC 8032 leaves one signature for a message, so it
    /// does not matter who makes it.
    signer: Option<Ed25519KeyPair>,
}

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
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        let signer = Ed25519KeyPair::from_seed_and_public_key(seed, key.verifying_key().as_bytes());
        Self {
            key,
            signer: signer.ok(),
        }
    }

    /// The public half.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.key.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        let signed = self.signer.as_ref().map(|signer| signer.sign(message));
        signed
            .and_then(|signature| signature.as_ref().try_into().ok())
            .unwrap_or_else(|| self.key.sign(message).to_bytes())
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.key.as_bytes()
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

    #[test]
    fn both_signers_make_the_same_signature() {
        for seed in [[0; 32], [7; 32], [0xff; 32]] {
            let key = SigningKey::from_seed(&seed);
            assert!(key.signer.is_some());
            for length in [0, 1, 63, 1000] {
                let message = vec![b'm'; length];
                assert_eq!(key.sign(&message), key.key.sign(&message).to_bytes());
            }
        }
    }

    /// Signatures that are right, wrong in each byte, and wrong on purpose: S not reduced, and each R
    /// of small order with the S that fits the identity.
    #[test]
    fn what_verifies_is_what_strict_verification_says() {
        let key = SigningKey::from_seed(&[7; 32]);
        let public = key.verifying_key();
        let strictly = |message: &[u8], signature: &[u8; 64]| {
            let signature = ed25519_dalek::Signature::from_bytes(signature);
            public.0.verify_strict(message, &signature).is_ok()
        };
        let mut accepted = 0;
        let mut compare = |message: &[u8], signature: &[u8; 64]| {
            let verifies = public.verifies(message, signature);
            assert_eq!(verifies, strictly(message, signature), "{signature:?}");
            accepted += usize::from(verifies);
        };
        let lengths = [0_u8, 1, 63, 200];
        for (round, length) in lengths.iter().chain(&lengths).copied().enumerate() {
            // The second time of a key that has signed often.
            if round == lengths.len() {
                let signature = key.sign(b"often");
                assert!((0..64).all(|_| public.verifies(b"often", &signature)));
                assert!(often::multiples_of(&public.to_bytes()).is_some());
            }
            let message = vec![length; usize::from(length)];
            let signature = key.sign(&message);
            compare(&message, &signature);
            compare(b"other", &signature);
            for place in 0..64 {
                for bit in [1, 0x10, 0x80] {
                    let mut changed = signature;
                    changed[place] ^= bit;
                    compare(&message, &changed);
                }
            }
            let mut unreduced = signature;
            let mut carry = 0;
            for (byte, order) in unreduced.iter_mut().skip(32).zip(ORDER) {
                let sum = u16::from(*byte) + u16::from(order) + carry;
                (*byte, carry) = (sum.to_le_bytes()[0], sum >> 8);
            }
            compare(&message, &unreduced);
            // S·B is k·A then, so that R must be the identity, which the equation alone would take.
            let secret = key.key.to_scalar();
            for point in EIGHT_TORSION {
                for sign in [0, 0x80] {
                    let mut forged = [0; 64];
                    forged[..32].copy_from_slice(point.compress().as_bytes());
                    forged[31] ^= sign;
                    let mut hash = Sha512::new();
                    hash.update(&forged[..32]);
                    hash.update(public.to_bytes());
                    hash.update(&message);
                    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
                    forged[32..].copy_from_slice((k * secret).as_bytes());
                    compare(&message, &forged);
                }
            }
        }
        assert_eq!(accepted, 8);
    }

    /// Of the group, in the order in which S is written.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

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
                assert!(!is_canonical(&bytes));
                assert_eq!(VerifyingKey::from_bytes(&bytes), Err(WeakKey));
            }
        }
        let mut largest = [0xff; 32];
        (largest[0], largest[31]) = (0xec, 0x7f);
        assert!(is_canonical(&largest) && is_canonical(&[0xfe; 32]));
        let good = SigningKey::from_seed(&[1; 32]).verifying_key();
        assert_eq!(VerifyingKey::from_bytes(&good.to_bytes()), Ok(good));
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
