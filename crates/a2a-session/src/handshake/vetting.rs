//! Whether a peer is who it says (profile §5, §6, §8): what must be found out, and what it means.
//!
//! It has no network. It says what it needs, the driver finds that out, and it goes on with the
//! answer; nothing is believed that `a2a-identity` did not verify.

use std::collections::BTreeMap;

use a2a_identity::{
    Decision, Did, Issuer, Key, KeySet, ManifestCheck, ManifestError, ManifestRules, Outcome, Pins,
    ResolveError, RootKeys, Seen, TrustLevel, VerifiedManifest, VerifyingKey, Want, decide,
};
use a2a_wire::{DidText, Digest, Endpoint, ErrorCode, PROFILE, Reason};
use base::Class;
use canonical::Value;

use super::evidence::PeerVerified;
use super::inline::Inline;
use crate::Now;
use crate::config::{Directory, RequireManifest, TrustRules};
use crate::failure::{Binding, Failure, unverified};

/// What must be found out before a handshake can go on.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each handshake that waits"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Need {
    /// What is known of the peer's DID.
    Peer {
        /// Whose.
        did: Did,
        /// How much of it.
        want: Want,
        /// How new it must be.
        freshness: Freshness,
        /// What a did:github has shown: GitHub is not to be asked about one that published another.
        shown: Option<ClaimedIdentity>,
    },
    /// The manifests of those who vouch for it.
    Issuers(Vec<Did>),
}

/// What a peer has shown of itself, and must have published.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedIdentity {
    /// The hash of its manifest.
    pub manifest_hash: Digest,
    /// Its keys, one of which it has.
    pub keys: KeySet,
}

/// How new an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// A cached one will do.
    Any,
    /// What is cached does not fit: look again, as often as the cache allows.
    Newer,
}

/// What was found out.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, for as long as a message is checked"
)]
pub enum Found {
    /// Of the peer.
    Peer(Result<Facts, ResolveError>),
    /// Of those who vouch for it, by canonical DID; who is missing counts as not found.
    Issuers(BTreeMap<String, Issuer>),
}

/// What is known of a DID.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The keys its manifest must be signed with.
    pub root: RootKeys,
    /// The manifest that was fetched for it, if there is one and it was verified.
    pub manifest: Option<Box<VerifiedManifest>>,
    /// Where its DID document says it is, for agents without a manifest.
    pub endpoints: Vec<Endpoint>,
}

/// How far the vetting is.
#[derive(Debug)]
pub(crate) enum Progress {
    Needs(Need),
    Done(PeerVerified),
}

/// A peer on trial.
#[derive(Debug, Clone)]
pub(crate) struct Vetting {
    pub(crate) did: Did,
    pub(crate) did_text: DidText,
    pub(crate) binding: Binding,
    /// The keys it claims; compared, never believed.
    pub(crate) claimed: KeySet,
    pub(crate) manifest_hash: Digest,
    /// The manifest it sent along.
    pub(crate) inline: Option<Inline>,
    pub(crate) pins: Pins,
    /// The newest manifest that is known of it.
    pub(crate) last: Option<Seen>,
    /// Whether the operator knows the agent that it claims to be.
    pub(crate) is_known: bool,
    /// Whether to ask about a did:key too: its manifest may be known from elsewhere.
    pub(crate) ask_about_key: bool,
    pub(crate) found: Findings,
}

/// What was found out about a peer so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    root: Option<RootKeys>,
    manifest: Option<Box<VerifiedManifest>>,
    endpoints: Vec<Endpoint>,
    refreshed: bool,
    issuers: BTreeMap<String, Issuer>,
}

impl Vetting {
    /// Takes an answer in.
    pub(crate) fn found(&mut self, found: Found) -> Result<(), Failure> {
        match found {
            Found::Peer(facts) => {
                let facts = facts?;
                self.found.root = Some(match &self.did {
                    // A did:key is its own root, whatever anyone says.
                    Did::Key(key) => RootKeys::DidKey(key.key().clone()),
                    Did::Web(_) | Did::Github(_) => facts.root,
                });
                self.found.endpoints = facts.endpoints;
                let manifest = facts.manifest.filter(|it| *it.did() == self.did);
                match (&self.inline, manifest) {
                    (None, manifest) => self.found.manifest = manifest,
                    // What is sent along counts only if it is not older than what was fetched.
                    (Some(_), Some(fetched)) => self.last = Some(fetched.newest_seen(self.last)),
                    (Some(_), None) => {}
                }
            }
            Found::Issuers(mut issuers) => self.found.issuers.append(&mut issuers),
        }
        Ok(())
    }

