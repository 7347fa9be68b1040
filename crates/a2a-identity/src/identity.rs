//! An agent's own keys over time: which sign, which still verify, which are gone (profile §3).
//!
//! Only public things are here; secrets are kept apart, one file a key.

use a2a_wire::{Kid, Nullable, PublicKey, UnixSeconds, Word};
use canonical::{Object, Value, base64url};

use crate::{Did, DidKey, Key, KeySet, KeyStatus, RootKeys, VerifyingKey};

/// Seconds until a new key signs: by then everyone's cache has it.
pub const SWITCH: i64 = 3600;
/// Seconds that a key goes on verifying after another took its place.
pub const GRACE: i64 = 24 * 3600;
/// Seconds that a revoked key stays listed as revoked: as long as a manifest from before may be shown.
pub const REVOKED_LISTED: i64 = crate::MAX_AGE;

/// Who an agent is, and the public halves of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    did: Did,
    keys: Vec<OwnKey>,
}

/// One of an agent's own keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnKey {
    /// Its name.
    pub kid: Kid,
    /// The public half.
    pub key: VerifyingKey,
    /// When it begins to sign.
    pub signs_from: UnixSeconds,
    /// What it may be used for.
    pub status: KeyStatus,
    /// When it ends.
    pub expires_at: Option<UnixSeconds>,
}

/// Why an agent's keys cannot be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// There is no such key.
    #[error("there is no key `{0}`")]
    NoSuchKey(String),
    /// The name or the key is there already.
    #[error("there is already such a key")]
    Duplicate,
    /// There are ten.
    #[error("there are ten keys already; revoked and expired ones go after their time")]
    TooMany,
    /// A did:key is its key.
    #[error("the key of a did:key is the identity itself: make a new identity instead")]
    RootOfDidKey,
    /// No other key could sign.
    #[error("it is the only key that can sign: rotate first")]
    LastKey,
    /// Another key is on its way already.
    #[error("a new key is waiting to take over already: wait until it has, or revoke it first")]
    RotationUnderWay,
    /// The record of the identity is damaged.
    #[error("the record of the identity is damaged: {0}")]
    Damaged(&'static str),
}

impl Identity {
    /// An identity with its first key. Without a DID it is the key's own.
    #[must_use]
    pub fn new(did: Option<Did>, kid: Kid, key: VerifyingKey, now: UnixSeconds) -> Self {
        let did = did.unwrap_or_else(|| Did::Key(DidKey::new(key.clone())));
        Self {
            did,
            keys: vec![OwnKey {
                kid,
                key,
                signs_from: now,
                status: KeyStatus::Active,
                expires_at: None,
            }],
        }
    }

    /// Adds a key that will take over in an hour.
    ///
    /// # Errors
    /// If the name is taken, there are too many, or one is on its way already.
    pub fn rotate(
        &mut self,
        kid: Kid,
        key: VerifyingKey,
        now: UnixSeconds,
    ) -> Result<(), IdentityError> {
        self.advance(now);
        if self.keys.iter().any(|own| own.kid == kid || own.key == key) {
            return Err(IdentityError::Duplicate);
        }
        if self.keys.len() >= crate::keyset::MAX_KEYS {
            return Err(IdentityError::TooMany);
        }
        if self
            .keys
            .iter()
            .any(|own| own.status == KeyStatus::Active && own.signs_from > now)
        {
            return Err(IdentityError::RotationUnderWay);
        }
        self.keys.push(OwnKey {
            kid,
            key,
            signs_from: now.plus(SWITCH),
            status: KeyStatus::Active,
            expires_at: None,
        });
        Ok(())
    }

    /// Ends a key at once and for ever. It stays listed as revoked until no older manifest counts.
    ///
    /// # Errors
    /// If there is no such key, or nothing could sign without it.
    pub fn revoke(&mut self, kid: &str, now: UnixSeconds) -> Result<(), IdentityError> {
        let key = self.key(kid)?;
        if self.is_root(key) {
            return Err(IdentityError::RootOfDidKey);
        }
        let other = |own: &&OwnKey| own.status == KeyStatus::Active && own.kid.as_str() != kid;
        let Some(heir) = self.keys.iter().rfind(other).map(|own| own.kid.clone()) else {
            return Err(IdentityError::LastKey);
        };
        let signed = self
            .signing_key(now)
            .is_some_and(|own| own.kid.as_str() == kid);
        for own in &mut self.keys {
            if own.kid.as_str() == kid {
                own.status = KeyStatus::Revoked;
                own.expires_at = Some(now.plus(REVOKED_LISTED));
            }
            // A key that was waiting takes over at once: there is no other.
            if signed && own.kid == heir && own.signs_from > now {
                own.signs_from = now;
            }
        }
        Ok(())
    }

    /// Does what time has brought: a key that took over makes the one before it deprecated, and what
    /// has ended is dropped. Returns whether anything changed; then the manifest must be signed again.
    pub fn advance(&mut self, now: UnixSeconds) -> bool {
        let before = self.keys.clone();
        let newest = self.signing_key(now).map(|own| own.kid.clone());
        let root = self.root_kid();
        for own in &mut self.keys {
            let is_older = own.signs_from <= now && Some(&own.kid) != newest.as_ref();
            if own.status == KeyStatus::Active && is_older && Some(&own.kid) != root.as_ref() {
                own.status = KeyStatus::Deprecated;
                own.expires_at = Some(now.plus(GRACE));
            }
        }
        self.keys
            .retain(|own| own.expires_at.is_none_or(|end| now < end));
        self.keys != before
    }

