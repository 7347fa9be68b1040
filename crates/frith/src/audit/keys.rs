//! The node's keys, as the audit log knows them.

use a2a_identity::{
    Did, JwsError, Key, KeySet, KeyStatus, OwnKey, Peer, Signed, SigningKey, VerifyingKey, sign,
};
use a2a_wire::{AuditPayload, Count, DidText, Kid, UnixSeconds};
use anyhow::{Context, Result};
use audit::{Checkpoint, KeyCheck, NotSigned, Refusal, Signer};
use canonical::base64url;

use crate::keystore::{Store, Stored, now};

/// Signs checkpoints as the node.
pub(crate) struct NodeSigner {
    issuer: DidText,
    kid: Kid,
    key: SigningKey,
}

/// The public keys that checkpoints may be signed with.
#[derive(Debug, Clone)]
pub(crate) struct NodeKeys {
    /// Whose they are, if that is known.
    did: Option<Did>,
    keys: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    /// `None` if it counts under any name.
    kid: Option<Kid>,
    key: VerifyingKey,
}

impl NodeSigner {
    /// The key that signs for an identity: that of a did:key itself, since it is all that an
    /// auditor can know from the DID, or else the one that signs now.
    pub(crate) fn of(stored: &Stored, store: &Store) -> Result<Self> {
        let identity = &stored.identity;
        let own = identity
            .manifest_key(now())
            .context("no key can sign now")?;
        Ok(Self {
            issuer: identity.did().to_text().context("the DID is too long")?,
            kid: own.kid.clone(),
            key: stored.signing_key(store, own)?,
        })
    }
}

impl NodeKeys {
    /// The keys of an identity of this user.
    pub(crate) fn of(stored: &Stored) -> Self {
        let keys = stored.identity.keys().iter();
        let usable = |own: &&OwnKey| match own.status {
            KeyStatus::Active | KeyStatus::Deprecated => true,
            KeyStatus::Revoked | KeyStatus::Unknown => false,
        };
        Self {
            did: Some(stored.identity.did().clone()),
            keys: keys
                .filter(usable)
                .map(|own| Known {
                    kid: Some(own.kid.clone()),
                    key: own.key.clone(),
                })
                .collect(),
        }
    }

    /// The keys of a DID, as far as they are known from it or its document.
    pub(crate) fn of_did(did: Did, document: Option<KeySet>) -> Self {
        let mut keys: Vec<Known> = document
            .iter()
            .flat_map(KeySet::iter)
            .map(|key| Known {
                kid: Some(key.kid.clone()),
                key: key.key.clone(),
            })
            .collect();
        if let Did::Key(key) = &did {
            keys.push(Known {
                kid: None,
                key: key.key().clone(),
            });
        }
        Self {
            did: Some(did),
            keys,
        }
    }

    /// Keys from the command line: `KEY` or `KID=KEY`, the raw key in base64url.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, String> {
        let parse = |text: &String| {
            let (kid, key) = match text.split_once('=') {
                Some((kid, key)) => (Some(kid.parse().map_err(|_| "no such kid")?), key),
                None => (None, text.as_str()),
            };
            let bytes = base64url::decode(key).ok();
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            let bytes: [u8; 32] = bytes.ok_or("it must be 32 bytes in unpadded base64url")?;
            let key = VerifyingKey::from_bytes(&bytes).map_err(|_| "it is no Ed25519 key")?;
            Ok(Known { kid, key })
        };
        let keys = texts
            .iter()
            .map(|text| parse(text).map_err(|why: &str| format!("--key {text}: {why}")));
        Ok(Self {
            did: None,
            keys: keys.collect::<Result<_, String>>()?,
        })
    }
}

impl Signer for NodeSigner {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let wrong = |what: &str| NotSigned(format!("{what} does not fit a checkpoint"));
        let payload = AuditPayload {
            issuer: self.issuer.clone(),
            timestamp: UnixSeconds(checkpoint.timestamp),
            log_id: checkpoint.log_id.parse().map_err(|_| wrong("log_id"))?,
            seq: Count::new(checkpoint.seq).ok_or_else(|| wrong("seq"))?,
            head_hash: checkpoint.head_hash,
        };
        Ok(sign(&payload, &self.kid, &self.key))
    }
}

impl KeyCheck for NodeKeys {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let invalid = |error: JwsError| Refusal::Invalid(error.to_string());
        let text = jws.parse();
        let text = text.map_err(|_| Refusal::Invalid("it is no JWS".into()))?;
        let signed = Signed::<AuditPayload>::parse(&text, Peer::Profile).map_err(invalid)?;
        let claimed = signed.read_unverified();
        let claimed = claimed.map_err(|error| Refusal::Invalid(error.to_string()))?;
        let checkpoint = Checkpoint {
            log_id: claimed.log_id.as_str().to_owned(),
            seq: claimed.seq.get(),
            head_hash: claimed.head_hash,
            timestamp: claimed.timestamp.0,
        };
        if let Some(did) = &self.did
            && !did.is(claimed.issuer.as_str())
        {
            let why = format!("it was made by {}", claimed.issuer.as_str());
            return Err(Refusal::Invalid(why));
        }
        let named = |known: &&Known| known.kid.is_none() || known.kid.as_ref() == signed.kid();
        let (Some(known), Some(kid)) = (self.keys.iter().find(named), signed.kid().cloned()) else {
            return Err(Refusal::UnknownKey(checkpoint));
        };
        let key = Key {
            kid,
            key: known.key.clone(),
            status: KeyStatus::Active,
            expires_at: None,
        };
        let keys = KeySet::new(vec![key]).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let verified = signed.verify(&keys, UnixSeconds(checkpoint.timestamp));
        verified.map(|_| checkpoint).map_err(invalid)
    }
}
