//! The section `trust`: whose word counts, and how much an agent must show.

use std::collections::BTreeSet;
use std::time::Duration;

use canonical::Digest;
use policy::TrustLevel;

use super::a2a::did;
use super::policy::LEVELS;
use super::read::Field;
use super::sections::{set, set_some};

/// Whose word counts, and how much an agent must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Those whose endorsements count, by a name of the operator's.
    pub anchors: Vec<TrustAnchor>,
    /// What an agent must show, exactly.
    pub pins: Vec<TrustPin>,
    /// DIDs that are not spoken to.
    pub blocked: BTreeSet<String>,
    /// What every agent must reach.
    pub min_trust_level: TrustLevel,
    /// How old the signature of a manifest may be.
    pub max_manifest_age: Duration,
    /// Whether a did:key must show a manifest too.
    pub require_manifest: bool,
}

/// Someone whose endorsements count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustAnchor {
    /// What the operator calls it.
    pub name: String,
    /// Who.
    pub did: String,
    /// The one key to believe, in base64url.
    pub public_key: Option<String>,
    /// Endorsements below this do not count.
    pub min_trust_level: TrustLevel,
}

/// What an agent must show, exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustPin {
    /// Which.
    pub did: String,
    /// The hash of its manifest.
    pub manifest: Option<Digest>,
    /// Hashes of the keys that may sign it; empty: any.
    pub keys: Vec<Digest>,
}

const DAY: u64 = 24 * 60 * 60;

impl Default for Trust {
    fn default() -> Self {
        Self {
            anchors: Vec::new(),
            pins: Vec::new(),
            blocked: BTreeSet::new(),
            min_trust_level: TrustLevel::Own,
            max_manifest_age: Duration::from_secs(30 * DAY),
            require_manifest: false,
        }
    }
}

/// The section `trust`.
pub(super) fn trust(field: &Field<'_>) -> Option<Trust> {
    let mut trust = Trust::default();
    let mut section = field.section()?;
    set(&mut trust.anchors, section.field("anchors"), |it| {
        Some(it.entries()?.filter_map(anchor).collect())
    });
    set(&mut trust.pins, section.field("pins"), |it| {
        Some(it.list()?.filter_map(|it| pin(&it)).collect())
    });
    set(&mut trust.blocked, section.field("blocked"), |it| {
        Some(it.list()?.filter_map(|it| did(&it)).collect())
    });
    let slot = &mut trust.min_trust_level;
    set(slot, section.field("min_trust_level"), level);
    let slot = &mut trust.max_manifest_age;
    set(slot, section.field("max_manifest_age_days"), |it| {
        let days = u64::try_from(it.integer(1..=3650)?).ok()?;
        Some(Duration::from_secs(days.saturating_mul(DAY)))
    });
    let slot = &mut trust.require_manifest;
    set(slot, section.field("require_manifest"), |it| it.boolean());
    section.finish();
    Some(trust)
}

fn anchor((name, field): (&str, Field<'_>)) -> Option<TrustAnchor> {
    let mut section = field.section()?;
    let did = section.required("did", field.at());
    let mut anchor = TrustAnchor {
        name: name.to_owned(),
        did: did.and_then(|it| self::did(&it)).unwrap_or_default(),
        public_key: None,
        min_trust_level: TrustLevel::Own,
    };
    let slot = &mut anchor.public_key;
    set_some(slot, section.field("public_key"), public_key);
    let slot = &mut anchor.min_trust_level;
    set(slot, section.field("min_trust_level"), level);
    section.finish();
    Some(anchor)
}

fn pin(field: &Field<'_>) -> Option<TrustPin> {
    let mut section = field.section()?;
    let did = section.required("did", field.at());
    let (mut manifest, mut keys) = (None, Vec::new());
    // A pin without its value would hold nobody to anything.
    set_some(&mut manifest, section.given("manifest"), digest);
    set(&mut keys, section.given("keys"), |it| {
        Some(it.list()?.filter_map(|it| digest(&it)).collect())
    });
    section.finish();
    let did = self::did(&did?)?;
    match manifest.is_none() && keys.is_empty() {
        true => field.wrong("needs `manifest` or `keys`"),
        false => Some(TrustPin {
            did,
            manifest,
            keys,
        }),
    }
}

fn level(field: &Field<'_>) -> Option<TrustLevel> {
    field.choice(&LEVELS)
}

fn digest(field: &Field<'_>) -> Option<Digest> {
    match field.text()?.parse() {
        Ok(digest) => Some(digest),
        Err(_) => field.wrong("must be `sha256:` and 64 hexadecimal digits in lower case"),
    }
}

fn public_key(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    match canonical::base64url::decode(&text).is_ok_and(|key| key.len() == 32) {
        true => Some(text),
        false => field.wrong("must be the 32 bytes of an Ed25519 key in base64url"),
    }
}
