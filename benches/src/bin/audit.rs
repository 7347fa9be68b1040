//! The audit log against a bare loop that appends the same lines, and verification against a bare
//! hash of the same bytes.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use audit::{
    Body, Check, Event, Log, PolicyChecks, Record, Settings, SyncWhen, Verdict, verify_folder,
};
use benches::log::parts;
use benches::{Contestant, Effort, compare};
use canonical::Digest;
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest as _, Sha256};

/// Records on their way at once, as requests of a busy node are.
const IN_FLIGHT: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => report(Effort::FULL),
        ["--smoke"] => report(Effort::SMOKE),
        _ => {
            println!("usage: audit [--smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn report(effort: Effort) -> Result<(), Box<dyn Error>> {
    println!(
        "{IN_FLIGHT} records in flight, written by one thread; bare: {IN_FLIGHT} lines in one write\n"
    );
    println!(
        "{:22} {:>14} {:>14} {:>7} {:>14} {:>9}",
        "sync", "bare rec/s", "ours rec/s", "ratio", "CPU us/record", "at most"
    );
    let home = tempfile::tempdir()?;
    for (name, sync) in [
        ("none", SyncWhen::Never),
        (
            "100ms (default)",
            SyncWhen::Every(Duration::from_millis(100)),
        ),
        ("commit", SyncWhen::Commit),
    ] {
        appending(name, sync, &home.path().join(name), effort)?;
    }
    hashes(effort);
    verifying(&home.path().join("none"), effort)
}

/// One log against one bare file.
fn appending(
    name: &str,
    sync: SyncWhen,
    folder: &Path,
    effort: Effort,
) -> Result<(), Box<dyn Error>> {
    let settings = Settings {
        sync,
        // So that what is verified later is one log, and rotation is measured too.
        segment_bytes: 64 << 20,
        ..Settings::default()
    };
    let log = Log::open(folder, settings, parts()?)?;
    let line = a_line(&log, folder)?;
    let mut bare = Bare::new(&folder.with_extension("bare"), sync, &line)?;
    let times = compare(
        &mut [
            Contestant::new("bare", || bare.append()),
            Contestant::new("ours", || together(&log)),
        ],
        effort,
    );
    let (records, cpu) = cpu_per_record(effort, || together(&log));
    log.close();
    fs::remove_file(folder.with_extension("bare"))?;
    let [bare, ours] = times.as_slice() else {
        return Ok(());
    };
    let rate = |seconds: f64| IN_FLIGHT as f64 / seconds;
    let aim = if sync == SyncWhen::Commit { "" } else { "3.00" };
    println!(
        "{name:22} {:>14.0} {:>14.0} {:>6.2}x {:>14.2} {aim:>9}",
        rate(*bare),
        rate(*ours),
        bare / ours,
        cpu * 1e6 / records.max(1.0)
    );
    Ok(())
}

/// Appends as many as are in flight, then waits for all.
fn together(log: &Log) -> bool {
    let record = record();
    // As a session does with the requests of one turn.
    let pending: Vec<_> = (0..IN_FLIGHT)
        .map(|_| log.reserve().and_then(|room| room.enqueue(&record)))
        .collect();
    log.commit();
    pending
        .into_iter()
        .all(|one| one.is_ok_and(|one| one.wait().is_ok()))
}

/// A request of A2E, with every member that a host knows.
fn record() -> Record<'static> {
    Record {
        event: Event::Request,
        body: Body {
            agent: Some("default"),
            session_id: Some(
                "sha256:4f0c1f2b6d9f3a5f1b7c5f9a1d2e3f405162738495a6b7c8d9eafb0c1d2e3f40",
            ),
            request_id: Some("7f1c0e0a9a3b4d7e8f000123456789ab"),
            correlation_id: Some("7f1c0e0a9a3b4d7e8f000123456789ab"),
            message_type: Some("tool/call/req"),
            capability: Some("tools"),
            name: Some("read_file"),
            rule: Some("workspace"),
            policy_checks: Some(PolicyChecks {
                capability_accepted: Some(Check::Passed),
                rate_limit: Some(Check::Passed),
                rule_allowed: Some(Check::Passed),
                ..PolicyChecks::default()
            }),
            result: Some(Verdict::Approved),
            response_status: Some("success"),
            processing_time_ms: Some(3),
            input_bytes: Some(212),
            output_bytes: Some(1840),
            request_hash: Some(Digest::from([7; 32])),
            ..Body::default()
        },
    }
}

