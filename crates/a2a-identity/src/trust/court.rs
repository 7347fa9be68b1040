//! Judging one entry of a trust chain.

use std::collections::BTreeMap;

use a2a_wire::{Endorsement, EndorsementPayload, JwsText, Nullable, UnixSeconds, limits};
use canonical::Digest;

use super::{Anchor, Grant, Issuer, MAX_ENTRIES, Scope, TrustLevel, Voucher, Why};
use crate::jws::Signed;
use crate::{Did, Key, KeySet, KeyStatus, Peer, VerifiedManifest, VerifyingKey};

/// Seconds that an endorsement without an end holds.
const DEFAULT_LIFE: i64 = 365 * 24 * 3600;

/// How far from the agent an entry is; further than an issuer nobody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Agent,
    Issuer,
}

pub(super) enum Judgement {
    Ignored(Why),
    Needs(Box<Did>),
}

impl From<Why> for Judgement {
    fn from(why: Why) -> Self {
        Self::Ignored(why)
    }
}

pub(super) struct Court<'a> {
    pub(super) anchors: &'a [Anchor],
    pub(super) issuers: &'a BTreeMap<String, Issuer>,
    pub(super) now: UnixSeconds,
}

impl Court<'_> {
    /// What an entry gives: by the word of one anchor, or of each that verified its issuer.
    pub(super) fn judge(
        &self,
        entry: &Endorsement,
        subject: &VerifiedManifest,
        depth: Depth,
    ) -> Result<Vec<Grant>, Judgement> {
        let claimed = TrustLevel::named(entry.trust_level.as_str());
        let claimed = claimed
            .filter(|level| *level > TrustLevel::Own)
            .ok_or(Why::Level)?;
        let issuer: Did = entry.issuer.as_str().parse().map_err(|_| Why::Issuer)?;
        if issuer == *subject.did() {
            return Err(Why::Issuer.into());
        }
        self.check_times(entry)?;
        let anchor = self.anchors.iter().find(|anchor| anchor.did == issuer);
        match (anchor, depth) {
            (Some(anchor), _) => {
                let payload = self.anchor_payload(anchor, entry)?;
                let scope = self.check_payload(&payload, entry, subject)?;
                match claimed >= anchor.min_trust_level {
                    true => Ok(vec![Grant {
                        level: claimed,
                        scope,
                        voucher: Voucher::new(anchor, claimed),
                    }]),
                    false => Err(Why::BelowAnchor.into()),
                }
            }
            (None, Depth::Agent) => self.judge_delegated(&issuer, entry, subject),
            (None, Depth::Issuer) => Err(Why::Stranger.into()),
        }
    }

    /// An entry by someone who is no anchor counts at most as delegated, if an anchor verified them.
    fn judge_delegated(
        &self,
        issuer: &Did,
        entry: &Endorsement,
        subject: &VerifiedManifest,
    ) -> Result<Vec<Grant>, Judgement> {
        // Without anchors nobody's issuer is worth a resolution.
        if self.anchors.is_empty() {
            return Err(Why::Stranger.into());
        }
        let (issuer, keys) = self.resolved(issuer)?;
        let payload = verify(entry, keys, self.now, Some(issuer.timestamp()))?;
        let scope = self.check_payload(&payload, entry, subject)?;
        let chain = issuer.manifest().trust_chain.as_deref().unwrap_or_default();
        let mut needs = None;
        // All that anchors say of the issuer counts, whatever order the issuer put it in.
        let mut grants = Vec::new();
        for voucher in chain.iter().take(MAX_ENTRIES) {
            match self.judge(voucher, issuer, Depth::Issuer) {
                Ok(given) => {
                    let verified = given
                        .into_iter()
                        .filter(|it| it.level == TrustLevel::Verified);
                    grants.extend(verified.map(|grant| Grant {
                        level: TrustLevel::Delegated,
                        scope: scope.within(&grant.scope),
                        voucher: grant.voucher,
                    }));
                }
                Err(Judgement::Needs(did)) => needs = Some(did),
                Err(Judgement::Ignored(_)) => {}
            }
        }
        match (grants.is_empty(), needs) {
            (false, _) => Ok(grants),
            (true, Some(did)) => Err(Judgement::Needs(did)),
            (true, None) => Err(Why::Stranger.into()),
        }
    }

    fn anchor_payload(
        &self,
        anchor: &Anchor,
        entry: &Endorsement,
    ) -> Result<EndorsementPayload, Judgement> {
        let pinned = anchor.public_key.clone().or_else(|| match &anchor.did {
            Did::Key(did) => Some(did.key().clone()),
            Did::Web(_) | Did::Github(_) => None,
        });
        let Some(key) = pinned else {
            let (issuer, keys) = self.resolved(&anchor.did)?;
            let payload = verify(entry, keys, self.now, Some(issuer.timestamp()))?;
            return Ok(payload);
        };
        // A pinned key has no name of its own: whatever the signature calls it, it is this one.
        let kid = parse(&entry.signature)?
            .kid()
            .cloned()
            .ok_or(Why::Signature)?;
        let keys = KeySet::new(vec![Key {
            kid,
            key,
            status: KeyStatus::Active,
            expires_at: None,
        }]);
        Ok(verify(
            entry,
            &keys.map_err(|_| Why::Signature)?,
            self.now,
            None,
        )?)
    }

    fn resolved(&self, did: &Did) -> Result<(&VerifiedManifest, &KeySet), Judgement> {
        match self.issuers.get(&did.to_string()) {
            Some(Issuer::Known { manifest, keys })
                if manifest.did() == did
                    && manifest.manifest().ends().is_none_or(|end| self.now < end) =>
            {
                Ok((manifest, keys))
            }
            Some(Issuer::Known { .. } | Issuer::Failed) => Err(Why::Unresolved.into()),
            None => Err(Judgement::Needs(Box::new(did.clone()))),
        }
    }

    fn check_times(&self, entry: &Endorsement) -> Result<(), Why> {
        if entry.issued_at > self.now.plus(limits::SKEW) {
            return Err(Why::NotYet);
        }
        let end = entry.expires_at.and_then(|end| end.0);
        match self.now < end.unwrap_or_else(|| entry.issued_at.plus(DEFAULT_LIFE)) {
            true => Ok(()),
            false => Err(Why::Expired),
        }
    }

    /// Whether what was signed is what is written, about this agent and its keys.
    fn check_payload(
        &self,
        payload: &EndorsementPayload,
        entry: &Endorsement,
        subject: &VerifiedManifest,
    ) -> Result<Scope, Why> {
        let end = |end: Option<Nullable<UnixSeconds>>| end.and_then(|end| end.0);
        let same = payload.issuer == entry.issuer
            && payload.issued_at == entry.issued_at
            && end(payload.expires_at) == end(entry.expires_at)
            && payload.trust_level == entry.trust_level;
        if !same {
            return Err(Why::Mismatch);
        }
        if !subject.did().is(payload.subject.as_str()) {
            return Err(Why::OtherSubject);
        }
        let listed = |key: &VerifyingKey, keys: &[Digest]| keys.contains(&key.digest());
        let keys_match = match (&payload.subject_keys, subject.did()) {
            (None, Did::Key(_)) => true,
            // The other keys of a did:key are delegated by this one.
            (Some(keys), Did::Key(did)) => listed(did.key(), keys),
            (None, _) => false,
            (Some(keys), _) => {
                let endorsable = subject.keys_to_endorse(self.now);
                endorsable.iter().all(|key| keys.contains(key))
            }
        };
        match keys_match {
            true => Ok(Scope::of(payload.capabilities.as_deref())),
            false => Err(Why::Keys),
        }
    }
}

fn parse(jws: &JwsText) -> Result<Signed<EndorsementPayload>, Why> {
    Signed::parse(jws, Peer::Profile).map_err(|_| Why::Signature)
}

/// Verifies an entry with the issuer's keys. A deprecated key counts for what it signed before that,
/// which was a day before its end at the latest, and before the manifest that says so.
fn verify(
    entry: &Endorsement,
    keys: &KeySet,
    now: UnixSeconds,
    manifest: Option<UnixSeconds>,
) -> Result<EndorsementPayload, Why> {
    let verified = parse(&entry.signature)?
        .verify(keys, now)
        .map_err(|_| Why::Signature)?;
    let key = verified.key();
    if key.status == KeyStatus::Deprecated {
        let latest = key
            .expires_at
            .map(|end| end.plus(-crate::identity::GRACE))
            .min(manifest);
        if latest.is_none_or(|latest| entry.issued_at > latest) {
            return Err(Why::Signature);
        }
    }
    Ok(verified.into_payload())
}
