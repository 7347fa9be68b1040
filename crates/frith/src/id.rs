//! `frith id`: the identities and keys of this user.

use std::io::Write;
use std::path::PathBuf;

use a2a_identity::{
    Did, Identity, IdentityError, KeyStatus, OwnKey, SWITCH, SigningKey, VerifyingKey,
};
use a2a_wire::{Kid, UnixSeconds, Write as _};
use anyhow::{Context, Result};
use canonical::{Object, Value, base64url};
use serde_json::json;

use crate::Outcome;
use crate::keystore::{Secret, Store, Stored, now, random};
use crate::screen::{plain, shown};

/// Make, show and change the identities of this user.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a new identity with its first key
    New {
        /// What to call it here
        #[arg(default_value = "default")]
        name: String,
        #[command(flatten)]
        first: First,
        #[command(flatten)]
        store: Store,
    },
    /// Show an identity and its keys
    Show {
        /// Which
        #[arg(default_value = "default")]
        name: String,
        #[command(flatten)]
        store: Store,
    },
    /// List the identities
    List {
        #[command(flatten)]
        store: Store,
    },
    /// Add a key that takes over in an hour; the one before it goes a day later
    Rotate {
        /// Which identity
        #[arg(default_value = "default")]
        name: String,
        /// Encrypt the new key with the passphrase, even if the one before it is not encrypted
        #[arg(long)]
        encrypt: bool,
        #[command(flatten)]
        store: Store,
    },
    /// End a key at once and for ever
    Revoke {
        /// The key
        kid: String,
        /// Which identity
        #[arg(long, default_value = "default", value_name = "NAME")]
        id: String,
        #[command(flatten)]
        store: Store,
    },
    /// Write the public keys as a DID document, or a secret key as PEM
    Export {
        /// Which identity
        #[arg(default_value = "default")]
        name: String,
        /// Write the secret of this key instead (as it is kept: encrypted if it is)
        #[arg(long, value_name = "KID")]
        secret: Option<String>,
        #[command(flatten)]
        store: Store,
    },
    /// Make an identity around a key from elsewhere: an Ed25519 key in PEM (PKCS#8)
    Import {
        /// The file
        file: PathBuf,
        /// What to call it here
        #[arg(default_value = "default")]
        name: String,
        #[command(flatten)]
        first: First,
        #[command(flatten)]
        store: Store,
    },
}

/// What an identity begins with.
#[derive(Debug, clap::Args)]
struct First {
    /// Its DID, if it is not to be the did:key of its first key: did:web:… or did:github:…
    #[arg(long, value_name = "DID")]
    did: Option<String>,

    /// Encrypt the key with the passphrase (an imported one that is encrypted stays so)
    #[arg(long)]
    encrypt: bool,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.command {
        Command::New { name, first, store } => {
            let key = SigningKey::generate(&mut random)?;
            create(name, first, store, &key, as_json)
        }
        Command::Import {
            file,
            name,
            first,
            store,
        } => {
            let text = Secret::read(file)?;
            let key = store
                .unseal(&text)
                .with_context(|| format!("in {}", shown(file)))?;
            // What came encrypted is never written in the clear.
            let first = First {
                did: first.did.clone(),
                encrypt: first.encrypt || text.is_encrypted(),
            };
            create(name, &first, store, &key, as_json)
        }
        Command::Show { name, store } => {
            let stored = store.open(name)?;
            show(name, &stored, as_json)
        }
        Command::List { store } => list(store, as_json),
        Command::Rotate {
            name,
            encrypt,
            store,
        } => rotate(name, *encrypt, store, as_json),
        Command::Revoke { kid, id, store } => revoke(kid, id, store, as_json),
        Command::Export {
            name,
            secret,
            store,
        } => export(name, secret.as_deref(), store, as_json),
    }
}

/// The name of a key: from the key itself, so that no name ever means two keys.
fn name_of(key: &VerifyingKey) -> Result<Kid> {
    let digits: String = key.digest().to_string().chars().skip(7).take(12).collect();
    Ok(format!("sig-{digits}").parse()?)
}

fn create(
    name: &str,
    first: &First,
    store: &Store,
    key: &SigningKey,
    as_json: bool,
) -> Result<Outcome> {
    let did = match first.did.as_deref().map(str::parse::<Did>) {
        Some(Ok(Did::Key(_))) => {
            return Ok(Outcome::WrongArguments(
                "a did:key is made from its key: leave --did out".into(),
            ));
        }
        Some(Ok(did)) => Some(did),
        Some(Err(error)) => return Ok(Outcome::WrongArguments(format!("--did: {error}"))),
        None => None,
    };
    let stored = make(name, did, first.encrypt, store, key)?;
    show(name, &stored, as_json)
}

/// Makes an identity around its first key.
pub(crate) fn make(
    name: &str,
    did: Option<Did>,
    encrypt: bool,
    store: &Store,
    key: &SigningKey,
) -> Result<Stored> {
    let public = key.verifying_key();
    let identity = Identity::new(did, name_of(&public)?, public, now());
    let pem = store.seal(key, encrypt)?;
    store.create(name, identity, &pem)
}

