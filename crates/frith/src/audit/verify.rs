//! `frith audit verify`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use a2a_identity::{Did, DidDocument, Peer};
use anyhow::{Context, Result};
use audit::{
    Fault, Head, KeyCheck as _, PurgeKind, RecordedPurge, Report, checkpoints, printable,
    verify_folder,
};
use serde_json::json;

use super::Place;
use super::head::HeadFile;
use super::keys::NodeKeys;
use crate::Outcome;
use crate::keystore::{Store, cannot};
use crate::screen::count;

/// Whose log it is, and who says so.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,

    /// The node's public key in base64url; several as KID=KEY
    #[arg(
        long = "key",
        value_name = "KEY",
        conflicts_with = "did",
        allow_hyphen_values = true
    )]
    keys: Vec<String>,

    /// The node's DID; a did:key is its own key
    #[arg(long, value_name = "DID")]
    did: Option<String>,

    /// The DID document of a did:web
    #[arg(long, value_name = "FILE", requires = "did")]
    document: Option<PathBuf>,

    /// Checkpoints that were exported earlier: the log must still have them
    #[arg(long, value_name = "FILE")]
    checkpoints: Option<PathBuf>,

    /// The identity of this user whose keys are taken, if neither --key nor --did is given
    #[arg(long, default_value = "default", value_name = "NAME")]
    id: String,
}

