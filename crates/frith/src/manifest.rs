//! `frith manifest`: make, show, sign and verify manifests.

pub(crate) mod load;

use std::io::Write;
use std::path::{Path, PathBuf};

use a2a_identity::{
    Did, ManifestCheck, Peer, Pins, Signed, WebUrl, sign_manifest, verify_manifest,
};
use a2a_wire::{
    Manifest, ManifestPayload, NOT_HASHED, PROFILE, Read as _, UnixSeconds, Write as _, limits,
    parse_document,
};
use anyhow::{Context, Result, bail};
use canonical::{Digest, Object, Value};
use serde_json::json;

pub(crate) use self::load::{Refused, Subject, load, rules};

use crate::Outcome;
use crate::id::until;
use crate::keystore::{Store, Stored, now, read, replace};
use crate::screen::{plain, shown};

/// Make, show, sign and verify manifests: an agent's signed description of itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make and sign a manifest for an identity
    Init(Init),
    /// Show what a manifest says, without believing it
    Show {
        /// The manifest
        file: PathBuf,
    },
    /// Sign a manifest again, with the keys that its identity has now
    Sign {
        /// The manifest; it is replaced
        file: PathBuf,
        /// The identity that signs
        #[arg(long, default_value = "default", value_name = "NAME")]
        id: String,
        #[command(flatten)]
        store: Store,
    },
    /// Check a manifest: its form, its signature, its time
    Verify {
        /// The manifest
        file: PathBuf,
        #[command(flatten)]
        subject: Subject,
        /// Only this content will do
        #[arg(long, value_name = "HASH")]
        pin: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Init {
    /// The identity that signs
    #[arg(long, default_value = "default", value_name = "NAME")]
    id: String,

    /// What the agent calls itself
    #[arg(long, default_value = "agent")]
    agent_id: String,

    /// Where it can be reached; `https://host` alone means the usual paths there
    #[arg(
        long = "endpoint",
        value_name = "URL",
        default_value = "https://127.0.0.1:8443"
    )]
    endpoints: Vec<String>,

    /// What it can do, such as nlp.translate.v1
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,

    /// Where to write it
    #[arg(long, default_value = "agent-manifest.json", value_name = "FILE")]
    out: PathBuf,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    store: Store,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.command {
        Command::Init(options) => init(options, as_json),
        Command::Show { file } => show(file, as_json),
        Command::Sign { file, id, store } => sign(file, id, store, as_json),
        Command::Verify { file, subject, pin } => {
            let Ok(pin) = pin.as_deref().map(str::parse::<Digest>).transpose() else {
                let message = "--pin must be `sha256:` and 64 lower-case hexadecimal digits";
                return Ok(Outcome::WrongArguments(message.into()));
            };
            verify(file, subject, pin, as_json)
        }
    }
}

fn verify(file: &Path, subject: &Subject, pin: Option<Digest>, as_json: bool) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let verified = match load(file, subject, pin)? {
        Ok(verified) => verified,
        Err(Refused::Arguments(message)) => return Ok(Outcome::WrongArguments(message)),
        Err(Refused::Manifest(error)) => {
            let (code, reason) = (error.code(), error.reason());
            match as_json {
                true => writeln!(
                    out,
                    "{}",
                    json!({"valid": false, "code": code.as_str(), "reason": reason.as_str(), "error": error.to_string()})
                )?,
                false => writeln!(out, "{}: {code} ({reason}): {error}", shown(file))?,
            }
            return Ok(Outcome::Bad);
        }
    };
    if as_json {
        writeln!(
            out,
            "{}",
            json!({
                "valid": true,
                "did": verified.did().to_string(),
                "manifest_hash": verified.hash().to_string(),
                "signed_at": verified.timestamp().0,
                "kid": verified.signer().kid.as_str(),
                "profile": verified.is_profile(),
            })
        )?;
        return Ok(Outcome::Good);
    }
    writeln!(out, "{}: valid", shown(file))?;
    writeln!(out, "  whose    {}", verified.did())?;
    writeln!(out, "  hash     {}", verified.hash())?;
    writeln!(
        out,
        "  signed   {} by {}",
        until(verified.timestamp(), now()),
        verified.signer().kid
    )?;
    if !verified.is_profile() {
        writeln!(
            out,
            "  note     signed as the base specification does, without kid or typ"
        )?;
    }
    if let Did::Github(github) = verified.did() {
        writeln!(
            out,
            "  note     {} must confirm the owner; that is not done here",
            github.ownership_url()
        )?;
    }
    Ok(Outcome::Good)
}

fn init(options: &Init, as_json: bool) -> Result<Outcome> {
    if options.out.exists() && !options.force {
        bail!(
            "{} is there already: give --force to replace it, or --out FILE",
            shown(&options.out)
        );
    }
    let stored = options.store.open(&options.id)?;
    let mut endpoints = Vec::new();
    for text in &options.endpoints {
        match endpoints_of(text) {
            Ok(places) => endpoints.extend(places),
            Err(error) => {
                return Ok(Outcome::WrongArguments(format!(
                    "--endpoint {text}: {error}"
                )));
            }
        }
    }
    let draft = json!({
        "manifest_version": "1.0",
        "agent_did": stored.identity.did().to_string(),
        "agent_id": options.agent_id,
        "endpoints": endpoints,
        "capabilities": options.capabilities,
        "metadata": {"profile": PROFILE},
        // Signing moves it on, to now.
        "published_at": now().0.saturating_sub(1),
        "expires_at": null,
    });
    let draft = Value::from_serialize(&draft)?;
    let mut tree = draft.as_object().cloned().unwrap_or_default();
    sign_with(&mut tree, &stored, &options.store)?;
    write(&options.out, &tree, &stored)?;
    told(&options.out, &tree, &stored, as_json)
}

