//! Encryption within a session (profile §9): X25519, HKDF-SHA256, ChaCha20-Poly1305.
//!
//! Counters are the session's: it never uses one twice in a direction, and looks at a received one
//! before it opens a message.

use std::fmt;

use a2a_wire::{Encrypted, Key32, KeyAgreement, KeyExchange, Kind, Read as _, Write as _};
use canonical::{Digest, Object, Value, base64url};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize as _, Zeroizing};

use crate::{NoRandomness, Randomness};

/// Counters end here; a session that gets so far ends.
pub const MAX_COUNTER: u64 = 1 << 48;

/// Our half of a key agreement, for one handshake. Using it up wipes it.
pub struct EphemeralKey(StaticSecret);

/// The other half was a point that gives everyone the same secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer's key agrees on no secret")]
pub struct NoSecret;

/// A message that cannot be opened; the reason is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be opened")]
pub struct CannotOpen;

/// A message that cannot be sealed: its type never is, it is sealed already, or the counter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be sealed: its kind never is, or the counter has ended")]
pub struct CannotSeal;

/// Which end of a session we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We began.
    Client,
    /// We answered.
    Server,
}

impl EphemeralKey {
    /// A new one.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn generate(random: &mut dyn Randomness) -> Result<Self, NoRandomness> {
        let mut secret = Zeroizing::new([0; 32]);
        random.fill(secret.as_mut_slice())?;
        Ok(Self(StaticSecret::from(*secret)))
    }

    /// What to send to the peer.
    #[must_use]
    pub fn public(&self) -> KeyExchange {
        KeyExchange {
            alg: KeyAgreement::X25519,
            key: Key32::of(PublicKey::from(&self.0).as_bytes()),
        }
    }

    /// The keys of the session: `transcript` is T₆, after SESSION.
    ///
    /// # Errors
    /// If the peer's half is a point of low order.
    pub fn agree(
        self,
        theirs: &KeyExchange,
        transcript: &Digest,
        role: Role,
    ) -> Result<Channel, NoSecret> {
        let secret = self.0.diffie_hellman(&PublicKey::from(theirs.key.bytes()));
        if !secret.was_contributory() {
            return Err(NoSecret);
        }
        let derive = Hkdf::<Sha256>::new(Some(transcript.as_bytes()), secret.as_bytes());
        let client = Direction::derive(&derive, "c2s")?;
        let server = Direction::derive(&derive, "s2c")?;
        let (send, receive) = match role {
            Role::Client => (client, server),
            Role::Server => (server, client),
        };
        Ok(Channel { send, receive })
    }
}

impl fmt::Debug for EphemeralKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EphemeralKey(..)")
    }
}

/// The keys of a session, both ways. They are wiped when it is dropped.
pub struct Channel {
    send: Direction,
    receive: Direction,
}

impl Channel {
    /// Hides the members of a message that are nobody else's business.
    ///
    /// # Errors
    /// If this kind of message is never sealed or the counter has ended.
    pub fn seal(
        &self,
        kind: Kind,
        message: &Object<'_>,
        counter: u64,
    ) -> Result<Object<'static>, CannotSeal> {
        let clear = kind.clear_members();
        if clear.is_empty() || counter == 0 || counter > MAX_COUNTER || message.get("enc").is_some()
        {
            return Err(CannotSeal);
        }
        let mut outer = Object::default();
        let mut hidden = Object::default();
        for (name, value) in message.iter() {
            let place = if clear.contains(&name) {
                &mut outer
            } else {
                &mut hidden
            };
            place.insert(name.to_owned(), value.to_static());
        }
        outer.insert(
            "enc",
            Value::Object(counter_object(counter).ok_or(CannotSeal)?),
        );
        let plain = Zeroizing::new(Value::Object(hidden).to_canonical());
        let associated = Value::Object(outer.clone()).to_canonical();
        let payload = Payload {
            msg: &plain,
            aad: &associated,
        };
        let nonce = self.send.nonce(counter);
        let sealed = self.send.cipher().encrypt(&nonce, payload);
        let mut enc = counter_object(counter).ok_or(CannotSeal)?;
        let text = base64url::encode(&sealed.map_err(|_| CannotSeal)?);
        enc.insert("ct", Value::String(text.into()));
        outer.insert("enc", Value::Object(enc));
        Ok(outer)
    }

    /// The message as it was before it was sealed. The counter must have been looked at before.
    ///
    /// # Errors
    /// If anything is not as [`Channel::seal`] made it; one error for all.
    pub fn open(&self, message: &Object<'_>) -> Result<Object<'static>, CannotOpen> {
        let mut outer = message.to_static();
        let enc = outer.remove("enc").ok_or(CannotOpen)?;
        let sealed = Encrypted::read(&enc).map_err(|_| CannotOpen)?;
        let counter = sealed.n.get();
        if counter == 0 || counter > MAX_COUNTER {
            return Err(CannotOpen);
        }
        let mut associated = outer.clone();
        let Value::Object(mut enc) = enc else {
            return Err(CannotOpen);
        };
        enc.remove("ct");
        associated.insert("enc", Value::Object(enc));
        let associated = Value::Object(associated).to_canonical();
        let payload = Payload {
            msg: &sealed.ct.0,
            aad: &associated,
        };
        let nonce = self.receive.nonce(counter);
        let plain = self.receive.cipher().decrypt(&nonce, payload);
        let plain = Zeroizing::new(plain.map_err(|_| CannotOpen)?);
        let Ok(Value::Object(hidden)) = Value::parse(&plain) else {
            return Err(CannotOpen);
        };
        if hidden.get("enc").is_some() {
            return Err(CannotOpen);
        }
        outer.append(hidden.into_owned()).map_err(|_| CannotOpen)?;
        Ok(outer)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel(..)")
    }
}

struct Direction {
    key: [u8; 32],
    iv: [u8; 12],
}

impl Direction {
    fn derive(from: &Hkdf<Sha256>, name: &str) -> Result<Self, NoSecret> {
        let mut direction = Self {
            key: [0; 32],
            iv: [0; 12],
        };
        let info = |what: &str| format!("A2ADP/1.0 {name} {what}");
        let key = from.expand(info("key").as_bytes(), &mut direction.key);
        let iv = from.expand(info("iv").as_bytes(), &mut direction.iv);
        key.and(iv).map(|()| direction).map_err(|_| NoSecret)
    }

    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&self.key.into())
    }

    fn nonce(&self, counter: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, mask) in nonce.iter_mut().skip(4).zip(counter.to_be_bytes()) {
            *byte ^= mask;
        }
        nonce.into()
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}

fn counter_object(counter: u64) -> Option<Object<'static>> {
    let mut object = Object::default();
    object.insert("n", a2a_wire::Count::new(counter)?.write());
    Some(object)
}
