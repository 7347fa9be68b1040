//! What an audit log needs beside its folder, as the product has it.

use std::error::Error;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use a2a_identity::{Did, DidKey, Key, KeySet, KeyStatus, Peer, Signed, SigningKey, sign};
use a2a_wire::{AuditPayload, Count, Kid, UnixSeconds};
use audit::{Checkpoint, KeyCheck, NoRandomness, NotSigned, Parts, Refusal, Signer, UnixMillis};

/// What a log needs, with a key of its own.
///
/// # Errors
/// If there is no such key.
pub fn parts() -> Result<Parts, Box<dyn Error>> {
    Ok(Parts {
        signer: Box::new(NodeKey::new()?),
        keys: Box::new(NodeKey::new()?),
        random: Box::new(|bytes: &mut [u8]| getrandom::fill(bytes).map_err(|_| NoRandomness)),
        clock: Box::new(|| {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            UnixMillis(i64::try_from(since.as_millis()).unwrap_or_default())
        }),
        alarm: Box::new(|alarm| {
            let _ = writeln!(io::stderr(), "{alarm}");
        }),
    })
}

/// The node's key, as the product has it.
struct NodeKey {
    key: SigningKey,
    kid: Kid,
    keys: KeySet,
}

impl NodeKey {
    fn new() -> Result<Self, Box<dyn Error>> {
        let key = SigningKey::from_seed(&[1; 32]);
        let kid: Kid = "sig-1".parse()?;
        let keys = KeySet::new(vec![Key {
            kid: kid.clone(),
            key: key.verifying_key(),
            status: KeyStatus::Active,
            expires_at: None,
        }])?;
        Ok(Self { key, kid, keys })
    }
}

impl Signer for NodeKey {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let wrong = || NotSigned("no checkpoint".into());
        let did = Did::Key(DidKey::new(self.key.verifying_key()));
        let payload = AuditPayload {
            issuer: did.to_text().ok_or_else(wrong)?,
            timestamp: UnixSeconds(checkpoint.timestamp),
            log_id: checkpoint.log_id.parse().map_err(|_| wrong())?,
            seq: Count::new(checkpoint.seq).ok_or_else(wrong)?,
            head_hash: checkpoint.head_hash,
        };
        Ok(sign(&payload, &self.kid, &self.key))
    }
}

impl KeyCheck for NodeKey {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let invalid = || Refusal::Invalid("not signed".into());
        let text = jws.parse().map_err(|_| invalid())?;
        let signed = Signed::<AuditPayload>::parse(&text, Peer::Profile).map_err(|_| invalid())?;
        let verified = signed
            .verify(&self.keys, UnixSeconds(0))
            .map_err(|_| invalid())?;
        let payload = verified.payload();
        Ok(Checkpoint {
            log_id: payload.log_id.as_str().to_owned(),
            seq: payload.seq.get(),
            head_hash: payload.head_hash,
            timestamp: payload.timestamp.0,
        })
    }
}
