//! The handshake (profile §8): a type for each state, a transition consumes it.

pub(crate) mod claim;
pub(crate) mod client;
pub(crate) mod evidence;
mod hello;
mod inline;
#[cfg(test)]
mod model;
pub(crate) mod payloads;
mod proof;
pub(crate) mod reply;
pub(crate) mod server;
pub(crate) mod slots;
pub(crate) mod table;
pub(crate) mod vetting;

use std::time::Duration;

use a2a_identity::seal::EphemeralKey;
use a2a_wire::{Extensions, Kind, Payload, Transcript, Word, message_hash};
use canonical::{Digest, Object, Value};

use crate::failure::{Binding, timed_out};
use crate::{Failure, Now, Own, times};

/// Names of `features`, in their order.
pub(crate) fn features(sealing: bool) -> Option<Vec<Word>> {
    let names: &[&str] = match sealing {
        true => &["cancel", "encrypt", "stream"],
        false => &["cancel", "stream"],
    };
    names.iter().map(|name| name.parse().ok()).collect()
}

/// What both sides of a session can do beyond requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Features {
    /// Answers in parts.
    pub(crate) stream: bool,
    /// Cancellations.
    pub(crate) cancel: bool,
}

impl Features {
    /// What a peer that sent these extensions can do; we can do it all.
    pub(crate) fn of(extensions: Option<&Extensions>) -> Self {
        let names = extensions.and_then(|it| it.features.as_deref());
        let has =
            |name: &str| names.is_some_and(|names| names.iter().any(|it| it.as_str() == name));
        Self {
            stream: has("stream"),
            cancel: has("cancel"),
        }
    }
}

/// Signs a message of the handshake: the payload gets the hash of all that was said so far.
pub(crate) fn sign_message<T: Payload>(
    kind: Kind,
    mut tree: Object<'static>,
    transcript: &mut Transcript,
    (own, to): (&Own, Binding),
    payload: impl FnOnce(Digest) -> T,
) -> Vec<u8> {
    let hash = message_hash(kind, &tree);
    let jws = own.sign(to, payload(transcript.hash_with(&hash)));
    transcript.add(&hash, Some(&jws));
    tree.insert(T::PLACE.member(), Value::String(jws.into()));
    Value::Object(tree).to_canonical()
}

/// When a step and the whole must be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    total: Duration,
    step: Duration,
}

impl Deadline {
    pub(crate) const fn begin(now: Now, step: Duration) -> Self {
        Self {
            total: now.after(times::HANDSHAKE),
            step: now.after(step),
        }
    }

    pub(crate) const fn next(self, now: Now, step: Duration) -> Self {
        Self {
            total: self.total,
            step: now.after(step),
        }
    }

    /// The step is done; what is left is the whole.
    pub(crate) const fn whole(self) -> Self {
        Self {
            total: self.total,
            step: self.total,
        }
    }

    pub(crate) fn at(self) -> Duration {
        self.step.min(self.total)
    }

    pub(crate) fn check(self, now: Now) -> Result<(), Failure> {
        match now.monotonic < self.at() {
            true => Ok(()),
            false => Err(timed_out()),
        }
    }
}

/// Our half of a key agreement, if there is to be one.
#[derive(Debug)]
pub(crate) struct Half(pub(crate) Option<EphemeralKey>);

/// For exploring states; there is no encryption in them.
#[cfg(test)]
impl Clone for Half {
    fn clone(&self) -> Self {
        assert!(self.0.is_none(), "a secret is not copied");
        Self(None)
    }
}

/// A check that the model checker can leave out, to show that it would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The transcript that a signature carries.
    Transcript,
    /// The nonces that a signature carries.
    Nonces,
    /// For whom a signature was made.
    Audience,
}

#[cfg(not(test))]
pub(crate) const fn is_left_out(_: Check) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn is_left_out(check: Check) -> bool {
    model::LEFT_OUT.with_borrow(|left_out| left_out.contains(&check))
}
