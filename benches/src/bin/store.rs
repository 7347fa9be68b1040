//! The store against plain rusqlite: the same statements on the same tables with the same settings.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use benches::{Contestant, Effort, compare};
use rusqlite::{Connection, OpenFlags};
use store::{
    AgentId, Hash, Limit, Limits, Options, Pending, PinKind, SessionId, Snapshots, Sqlite, Store,
    SyncMode, UnixMillis, statements,
};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Sessions that are written to in turn, so that their records stay short.
const SESSIONS: usize = 256;

/// What is added to a record: a message of a session.
const LINE: &[u8] = &[b'x'; 200];

const NOW: UnixMillis = UnixMillis(1_770_000_000_000);
const NEVER: UnixMillis = UnixMillis::NEVER;

/// As fast as plain rusqlite, or this much of it.
const TARGET: f64 = 0.8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => report(Effort {
            rounds: 21,
            slice: Duration::from_millis(50),
        }),
        ["--smoke"] => report(Effort::SMOKE),
        _ => {
            println!("usage: store [--smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn report(effort: Effort) -> Fallible<()> {
    println!("writes: a message of 200 bytes is added to the record of a session");
    println!(
        "{:34} {:>12} {:>12} {:>7} {:>8} {:>7} {:>9}",
        "", "rusqlite", "ours", "ratio", "at least", "CPU", "in groups"
    );
    for sync in [SyncMode::default(), SyncMode::Commit] {
        for batch in [1, 16, 256] {
            writes(sync, batch, effort)?;
        }
    }
    println!("\nreads");
    println!(
        "{:34} {:>12} {:>12} {:>7} {:>8} {:>7}",
        "", "rusqlite", "ours", "ratio", "at least", "CPU"
    );
    pins(effort)?;
    records(effort)
}

fn limits() -> Limits {
    let all = Limit {
        value: usize::MAX / 4,
        entries: usize::MAX / 4,
        bytes: usize::MAX / 4,
    };
    Limits {
        snapshots: all,
        ..Limits::default()
    }
}

fn open(path: &Path, sync: SyncMode) -> Fallible<Sqlite> {
    Ok(Sqlite::open(&Options {
        sync,
        limits: limits(),
        ..Options::new(path)
    })?)
}

fn sessions(sqlite: &Sqlite) -> Fallible<Vec<Arc<dyn Snapshots>>> {
    let scope = Store::new(sqlite.clone()).for_agent(&AgentId::new("ada")?);
    let sessions: Result<Vec<_>, _> = (0..SESSIONS).map(session).collect();
    let sessions = sessions?;
    Ok(sessions.iter().map(|name| scope.snapshots(name)).collect())
}

fn session(number: usize) -> Result<SessionId, store::Error> {
    SessionId::new(&format!("session {number:04}"))
}

/// A database with one line in the record of each session.
fn prepare(path: &Path, sync: SyncMode) -> Fallible<Sqlite> {
    let sqlite = open(path, sync)?;
    for session in sessions(&sqlite)? {
        session.put(NOW, "journal", LINE.to_vec(), NEVER).wait()?;
    }
    Ok(sqlite)
}

/// The same number of writes in each group, by rusqlite alone and by us.
fn writes(sync: SyncMode, batch: usize, effort: Effort) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let bare_path = folder.path().join("bare.db");
    drop(prepare(&bare_path, sync)?);
    let bare = Bare::open(bare_path, sync)?;
    let ours = prepare(&folder.path().join("ours.db"), sync)?;
    let before = ours.figures();
    let (sessions, mut turn) = (sessions(&ours)?, 0);
    // While one batch is committed the next one is made, as many callers do.
    let mut waiting: VecDeque<Pending<()>> = VecDeque::new();
    let failed = RefCell::new(None);
    let note = |outcome: Fallible<()>| {
        if let Err(error) = outcome {
            failed.borrow_mut().get_or_insert(error);
        }
    };
    let contest = contest(
        effort,
        || note(bare.write(batch)),
        || {
            for _ in 0..batch {
                turn += 1;
                let session = &sessions[turn % SESSIONS];
                waiting.push_back(session.append(NOW, "journal", LINE.to_vec(), NEVER));
            }
            // One at a time means that nothing is made meanwhile.
            let ahead = if batch == 1 { 0 } else { batch };
            while waiting.len() > ahead {
                if let Some(pending) = waiting.pop_front() {
                    note(pending.wait().map_err(Into::into));
                }
            }
        },
    );
    for pending in waiting {
        pending.wait()?;
    }
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let figures = ours.figures();
    let (writes, groups) = (
        figures.writes - before.writes,
        figures.groups - before.groups,
    );
    // One at a time is two hand-overs between threads, which plain rusqlite does not make.
    let target = (batch > 1).then_some(TARGET);
    let groups = format!("{:9.1}", writes as f64 / groups.max(1) as f64);
    let name = format!("sync {sync}, {batch} at a time");
    contest.row(&name, batch, target, &groups);
    Ok(())
}

