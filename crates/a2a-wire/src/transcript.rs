//! Hashes over more than one message (profile §1, §2, §10.6).

use canonical::{Digest, Value};

use crate::{Nonce, Received};

/// The running hash of a handshake: each signature covers all that both sides have seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    state: Digest,
}

impl Default for Transcript {
    fn default() -> Self {
        Self {
            state: Digest::of(b"A2ADP/1.0 transcript"),
        }
    }
}

impl Transcript {
    /// The `transcript_hash` that the JWS of the next message must carry; `message_hash` is that
    /// message's, without its JWS.
    #[must_use]
    pub fn hash_with(&self, message_hash: &Digest) -> Digest {
        both(&self.state, message_hash)
    }

    /// Takes a message in, with the JWS it was sent with.
    pub fn add(&mut self, message_hash: &Digest, jws: Option<&str>) {
        let hash = self.hash_with(message_hash);
        self.state = match jws {
            Some(jws) => both(&hash, &Digest::of(jws.as_bytes())),
            None => hash,
        };
    }

    /// Takes a received message in.
    pub fn add_received(&mut self, message: &Received<'_>) {
        self.add(&message.hash(), message.jws());
    }

    /// T after the messages so far; after SESSION the salt of the session's keys.
    #[must_use]
    pub const fn state(&self) -> &Digest {
        &self.state
    }
}

/// `session_commitment`: the handshake by its nonces and its policy.
#[must_use]
pub fn session_commitment(nonce_a: &Nonce, nonce_b: &Nonce, policy_hash: &Digest) -> Digest {
    Digest::of(format!("{nonce_a}|{nonce_b}|{policy_hash}").as_bytes())
}

/// The hash chain over the parts of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamChain {
    state: Digest,
}

impl StreamChain {
    /// The chain before the first part of the answer to a request.
    #[must_use]
    pub fn new(request_hash: &Digest) -> Self {
        let start = [b"A2ADP/1.0 stream".as_slice(), request_hash.as_bytes()];
        Self {
            state: Digest::of(&start.concat()),
        }
    }

    /// Takes a part in.
    pub fn add(&mut self, data: &Value<'_>) {
        self.state = both(&self.state, &data.digest());
    }

    /// The chain after the parts so far.
    #[must_use]
    pub const fn state(&self) -> &Digest {
        &self.state
    }
}

fn both(first: &Digest, second: &Digest) -> Digest {
    Digest::of(&[first.as_bytes().as_slice(), second.as_bytes()].concat())
}
