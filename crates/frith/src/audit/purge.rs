//! `frith audit purge`: by the node that runs, or on the log of one that does not.

use std::io::Write;
use std::path::PathBuf;

use a2e_runtime::DataDir;
use a2e_runtime::operator::{AskError, ask};
use anyhow::Result;
use audit::{
    Clock as _, Error, Log, NoRandomness, Parts, Purge, Purged, Retention, Settings, UnixMillis,
};
use serde::{Deserialize, Serialize};

use super::keys::{NodeKeys, NodeSigner};
use super::{Place, SystemClock};
use crate::Outcome;
use crate::agent::block_on;
use crate::keystore::Store;
use crate::screen::count;

/// What to take away.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,

    /// What was recorded before then: 2026-11-01, 2026-11-01T12:00:00Z, or an age such as 90d or 12h;
    /// less than 7 days only with `--only addresses`. An age is refused if the clock is more than a day
    /// ahead of the records
    #[arg(long, value_name = "TIME")]
    before: String,

    /// Keep the records and erase only this in them
    #[arg(long, value_enum)]
    only: Option<Only>,

    /// The identity that signs
    #[arg(long, default_value = "default", value_name = "NAME")]
    id: String,

    /// A file with the passphrase of the keys; else $FRITH_PASSPHRASE is used
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// What the operator asks a node for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wish {
    /// Milliseconds since 1970.
    before: i64,
    /// Whether it was given as an age, which is as wrong as the clock.
    is_age: bool,
    only: Option<Only>,
}

/// What was taken away.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    records: u64,
    bodies: u64,
    remote_ips: u64,
    through: Option<Through>,
}

/// The last record that was dropped.
#[derive(Debug, Serialize, Deserialize)]
struct Through {
    log_id: String,
    seq: u64,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Only {
    /// What records say; what chains them stays
    Bodies,
    /// The addresses that requests came from
    Addresses,
}

pub(crate) fn run(arguments: &Arguments, store: Store, as_json: bool) -> Result<Outcome> {
    let store = store.with_passphrase(arguments.passphrase_file.clone());
    let Some(before) = time(&arguments.before, SystemClock::start().now()) else {
        let message = "--before must be a date, a time in UTC, or an age such as 90d";
        return Ok(Outcome::WrongArguments(message.into()));
    };
    let wish = Wish {
        before: before.0,
        is_age: age(&arguments.before).is_some(),
        only: arguments.only,
    };
    let by_node = match &arguments.place.folder {
        Some(_) => None,
        None => ask_node(&DataDir::new(store.data()?), wish)?,
    };
    let taken = match by_node {
        Some(taken) => taken,
        None => purge_here(arguments, &store, wish)?,
    };
    match as_json {
        true => writeln!(std::io::stdout(), "{}", serde_json::to_string(&taken)?)?,
        false => print(&taken)?,
    }
    Ok(Outcome::Good)
}

/// The name of it among the operator's.
pub(crate) const OPERATION: &str = "audit.purge";

/// Asks the node that writes the log; `None` if there is none.
fn ask_node(node: &DataDir, wish: Wish) -> Result<Option<Taken>> {
    block_on(async {
        match ask(node, OPERATION, &wish).await {
            Ok(taken) => Ok(Some(taken)),
            Err(AskError::NoNode { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
}

/// Purges a log that nobody writes.
fn purge_here(arguments: &Arguments, store: &Store, wish: Wish) -> Result<Taken> {
    // A log is not begun only to purge it.
    let folder = arguments.place.log(store)?;
    let stored = store.open(&arguments.id)?;
    let settings = Settings {
        name: "frith audit purge".into(),
        ..Settings::default()
    };
    let parts = Parts {
        signer: Box::new(NodeSigner::of(&stored, store)?),
        keys: Box::new(NodeKeys::of(&stored)),
        random: Box::new(|bytes: &mut [u8]| getrandom::fill(bytes).map_err(|_| NoRandomness)),
        clock: Box::new(SystemClock::start()),
        alarm: Box::new(|alarm| tell!("frith: {alarm}")),
    };
    let log = match arguments.place.remembered(store)? {
        Some(head) => Log::open_remembered(&folder, settings, parts, Box::new(head))?,
        None => Log::open(&folder, settings, parts)?,
    };
    let outcome = purge(&log, wish);
    log.close();
    Ok(outcome?)
}

/// Takes away what is asked for.
pub(crate) fn purge(log: &Log, wish: Wish) -> Result<Taken, Error> {
    let before = UnixMillis(wish.before);
    // The addresses alone may be erased at any time.
    if wish.is_age && !matches!(wish.only, Some(Only::Addresses)) {
        let ahead = log.clock_ahead()?;
        if !ahead.is_zero() && is_old(before) {
            return Err(Error::ClockAhead { ahead });
        }
    }
    let purged = match wish.only {
        Some(Only::Addresses) => log.purge(&Purge::RemoteIpsBefore(before))?,
        Some(Only::Bodies) => log.purge(&Purge::BodiesBefore(before))?,
        None => {
            let dropped = log.purge(&Purge::RecordsBefore(before))?;
            // Records go up to a checkpoint; those that must stay for a while say nothing any more.
            let erased = log.purge(&Purge::BodiesBefore(before))?;
            Purged {
                bodies: erased.bodies,
                ..dropped
            }
        }
    };
    Ok(Taken {
        records: purged.records,
        bodies: purged.bodies,
        remote_ips: purged.remote_ips,
        through: purged.through.map(|(log_id, seq)| Through { log_id, seq }),
    })
}

fn print(taken: &Taken) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let Taken {
        records,
        bodies,
        remote_ips,
        through,
    } = taken;
    match through {
        Some(Through { log_id, seq }) => {
            writeln!(
                out,
                "dropped {}, up to record {seq} of {log_id}",
                count(*records, "record", "records")
            )?;
        }
        None => writeln!(out, "dropped no records")?,
    }
    writeln!(
        out,
        "erased {} and {}",
        count(*bodies, "body", "bodies"),
        count(*remote_ips, "address", "addresses")
    )?;
    Ok(())
}

/// Whether records from before a time may be purged at all.
fn is_old(before: UnixMillis) -> bool {
    let least = i64::try_from(Retention::MIN.as_millis()).unwrap_or(i64::MAX);
    before <= SystemClock::start().now().minus(least)
}

/// The hours of an age as people give it.
fn age(text: &str) -> Option<i64> {
    match (text.strip_suffix('d'), text.strip_suffix('h')) {
        (Some(days), _) => days.parse::<u32>().ok().map(|days| i64::from(days) * 24),
        (None, Some(hours)) => hours.parse::<u32>().ok().map(i64::from),
        (None, None) => None,
    }
}

/// A time as people give it.
fn time(text: &str, now: UnixMillis) -> Option<UnixMillis> {
    age(text)
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