/// What plain rusqlite and we have taken.
struct Contest {
    /// Seconds for each run.
    times: Vec<f64>,
    /// Of CPU.
    cpu: [f64; 2],
}

fn contest(effort: Effort, mut bare: impl FnMut(), mut ours: impl FnMut()) -> Contest {
    let cpu = [Cpu::default(), Cpu::default()];
    let times = compare(
        &mut [
            Contestant::new("rusqlite", || cpu[0].count(&mut bare)),
            Contestant::new("ours", || cpu[1].count(&mut ours)),
        ],
        effort,
    );
    Contest {
        times,
        cpu: cpu.map(|cpu| cpu.per_run()),
    }
}

impl Contest {
    /// One line: how many a second, and how much of plain rusqlite that is, by time and by CPU.
    fn row(&self, name: &str, batch: usize, target: Option<f64>, groups: &str) {
        let [bare, ours] = self.times[..] else { return };
        let rate = |seconds: f64| format!("{:.0}/s", batch as f64 / seconds.max(1e-9));
        let target = target.map_or(String::new(), |target| format!("{target:7.2}x"));
        let line = format!(
            "{name:34} {:>12} {:>12} {:6.2}x {target:>8} {:6.2}x {groups}",
            rate(bare),
            rate(ours),
            bare / ours,
            self.cpu[0] / self.cpu[1].max(1e-12),
        );
        println!("{}", line.trim_end());
    }
}

/// The CPU time that something takes, in all threads: on a busy machine the better measure.
#[derive(Default)]
struct Cpu(Cell<(Duration, u32)>);

impl Cpu {
    fn count<T>(&self, run: impl FnOnce() -> T) -> T {
        let start = cpu_time();
        let value = run();
        let (time, runs) = self.0.get();
        self.0
            .set((time + cpu_time().saturating_sub(start), runs + 1));
        value
    }

