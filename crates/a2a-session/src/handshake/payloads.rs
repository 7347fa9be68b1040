//! What stands inside a signature, compared with what must stand there.

use a2a_identity::Did;
use a2a_wire::{DidText, Digest, ErrorCode, Nonce, Reason, Transcript, UnixSeconds};
use canonical::{Value, base64url};

use super::{Check, is_left_out};
use crate::failure::{Binding, Failure, bad_field, failed, skewed};
use crate::{Now, Own};

/// What every signature of a handshake must say, from one side to the other.
pub(crate) struct Bound<'a> {
    pub(crate) binding: Binding,
    pub(crate) issuer: &'a Did,
    pub(crate) audience: &'a Did,
    pub(crate) transcript_hash: Digest,
    pub(crate) now: Now,
}

/// What one of them says.
pub(crate) struct Stated<'a> {
    pub(crate) issuer: Option<&'a DidText>,
    pub(crate) audience: Option<&'a DidText>,
    pub(crate) transcript_hash: Option<Digest>,
    pub(crate) timestamp: Option<UnixSeconds>,
}

impl<'a> Bound<'a> {
    /// What the peer must have signed, in a message of this hash that is to be added to the transcript.
    pub(crate) fn by_peer(
        binding: Binding,
        peer: &'a Did,
        own: &'a Own,
        (transcript, message_hash): (&Transcript, &Digest),
        now: Now,
    ) -> Self {
        Self {
            binding,
            issuer: peer,
            audience: own.did(),
            transcript_hash: transcript.hash_with(message_hash),
            now,
        }
    }

    /// Who signed it for whom, when, and after what was said.
    pub(crate) fn check(&self, stated: &Stated<'_>) -> Result<(), Failure> {
        let named = |text: Option<&DidText>, did: &Did| match text {
            Some(text) => is_did(text, did, self.binding),
            None => self.binding == Binding::Baseline,
        };
        if !named(stated.issuer, self.issuer) {
            return Err(unbound(
                "it was signed by someone else, or does not say by whom",
            ));
        }
        if !named(stated.audience, self.audience) && !is_left_out(Check::Audience) {
            return Err(unbound(
                "it was signed for someone else, or does not say for whom",
            ));
        }
        if !self.fits(stated.transcript_hash.as_ref(), &self.transcript_hash)
            && !is_left_out(Check::Transcript)
        {
            let cause = "the two sides have not seen the same messages";
            return Err(failed(Reason::TranscriptMismatch, cause));
        }
        match stated.timestamp {
            Some(timestamp) if timestamp.is_near(self.now.unix) => Ok(()),
            None if self.binding == Binding::Baseline => Ok(()),
            Some(_) | None => Err(skewed(self.now.unix)),
        }
    }

    /// Whether a member is what it must be; only a baseline peer may leave it out.
    pub(crate) fn fits<T: PartialEq>(&self, found: Option<&T>, expected: &T) -> bool {
        match found {
            Some(found) => found == expected,
            None => self.binding == Binding::Baseline,
        }
    }

    pub(crate) fn check_nonces(
        &self,
        found: [Option<&Nonce>; 2],
        expected: [&Nonce; 2],
    ) -> Result<(), Failure> {
        let fits = found
            .iter()
            .zip(expected)
            .all(|(found, expected)| self.fits(*found, expected));
        match fits || is_left_out(Check::Nonces) {
            true => Ok(()),
            false => Err(failed(
                Reason::NonceMismatch,
                "the signed nonces are others",
            )),
        }
    }

    pub(crate) fn check_hashes(&self, pairs: &[(Option<Digest>, Digest)]) -> Result<(), Failure> {
        let fits =
            |(found, expected): &(Option<Digest>, Digest)| self.fits(found.as_ref(), expected);
        match pairs.iter().all(fits) {
            true => Ok(()),
            false => Err(failed(Reason::HashMismatch, "the signed hashes are others")),
        }
    }
}

/// Whether a text names this agent, in whatever spelling a peer of this kind may use.
pub(crate) fn is_did(text: &DidText, did: &Did, binding: Binding) -> bool {
    // To write a DID is cheaper than to read one, whose key must be a point on the curve.
    text.as_str() == did.to_string()
        || Did::parse(text.as_str(), binding.peer()).as_ref() == Ok(did)
}

/// A member of the payload of a JWS that is not verified. Good for one thing: to find the state that
/// a message belongs to.
pub(crate) fn unverified_member(jws: &str, name: &str) -> Result<String, Failure> {
    let malformed = || bad_field("payload", "the signed payload cannot be read");
    let payload = jws.split('.').nth(1).ok_or_else(malformed)?;
    let bytes = base64url::decode_padded(payload).map_err(|_| malformed())?;
    let value = Value::parse(&bytes).map_err(|_| malformed())?;
    let member = value.as_object().and_then(|object| object.get(name));
    let text = member.and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(malformed)
}

fn unbound(cause: &'static str) -> Failure {
    Failure::new(ErrorCode::HandshakeFailed, cause)
}

/// Whether two digests are the same, in a time that does not tell where they differ.
pub(crate) fn same_digest(a: &Digest, b: &Digest) -> bool {
    let pairs = a.as_bytes().iter().zip(b.as_bytes());
    pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