    /// When [`Identity::advance`] will have something to do next: a key takes over, or one ends.
    #[must_use]
    pub fn next_change(&self, now: UnixSeconds) -> Option<UnixSeconds> {
        let times = self.keys.iter().flat_map(|own| {
            let takes_over = (own.status == KeyStatus::Active).then_some(own.signs_from);
            [takes_over, own.expires_at]
        });
        times.flatten().filter(|time| *time > now).min()
    }

    /// Who it is.
    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.did
    }

    /// All keys, the oldest first.
    #[must_use]
    pub fn keys(&self) -> &[OwnKey] {
        &self.keys
    }

    /// The key that signs messages now: the newest whose time has come.
    #[must_use]
    pub fn signing_key(&self, now: UnixSeconds) -> Option<&OwnKey> {
        let ready = |own: &&OwnKey| own.status == KeyStatus::Active && own.signs_from <= now;
        self.keys.iter().rfind(ready)
    }

    /// The key that signs the manifest now: that of a did:key, else the one that signs messages.
    #[must_use]
    pub fn manifest_key(&self, now: UnixSeconds) -> Option<&OwnKey> {
        match self.did {
            Did::Key(_) => self.keys.iter().find(|own| self.is_root(own)),
            Did::Web(_) | Did::Github(_) => self.signing_key(now),
        }
    }

    /// The keys that a manifest of this identity must be signed with; `None` if there are none.
    #[must_use]
    pub fn root_keys(&self) -> Option<RootKeys> {
        if let Did::Key(did) = &self.did {
            return Some(RootKeys::DidKey(did.key().clone()));
        }
        let keys = self.keys.iter().map(|own| Key {
            kid: own.kid.clone(),
            key: own.key.clone(),
            status: own.status,
            expires_at: own.expires_at,
        });
        KeySet::new(keys.collect()).ok().map(RootKeys::Document)
    }

    /// The keys as a manifest lists them.
    #[must_use]
    pub fn public_keys(&self) -> Vec<PublicKey> {
        self.keys.iter().map(OwnKey::to_public_key).collect()
    }

    /// The record to keep.
    #[must_use]
    pub fn to_record(&self) -> Object<'static> {
        let keys = self.keys.iter().map(|own| {
            let Value::Object(mut key) = a2a_wire::Write::write(&own.to_public_key()) else {
                return Value::Null;
            };
            key.insert("signs_from", a2a_wire::Write::write(&own.signs_from));
            Value::Object(key)
        });
        let mut record = Object::default();
        record.insert("did", Value::String(self.did.to_string().into()));
        record.insert("keys", Value::Array(keys.collect()));
        record
    }

    /// Reads the record.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn from_record(record: &Object<'_>) -> Result<Self, IdentityError> {
        let did = record.get("did").and_then(Value::as_str).map(str::parse);
        let did: Did = did
            .and_then(Result::ok)
            .ok_or(IdentityError::Damaged("`did` is missing or wrong"))?;
        let Some(Value::Array(keys)) = record.get("keys") else {
            return Err(IdentityError::Damaged("`keys` is missing"));
        };
        let keys: Option<Vec<OwnKey>> = keys.iter().map(read_own_key).collect();
        let keys = keys.ok_or(IdentityError::Damaged("a key is wrong"))?;
        let identity = Self { did, keys };
        match (&identity.did, identity.root_kid()) {
            (Did::Key(_), None) => Err(IdentityError::Damaged("the key of the did:key is missing")),
            _ => Ok(identity),
        }
    }

    fn key(&self, kid: &str) -> Result<&OwnKey, IdentityError> {
        let key = self.keys.iter().find(|own| own.kid.as_str() == kid);
        key.ok_or_else(|| IdentityError::NoSuchKey(kid.to_owned()))
    }

    fn is_root(&self, own: &OwnKey) -> bool {
        matches!(&self.did, Did::Key(did) if *did.key() == own.key)
    }

    fn root_kid(&self) -> Option<Kid> {
        let root = self.keys.iter().find(|own| self.is_root(own));
        root.map(|own| own.kid.clone())
    }
}

impl OwnKey {
    fn to_public_key(&self) -> PublicKey {
        let word = |word: &str| word.parse::<Word>().ok();
        PublicKey {
            kid: Some(self.kid.clone()),
            kty: word("EC"),
            alg: word("EdDSA"),
            usage: word("sig"),
            crv: None,
            key: base64url::encode(&self.key.to_bytes()).parse().ok(),
            x: None,
            status: self.status.as_str().and_then(word),
            expires_at: self.expires_at.map(|end| Nullable(Some(end))),
            d: None,
        }
    }
}

fn read_own_key(value: &Value<'_>) -> Option<OwnKey> {
    let public = <PublicKey as a2a_wire::Read>::read(value).ok()?;
    let signs_from = value.as_object()?.get("signs_from")?;
    Some(OwnKey {
        key: crate::keyset::read_key_bytes(&public).ok()?,
        kid: public.kid?,
        signs_from: <UnixSeconds as a2a_wire::Read>::read(signs_from).ok()?,
        status: KeyStatus::of(public.status.as_ref().map(Word::as_str)),
        expires_at: public.expires_at.and_then(|end| end.0),
    })
}
