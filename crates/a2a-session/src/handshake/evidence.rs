//! What a handshake proves. Only the handshake makes these.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::seal::Channel;
use a2a_identity::{Anchor, Did, Key, KeySet, Pins, RootKeys, Seen, TrustLevel, Voucher};
use a2a_wire::{DidText, Digest, SessionId, UnixSeconds};
use base::Class;

use super::Features;
use super::slots::{SessionSlot, agent_key};
use crate::{Baseline, Binding, Facts, Holder, Own, Source};

/// That a peer is who it says: its DID was resolved, its manifest verified, its keys compared, and
/// its trust level decided.
///
/// ```compile_fail,E0451
/// let forged = a2a_session::PeerVerified { did: todo!(), ..todo!() };
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PeerVerified {
    pub(super) did: Did,
    pub(super) did_text: DidText,
    pub(super) keys: KeySet,
    pub(super) manifest_hash: Digest,
    pub(super) seen: Option<Seen>,
    /// The key that signed its manifest; of a did:key without one, its own.
    pub(super) signer: Digest,
    pub(super) trust: TrustLevel,
    /// By whose word it has that level.
    pub(super) vouchers: Vec<Voucher>,
    pub(super) partial: bool,
    pub(super) class: Class,
}

impl PeerVerified {
    /// Who.
    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.did
    }

    /// Who, as text of the wire.
    #[must_use]
    pub const fn did_text(&self) -> &DidText {
        &self.did_text
    }

    /// Its keys, as they were when the session began.
    #[must_use]
    pub const fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The hash of its manifest; as claimed, if [`PeerVerified::seen`] is `None`.
    #[must_use]
    pub const fn manifest_hash(&self) -> Digest {
        self.manifest_hash
    }

    /// What to remember of its manifest; `None` if a did:key has shown none (`manifest_verified` is
    /// false then).
    #[must_use]
    pub const fn seen(&self) -> Option<Seen> {
        self.seen
    }

    /// How much it is trusted.
    #[must_use]
    pub const fn trust_level(&self) -> TrustLevel {
        self.trust
    }

    /// Whether it would still be trusted as much with these pins of it and these trust anchors.
    #[must_use]
    pub fn fits(&self, pins: &Pins, anchors: &[Anchor]) -> bool {
        let mut vouchers = self.vouchers.iter();
        let has_level = self.trust == TrustLevel::Own || vouchers.any(|it| it.counts_with(anchors));
        has_level && pins.fit(self.manifest_hash, self.signer)
    }

    /// Whether it is known: to the operator, or because a trust anchor vouches for it.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Who it is counted for what it keeps at this node, coming from this source.
    pub(super) fn holder(&self, source: Source) -> Holder {
        Holder::of(source, agent_key(&self.did_text), self.class)
    }

    /// Whether some endorsement of it did not count.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial
    }
}

/// That the peer has signed this handshake with this key.
#[derive(Debug, Clone, PartialEq)]
pub struct ProofValid {
    pub(super) key: Key,
}

impl ProofValid {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }
}

/// That both sides agreed on this policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyAccepted<P> {
    pub(super) policy: P,
    pub(super) hash: Digest,
    pub(super) commitment: Digest,
}

impl<P> PolicyAccepted<P> {
    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// Its hash.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.hash
    }

    /// `session_commitment`.
    #[must_use]
    pub const fn commitment(&self) -> Digest {
        self.commitment
    }
}

/// A finished handshake: what a session begins with.
#[derive(Debug)]
pub struct Established<P> {
    pub(crate) own: Arc<Own>,
    pub(crate) peer: PeerVerified,
    pub(crate) holder: Holder,
    pub(crate) proof: ProofValid,
    pub(crate) policy: PolicyAccepted<P>,
    pub(crate) binding: Binding,
    /// What is asked of a peer that speaks the base specification alone.
    pub(crate) baseline: Baseline,
    pub(crate) features: Features,
    pub(crate) session_id: SessionId,
    pub(crate) created_at: UnixSeconds,
    pub(crate) expires_at: UnixSeconds,
    /// The end on the clock that never jumps.
    pub(crate) deadline: Duration,
    pub(crate) transcript: Digest,
    pub(crate) channel: Option<Channel>,
}

impl<P> Established<P> {
    /// The other side.
    #[must_use]
    pub const fn peer(&self) -> &PeerVerified {
        &self.peer
    }

    /// Who it is counted for what the peer keeps at this node.
    #[must_use]
    pub const fn holder(&self) -> Holder {
        self.holder
    }

    /// The keys that the peer has by now, as far as the session may go on with them. `None` if only
    /// another handshake can tell: the peer is pinned, others vouch for the keys it had, or it does not
    /// show a manifest any more.
    #[must_use]
    pub fn renewed_keys(&self, facts: &Facts, pins: &Pins) -> Option<KeySet> {
        let peer = &self.peer;
        let shows_manifest = facts.manifest.is_some() || peer.seen.is_none();
        if peer.trust != TrustLevel::Own || *pins != Pins::default() || !shows_manifest {
            return None;
        }
        let Did::Key(did) = &peer.did else {
            return facts.root.agent_keys(None, facts.manifest.as_deref());
        };
        let name = peer.keys.iter().find(|known| known.key == *did.key());
        let root = RootKeys::DidKey(did.key().clone());
        root.agent_keys(name.map(|known| &known.kid), facts.manifest.as_deref())
    }

    /// The place that the session takes among all sessions.
    #[must_use]
    pub fn slot(&self) -> SessionSlot {
        SessionSlot {
            id: self.session_id.clone(),
            agent: agent_key(self.peer.did_text()),
            holder: self.holder,
            is_evictable_unused: self.binding == Binding::Baseline,
        }
    }

    /// The key it proved itself with.
    #[must_use]
    pub const fn proof(&self) -> &ProofValid {
        &self.proof
    }

    /// What was agreed.
    #[must_use]
    pub const fn policy(&self) -> &PolicyAccepted<P> {
        &self.policy
    }

    /// How strongly the peer binds what it signs.
    #[must_use]
    pub const fn binding(&self) -> Binding {
        self.binding
    }

    /// What was asked of the peer if it speaks the base specification alone.
    #[must_use]
    pub const fn baseline(&self) -> Baseline {
        self.baseline
    }

    /// The id of the session.
    #[must_use]
    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// When it began.
    #[must_use]
    pub const fn created_at(&self) -> UnixSeconds {
        self.created_at
    }

    /// When it ends.
    #[must_use]
    pub const fn expires_at(&self) -> UnixSeconds {
        self.expires_at
    }

    /// T₆: the hash of all six messages with their signatures.
    #[must_use]
    pub const fn transcript(&self) -> Digest {
        self.transcript
    }

    /// Whether its messages are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.channel.is_some()
    }
}