fn list(store: &Store, as_json: bool) -> Result<Outcome> {
    let names = store.names()?;
    let mut out = std::io::stdout().lock();
    let mut all = Vec::new();
    let mut outcome = Outcome::Good;
    for name in &names {
        // One that cannot be read hides no other.
        match store.open(name) {
            Ok(stored) => {
                all.push(json!({"name": name, "did": stored.identity.did().to_string()}));
                if !as_json {
                    writeln!(out, "{name:12} {}", stored.identity.did())?;
                }
            }
            Err(error) => {
                all.push(json!({"name": name, "did": null, "error": format!("{error:#}")}));
                tell!("frith: {}", plain(format!("{error:#}")));
                outcome = Outcome::Bad;
            }
        }
    }
    match (as_json, names.is_empty()) {
        (true, _) => writeln!(out, "{}", json!(all))?,
        (false, true) => writeln!(out, "there is no identity yet; `frith id new` makes one")?,
        (false, false) => {}
    }
    Ok(outcome)
}

fn show(name: &str, stored: &Stored, as_json: bool) -> Result<Outcome> {
    let (identity, now) = (&stored.identity, now());
    let mut out = std::io::stdout().lock();
    if as_json {
        let mut record = identity.to_record();
        record.insert("name", Value::String(name.to_owned().into()));
        writeln!(out, "{}", serde_json::to_string(&Value::Object(record))?)?;
        return Ok(Outcome::Good);
    }
    writeln!(out, "{name}: {}", identity.did())?;
    for key in identity.keys() {
        let public = base64url::encode(&key.key.to_bytes());
        writeln!(
            out,
            "  {:18} {public}  {}",
            key.kid.as_str(),
            describe(identity, key, now)
        )?;
    }
    Ok(Outcome::Good)
}

fn describe(identity: &Identity, key: &OwnKey, now: UnixSeconds) -> String {
    let is = |own: Option<&OwnKey>| own.is_some_and(|own| own.kid == key.kid);
    let ends = key
        .expires_at
        .map(|end| format!(", goes {}", until(end, now)));
    let ends = ends.unwrap_or_default();
    match key.status {
        KeyStatus::Active if key.signs_from > now => {
            format!("signs {}{ends}", until(key.signs_from, now))
        }
        KeyStatus::Active => match (
            is(identity.signing_key(now)),
            is(identity.manifest_key(now)),
        ) {
            (true, true) => format!("signs{ends}"),
            (true, false) => format!("signs messages{ends}"),
            (false, _) => format!("signs the manifest{ends}"),
        },
        KeyStatus::Deprecated => format!("deprecated{ends}"),
        KeyStatus::Revoked => format!("revoked{ends}"),
        KeyStatus::Unknown => "unusable".into(),
    }
}

/// How far away a time is.
pub(crate) fn until(time: UnixSeconds, now: UnixSeconds) -> String {
    match time.0.saturating_sub(now.0) {
        0 => "now".into(),
        seconds if seconds < 0 => format!("{} ago", span(-seconds)),
        seconds => format!("in {}", span(seconds)),
    }
}

fn span(seconds: i64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.saturating_add(30) / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn rotate(name: &str, encrypt: bool, store: &Store, as_json: bool) -> Result<Outcome> {
    let mut stored = store.open(name)?;
    // An identity that began with an encrypted key goes on with one.
    let before = stored.identity.manifest_key(now());
    let before = before.map(|own| stored.read_secret(own)).transpose()?;
    let encrypt = encrypt || before.is_some_and(|secret| secret.is_encrypted());
    let key = SigningKey::generate(&mut random)?;
    let kid = name_of(&key.verifying_key())?;
    stored.identity.rotate(kid, key.verifying_key(), now())?;
    let own = stored
        .identity
        .keys()
        .last()
        .context("the key was just added")?;
    stored.write_secret(own, &store.seal(&key, encrypt)?)?;
    stored.save()?;
    let outcome = show(name, &stored, as_json)?;
    if !as_json {
        writeln!(
            std::io::stdout(),
            "a node that runs as `{name}` shows the new key by itself; a manifest that you publish elsewhere \
             is to be signed again now, and once more in {} (`frith manifest sign`)",
            span(SWITCH)
        )?;
    }
    Ok(outcome)
}

fn revoke(kid: &str, name: &str, store: &Store, as_json: bool) -> Result<Outcome> {
    let mut stored = store.open(name)?;
    match stored.identity.revoke(kid, now()) {
        Ok(()) => {}
        Err(error @ IdentityError::NoSuchKey(_)) => {
            return Ok(Outcome::WrongArguments(format!(
                "{error}; `frith id show {name}` lists them"
            )));
        }
        Err(error) => return Err(error.into()),
    }
    stored.save()?;
    stored.remove_secret(kid)?;
    show(name, &stored, as_json)
}

fn export(name: &str, secret: Option<&str>, store: &Store, as_json: bool) -> Result<Outcome> {
    let stored = store.open(name)?;
    let mut out = std::io::stdout().lock();
    let Some(kid) = secret else {
        let mut document = Object::default();
        let did = stored.identity.did().to_string();
        document.insert("agent_did", Value::String(did.into()));
        document.insert("public_keys", stored.identity.public_keys().write());
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&Value::Object(document))?
        )?;
        return Ok(Outcome::Good);
    };
    let key = stored
        .identity
        .keys()
        .iter()
        .find(|own| own.kid.as_str() == kid);
    let Some(key) = key else {
        let message = format!("there is no key `{kid}`; `frith id show {name}` lists them");
        return Ok(Outcome::WrongArguments(message));
    };
    let secret = stored.read_secret(key)?;
    match as_json {
        true => writeln!(out, "{}", json!({"kid": kid, "pem": secret.as_str()}))?,
        false => out.write_all(secret.as_str().as_bytes())?,
    }
    Ok(Outcome::Good)
}