/// A line of the log, for the bare loop to write.
fn a_line(log: &Log, folder: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    log.append(&record())?.wait()?;
    let (_, mut lines) = audit::Follower::new(folder, 1)?;
    let mut line = lines.pop().unwrap_or_default();
    line.push(b'\n');
    Ok(line)
}

/// What any log must do at least.
struct Bare {
    file: File,
    lines: Vec<u8>,
    sync: SyncWhen,
    synced: Instant,
}

impl Bare {
    fn new(path: &Path, sync: SyncWhen, line: &[u8]) -> std::io::Result<Self> {
        Ok(Self {
            file: OpenOptions::new().append(true).create(true).open(path)?,
            lines: line.repeat(IN_FLIGHT),
            sync,
            synced: Instant::now(),
        })
    }

    fn append(&mut self) -> bool {
        let is_due = match self.sync {
            SyncWhen::Commit => true,
            SyncWhen::Every(time) => self.synced.elapsed() >= time,
            SyncWhen::Never => false,
        };
        let written = self.file.write_all(&self.lines).is_ok();
        if is_due {
            self.synced = Instant::now();
            return written && self.file.sync_data().is_ok();
        }
        written
    }
}

/// How many records were written, and the seconds of CPU that the whole process took for it.
fn cpu_per_record(effort: Effort, mut run: impl FnMut() -> bool) -> (f64, f64) {
    let cpu = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (start, before) = (Instant::now(), cpu());
    let mut records = 0.0;
    let slices = u32::try_from(effort.rounds).unwrap_or(u32::MAX);
    loop {
        black_box(run());
        records += IN_FLIGHT as f64;
        if start.elapsed() >= effort.slice * slices {
            return (records, cpu() - before);
        }
    }
}

/// What a record cannot do without: the bare hashes of a body and of links of the usual length.
fn hashes(effort: Effort) {
    let (body, link) = (vec![b'x'; 640], vec![b'x'; 330]);
    let hash = |bytes: &[u8]| Sha256::digest(black_box(bytes));
    let times = compare(
        &mut [Contestant::new("hashes", || (hash(&body), hash(&link)))],
        effort,
    );
    let seconds = times.first().copied().unwrap_or_default();
    println!(
        "\nthe two hashes of a record alone: {:.2} us",
        seconds * 1e6
    );
}

fn verifying(folder: &Path, effort: Effort) -> Result<(), Box<dyn Error>> {
    let keys = parts()?.keys;
    let segments = audit::segments(folder)?;
    let mut bytes = 0;
    let times = compare(
        &mut [
            Contestant::new("sha256", || {
                let texts = segments.iter().map(|segment| fs::read(&segment.path));
                texts
                    .flatten()
                    .map(|text| usize::from(Sha256::digest(&text)[0]))
                    .sum::<usize>()
            }),
            Contestant::new("ours", || {
                let report = verify_folder(folder, &*keys);
                bytes = report.as_ref().map_or(0, |report| report.bytes);
                report.is_ok_and(|report| report.is_intact())
            }),
        ],
        Effort {
            rounds: effort.rounds.min(5),
            ..effort
        },
    );
    let report = verify_folder(folder, &*keys)?;
    if !report.is_intact() {
        return Err(format!("{:?}", report.faults).into());
    }
    let [bare, ours] = times.as_slice() else {
        return Ok(());
    };
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    println!(
        "verify {} records, {} checkpoints, {:.0} MB: bare sha256 {:.0} MB/s, ours {:.0} MB/s, {:.2}x",
        report.records,
        report.checkpoints,
        bytes as f64 / 1e6,
        rate(*bare),
        rate(*ours),
        bare / ours
    );
    Ok(())
}