    fn per_run(&self) -> f64 {
        let (time, runs) = self.0.get();
        time.as_secs_f64() / f64::from(runs.max(1))
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Plain rusqlite.
struct Bare {
    connection: Connection,
    turn: RefCell<usize>,
    sessions: Vec<String>,
}

impl Bare {
    fn open(path: PathBuf, sync: SyncMode) -> Fallible<Self> {
        let connection = Connection::open(path)?;
        let synchronous = match sync {
            SyncMode::Commit => "FULL",
            SyncMode::Every(_) => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "secure_delete", "ON")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
        let sessions: Result<Vec<_>, _> = (0..SESSIONS).map(session).collect();
        let sessions = sessions?.into_iter();
        let sessions = sessions.map(|name| name.as_str().to_owned());
        Ok(Self {
            connection,
            turn: RefCell::default(),
            sessions: sessions.collect(),
        })
    }

    fn write(&self, batch: usize) -> Fallible<()> {
        let connection = &self.connection;
        let run = |sql| connection.prepare_cached(sql)?.execute([]);
        run("BEGIN IMMEDIATE")?;
        for _ in 0..batch {
            let turn = self.turn.replace_with(|turn| *turn + 1);
            self.append(&self.sessions[turn % SESSIONS])?;
        }
        run("COMMIT")?;
        Ok(())
    }

    fn append(&self, session: &str) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let mut find = connection.prepare_cached(statements::SNAPSHOT_FIND)?;
        let (number, parts, bytes): (i64, i64, i64) = find
            .query_row(("ada", session, "journal"), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(3)?))
            })?;
        let mut usage = connection.prepare_cached(statements::USAGE)?;
        let _: i64 = usage.query_row(("snapshots", "ada"), |row| row.get(1))?;
        let bytes = bytes + i64::try_from(LINE.len()).unwrap_or_default();
        let mut grow = connection.prepare_cached(statements::SNAPSHOT_GROW)?;
        grow.execute((number, NEVER.0, bytes))?;
        let mut add = connection.prepare_cached(statements::SNAPSHOT_ADD_PART)?;
        add.execute((number, parts, LINE))?;
        Ok(())
    }
}

/// How many are read in a run.
const READS: usize = 64;

/// A pin by its name among 10,000.
fn pins(effort: Effort) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    let pins = Store::new(prepare(&path, SyncMode::default())?).pins(&PinKind::TOOL);
    let names: Vec<String> = (0..10_000).map(|n| format!("server__tool_{n}")).collect();
    let pinned: Vec<_> = names
        .iter()
        .map(|name| pins.pin(NOW, name, Hash([7; 32])))
        .collect();
    for pending in pinned {
        pending.wait()?;
    }
    let connection = reader(&path)?;
    let bare = |name: &str| {
        let mut find = connection.prepare_cached(statements::FIND_PIN)?;
        find.query_row(("tool", name), |row| {
            Ok((
                row.get::<_, Option<[u8; 32]>>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, Option<[u8; 32]>>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })
    };
    let (mut first, mut second) = (names.iter().cycle(), names.iter().cycle());
    let contest = contest(
        effort,
        || {
            for name in first.by_ref().take(READS) {
                black_box(bare(name).is_ok());
            }
        },
        || {
            for name in second.by_ref().take(READS) {
                black_box(pins.get(name).wait().is_ok());
            }
        },
    );
    contest.row("a pin by its name", READS, Some(TARGET), "");
    Ok(())
}

/// A record of ten messages.
fn records(effort: Effort) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    let sessions = sessions(&prepare(&path, SyncMode::default())?)?;
    for session in &sessions {
        for _ in 1..10 {
            let line = session.append(NOW, "journal", LINE.to_vec(), NEVER);
            line.wait()?;
        }
    }
    let connection = reader(&path)?;
    let bare = |session: &SessionId| -> rusqlite::Result<Vec<u8>> {
        let mut read = connection.prepare_cached(statements::SNAPSHOT_READ)?;
        let mut rows = read.query(("ada", session.as_str(), "journal", NOW.0))?;
        let mut record = Vec::new();
        while let Some(row) = rows.next()? {
            record.extend_from_slice(row.get_ref(0)?.as_blob().unwrap_or_default());
        }
        Ok(record)
    };
    let names: Result<Vec<_>, _> = (0..SESSIONS).map(session).collect();
    let names = names?;
    let (mut first, mut second) = (names.iter().cycle(), sessions.iter().cycle());
    let contest = contest(
        effort,
        || {
            for name in first.by_ref().take(READS) {
                black_box(bare(name).is_ok());
            }
        },
        || {
            for session in second.by_ref().take(READS) {
                black_box(session.get(NOW, "journal").wait().is_ok());
            }
        },
    );
    contest.row("a record of ten messages", READS, Some(TARGET), "");
    Ok(())
}

/// A connection of plain rusqlite that only reads.
fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}
