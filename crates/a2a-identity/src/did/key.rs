//! did:key with Ed25519.

use std::fmt;
use std::sync::Arc;

use super::DidError;
use crate::{Peer, VerifyingKey};

/// `ed25519-pub` of the multicodec table, as a varint.
const ED25519_PUB: [u8; 2] = [0xed, 0x01];

/// How keys of other types begin (did:key, "Signature Method Creation Algorithm"): the prefix of their
/// type in base58btc, which is constant as all keys of a type have one length.
const OTHER_KEY_TYPES: [(&str, &str); 9] = [
    ("z6LS", "X25519"),
    ("zQ3s", "secp256k1"),
    ("zDn", "P-256"),
    ("z82", "P-384"),
    ("z2J9", "P-521"),
    ("z4MX", "RSA"),
    ("zgg", "RSA"),
    ("zUC7", "BLS12-381"),
    ("z2dm", "a JWK"),
];

/// A DID that is a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DidKey {
    key: VerifyingKey,
    /// It is asked for with every message, and costs microseconds.
    text: Arc<str>,
}

impl DidKey {
    /// The DID of a key.
    #[must_use]
    pub fn new(key: VerifyingKey) -> Self {
        let bytes = [ED25519_PUB.as_slice(), &key.to_bytes()].concat();
        let text = format!("did:key:z{}", bs58::encode(bytes).into_string()).into();
        Self { key, text }
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &VerifyingKey {
        &self.key
    }

    pub(super) fn parse(id: &str, peer: Peer) -> Result<Self, DidError> {
        match multibase_key(id) {
            Ok(key) => Ok(Self {
                key,
                text: format!("did:key:{id}").into(),
            }),
            Err(error) => match peer {
                Peer::Profile => Err(error),
                Peer::Baseline => bare_key(id).map(Self::new).ok_or(error),
            },
        }
    }
}

/// The key of `z6Mk…`: base58btc of the prefix and 32 bytes.
pub(crate) fn multibase_key(text: &str) -> Result<VerifyingKey, DidError> {
    for (beginning, name) in OTHER_KEY_TYPES {
        if text.starts_with(beginning) {
            return Err(DidError::UnsupportedKeyType(name));
        }
    }
    let bytes = decode(text).ok_or(DidError::Malformed("a key is `z` and base58btc"))?;
    let [0xed, 0x01, key @ ..] = bytes.as_slice() else {
        return Err(DidError::Malformed("the key has not the prefix of Ed25519"));
    };
    let key = key
        .try_into()
        .map_err(|_| DidError::Malformed("an Ed25519 key has 32 bytes"))?;
    VerifyingKey::from_bytes(key)
        .map_err(|_| DidError::Malformed("it is not a canonical point of large order"))
}

/// What the base specification's pseudo-code makes: the 32 bytes without prefix.
fn bare_key(text: &str) -> Option<VerifyingKey> {
    let bytes: [u8; 32] = decode(text)?.try_into().ok()?;
    VerifyingKey::from_bytes(&bytes).ok()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    // 34 bytes take at most 47 digits; decoding costs the square of the length.
    let digits = text.strip_prefix('z').filter(|digits| digits.len() <= 64)?;
    let bytes = bs58::decode(digits).into_vec().ok()?;
    // One key has one name.
    (bs58::encode(&bytes).into_string() == digits).then_some(bytes)
}

impl fmt::Display for DidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
