//! The node's identity, as its audit log needs it: a key that signs, and keys that check.

use std::sync::{Mutex, PoisonError};

use a2a_identity::{JwsError, Key, KeySet, Peer, Signed, SigningKey, sign};
use a2a_wire::{AuditPayload, Count, Kid, UnixSeconds};
use anyhow::{Context, Result};
use audit::{Checkpoint, KeyCheck, NotSigned, Refusal, Signer};

use crate::id;
use crate::keystore::{Store, now, random};

/// The identity that a node acts as.
pub(crate) const NAME: &str = "default";

/// The keys of the node's identity. Its record is read each time: a key that was rotated is used from
/// then on.
#[derive(Debug)]
pub(crate) struct NodeKeys {
    store: Store,
    /// The key that signed last.
    last: Mutex<Option<(Kid, SigningKey)>>,
}

impl NodeKeys {
    /// The keys of a node; a new one is given an identity.
    pub(crate) fn open(store: Store) -> Result<Self> {
        if !store.names()?.iter().any(|name| name == NAME) {
            let key = SigningKey::generate(&mut random)?;
            id::make(NAME, None, false, &store, &key)?;
        }
        let keys = Self {
            store,
            last: Mutex::new(None),
        };
        let can_sign = keys.with_key(|_, _| ());
        can_sign.context("the node's identity cannot be used")?;
        Ok(keys)
    }

    /// What the node is called among agents.
    pub(crate) fn did(&self) -> Result<String> {
        Ok(self.store.open(NAME)?.identity.did().to_string())
    }

    /// The same keys, for somebody else.
    pub(crate) fn again(&self) -> Self {
        Self {
            store: self.store.clone(),
            last: Mutex::new(None),
        }
    }

    fn sign(&self, checkpoint: &Checkpoint) -> Result<String> {
        let payload = AuditPayload {
            issuer: self
                .store
                .open(NAME)?
                .identity
                .did()
                .to_text()
                .context("the DID is too long")?,
            timestamp: UnixSeconds(checkpoint.timestamp),
            log_id: checkpoint.log_id.parse()?,
            seq: Count::new(checkpoint.seq).context("too many records")?,
            head_hash: checkpoint.head_hash,
        };
        self.with_key(|kid, key| sign(&payload, kid, key))
    }

    /// Does something with the key that signs now.
    fn with_key<R>(&self, act: impl FnOnce(&Kid, &SigningKey) -> R) -> Result<R> {
        let stored = self.store.open(NAME)?;
        let own = stored.identity.signing_key(now());
        let own = own.context("no key of the identity may sign now; see `frith id show`")?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // An encrypted key takes a while to open.
        let key = match last.take() {
            Some((kid, key)) if kid == own.kid => key,
            _ => stored.signing_key(&self.store, own)?,
        };
        let (_, key) = last.insert((own.kid.clone(), key));
        Ok(act(&own.kid, key))
    }
}

impl Signer for NodeKeys {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        Self::sign(self, checkpoint).map_err(|error| NotSigned(format!("{error:#}")))
    }
}

impl KeyCheck for NodeKeys {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let invalid = |error: String| Refusal::Invalid(error);
        let stored = self
            .store
            .open(NAME)
            .map_err(|error| invalid(format!("{error:#}")))?;
        let keys = stored.identity.keys().iter().map(|own| Key {
            kid: own.kid.clone(),
            key: own.key.clone(),
            status: own.status,
            expires_at: None,
        });
        let keys = KeySet::new(keys.collect()).map_err(|error| invalid(error.to_string()))?;
        check_with(&keys, jws)
    }
}

/// The checkpoint in a JWS, if one of these keys has signed it.
pub(crate) fn check_with(keys: &KeySet, jws: &str) -> Result<Checkpoint, Refusal> {
    let invalid = |error: JwsError| Refusal::Invalid(error.to_string());
    let text = jws.parse();
    let text = text.map_err(|_| Refusal::Invalid("it is no signature".to_owned()))?;
    let signed = Signed::<AuditPayload>::parse(&text, Peer::Profile).map_err(invalid)?;
    let of = |payload: &AuditPayload| Checkpoint {
        log_id: payload.log_id.as_str().to_owned(),
        seq: payload.seq.get(),
        head_hash: payload.head_hash,
        timestamp: payload.timestamp.0,
    };
    let claimed = signed.read_unverified();
    // A key that has gone since was good when it signed.
    match signed.verify(keys, UnixSeconds(0)) {
        Ok(verified) => Ok(of(verified.payload())),
        Err(JwsError::UnknownKey) => Err(match claimed {
            Ok(payload) => Refusal::UnknownKey(of(&payload)),
            Err(error) => Refusal::Invalid(error.to_string()),
        }),
        Err(error) => Err(invalid(error)),
    }
}
