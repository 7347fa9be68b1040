//! Sessions (profile §9, §10): what follows a handshake.

pub(crate) mod agents;
mod checks;
pub(crate) mod client;
pub(crate) mod incoming;
pub(crate) mod record;
pub(crate) mod requests;
pub(crate) mod server;
pub(crate) mod works;

use a2a_identity::seal::MAX_COUNTER;
use a2a_wire::{Count, Digest, Kind, Payload, message_hash};
use canonical::{Object, Value};

use crate::Established;

/// Counts the messages of one direction: from 1, never the same twice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    last: u64,
}

impl Counter {
    /// The next number; `None` when there are no more, and the session ends.
    pub(crate) fn next(&mut self) -> Option<Count> {
        let next = self
            .last
            .checked_add(1)
            .filter(|next| *next <= MAX_COUNTER)?;
        self.last = next;
        Count::new(next)
    }
}

impl<P> Established<P> {
    /// Signs a message of the session and encrypts it, if the session is encrypted. Returns it with
    /// its hash.
    pub(crate) fn finish<T: Payload>(
        &self,
        kind: Kind,
        mut tree: Object<'static>,
        seq: Count,
        payload: impl FnOnce(Digest) -> T,
    ) -> (Vec<u8>, Digest) {
        let hash = message_hash(kind, &tree);
        let jws = self.own.sign(self.binding, payload(hash));
        tree.insert(T::PLACE.member(), Value::String(jws.into()));
        (self.seal(kind, tree, seq), hash)
    }

    /// Encrypts a message, if the session is encrypted.
    pub(crate) fn seal(&self, kind: Kind, tree: Object<'static>, seq: Count) -> Vec<u8> {
        let sealed = match &self.channel {
            // Only kinds that are sealed come here, and the counter was looked at.
            Some(channel) => channel.seal(kind, &tree, seq.get()).unwrap_or_default(),
            None => tree,
        };
        Value::Object(sealed).to_canonical()
    }

    /// Whether it is over: by either clock.
    pub(crate) fn is_expired(&self, now: crate::Now) -> bool {
        now.monotonic >= self.deadline || now.unix >= self.expires_at
    }
}
