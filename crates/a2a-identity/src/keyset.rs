//! The keys of an agent (profile §3).

use a2a_wire::{Kid, PublicKey, UnixSeconds};
use canonical::base64url;

use crate::{VerifyingKey, WeakKey};

/// Keys a set may have.
pub const MAX_KEYS: usize = 10;
/// Seconds that a deprecated key without an end of its own verifies after its manifest was signed.
pub const DEPRECATION: i64 = 24 * 3600;

/// Keys with different names and different bytes, one to ten of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// A named key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub kid: Kid,
    /// The key.
    pub key: VerifyingKey,
    /// What it may be used for.
    pub status: KeyStatus,
    /// When it ends.
    pub expires_at: Option<UnixSeconds>,
}

/// What a key may be used for; the later ones are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyStatus {
    /// Signs and verifies.
    Active,
    /// Verifies what was signed before.
    Deprecated,
    /// A word we do not know: nothing.
    Unknown,
    /// Nothing, ever again.
    Revoked,
}

/// Why keys are refused; the whole set is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// There are none.
    #[error("there is no key")]
    Empty,
    /// There are more than [`MAX_KEYS`].
    #[error("{0} keys are more than 10")]
    TooMany(usize),
    /// One of them is wrong.
    #[error("public_keys[{index}]: {problem}")]
    Key {
        /// Which.
        index: usize,
        /// What is wrong with it.
        problem: KeyProblem,
    },
}

/// What can be wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// A secret was published. Whoever reads this should tell its owner.
    #[error("it has a member `d`: a private key was published and must be replaced")]
    PrivatePart,
    /// It has no name.
    #[error("it has no `kid`")]
    NoKid,
    /// Two keys have one name.
    #[error("its `kid` stands twice")]
    KidTwice,
    /// Two names have one key.
    #[error("the same key stands twice")]
    KeyTwice,
    /// Another kind of key.
    #[error("`{0}` is not that of an Ed25519 signing key")]
    Member(&'static str),
    /// There are no 32 bytes.
    #[error("it has no 32 bytes in strict base64url in `key` or `x`")]
    NoBytes,
    /// `key` and `x` differ.
    #[error("`key` and `x` differ")]
    Contradiction,
    /// The bytes are no usable key.
    #[error(transparent)]
    Weak(#[from] WeakKey),
}

impl KeySet {
    /// Reads keys as peers write them. `signed_at` is when the manifest with them was signed, if it
    /// was: it ends deprecated keys that say no end themselves.
    ///
    /// # Errors
    /// If any of them is wrong.
    pub fn read(keys: &[PublicKey], signed_at: Option<UnixSeconds>) -> Result<Self, KeySetError> {
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany(keys.len()));
        }
        let wrong = |index, problem| KeySetError::Key { index, problem };
        let mut set = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let read = read_key(key);
            set.push(read.map_err(|problem| wrong(index, problem))?);
        }
        let set = Self::new(set)?;
        Ok(match signed_at {
            Some(timestamp) => set.signed_at(timestamp),
            None => set,
        })
    }

    /// A set of these keys.
    ///
    /// # Errors
    /// If there are none or too many, or two have one name or one key.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeySetError> {
        match keys.len() {
            0 => return Err(KeySetError::Empty),
            count if count > MAX_KEYS => return Err(KeySetError::TooMany(count)),
            _ => {}
        }
        for (index, key) in keys.iter().enumerate() {
            let mut earlier = keys.iter().take(index);
            if let Some(twin) = earlier.find(|other| other.kid == key.kid || other.key == key.key) {
                let problem = match twin.kid == key.kid {
                    true => KeyProblem::KidTwice,
                    false => KeyProblem::KeyTwice,
                };
                return Err(KeySetError::Key { index, problem });
            }
        }
        Ok(Self { keys })
    }

    /// The same keys, in a manifest that was signed then: that ends deprecated keys that say no end
    /// themselves.
    #[must_use]
    pub(crate) fn signed_at(mut self, timestamp: UnixSeconds) -> Self {
        for key in &mut self.keys {
            if key.status == KeyStatus::Deprecated && key.expires_at.is_none() {
                key.expires_at = Some(timestamp.plus(DEPRECATION));
            }
        }
        self
    }

    /// The key of this name.
    #[must_use]
    pub fn get(&self, kid: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.kid.as_str() == kid)
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// Whether each of these keys is here, with the same name and bytes: what HELLO and CHALLENGE
    /// claim is compared so with what was verified.
    #[must_use]
    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|other| {
            self.get(other.kid.as_str())
                .is_some_and(|key| key.key == other.key)
        })
    }
}

