//! `frith audit`: what agents did, and the proof that the record was not changed.

pub(crate) mod head;
pub(crate) mod keys;
pub(crate) mod purge;
mod show;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use audit::{Clock, End, Entry, Follower, Lines, Stats, UnixMillis, checkpoints, segments};

use self::head::HeadFile;
use crate::Outcome;
use crate::data::DataArguments;
use crate::keystore::{Store, cannot};

/// Read, verify, export and purge the audit log of a node.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// The data directory [default: $XDG_DATA_HOME/frith]
    #[arg(long, value_name = "DIR", env = "FRITH_DATA", global = true)]
    data: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the last records
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20)]
        lines: usize,
        /// Go on showing records as they come
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Prove that no record was changed, removed or slipped in, or name the first that was
    ///
    /// Needs nothing but the files and the node's public key, so it works on a copy of the folder on
    /// any machine.
    Verify(verify::Arguments),
    /// Write all records
    Export {
        /// In which form
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        #[command(flatten)]
        place: Place,
    },
    /// Drop old records, or erase the bodies or addresses in them; the chain still verifies
    Purge(purge::Arguments),
    /// Count what the log has
    Stats {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// The records as they are
    Jsonl,
    /// A2E requests as the plain `AuditEntry` lines of other hosts
    A2e,
    /// The signed checkpoints, to be kept elsewhere
    Checkpoints,
}

/// Which log.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The log's folder [default: audit in the data directory]
    folder: Option<PathBuf>,
}

/// The clocks of this machine.
#[derive(Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Place {
    fn folder(&self, store: &Store) -> Result<PathBuf> {
        match &self.folder {
            Some(folder) => Ok(folder.clone()),
            None => Ok(store.data()?.join("audit")),
        }
    }

    /// Makes sure that there is a data directory: what is said of the log in one that is mistyped would
    /// lead nowhere.
    fn must_be(&self, store: &Store) -> Result<()> {
        if self.folder.is_some() {
            return Ok(());
        }
        let data = store.data()?;
        if data.try_exists().is_ok_and(|is_there| !is_there) {
            bail!(
                "there is no {}; is the path right? --data says whose log to read, and a node writes one \
                 (`frith up`)",
                data.display()
            );
        }
        Ok(())
    }

    /// What a node remembers of its log, if this is the folder of one.
    fn remembered(&self, store: &Store) -> Result<Option<HeadFile>> {
        match &self.folder {
            Some(_) => Ok(None),
            None => Ok(Some(HeadFile::beside(&self.folder(store)?))),
        }
    }

    /// The folder, if there is a log in it.
    fn log(&self, store: &Store) -> Result<PathBuf> {
        let folder = self.folder(store)?;
        let found = segments(&folder).with_context(|| cannot("read the audit log in", &folder))?;
        if found.is_empty() {
            bail!(
                "there is no audit log in {}; a node writes one (`frith up`), --data says whose to read",
                folder.display()
            );
        }
        Ok(folder)
    }
}

/// The folder of the log in a data directory.
pub(crate) fn folder_of(data: &DataArguments) -> Result<PathBuf> {
    let store = Store::at(Some(data.dir()?.path().to_owned()));
    Place { folder: None }.log(&store)
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let store = Store::at(arguments.data.clone());
    match &arguments.command {
        Command::Tail {
            lines,
            follow,
            place,
        } => tail(&place.log(&store)?, *lines, *follow, as_json),
        Command::Verify(options) => verify::run(options, &store, as_json),
        Command::Export { format, place } => export(&place.log(&store)?, *format),
        Command::Purge(options) => purge::run(options, store, as_json),
        Command::Stats { place } => {
            let folder = place.log(&store)?;
            let stats = Stats::of(&folder).with_context(|| cannot("read", &folder))?;
            show::stats(&stats, as_json)?;
            Ok(Outcome::Good)
        }
    }
}

/// How often a log is looked at that is followed.
const INTERVAL: Duration = Duration::from_millis(200);

fn tail(folder: &Path, count: usize, follow: bool, as_json: bool) -> Result<Outcome> {
    let (mut follower, mut lines) =
        Follower::new(folder, count).with_context(|| cannot("read", folder))?;
    let mut out = std::io::stdout().lock();
    loop {
        for line in &lines {
            match (as_json, Entry::parse(line)) {
                (true, _) => {
                    out.write_all(line)?;
                    out.write_all(b"\n")?;
                }
                (false, Ok(entry)) => writeln!(out, "{}", show::entry(&entry))?,
                (false, Err(fault)) => writeln!(out, "? {fault} (`frith audit verify` says more)")?,
            }
        }
        out.flush()?;
        if !follow {
            return Ok(Outcome::Good);
        }
        std::thread::sleep(INTERVAL);
        lines = follower
            .next_lines()
            .with_context(|| cannot("read", folder))?;
    }
}

fn export(folder: &Path, format: Format) -> Result<Outcome> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if let Format::Checkpoints = format {
        for jws in checkpoints(folder).with_context(|| cannot("read", folder))? {
            writeln!(out, "{jws}")?;
        }
        out.flush()?;
        return Ok(Outcome::Good);
    }
    let (mut line, mut unreadable) = (Vec::new(), 0_u64);
    for segment in segments(folder).with_context(|| cannot("read", folder))? {
        let mut lines = Lines::open(&segment).with_context(|| cannot("read", folder))?;
        while let Some((_, end)) = lines.next_line(&mut line)? {
            let entry = Entry::parse(&line);
            if end != End::Newline || entry.is_err() {
                unreadable += 1;
            }
            match (format, entry) {
                (Format::Jsonl, _) if end == End::Newline => {
                    out.write_all(&line)?;
                    out.write_all(b"\n")?;
                }
                (Format::A2e, Ok(entry)) => {
                    if let Some(text) = entry.to_a2e() {
                        writeln!(out, "{text}")?;
                    }
                }
                _ => {}
            }
        }
    }
    out.flush()?;
    if unreadable > 0 {
        tell!("frith: {unreadable} lines are no records; `frith audit verify` names the first");
        return Ok(Outcome::Bad);
    }
    Ok(Outcome::Good)
}
