//! `frith audit purge`, on the log of a node that does not run.

use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use audit::{Log, NoRandomness, Parts, Purge, Purged, Settings, UnixMillis, segments};
use serde_json::json;

use super::keys::{NodeKeys, NodeSigner};
use crate::Outcome;
use crate::keystore::{Store, cannot};

/// What to take away.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The log's folder [default: audit in the data directory]
    folder: Option<PathBuf>,

    /// What was recorded before then: 2026-11-01, 2026-11-01T12:00:00Z, or an age such as 90d or 12h
    #[arg(long, value_name = "TIME")]
    before: String,

    /// Keep the records and erase only this in them
    #[arg(long, value_enum)]
    only: Option<Only>,

    /// The identity that signs
    #[arg(long, default_value = "default", value_name = "NAME")]
    id: String,

    #[command(flatten)]
    store: Store,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Only {
    /// What records say; what chains them stays
    Bodies,
    /// The addresses that requests came from
    Addresses,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let Some(before) = time(&arguments.before, now()) else {
        let message = "--before must be a date, a time in UTC, or an age such as 90d";
        return Ok(Outcome::WrongArguments(message.into()));
    };
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => arguments.store.data()?.join("audit"),
    };
    // A log is not begun only to purge it.
    let found = segments(&folder).with_context(|| cannot("read the audit log in", &folder))?;
    if found.is_empty() {
        bail!("there is no audit log in {}", folder.display());
    }
    let stored = arguments.store.open(&arguments.id)?;
    let settings = Settings {
        name: "frith audit purge".into(),
        ..Settings::default()
    };
    let parts = Parts {
        signer: Box::new(NodeSigner::of(&stored, &arguments.store)?),
        keys: Box::new(NodeKeys::of(&stored)),
        random: Box::new(|bytes: &mut [u8]| getrandom::fill(bytes).map_err(|_| NoRandomness)),
        clock: Box::new(now),
        alarm: Box::new(|alarm| eprintln!("frith: {alarm}")),
    };
    let log = Log::open(&folder, settings, parts)?;
    let outcome = purge(&log, before, arguments.only);
    log.close();
    let purged = outcome?;
    match as_json {
        true => print_json(&purged)?,
        false => print(&purged)?,
    }
    Ok(Outcome::Good)
}

fn purge(log: &Log, before: UnixMillis, only: Option<Only>) -> Result<Purged, audit::Error> {
    match only {
        Some(Only::Addresses) => log.purge(&Purge::RemoteIpsBefore(before)),
        Some(Only::Bodies) => log.purge(&Purge::BodiesBefore(before)),
        None => {
            let dropped = log.purge(&Purge::RecordsBefore(before))?;
            // Records go up to a checkpoint; those that must stay for a while say nothing any more.
            let erased = log.purge(&Purge::BodiesBefore(before))?;
            Ok(Purged {
                bodies: erased.bodies,
                ..dropped
            })
        }
    }
}

fn print(purged: &Purged) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let Purged {
        records,
        bodies,
        remote_ips,
        through,
    } = purged;
    match through {
        Some((log_id, seq)) => {
            writeln!(
                out,
                "dropped {records} records, up to record {seq} of {log_id}"
            )?;
        }
        None => writeln!(out, "dropped no records")?,
    }
    writeln!(out, "erased {bodies} bodies and {remote_ips} addresses")?;
    Ok(())
}

fn print_json(purged: &Purged) -> Result<()> {
    let through = purged.through.as_ref();
    let through = through.map(|(log_id, seq)| json!({"log_id": log_id, "seq": seq}));
    let purged = json!({
        "records": purged.records,
        "bodies": purged.bodies,
        "remote_ips": purged.remote_ips,
        "through": through,
    });
    writeln!(std::io::stdout(), "{purged}")?;
    Ok(())
}

fn now() -> UnixMillis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A time as people give it.
fn time(text: &str, now: UnixMillis) -> Option<UnixMillis> {
    let hours = match (text.strip_suffix('d'), text.strip_suffix('h')) {
        (Some(days), _) => days.parse::<u32>().ok().map(|days| i64::from(days) * 24),
        (None, Some(hours)) => hours.parse::<u32>().ok().map(i64::from),
        (None, None) => None,
    };
    hours
        .map(|hours| now.minus(hours * 3_600_000))
        .or_else(|| UnixMillis::parse(text))
        .or_else(|| UnixMillis::parse(&format!("{text}T00:00:00Z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_times_or_ages() {
        let now = UnixMillis(1_770_000_000_000);
        let day = 86_400_000;
        for (text, expected) in [
            ("90d", Some(now.0 - 90 * day)),
            ("12h", Some(now.0 - day / 2)),
            ("2026-02-02", Some(1_769_990_400_000)),
            ("2026-02-02T02:40:00Z", Some(now.0)),
            ("-1d", None),
            ("d", None),
            ("2026-02-30", None),
            ("yesterday", None),
        ] {
            assert_eq!(time(text, now), expected.map(UnixMillis), "{text}");
        }
    }
}