pub(crate) fn run(arguments: &Arguments, store: &Store, as_json: bool) -> Result<Outcome> {
    arguments.place.must_be(store)?;
    let keys = match arguments.keys(store)? {
        Ok(keys) => keys,
        Err(message) => return Ok(Outcome::WrongArguments(message)),
    };
    let folder = arguments.place.folder(store)?;
    // First: a log that is being written has what was remembered before it is read.
    let head = arguments.place.remembered(store)?;
    let remembered = head.as_ref().map(HeadFile::read);
    let report =
        verify_folder(&folder, &keys).with_context(|| cannot("read the audit log in", &folder))?;
    let mut missing = Vec::new();
    if let Some(remembered) = remembered {
        missing.extend(lacks(&report, remembered));
    }
    if let Some(file) = &arguments.checkpoints {
        let text = fs::read_to_string(file).with_context(|| cannot("read", file))?;
        let found = checkpoints(&folder).with_context(|| cannot("read", &folder))?;
        for (number, jws) in (1..).zip(text.lines()) {
            match keys.check(jws) {
                Ok(checkpoint) if found.iter().any(|found| found == jws) => drop(checkpoint),
                Ok(checkpoint) => missing.push(format!(
                    "the log does not have record {} of {} as it was signed (line {number} of {})",
                    checkpoint.seq,
                    checkpoint.log_id,
                    file.display()
                )),
                Err(refusal) => {
                    missing.push(format!("{} line {number}: {refusal}", file.display()));
                }
            }
        }
    }
    match as_json {
        true => print_json(&report, &missing)?,
        false => print(&report, &missing)?,
    }
    Ok(match report.is_intact() && missing.is_empty() {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

/// What the log of a node does not have and should.
fn lacks(report: &Report, remembered: Result<Option<Head>>) -> Option<String> {
    let remembered = remembered.unwrap_or_else(|error| {
        tell!("frith: how far the log had come is not known: {error:#}");
        None
    });
    let end = report.head.as_ref();
    match (end, remembered) {
        (None, None) => Some("there are no records: a node writes one when it starts".to_owned()),
        (_, Some(remembered)) => Head::lacks(end, &remembered).map(|_| {
            let Head { log_id, seq, .. } = remembered;
            format!("the log had come to record {seq} of {log_id}, which is not there")
        }),
        (Some(_), None) => None,
    }
}

impl Arguments {
    /// The keys to verify with, or what is wrong with the command line.
    fn keys(&self, store: &Store) -> Result<Result<NodeKeys, String>> {
        if !self.keys.is_empty() {
            return Ok(NodeKeys::parse(&self.keys));
        }
        let Some(did) = &self.did else {
            let stored = store.open(&self.id).context(
                "whose log is it? give the node's public key with --key, or its DID with --did",
            )?;
            return Ok(Ok(NodeKeys::of(&stored)));
        };
        let did = match Did::parse(did, Peer::Baseline) {
            Ok(did) => did,
            Err(error) => return Ok(Err(format!("--did: {error}"))),
        };
        let document = match (&did, &self.document) {
            (Did::Key(_), None) => None,
            (_, Some(file)) => {
                let text = fs::read(file).with_context(|| cannot("read", file))?;
                let document = DidDocument::read(&text, &did);
                Some(
                    document
                        .with_context(|| format!("in {}", file.display()))?
                        .keys,
                )
            }
            (Did::Web(_) | Did::Github(_), None) => {
                let message =
                    "only a did:key has its key in itself: give --document FILE or --key KEY";
                return Ok(Err(message.into()));
            }
        };
        Ok(Ok(NodeKeys::of_did(did, document)))
    }
}

fn print(report: &Report, missing: &[String]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for fault in &report.faults {
        writeln!(out, "broken   {}", printable(&fault.to_string()))?;
    }
    for text in missing {
        writeln!(out, "missing  {}", printable(text))?;
    }
    for place in &report.unfinished {
        writeln!(
            out,
            "note     {place} has no end: a crash cut it off, or it is being written"
        )?;
    }
    for gap in &report.gaps {
        let (time, reason) = (gap.timestamp, printable(&gap.reason));
        writeln!(
            out,
            "gap      {time}: {reason} ({} line {})",
            gap.place.file, gap.place.line
        )?;
    }
    for kind in [PurgeKind::Prefix, PurgeKind::Body, PurgeKind::RemoteIp] {
        print_purges(&mut out, report, kind)?;
    }
    let Report {
        records,
        erased,
        checkpoints,
        ..
    } = report;
    let verdict = match (report.is_intact() && missing.is_empty(), records) {
        (false, _) => "not intact",
        (true, 0) => "there is nothing in it",
        (true, _) if report.purges.is_empty() => "intact",
        (true, _) => "intact except for what was purged",
    };
    writeln!(
        out,
        "{verdict}: {}, {erased} of them erased, {}",
        count(*records, "record", "records"),
        count(*checkpoints, "checkpoint", "checkpoints")
    )?;
    if let Some(head) = &report.head {
        writeln!(out, "  ends with record {} of {}", head.seq, head.log_id)?;
        writeln!(out, "  {}", head.hash)?;
    }
    if report.unproven > 0 {
        writeln!(
            out,
            "  {} bodies were erased by purges that do not say which they meant, as earlier versions did: whoever can write the files could have blanked others instead",
            report.unproven
        )?;
    }
    if report.unsigned > 0 {
        writeln!(
            out,
            "  the last {} records are not signed yet: they hang together, but whoever can write the files could have written them",
            report.unsigned
        )?;
    }
    Ok(())
}

/// Names what the purges of one kind took away, and the one that took most.
fn print_purges(out: &mut impl Write, report: &Report, kind: PurgeKind) -> Result<()> {
    let purges = report.purges.iter().filter(|purge| purge.kind == kind);
    let Some(largest) = purges.clone().max_by_key(|purge| purge.count) else {
        return Ok(());
    };
    let total = purges.clone().map(|purge| purge.count).sum();
    let what = match kind {
        PurgeKind::Prefix => count(total, "record", "records"),
        PurgeKind::Body => count(total, "body", "bodies"),
        PurgeKind::RemoteIp => count(total, "address", "addresses"),
    };
    write!(out, "purged   {what}")?;
    let from = purges.clone().filter_map(|purge| purge.from).min();
    let to = purges.clone().filter_map(|purge| purge.to).max();
    if let (Some(from), Some(to)) = (from, to) {
        write!(out, " from {from} to {to}")?;
    }
    let RecordedPurge {
        log_id,
        seq,
        timestamp,
        ..
    } = largest;
    match purges.count() {
        1 => write!(out, ", by the purge of {timestamp}")?,
        many => write!(out, ", by {many} purges, most by that of {timestamp}")?,
    }
    writeln!(out, " (record {seq} of {log_id})")?;
    Ok(())
}

fn print_json(report: &Report, missing: &[String]) -> Result<()> {
    let fault = |fault: &Fault| {
        json!({
            "file": &*fault.place.file,
            "line": fault.place.line,
            "log_id": fault.log_id,
            "seq": fault.seq,
            "code": fault.kind.code(),
            "error": fault.kind.to_string(),
        })
    };
    let head = report
        .head
        .as_ref()
        .map(|head| json!({"log_id": head.log_id, "seq": head.seq, "hash": head.hash.to_string()}));
    let gaps = report.gaps.iter().map(|gap| {
        json!({"file": &*gap.place.file, "line": gap.place.line, "log_id": gap.log_id, "seq": gap.seq,
            "timestamp": gap.timestamp.to_string(), "reason": gap.reason})
    });
    let purges = report.purges.iter().map(|purge| {
        json!({"file": &*purge.place.file, "line": purge.place.line, "log_id": purge.log_id, "seq": purge.seq,
            "timestamp": purge.timestamp.to_string(), "kind": purge.kind.as_str(), "count": purge.count,
            "from": purge.from.map(|time| time.to_string()), "to": purge.to.map(|time| time.to_string())})
    });
    let report = json!({
        "intact": report.is_intact() && missing.is_empty(),
        "records": report.records,
        "erased": report.erased,
        "unproven": report.unproven,
        "checkpoints": report.checkpoints,
        "logs": report.logs,
        "unsigned": report.unsigned,
        "head": head,
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
        "missing_checkpoints": missing,
        "gaps": gaps.collect::<Vec<_>>(),
        "purges": purges.collect::<Vec<_>>(),
        "unfinished": report.unfinished.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}
