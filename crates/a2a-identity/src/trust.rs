//! Endorsements and trust anchors (profile §6): how much an agent is trusted, and why.
//!
//! Issuers must be resolved, which takes a network: [`decide`] says which it needs and is called
//! again with what came of that.

mod court;

use std::collections::BTreeMap;
use std::fmt;

use a2a_wire::{Endorsement, EndorsementPayload, Kid, UnixSeconds, Word, WrongForm};

use self::court::{Court, Depth, Judgement};
use crate::jws::sign;
use crate::{Did, KeySet, RootKeys, SigningKey, VerifiedManifest, VerifyingKey};

/// Entries of a trust chain that are looked at.
pub const MAX_ENTRIES: usize = 8;
/// Issuers that are resolved for one decision.
pub const MAX_RESOLUTIONS: usize = 4;

/// How much an agent is trusted. The order is that of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLevel {
    /// It is who it says, and that is all.
    Own,
    /// Someone whom an anchor verified vouches for it, or an anchor says so.
    Delegated,
    /// An anchor vouches for it.
    Verified,
}

/// Someone whose word counts, because the operator says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Who.
    pub did: Did,
    /// The one key to believe, if the operator fixed it.
    pub public_key: Option<VerifyingKey>,
    /// Endorsements below this do not count.
    pub min_trust_level: TrustLevel,
}

/// What is known of an issuer that had to be resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Issuer {
    /// Its manifest, verified just now or from a cache that holds, and all its keys.
    Known {
        /// The manifest.
        manifest: Box<VerifiedManifest>,
        /// The keys of its DID's own method, joined with those of the manifest.
        keys: KeySet,
    },
    /// It could not be resolved or verified.
    Failed,
}

impl Issuer {
    /// An issuer that was resolved. Without a manifest it cannot endorse anybody.
    #[must_use]
    pub fn resolved(root: &RootKeys, manifest: Option<Box<VerifiedManifest>>) -> Self {
        let known = manifest.and_then(|manifest| {
            let keys = root.agent_keys(None, Some(&manifest))?;
            Some(Self::Known { manifest, keys })
        });
        known.unwrap_or(Self::Failed)
    }
}

/// What [`decide`] says.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The decision.
    Decided(Decision),
    /// Resolve these, and ask again with them among the issuers.
    Resolve(Vec<Did>),
}

/// How much an agent is trusted, and what came of each entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    grants: Vec<Grant>,
    /// What came of each entry, in their order.
    pub verdicts: Vec<Verdict>,
}

/// What one counting entry gives, by the word of one anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    level: TrustLevel,
    scope: Scope,
    voucher: Voucher,
}

/// A trust anchor by whose word an agent has its trust level, as the anchor was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    did: Did,
    public_key: Option<VerifyingKey>,
    /// What its endorsement says.
    level: TrustLevel,
}

impl Voucher {
    fn new(anchor: &Anchor, level: TrustLevel) -> Self {
        Self {
            did: anchor.did.clone(),
            public_key: anchor.public_key.clone(),
            level,
        }
    }

    /// Whether its word still counts with these anchors.
    #[must_use]
    pub fn counts_with(&self, anchors: &[Anchor]) -> bool {
        anchors.iter().any(|anchor| {
            anchor.did == self.did
                && anchor.public_key == self.public_key
                && anchor.min_trust_level <= self.level
        })
    }
}

/// What an endorsement is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Everything,
    Capabilities(Vec<String>),
}

/// What came of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts, with this level.
    Counts(TrustLevel),
    /// It does not count.
    Ignored(Why),
}

/// Why an entry does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// There are more than [`MAX_ENTRIES`].
    #[error("there are more than eight entries")]
    TooMany,
    /// Its issuer is the agent itself, or no DID.
    #[error("its issuer is the agent itself, or not a DID")]
    Issuer,
    /// Its level raises nothing.
    #[error("its trust level raises nothing")]
    Level,
    /// Nobody we trust knows the issuer.
    #[error("its issuer is neither a trust anchor nor verified by one")]
    Stranger,
    /// The issuer could not be resolved, or too many had to be.
    #[error("its issuer could not be resolved")]
    Unresolved,
    /// The signature is not that of a usable key of the issuer.
    #[error("its signature is not that of a usable key of its issuer")]
    Signature,
    /// What stands outside the signature is not what was signed.
    #[error("what is written is not what was signed")]
    Mismatch,
    /// It is about another agent.
    #[error("it is about another agent")]
    OtherSubject,
    /// It does not name all keys of the agent.
    #[error("it does not name the agent's keys")]
    Keys,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    NotYet,
    /// It has ended.
    #[error("it has ended")]
    Expired,
    /// The anchor's endorsements count from a higher level on.
    #[error("it is below the level from which this anchor's endorsements count")]
    BelowAnchor,
}