/// The endpoints that a URL stands for.
fn endpoints_of(text: &str) -> Result<Vec<serde_json::Value>> {
    let url = WebUrl::parse(text)?;
    let transport = if url.is_https() { "http" } else { "websocket" };
    let base = text.trim_end_matches('/');
    let places = match url.path() {
        "" | "/" => vec![
            ("handshake", format!("{base}/a2a/handshake")),
            ("request", format!("{base}/a2a/request")),
        ],
        _ => vec![("handshake", text.to_owned())],
    };
    let endpoint = |(kind, url)| json!({"type": kind, "url": url, "transport": transport});
    Ok(places.into_iter().map(endpoint).collect())
}

fn sign(file: &Path, name: &str, store: &Store, as_json: bool) -> Result<Outcome> {
    let stored = store.open(name)?;
    let bytes = read(file, limits::MANIFEST)?;
    let value =
        parse_document(&bytes, limits::MANIFEST).with_context(|| format!("in {}", shown(file)))?;
    let Value::Object(tree) = value.into_owned() else {
        bail!("{} is not a JSON object", shown(file));
    };
    let mut tree = tree;
    let owner = tree
        .get("agent_did")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !stored.identity.did().is(owner) {
        bail!(
            "{} is the manifest of {owner:?}, not of {}; choose another with --id NAME",
            shown(file),
            stored.identity.did()
        );
    }
    sign_with(&mut tree, &stored, store)?;
    write(file, &tree, &stored)?;
    told(file, &tree, &stored, as_json)
}

/// Signs with the keys the identity has now. Content that changed is published anew.
pub(crate) fn sign_with(tree: &mut Object<'static>, stored: &Stored, store: &Store) -> Result<()> {
    let signature = tree.get("manifest_signature").and_then(Value::as_str);
    let signed = signature
        .and_then(|jws| Signed::parse_within(jws, Peer::Profile, limits::JWS_PAYLOAD).ok())
        .and_then(|signed: Signed<ManifestPayload>| signed.read_unverified().ok());
    tree.insert("public_keys", stored.identity.public_keys().write());
    let hash = tree.digest_without(NOT_HASHED);
    let unchanged = signed.is_some_and(|signed| signed.manifest_hash == hash);
    // Others take what is signed in the same second for something older.
    let before = tree.get("published_at").map(UnixSeconds::read);
    let next = before.and_then(Result::ok).map(|before| before.plus(1));
    let when = match unchanged {
        true => now(),
        false => next.map_or_else(now, |next| next.max(now())),
    };
    if !unchanged {
        tree.insert("published_at", when.write());
    }
    let own = stored
        .identity
        .manifest_key(now())
        .context("no key can sign now")?;
    let key = stored.signing_key(store, own)?;
    sign_manifest(tree, &own.kid, &key, when)?;
    Ok(())
}

/// Writes a manifest, after the same check that others will make.
fn write(file: &Path, tree: &Object<'static>, stored: &Stored) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(&Value::Object(tree.clone()))?;
    text.push(b'\n');
    let value = Value::parse(&text)?;
    let manifest = Manifest::read(&value)?;
    let did = Did::parse(manifest.agent_did.as_str(), Peer::Profile)?;
    let root = stored.identity.root_keys().context("it has no key")?;
    let check = ManifestCheck {
        did: &did,
        root: &root,
        now: now(),
        peer: Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &Pins::default(),
    };
    verify_manifest(&text, &check).context("the manifest would not be accepted")?;
    replace(file, &text, 0o644)
}

fn told(file: &Path, tree: &Object<'static>, stored: &Stored, as_json: bool) -> Result<Outcome> {
    let hash = tree.digest_without(NOT_HASHED);
    let mut out = std::io::stdout().lock();
    let did = stored.identity.did();
    match as_json {
        true => writeln!(
            out,
            "{}",
            json!({"file": file, "did": did.to_string(), "manifest_hash": hash.to_string()})
        )?,
        false => writeln!(out, "signed {} as {did}\n  hash {hash}", shown(file))?,
    }
    Ok(Outcome::Good)
}

fn show(file: &Path, as_json: bool) -> Result<Outcome> {
    let bytes = read(file, limits::MANIFEST)?;
    let value =
        parse_document(&bytes, limits::MANIFEST).with_context(|| format!("in {}", shown(file)))?;
    let manifest = Manifest::read(&value).with_context(|| format!("in {}", shown(file)))?;
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&value)?)?;
        return Ok(Outcome::Good);
    }
    let name = manifest.agent_id.as_ref();
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    writeln!(out, "{}{name}, not verified", manifest.agent_did)?;
    for endpoint in &manifest.endpoints {
        writeln!(out, "  {:12} {}", plain(&endpoint.kind), endpoint.url)?;
    }
    for key in &manifest.public_keys {
        let status = key
            .status
            .as_ref()
            .map_or("active", |status| status.as_str());
        let kid = key.kid.as_ref().map_or("?", |kid| kid.as_str());
        writeln!(out, "  {:12} {kid} {}", "key", plain(status))?;
    }
    for capability in manifest.capabilities.iter().flatten() {
        writeln!(out, "  {:12} {}", "can", plain(&capability.name))?;
    }
    for entry in manifest.trust_chain.as_deref().unwrap_or_default() {
        writeln!(
            out,
            "  {:12} {} as {}",
            "endorsed by",
            entry.issuer,
            plain(&entry.trust_level)
        )?;
    }
    if let Some(end) = manifest.ends() {
        writeln!(out, "  {:12} {}", "ends", until(end, now()))?;
    }
    Ok(Outcome::Good)
}