    /// Goes as far as what is known allows.
    pub(crate) fn advance(&mut self, now: Now, rules: &TrustRules) -> Result<Progress, Failure> {
        // The manifest that it names is the only one it can show: nobody needs to be asked for it.
        let pinned = self.pins.manifest;
        if pinned.is_some_and(|pinned| pinned != self.manifest_hash) {
            return Err(ManifestError::Pin.into());
        }
        let Some(root) = self.found.root.clone().or_else(|| self.own_root()) else {
            return Ok(Progress::Needs(self.need(Freshness::Any)));
        };
        let checked = self
            .check_manifest(now, &root, rules)
            .and_then(|()| self.check_keys(now, &root));
        if let Err(failure) = checked {
            return self.refresh(failure);
        }
        if self.binding == Binding::Baseline && self.says_profile() {
            let cause = "its manifest says that it speaks the profile";
            return Err(baseline_not_allowed(cause));
        }
        let decision = match &self.found.manifest {
            None => None,
            Some(manifest) => {
                let issuers = &self.found.issuers;
                match decide(manifest, &rules.anchors, issuers, now.unix) {
                    Outcome::Decided(decision) => Some(decision),
                    Outcome::Resolve(dids) => return Ok(self.need_issuers(dids)),
                }
            }
        };
        self.verdict(&root, decision.as_ref(), rules)
            .map(Progress::Done)
    }

    /// Verifies the manifest that was sent along, as far as that needs no keys but its own. Those of a
    /// did:key are known; those of a did:github are the manifest's, if it is the published one.
    pub(crate) fn verify_inline_now(
        &mut self,
        now: Now,
        rules: &TrustRules,
        directory: &dyn Directory,
    ) -> Result<(), Failure> {
        let Some(inline) = self.inline.take() else {
            return Ok(());
        };
        let inline = match &self.did {
            Did::Key(key) => {
                let root = RootKeys::DidKey(key.key().clone());
                let known = directory.known_manifest(&self.did);
                inline.verify(&self.check(now, &root, rules), known)?
            }
            Did::Web(_) | Did::Github(_) => {
                inline.verify_unrooted(&self.did, &self.rules(now, rules))?
            }
        };
        if let (Did::Github(_), Inline::SelfSigned(manifest)) = (&self.did, &inline) {
            self.check_claimed(now, manifest.listed_keys())?;
        }
        self.inline = Some(inline);
        Ok(())
    }

    /// Whether nobody needs to be asked about this DID.
    const fn is_self_contained(&self) -> bool {
        matches!(self.did, Did::Key(_)) && (!self.ask_about_key || self.inline.is_some())
    }

    fn own_root(&self) -> Option<RootKeys> {
        match &self.did {
            Did::Key(key) if self.is_self_contained() => Some(RootKeys::DidKey(key.key().clone())),
            Did::Key(_) | Did::Web(_) | Did::Github(_) => None,
        }
    }

    fn need(&self, freshness: Freshness) -> Need {
        Need::Peer {
            did: self.did.clone(),
            // Also if one was sent along: it must not be older than what is published.
            want: Want::Manifest,
            freshness,
            shown: match &self.did {
                Did::Github(_) => Some(ClaimedIdentity {
                    manifest_hash: self.manifest_hash,
                    keys: self.claimed.clone(),
                }),
                Did::Key(_) | Did::Web(_) => None,
            },
        }
    }

    /// Asks for those who vouch. Who does not come back counts as not found, so it is asked once.
    /// What was sent along waits as text again.
    fn need_issuers(&mut self, dids: Vec<Did>) -> Progress {
        if self.inline.is_some() {
            self.found.manifest = None;
        }
        for did in &dids {
            self.found.issuers.insert(did.to_string(), Issuer::Failed);
        }
        Progress::Needs(Need::Issuers(dids))
    }

    /// What does not fit may have changed since it was cached: once it is looked up again.
    fn refresh(&mut self, failure: Failure) -> Result<Progress, Failure> {
        if self.is_self_contained() || self.found.refreshed {
            return Err(failure);
        }
        self.found = Findings {
            refreshed: true,
            ..Findings::default()
        };
        Ok(Progress::Needs(self.need(Freshness::Newer)))
    }

