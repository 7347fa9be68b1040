//! Acknowledged writes survive `kill -9` at any point, and a full disk.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use store::{Error, NewEntry, Options, Rooms, Sqlite, Store, SyncMode, Tier, Use, Wanted};

use crate::contract::{entry, session};
use crate::subject::{NOW, START, ada, at, folder, hash, moment};

/// How often the writer is killed in each of four tests.
const KILLS: u32 = 50;

/// How many writes are under way at once.
const WINDOW: usize = 8;

const PATH: &str = "FRITH_TEST_STORE";
const FIRST: &str = "FRITH_TEST_FIRST";

/// The writer that the tests below start and kill: writes what nobody has written, and prints what
/// was acknowledged.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn writer() {
    let path = std::env::var(PATH).unwrap();
    let mut next: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let sync = match next % 2 {
        0 => SyncMode::Commit,
        _ => SyncMode::default(),
    };
    let store = Store::new(
        Sqlite::open(&Options {
            sync,
            ..Options::new(path)
        })
        .unwrap(),
    );
    let scope = store.for_agent(&ada());
    let (ids, results) = (scope.replay_ids(), scope.results());
    let memories = scope.memories(&session("s"), "default");
    let mut out = std::io::stdout().lock();
    let mut waiting = std::collections::VecDeque::new();
    loop {
        while waiting.len() < WINDOW {
            let id = next.to_string();
            // Of each number an id, a request with its answer, and memories in bulk.
            // It is remembered until its room is needed.
            let used = ids.use_once(NOW, &id, NOW);
            let begun = results.begin(START, &id, hash(1));
            let answer = vec![b'x'; usize::try_from(next % 3000).unwrap()];
            let finished = results.finish(START, &id, Some(answer));
            let kept = memories.put(NOW, bulk(next), Rooms::default());
            waiting.push_back((next, used, begun, finished, kept));
            next += 1;
        }
        let (number, used, begun, finished, kept) = waiting.pop_front().unwrap();
        let outcome = used
            .wait()
            .and_then(|_| begun.wait())
            .and_then(|_| finished.wait())
            .and_then(|()| kept.wait()?.into_iter().collect());
        match outcome {
            Ok(()) => writeln!(out, "ack {number}").unwrap(),
            Err(error) => {
                writeln!(out, "error {error:?}").unwrap();
                return;
            }
        }
    }
}

/// Entries that one request keeps.
fn bulk(number: u64) -> Vec<NewEntry> {
    let one = |part: u64| NewEntry {
        expires: at(60),
        ..entry(
            Tier::Episodic,
            &format!("{number} {part}"),
            &format!("word{number}"),
        )
    };
    (0..BULK).map(one).collect()
}

const BULK: u64 = 5;

fn start(mut command: Command, path: &Path, first: u64) -> Child {
    command
        .env(PATH, path)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn writer_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["kill::writer", "--exact", "--ignored", "--nocapture"]);
    command
}

/// A small random number generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What the writer has printed, from its lines.
fn acknowledged(line: &str) -> Option<u64> {
    line.split_once("ack ")?.1.trim().parse().ok()
}

/// Every acknowledged number is there, whole.
fn look(path: &Path, numbers: &[u64]) {
    let store = Store::new(Sqlite::open(&Options::new(path)).unwrap());
    let scope = store.for_agent(&ada());
    for number in numbers {
        let id = number.to_string();
        let used = scope.replay_ids().use_once(NOW, &id, at(60)).wait();
        assert_eq!(used, Ok(Use::Again), "{number} was acknowledged");
        let answer = vec![b'x'; usize::try_from(number % 3000).unwrap()];
        let result = scope.results().result(START, &id).wait();
        assert_eq!(result, Ok(Some(answer)), "{number} was acknowledged");
    }
    look_at_memories(&store, numbers);
    // The rest is limited, and not needed any more.
    store.sweep(moment(1_000_000)).wait().unwrap();
}

