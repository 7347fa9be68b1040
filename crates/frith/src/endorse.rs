//! `frith endorse`: vouch for another agent.

use std::io::Write;
use std::path::Path;

use a2a_identity::{Did, TrustLevel, endorse};
use a2a_wire::{Digest, EndorsementPayload, Nullable, Word, Write as _};
use anyhow::{Context, Result, bail};

use crate::Outcome;
use crate::keystore::{Store, now};
use crate::manifest::{Refused, Subject, load};
use crate::screen::shown;

/// Writes an entry for the `trust_chain` of another agent's manifest, signed by an identity of this
/// user. The agent adds it and signs its manifest again; it counts for those who trust the signer.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Whom to vouch for: a did:key, or a manifest (it is verified first)
    #[arg(value_name = "DID|FILE")]
    whom: String,

    #[command(flatten)]
    subject: Subject,

    /// How much
    #[arg(long, value_enum, default_value = "verified")]
    level: Level,

    /// For how many days
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,

    /// Only for this capability; may be given several times
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,

    /// The identity that vouches
    #[arg(long, default_value = "default", value_name = "NAME")]
    id: String,

    #[command(flatten)]
    store: Store,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Level {
    Delegated,
    Verified,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let (did, keys) = match subject(arguments)? {
        Ok(subject) => subject,
        Err(outcome) => return Ok(outcome),
    };
    let stored = arguments.store.open(&arguments.id)?;
    if *stored.identity.did() == did {
        return Ok(Outcome::WrongArguments(
            "nobody can vouch for themselves: choose another identity with --id NAME".into(),
        ));
    }
    let capabilities: Result<Vec<Word>, _> = arguments
        .capabilities
        .iter()
        .map(|name| name.parse())
        .collect();
    let now = now();
    let level = match arguments.level {
        Level::Delegated => TrustLevel::Delegated,
        Level::Verified => TrustLevel::Verified,
    };
    let payload = EndorsementPayload {
        issuer: stored
            .identity
            .did()
            .to_text()
            .context("the identity's DID is too long")?,
        issued_at: now,
        expires_at: Some(Nullable(Some(now.plus(i64::from(arguments.days) * 86_400)))),
        trust_level: level.as_str().parse()?,
        subject: did.to_text().context("the DID is too long")?,
        subject_keys: Some(keys),
        capabilities: Some(capabilities?).filter(|names| !names.is_empty()),
    };
    // Anchors are often pinned by the key of a did:key, so that is the one to sign with.
    let own = stored
        .identity
        .manifest_key(now)
        .context("no key can sign now")?;
    let key = stored.signing_key(&arguments.store, own)?;
    let entry = endorse(&payload, &own.kid, &key)?;
    writeln!(
        std::io::stdout(),
        "{}",
        serde_json::to_string_pretty(&entry.write())?
    )?;
    tell!(
        "{did} adds this to the `trust_chain` of its manifest and signs that again (`frith manifest sign`)"
    );
    Ok(Outcome::Good)
}

/// Whom to vouch for, and the keys they have.
fn subject(arguments: &Arguments) -> Result<Result<(Did, Vec<Digest>), Outcome>> {
    let wrong = |message: String| Ok(Err(Outcome::WrongArguments(message)));
    if arguments.whom.starts_with("did:") {
        return match arguments.whom.parse::<Did>() {
            Ok(Did::Key(key)) => {
                let keys = vec![key.key().digest()];
                Ok(Ok((Did::Key(key), keys)))
            }
            Ok(Did::Web(_) | Did::Github(_)) => wrong(
                "only a did:key can be endorsed by name: give the manifest's file, whose keys are named in the endorsement".into(),
            ),
            Err(error) => wrong(error.to_string()),
        };
    }
    let file = Path::new(&arguments.whom);
    match load(file, &arguments.subject, None)? {
        Ok(verified) => {
            let keys = verified.keys_to_endorse(now());
            Ok(Ok((verified.did().clone(), keys)))
        }
        Err(Refused::Arguments(message)) => wrong(message),
        Err(Refused::Manifest(error)) => {
            let (code, reason) = (error.code(), error.reason());
            // Standard output is the entry and nothing else.
            bail!("{}: {code} ({reason}): {error}", shown(file));
        }
    }
}