    const fn check<'a>(
        &'a self,
        now: Now,
        root: &'a RootKeys,
        rules: &TrustRules,
    ) -> ManifestCheck<'a> {
        self.rules(now, rules).check(&self.did, root)
    }

    const fn rules(&self, now: Now, rules: &TrustRules) -> ManifestRules<'_> {
        ManifestRules {
            now: now.unix,
            peer: self.binding.peer(),
            max_age: rules.max_manifest_age,
            last: self.last,
            pins: &self.pins,
        }
    }

    fn check_manifest(
        &mut self,
        now: Now,
        root: &RootKeys,
        rules: &TrustRules,
    ) -> Result<(), Failure> {
        let refused = |reason, cause: &'static str| {
            Err(Failure::new(ErrorCode::InvalidManifest, cause).because(reason))
        };
        if self.found.manifest.is_none() {
            let check = self.check(now, root, rules);
            let shown = self.inline.as_ref().map(|inline| inline.read(&check));
            self.found.manifest = shown.transpose()?;
        }
        let Some(manifest) = &self.found.manifest else {
            return match self.key_without_manifest(root) {
                Some(key) if rules.require_manifest == RequireManifest::No => {
                    self.check_key_pins(key)
                }
                _ => refused(Reason::ManifestRequired, "it has shown no manifest"),
            };
        };
        // It may have been verified a while ago.
        if manifest
            .manifest()
            .ends()
            .is_some_and(|end| end <= now.unix)
        {
            return refused(Reason::ManifestExpired, "its manifest has ended");
        }
        match manifest.hash() == self.manifest_hash {
            true => Ok(()),
            false => refused(
                Reason::ManifestInvalid,
                "its manifest is not the one it named",
            ),
        }
    }

    /// The key that stands for an agent without a manifest: that of a did:key; and of a peer that
    /// knows the base specification alone the first of its DID document, which is all that such a
    /// did:web has to publish. One that is pinned, or has shown a manifest before, must show one: else
    /// its web host could get around both by showing none.
    fn key_without_manifest<'a>(&'a self, root: &'a RootKeys) -> Option<&'a VerifyingKey> {
        match (&self.did, root, self.binding) {
            (Did::Key(did), _, _) => Some(did.key()),
            (Did::Web(_), RootKeys::Document(keys), Binding::Baseline)
                if self.pins == Pins::default() && self.last.is_none() =>
            {
                keys.iter().next().map(|first| &first.key)
            }
            (Did::Web(_) | Did::Github(_), _, _) => None,
        }
    }

    /// An agent without a manifest has no keys but those of its DID.
    fn check_key_pins(&self, root: &VerifyingKey) -> Result<(), Failure> {
        match self.pins.fit(self.manifest_hash, root.digest()) {
            true => Ok(()),
            false => Err(ManifestError::Pin.into()),
        }
    }

    /// Every key it claims is in the verified set, with the same name and bytes.
    fn check_keys(&self, now: Now, root: &RootKeys) -> Result<(), Failure> {
        let Some(known) = self.verified_keys(root) else {
            return Err(unverified("none of its keys is known"));
        };
        self.check_claimed(now, &known)
    }

    /// Every key it claims is among these, and one may be used now.
    fn check_claimed(&self, now: Now, known: &KeySet) -> Result<(), Failure> {
        if !known.contains_all(&self.claimed) {
            return Err(unverified(
                "it claims a key that is not in its verified set",
            ));
        }
        let usable = |key: &Key| {
            let key = known.get(key.kid.as_str());
            key.is_some_and(|key| key.verifies_at(now.unix))
        };
        match self.claimed.iter().any(usable) {
            true => Ok(()),
            false => Err(unverified("none of its keys is usable now")),
        }
    }

    /// The keys of the root and of the verified manifest.
    fn verified_keys(&self, root: &RootKeys) -> Option<KeySet> {
        // A did:key is the key; the peer gives it a name, and nothing else that it says of it counts.
        let name = match &self.did {
            Did::Key(did) => {
                let mut claimed = self.claimed.iter();
                claimed.find(|claimed| claimed.key == *did.key())
            }
            Did::Web(_) | Did::Github(_) => None,
        };
        root.agent_keys(name.map(|key| &key.kid), self.found.manifest.as_deref())
    }

    fn says_profile(&self) -> bool {
        let manifest = self.found.manifest.as_ref().map(|found| found.manifest());
        let metadata = manifest.and_then(|manifest| manifest.metadata.as_ref());
        let profile = metadata.and_then(|metadata| metadata.get("profile"));
        profile.and_then(Value::as_str) == Some(PROFILE)
    }

    fn verdict(
        &self,
        root: &RootKeys,
        decision: Option<&Decision>,
        rules: &TrustRules,
    ) -> Result<PeerVerified, Failure> {
        let trust = decision.map_or(TrustLevel::Own, Decision::level);
        if trust < rules.min_trust_level {
            let cause = format!("its trust level is {trust}");
            let failure = Failure::new(ErrorCode::UnverifiedAgent, cause);
            return Err(failure.because(Reason::TrustLevel));
        }
        let keys = self.verified_keys(root);
        let manifest = self.found.manifest.as_ref();
        let signer = match manifest {
            Some(manifest) => Some(&manifest.signer().key),
            None => self.key_without_manifest(root),
        };
        let signer = signer.ok_or_else(|| unverified("it has shown no manifest"))?;
        let signer = signer.digest();
        Ok(PeerVerified {
            did: self.did.clone(),
            did_text: self.did_text.clone(),
            keys: keys.ok_or_else(|| unverified("none of its keys is known"))?,
            manifest_hash: self.manifest_hash,
            seen: manifest.map(|manifest| manifest.seen(self.last)),
            signer,
            trust,
            vouchers: decision.map(Decision::vouchers).unwrap_or_default(),
            partial: decision.is_some_and(Decision::is_partial),
            class: match self.is_known || trust > TrustLevel::Own {
                true => Class::Known,
                false => Class::Stranger,
            },
        })
    }

    /// Where the agent says that it is: in its manifest, or else in its DID document.
    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        match self.manifest() {
            Some(manifest) => &manifest.manifest().endpoints,
            None => &self.found.endpoints,
        }
    }

    /// The manifest that was verified.
    pub(crate) fn manifest(&self) -> Option<&VerifiedManifest> {
        self.found.manifest.as_deref()
    }
}

pub(crate) fn baseline_not_allowed(cause: &'static str) -> Failure {
    Failure::new(ErrorCode::UnverifiedAgent, cause).because(Reason::BaselineNotAllowed)
}
