//! `frith resolve`: what a DID leads to. A running node finds it out; without one the plan of fetches is shown.

use std::io::Write;
use std::path::{Path, PathBuf};

use a2a_identity::{
    Answer, Did, DidDocument, Document, KeySet, Peer, Pins, Resolution, ResolveError, Resolved,
    RootKeys, Step, Want,
};
use a2a_wire::{Manifest, Read as _, UnixSeconds, limits, parse_document};
use a2e_runtime::operator::{AskError, ask};
use anyhow::{Context, Result, bail};
use canonical::{Value, base64url};
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::data::DataArguments;
use crate::id::until;
use crate::keystore::{now, read};
use crate::manifest::rules;
use crate::peer::asked::{LOOK, Look, Seen};
use crate::screen::{plain, shown};

/// A running node fetches and verifies what a DID leads to. Without one, or with --plan, nothing is fetched: a did:key is resolved at
/// once, and for did:web and did:github the fetches are shown that it takes; --answer gives the answer to one from a file, to see what
/// comes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A DID, or a file: a manifest or a DID document
    #[arg(value_name = "DID|FILE")]
    what: String,

    /// Take a file as the answer to a fetch
    #[arg(long = "answer", value_name = "URL=FILE")]
    answers: Vec<String>,

    /// Only show what would be fetched, also if a node runs
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    data: DataArguments,
}

/// No answer to a fetch may have more bytes.
const ANSWER: usize = 1 << 20;

/// A fetch that has no answer yet.
struct Open {
    url: String,
    what: Document,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    if !arguments.what.starts_with("did:") {
        return file(Path::new(&arguments.what), as_json);
    }
    let did = match Did::parse(&arguments.what, Peer::Baseline) {
        Ok(did) => did,
        Err(error) => return Ok(Outcome::WrongArguments(error.to_string())),
    };
    if !arguments.plan && arguments.answers.is_empty() {
        let dir = arguments.data.dir()?;
        let asked = Look {
            at: did.to_string(),
        };
        match block_on(async { Ok(ask::<Seen>(&dir, LOOK, &asked).await) })? {
            Ok(seen) => return found(&seen, as_json),
            Err(AskError::NoNode { .. }) => {}
            Err(AskError::Refused(error)) => return refused(&did, &error, as_json),
            Err(error) => return Err(error.into()),
        }
    }
    let mut answers = Vec::new();
    for answer in &arguments.answers {
        // A file name may have `=` in it, the URLs of a plan never do.
        let Some((url, file)) = answer.split_once('=') else {
            let message = format!("--answer {answer}: it must be URL=FILE");
            return Ok(Outcome::WrongArguments(message));
        };
        let file = PathBuf::from(file);
        let body = read(&file, ANSWER)?;
        answers.push((url.to_owned(), body));
    }
    let (mut resolution, mut step) = Resolution::begin(did.clone(), Want::Manifest, None);
    loop {
        match step {
            Step::Done(resolved) => return done(&resolved, as_json),
            Step::Failed(error) => return failed(&did, &error, as_json),
            Step::Fetch(fetch) => {
                let answer = answers.iter().find(|(url, _)| *url == fetch.url);
                let Some((_, body)) = answer else {
                    let open = Open {
                        url: fetch.url,
                        what: fetch.what,
                    };
                    return plan(&did, &open, as_json);
                };
                step = resolution.answer(&fetch.url, Answer::Body(body.clone()));
            }
        }
    }
}

/// Shows what a node found and verified.
pub(crate) fn found(seen: &Seen, as_json: bool) -> Result<Outcome> {
    if as_json {
        print_json(seen)?;
        return Ok(Outcome::Good);
    }
    print(&seen.did)?;
    let Some(manifest) = &seen.manifest else {
        print(&"  it shows no manifest of its own; `frith peer add NAME URL` remembers one")?;
        return Ok(Outcome::Good);
    };
    print(&format!("  verified  {}", manifest.hash))?;
    if !manifest.agent_id.is_empty() {
        print(&format!("  name      {}", plain(&manifest.agent_id)))?;
    }
    let signed = until(UnixSeconds(manifest.signed_at), now());
    print(&format!("  signed    {signed}"))?;
    for url in &manifest.endpoints {
        print(&format!("  endpoint  {}", plain(url)))?;
    }
    for name in &manifest.capabilities {
        print(&format!("  can do    {}", plain(name)))?;
    }
    Ok(Outcome::Good)
}

fn refused(did: &Did, error: &str, as_json: bool) -> Result<Outcome> {
    match as_json {
        true => print_json(&json!({"did": did.to_string(), "error": error}))?,
        false => print(&format!("{did}: {}", plain(error)))?,
    }
    Ok(Outcome::Bad)
}