/// What was kept together is there together, with what finds it.
fn look_at_memories(store: &Store, numbers: &[u64]) {
    let memories = store.for_agent(&ada()).memories(&session("s"), "default");
    for number in numbers {
        let wanted = Wanted {
            tiers: vec![Tier::Episodic],
            query: format!("word{number}"),
            limit: 100,
            ..Wanted::default()
        };
        let found = memories.find(NOW, &wanted).wait().unwrap();
        let keys = found.entries.iter().map(|(entry, _)| entry.key.as_str());
        let mut keys: Vec<&str> = keys
            .filter(|key| key.starts_with(&format!("{number} ")))
            .collect();
        keys.sort_unstable();
        let expected: Vec<String> = (0..BULK).map(|part| format!("{number} {part}")).collect();
        assert_eq!(keys, expected, "{number} was acknowledged");
    }
    let (mut after, mut count) = (0, 0);
    loop {
        let page = memories
            .page(NOW, Tier::Episodic, after, 1000)
            .wait()
            .unwrap();
        let Some((last, _)) = page.last() else {
            break;
        };
        (after, count) = (*last, count + page.len() as u64);
    }
    assert_eq!(count % BULK, 0, "something was kept in part");
}

/// Kills writers, each at a random point of its life, that of making the database included.
fn kill(seed: u64) {
    let folder = folder();
    let mut path = folder.path().join("store.db");
    let mut random = Random(seed);
    let (mut first, mut all) = (1, 0);
    for round in 0..KILLS {
        let is_new = round % 5 == 4;
        if is_new {
            path = folder.path().join(format!("store-{round}.db"));
        }
        let mut child = start(writer_command(), &path, first);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers = Vec::new();
        let wanted = random.below(if is_new { 2 } else { 40 });
        while numbers.len() < usize::try_from(wanted).unwrap() {
            numbers.extend(acknowledged(&lines.next().unwrap().unwrap()));
        }
        for _ in 0..random.below(100_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had printed by then was acknowledged too.
        numbers.extend(
            lines
                .map_while(Result::ok)
                .filter_map(|line| acknowledged(&line)),
        );
        look(&path, &numbers);
        assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
        all += numbers.len();
        // Numbers beyond the last one may have been written without a word about it.
        first = numbers.last().map_or(first, |last| last + 1) + 1000;
    }
    assert!(all > 300, "only {all} acknowledged writes were looked for");
}

#[test]
fn what_was_acknowledged_survives_kill_9_from_1_to_50() {
    kill(0x5eed_0001);
}

#[test]
fn what_was_acknowledged_survives_kill_9_from_51_to_100() {
    kill(0x5eed_0002);
}

#[test]
fn what_was_acknowledged_survives_kill_9_from_101_to_150() {
    kill(0x5eed_0003);
}

#[test]
fn what_was_acknowledged_survives_kill_9_from_151_to_200() {
    kill(0x5eed_0004);
}

/// A file system that takes no more: the writer is told, and what it was told before is there.
#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = folder();
    let path = folder.path().join("store.db");
    drop(Sqlite::open(&Options::new(&path)).unwrap());
    // A limit on the size of files, as an error instead of a signal: 4 MiB. A journal that is checkpointed late,
    // as on a busy machine, has room for more than twenty writes.
    let own = writer_command();
    let words: Vec<_> = std::iter::once(own.get_program())
        .chain(own.get_args())
        .collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "sh"]);
    limited.args(words);
    let output = start(limited, &path, 1).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.lines().filter_map(acknowledged).collect();
    assert!(numbers.len() > 20, "{text}");
    assert!(text.contains("error Sql("), "{text}");
    look(&path, &numbers);
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}

/// The database has a largest size, whoever writes to it; it goes on when there is room.
#[test]
fn a_full_database_loses_nothing_that_was_acknowledged() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = Store::new(
        Sqlite::open(&Options {
            max_bytes: 1024 * 1024,
            ..Options::new(&path)
        })
        .unwrap(),
    );
    let records = store.for_agent(&ada());
    let records = records.snapshots(&store::SessionId::new("s").unwrap());
    let mut kept = Vec::new();
    let refused = (0..1000_u32).find_map(|number| {
        let name = number.to_string();
        match records.put(NOW, &name, vec![b'x'; 5000], at(60)).wait() {
            Ok(()) => {
                kept.push(name);
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(refused, Some(Error::DiskFull));
    assert!(kept.len() > 100, "{}", kept.len());
    for name in &kept {
        assert_eq!(
            records.get(NOW, name).wait().unwrap().unwrap(),
            [b'x'; 5000]
        );
    }
    // What one record needs may be more than another leaves: pages are parted anew.
    for name in &kept[..5] {
        records.remove(name).wait().unwrap();
    }
    records
        .put(NOW, "again", vec![b'x'; 5000], at(60))
        .wait()
        .unwrap();
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}