impl Key {
    /// Whether signatures of this key count now.
    #[must_use]
    pub fn verifies_at(&self, now: UnixSeconds) -> bool {
        let open = self.expires_at.is_none_or(|end| now < end);
        match self.status {
            KeyStatus::Active => open,
            // Without an end nobody knows how long it was meant to go on.
            KeyStatus::Deprecated => open && self.expires_at.is_some(),
            KeyStatus::Revoked | KeyStatus::Unknown => false,
        }
    }

    /// Whether this key may sign now.
    #[must_use]
    pub fn signs_at(&self, now: UnixSeconds) -> bool {
        self.status == KeyStatus::Active && self.verifies_at(now)
    }
}

impl KeyStatus {
    /// The word on the wire; `None` for the default.
    #[must_use]
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Active => None,
            Self::Deprecated => Some("deprecated"),
            Self::Revoked => Some("revoked"),
            Self::Unknown => Some("unknown"),
        }
    }

    pub(crate) fn of(word: Option<&str>) -> Self {
        match word {
            None | Some("active") => Self::Active,
            Some("deprecated") => Self::Deprecated,
            Some("revoked") => Self::Revoked,
            Some(_) => Self::Unknown,
        }
    }
}

fn read_key(key: &PublicKey) -> Result<Key, KeyProblem> {
    if key.d.is_some() {
        return Err(KeyProblem::PrivatePart);
    }
    Ok(Key {
        kid: key.kid.clone().ok_or(KeyProblem::NoKid)?,
        key: read_key_bytes(key)?,
        status: KeyStatus::of(key.status.as_ref().map(|word| word.as_str())),
        expires_at: key.expires_at.and_then(|end| end.0),
    })
}

/// The key of a JWK, whatever its name and state.
pub(crate) fn read_key_bytes(key: &PublicKey) -> Result<VerifyingKey, KeyProblem> {
    if key.d.is_some() {
        return Err(KeyProblem::PrivatePart);
    }
    let word = |word: &Option<a2a_wire::Word>| word.as_ref().map(|word| word.as_str().to_owned());
    let is = |found: &Option<a2a_wire::Word>, allowed: &[&str]| {
        word(found).is_none_or(|found| allowed.contains(&found.as_str()))
    };
    let curve_is_stated = key.crv.is_some();
    let needs_curve = word(&key.kty).as_deref() == Some("OKP") && key.x.is_some();
    for (name, fits) in [
        ("kty", is(&key.kty, &["EC", "OKP"])),
        (
            "crv",
            is(&key.crv, &["Ed25519"]) && (curve_is_stated || !needs_curve),
        ),
        ("alg", is(&key.alg, &["EdDSA"])),
        ("use", is(&key.usage, &["sig"])),
    ] {
        if !fits {
            return Err(KeyProblem::Member(name));
        }
    }
    let text = match (&key.key, &key.x) {
        (Some(key), Some(x)) if key != x => return Err(KeyProblem::Contradiction),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => return Err(KeyProblem::NoBytes),
    };
    let bytes = base64url::decode_padded(text.as_str()).map_err(|_| KeyProblem::NoBytes)?;
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| KeyProblem::NoBytes)?;
    Ok(VerifyingKey::from_bytes(&bytes)?)
}
