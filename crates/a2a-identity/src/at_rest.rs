//! Secrets on a disk: ChaCha20-Poly1305 with a key of their own.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use zeroize::Zeroizing;

use crate::{NoRandomness, Randomness};

/// Seals secrets of a store. Not for messages: those have counters of their own ([`crate::seal`]).
#[derive(Clone)]
pub struct AtRest(Zeroizing<[u8; 32]>);

/// What was sealed cannot be opened: with this key, in this context, or at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret cannot be opened: it was changed, or sealed for another place or with another key"
)]
pub struct CannotOpenSecret;

/// Random, so that one key does for billions of secrets.
const NONCE: usize = 12;

impl AtRest {
    /// With this key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*key))
    }

    /// Seals a secret so that it opens in the same context alone.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn seal(
        &self,
        context: &[u8],
        secret: &[u8],
        random: &mut dyn Randomness,
    ) -> Result<Vec<u8>, NoRandomness> {
        let mut nonce = [0; NONCE];
        random.fill(&mut nonce)?;
        let payload = Payload {
            msg: secret,
            aad: context,
        };
        // It fails only for secrets of 256 GiB.
        let sealed = self.cipher().encrypt(&Nonce::from(nonce), payload);
        Ok([&nonce, sealed.map_err(|_| NoRandomness)?.as_slice()].concat())
    }

    /// Opens what was sealed in the same context.
    ///
    /// # Errors
    /// If it was not, or was changed.
    pub fn open(
        &self,
        context: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, CannotOpenSecret> {
        let (nonce, sealed) = sealed
            .split_first_chunk::<NONCE>()
            .ok_or(CannotOpenSecret)?;
        let payload = Payload {
            msg: sealed,
            aad: context,
        };
        let secret = self.cipher().decrypt(&Nonce::from(*nonce), payload);
        secret.map(Zeroizing::new).map_err(|_| CannotOpenSecret)
    }

    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new((&*self.0).into())
    }
}

impl std::fmt::Debug for AtRest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AtRest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> (AtRest, Vec<u8>) {
        let cipher = AtRest::new(&[7; 32]);
        let mut random = |bytes: &mut [u8]| {
            bytes.fill(9);
            Ok(())
        };
        let sealed = cipher.seal(b"ada", b"secret", &mut random).unwrap();
        (cipher, sealed)
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_alone() {
        let (cipher, sealed) = sealed();
        assert_eq!(*cipher.open(b"ada", &sealed).unwrap(), b"secret");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(cipher.open(b"eve", &sealed), Err(CannotOpenSecret));
        let other = AtRest::new(&[8; 32]);
        assert_eq!(other.open(b"ada", &sealed), Err(CannotOpenSecret));
        assert_eq!(format!("{cipher:?}"), "AtRest");
    }

    #[test]
    fn no_bit_can_be_changed() {
        let (cipher, sealed) = sealed();
        for length in 0..sealed.len() {
            assert!(cipher.open(b"ada", &sealed[..length]).is_err());
            let mut changed = sealed.clone();
            changed[length] ^= 1;
            assert!(cipher.open(b"ada", &changed).is_err());
        }
    }
}