fn done(resolved: &Resolved, as_json: bool) -> Result<Outcome> {
    let (root, manifest) = match resolved.verify(&rules(&Pins::default())) {
        Ok((root, manifest)) => (root, manifest.is_some()),
        Err(error) => return failed(&resolved.did, &error.into(), as_json),
    };
    let mut out = std::io::stdout().lock();
    let keys: Vec<(String, String)> = match &root {
        RootKeys::DidKey(key) => vec![(String::new(), base64url::encode(&key.to_bytes()))],
        RootKeys::Document(_) | RootKeys::Published(_) => root.set().map_or_else(Vec::new, listed),
    };
    if as_json {
        let keys: Vec<_> = keys
            .iter()
            .map(|(kid, key)| json!({"kid": kid, "key": key}))
            .collect();
        let did = resolved.did.to_string();
        writeln!(
            out,
            "{}",
            json!({"did": did, "root_keys": keys, "manifest": manifest})
        )?;
        return Ok(Outcome::Good);
    }
    writeln!(out, "{}", resolved.did)?;
    for (kid, key) in keys {
        writeln!(out, "{}", format!("  root key {key} {kid}").trim_end())?;
    }
    match (&resolved.did, manifest) {
        (Did::Key(_), _) => writeln!(
            out,
            "  a did:key has no address; its manifest comes from a peer or a file"
        )?,
        (Did::Github(_), _) => writeln!(
            out,
            "  confirmed by GitHub; the keys of the manifest that is published there"
        )?,
        (Did::Web(_), true) => writeln!(out, "  with a manifest that these keys have signed")?,
        (Did::Web(_), false) => writeln!(out, "  without a manifest")?,
    }
    Ok(Outcome::Good)
}

fn failed(did: &Did, error: &ResolveError, as_json: bool) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let code = error.code();
    match as_json {
        true => writeln!(
            out,
            "{}",
            json!({"did": did.to_string(), "code": code.as_str(), "error": error.to_string()})
        )?,
        false => writeln!(out, "{did}: {code}: {error}")?,
    }
    Ok(Outcome::Bad)
}

/// Shows what would be fetched, from the first step without an answer on.
fn plan(did: &Did, open: &Open, as_json: bool) -> Result<Outcome> {
    let what = match open.what {
        Document::DidDocument => "the DID document",
        Document::Manifest | Document::RawManifest => "the manifest",
        Document::Ownership => "GitHub's word on the owner",
    };
    let mut steps = vec![(open.url.clone(), what.to_owned())];
    match (did, open.what) {
        (Did::Web(web), Document::DidDocument) => {
            let second = web
                .document_urls()
                .into_iter()
                .nth(1)
                .filter(|url| *url != open.url);
            let only_if =
                "the DID document, only if the first answers 404, 410 or that of another DID";
            steps.extend(second.map(|url| (url, only_if.to_owned())));
            let otherwise = "the manifest, unless the document is one or names another place";
            steps.push((web.manifest_url(), otherwise.to_owned()));
        }
        (Did::Github(github), Document::RawManifest) => {
            steps.push((
                github.ownership_url(),
                "GitHub's word on the owner".to_owned(),
            ));
        }
        _ => {}
    }
    let mut out = std::io::stdout().lock();
    if as_json {
        let steps: Vec<_> = steps
            .iter()
            .map(|(url, what)| json!({"url": url, "what": what}))
            .collect();
        writeln!(out, "{}", json!({"did": did.to_string(), "plan": steps}))?;
        return Ok(Outcome::Good);
    }
    writeln!(
        out,
        "{did} takes these fetches (none was made; --answer URL=FILE gives one from a file):"
    )?;
    for (number, (url, what)) in (1..).zip(steps) {
        writeln!(out, "  {number}. {url}\n     {what}")?;
    }
    Ok(Outcome::Good)
}

/// Shows the DID and the keys of a manifest or DID document.
fn file(path: &Path, as_json: bool) -> Result<Outcome> {
    if !path.exists() {
        bail!(
            "{} is neither a DID (did:key:…, did:web:…, did:github:…) nor a file that is there",
            shown(path)
        );
    }
    let bytes = read(path, limits::DID_DOCUMENT)?;
    let value = parse_document(&bytes, limits::DID_DOCUMENT)
        .with_context(|| format!("in {}", shown(path)))?;
    let object = value.as_object();
    let name = object.and_then(|object| object.get("agent_did").or_else(|| object.get("id")));
    let name = name
        .and_then(Value::as_str)
        .with_context(|| format!("{} has neither `agent_did` nor `id`", shown(path)))?;
    let did = Did::parse(name, Peer::Baseline).with_context(|| format!("in {}", shown(path)))?;
    let keys = match Manifest::read(&value) {
        Ok(manifest) => KeySet::read(&manifest.public_keys, None)
            .with_context(|| format!("in {}", shown(path)))?,
        Err(_) => {
            DidDocument::read(&bytes, &did)
                .with_context(|| format!("in {}", shown(path)))?
                .keys
        }
    };
    let mut out = std::io::stdout().lock();
    if as_json {
        let keys: Vec<_> = listed(&keys)
            .iter()
            .map(|(kid, key)| json!({"kid": kid, "key": key}))
            .collect();
        writeln!(out, "{}", json!({"did": did.to_string(), "keys": keys}))?;
        return Ok(Outcome::Good);
    }
    writeln!(out, "{did}, as the file says")?;
    for (kid, key) in listed(&keys) {
        writeln!(out, "  key {key} {kid}")?;
    }
    Ok(Outcome::Good)
}

fn listed(keys: &KeySet) -> Vec<(String, String)> {
    keys.iter()
        .map(|key| (key.kid.to_string(), base64url::encode(&key.key.to_bytes())))
        .collect()
}