impl Decision {
    /// The level for everything the agent does.
    #[must_use]
    pub fn level(&self) -> TrustLevel {
        self.best(|scope| *scope == Scope::Everything)
    }

    /// The level for one capability: endorsements limited to it count too.
    #[must_use]
    pub fn level_for(&self, capability: &str) -> TrustLevel {
        self.best(|scope| match scope {
            Scope::Everything => true,
            Scope::Capabilities(names) => names.iter().any(|name| name == capability),
        })
    }

    /// The anchors by whose word the agent has its level; each of them is enough. None if it is
    /// [`TrustLevel::Own`].
    #[must_use]
    pub fn vouchers(&self) -> Vec<Voucher> {
        let level = self.level();
        let gives = |grant: &&Grant| grant.level == level && grant.scope == Scope::Everything;
        let grants = self.grants.iter().filter(gives);
        grants.map(|grant| grant.voucher.clone()).collect()
    }

    /// Whether an entry is there that does not count: worth an operator's look.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let ignored = |verdict: &Verdict| matches!(verdict, Verdict::Ignored(_));
        self.verdicts.iter().any(ignored)
    }

    fn best(&self, fits: impl Fn(&Scope) -> bool) -> TrustLevel {
        let fitting = self.grants.iter().filter(|grant| fits(&grant.scope));
        fitting
            .map(|grant| grant.level)
            .max()
            .unwrap_or(TrustLevel::Own)
    }
}

/// Vouches for an agent.
///
/// # Errors
/// If the signature would be longer than a JWS may be.
pub fn endorse(
    payload: &EndorsementPayload,
    kid: &Kid,
    key: &SigningKey,
) -> Result<Endorsement, WrongForm> {
    Ok(Endorsement {
        issuer: payload.issuer.clone(),
        issued_at: payload.issued_at,
        expires_at: payload.expires_at,
        trust_level: payload.trust_level.clone(),
        signature: sign(payload, kid, key).parse()?,
    })
}

/// Decides how much a verified agent is trusted. `issuers` holds what was resolved so far, by
/// canonical DID.
#[must_use]
pub fn decide(
    subject: &VerifiedManifest,
    anchors: &[Anchor],
    issuers: &BTreeMap<String, Issuer>,
    now: UnixSeconds,
) -> Outcome {
    let court = Court {
        anchors,
        issuers,
        now,
    };
    let entries = subject
        .manifest()
        .trust_chain
        .as_deref()
        .unwrap_or_default();
    let mut grants = Vec::new();
    let mut verdicts = Vec::new();
    let mut needed: Vec<Did> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let judged = match index < MAX_ENTRIES {
            true => court.judge(entry, subject, Depth::Agent),
            false => Err(Judgement::Ignored(Why::TooMany)),
        };
        match judged {
            Ok(given) => {
                let level = given.iter().map(|grant| grant.level).max();
                verdicts.push(Verdict::Counts(level.unwrap_or(TrustLevel::Own)));
                grants.extend(given);
            }
            Err(Judgement::Ignored(why)) => verdicts.push(Verdict::Ignored(why)),
            Err(Judgement::Needs(did)) => {
                let room = issuers.len().saturating_add(needed.len()) < MAX_RESOLUTIONS;
                if room && !needed.contains(&did) {
                    needed.push(*did);
                }
                verdicts.push(Verdict::Ignored(Why::Unresolved));
            }
        }
    }
    match needed.is_empty() {
        true => Outcome::Decided(Decision { grants, verdicts }),
        false => Outcome::Resolve(needed),
    }
}

impl TrustLevel {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Delegated => "delegated",
            Self::Verified => "verified",
        }
    }

    /// The level of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Own, Self::Delegated, Self::Verified]
            .into_iter()
            .find(|level| level.as_str() == name)
    }
}

impl fmt::Display for TrustLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Scope {
    fn of(capabilities: Option<&[Word]>) -> Self {
        capabilities.map_or(Self::Everything, |names| {
            Self::Capabilities(names.iter().map(ToString::to_string).collect())
        })
    }

    /// What both allow: nobody can pass on more than they have.
    fn within(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Everything, scope) | (scope, Self::Everything) => scope.clone(),
            (Self::Capabilities(mine), Self::Capabilities(theirs)) => {
                let both = mine.iter().filter(|name| theirs.contains(name));
                Self::Capabilities(both.cloned().collect())
            }
        }
    }
}
