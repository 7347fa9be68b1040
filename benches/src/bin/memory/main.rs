//! Memories against plain rusqlite: single writes beside FTS5 alone, the same inserts on the same
//! tables, the same look-ups, and what FTS5 finds and ranks by itself; with vectors too.
#![expect(clippy::print_stdout, reason = "this is a report")]

mod meaning;
mod writes;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benches::{Contestant, Effort, compare};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use store::{
    AgentId, Memories, NewEntry, Options, Rooms, SessionId, Sqlite, Store, Text, Tier, UnixMillis,
    Wanted, statements,
};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const NOW: UnixMillis = UnixMillis(1_770_000_000_000);

/// Entries that are stored at once.
const BULK: usize = 1000;

/// Words that there are, and words of an entry.
const VOCABULARY: u64 = 50_000;
const LENGTH: usize = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let effort = Effort {
        rounds: 11,
        slice: Duration::from_millis(50),
    };
    let outcome = match words.as_slice() {
        [] => writes::report(&writes::SIZES, writes::WRITES)
            .and_then(|()| report(10_000, effort))
            .and_then(|()| report(100_000, effort)),
        ["--writes"] => writes::report(&writes::SIZES, writes::WRITES),
        ["--entries", count] => match count.parse() {
            Ok(count) => report(count, effort),
            Err(_) => Err("--entries needs a number".into()),
        },
        ["--smoke"] => writes::report(&[200, 400], 20).and_then(|()| report(2_000, Effort::SMOKE)),
        _ => {
            println!("usage: memory [--smoke | --writes | --entries NUMBER]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn report(entries: usize, effort: Effort) -> Fallible<()> {
    println!("\n{entries} entries of {LENGTH} words, in groups of {BULK}");
    println!(
        "{:34} {:>12} {:>12} {:>7} {:>9}",
        "", "rusqlite", "ours", "ratio", "at least"
    );
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let subject = Subject::fill(folder.path(), entries)?;
    subject.gets(effort)?;
    subject.tags(effort)?;
    subject.searches(effort)?;
    meaning::report(&subject, effort)
}

/// A small random number generator, the same for both.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to a number, without that number.
    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 11) as usize % most.max(1)
    }

    /// From -1 to 1.
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// A word; the tenth is about ten times as frequent as the hundredth.
    fn word(&mut self) -> u64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((VOCABULARY as f64).powf(share) as u64).min(VOCABULARY - 1)
    }
}

fn entry(number: usize) -> NewEntry {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1).wrapping_mul(0x2545_f491));
    for _ in 0..4 {
        random.next();
    }
    let words: Vec<String> = (0..LENGTH).map(|_| format!("w{}", random.word())).collect();
    let body = words.join(" ");
    NewEntry {
        tier: Tier::Semantic,
        key: format!("\"entry {number}\""),
        content: format!("\"{body}\""),
        text: Text {
            title: String::new(),
            body,
        },
        tags: vec![format!("t{}", number % 1000)],
        source: String::new(),
        weight: 1.0,
        created: NOW,
        expires: UnixMillis::NEVER,
    }
}

/// The word of an entry that the fewest others have.
fn rarest(number: usize) -> String {
    let entry = entry(number);
    let words = entry.text.body.split(' ');
    let rank = |word: &&str| {
        word.trim_start_matches('w')
            .parse::<u64>()
            .unwrap_or_default()
    };
    words.max_by_key(rank).unwrap_or_default().to_owned()
}

struct Subject {
    entries: usize,
    bare: Connection,
    store: Store,
    ours: Arc<dyn Memories>,
}

impl Subject {
    /// Stores the same entries with both; that is the first thing that is measured.
    fn fill(folder: &Path, entries: usize) -> Fallible<Self> {
        let ours_path = folder.join("ours.db");
        let store = Store::new(Sqlite::open(&Options::new(&ours_path))?);
        let ours = store
            .for_agent(&AgentId::new("ada")?)
            .memories(&SessionId::new("s")?, "default");
        let rooms = Rooms {
            semantic: usize::MAX,
            ..Rooms::default()
        };
        let bare_path = folder.join("bare.db");
        drop(Sqlite::open(&Options::new(&bare_path))?);
        let bare = Connection::open(&bare_path)?;
        bare.pragma_update(None, "synchronous", "NORMAL")?;
        bare.pragma_update(None, "secure_delete", "ON")?;
        // As the store has it; without, FTS5 takes half as long again.
        bare.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        bare.execute(
            "INSERT INTO memory_places (id, owner, tier, session, space, entries, bytes, words, last)
             VALUES (1, '', 2, '', 'default', 0, 0, 0, 0)",
            [],
        )?;
        let mut took = [Duration::ZERO; 2];
        for first in (0..entries).step_by(BULK) {
            let last = (first + BULK).min(entries);
            let new: Vec<NewEntry> = (first..last).map(entry).collect();
            let rows: Vec<NewEntry> = new.clone();
            let start = Instant::now();
            for outcome in ours.put(NOW, new, rooms).wait()? {
                outcome?;
            }
            took[1] += start.elapsed();
            let start = Instant::now();
            insert(&bare, first, &rows)?;
            took[0] += start.elapsed();
        }
        row(
            "bulk store",
            entries,
            &took.map(|took| took.as_secs_f64()),
            Some(0.8),
        );
        bare.execute_batch(
            "CREATE VIRTUAL TABLE plain USING fts5 (words, content = 'memories',
                 content_rowid = 'number', tokenize = 'unicode61');
             INSERT INTO plain (plain) VALUES ('rebuild');",
        )?;
        Ok(Self {
            entries,
            bare,
            store,
            ours,
        })
    }

    fn gets(&self, effort: Effort) -> Fallible<()> {
        let turn = Cell::new(0);
        let next = || {
            turn.set((turn.get() + 7919) % self.entries);
            format!("\"entry {}\"", turn.get())
        };
        self.contest(
            "get by key",
            effort,
            Some(0.5),
            || {
                let mut find = self.bare.prepare_cached(statements::MEMORY_BY_KEY)?;
                let content: String = find
                    .query_row(params!["", 2, "", "default", next(), NOW.0], |row| {
                        row.get(7)
                    })?;
                Ok(content.len())
            },
            || {
                let wanted = Wanted {
                    keys: vec![next()],
                    ..wanted()
                };
                Ok(self.ours.find(NOW, &wanted).wait()?.entries.len())
            },
        )
    }

    fn tags(&self, effort: Effort) -> Fallible<()> {
        let turn = Cell::new(0);
        let next = || {
            turn.set((turn.get() + 37) % 1000.min(self.entries));
            format!("t{}", turn.get())
        };
        self.contest(
            "ten of a tag",
            effort,
            None,
            || {
                let query = format!("marks : \"t{}\"", next());
                self.bare_rows(
                    "SELECT m.content FROM memory_index i JOIN memories m ON m.number = i.rowid
                 WHERE i.memory_index MATCH ?1 ORDER BY i.rowid DESC LIMIT 10",
                    &query,
                )
            },
            || {
                let wanted = Wanted {
                    tags: vec![next()],
                    ..wanted()
                };
                Ok(self.ours.find(NOW, &wanted).wait()?.entries.len())
            },
        )
    }

    fn searches(&self, effort: Effort) -> Fallible<()> {
        // The rarest word of some entries, and words that most entries have.
        let rare: Vec<String> = (0..50)
            .map(|turn| rarest(turn * self.entries / 50))
            .collect();
        for (name, is_rare, common, target) in [
            ("one rare word", true, "", Some(1.0 / 1.3)),
            ("a rare and a common word", true, "w3", None),
            ("two common words", false, "w2 w3", None),
            ("three common words", false, "w2 w3 w5", None),
        ] {
            let turn = Cell::new(0);
            let next = |between: &str| {
                turn.set((turn.get() + 1) % rare.len());
                let rare = rare.get(turn.get()).filter(|_| is_rare);
                let words = rare.map(String::as_str).into_iter();
                let words: Vec<&str> = words.chain(common.split_whitespace()).collect();
                words.join(between)
            };
            self.contest(
                name,
                effort,
                target,
                || {
                    self.bare_rows(
                        "SELECT m.content FROM plain i JOIN memories m ON m.number = i.rowid
                     WHERE i.plain MATCH ?1 ORDER BY i.rank LIMIT 10",
                        &next(" OR "),
                    )
                },
                || {
                    let wanted = Wanted {
                        query: next(" "),
                        ..wanted()
                    };
                    Ok(self.ours.find(NOW, &wanted).wait()?.entries.len())
                },
            )?;
        }
        self.quality()
    }

    /// How good by FTS5's own measure the ten are that we find among a bounded number, beside the ten
    /// that FTS5 finds among all.
    fn quality(&self) -> Fallible<()> {
        let words = ["w2 w3", "w2 w3 w5", "w10 w20", "w4 w100"];
        let (mut best, mut found) = (0.0, 0.0);
        for query in words {
            let expression = query.replace(' ', " OR ");
            let mut all = self
                .bare
                .prepare("SELECT rank FROM plain WHERE plain MATCH ?1 ORDER BY rank LIMIT 10")?;
            let ranks = all.query_map([&expression], |row| row.get::<_, f64>(0))?;
            best += ranks.sum::<Result<f64, _>>()?;
            let wanted = Wanted {
                query: query.to_owned(),
                ..wanted()
            };
            let mut one = self.bare.prepare(
                "SELECT p.rank FROM plain p JOIN memories m ON m.number = p.rowid
                 WHERE p.plain MATCH ?1 AND m.place = 1 AND m.key = ?2",
            )?;
            for (entry, _) in self.ours.find(NOW, &wanted).wait()?.entries {
                found += one.query_row([&expression, &entry.key], |row| row.get::<_, f64>(0))?;
            }
        }
        println!(
            "what the bound on candidates costs: our ten have {:.1} % of the BM25 of the best ten",
            100.0 * found / best
        );
        Ok(())
    }

    fn bare_rows(&self, sql: &str, query: &str) -> Fallible<usize> {
        let mut find = self.bare.prepare_cached(sql)?;
        let rows = find.query_map([query], |row| row.get::<_, String>(0))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?.len())
    }

    fn contest(
        &self,
        name: &str,
        effort: Effort,
        target: Option<f64>,
        bare: impl Fn() -> Fallible<usize>,
        ours: impl Fn() -> Fallible<usize>,
    ) -> Fallible<()> {
        let failed = RefCell::new(None);
        let note = |outcome: Fallible<usize>| match outcome {
            Ok(count) => drop(black_box(count)),
            Err(error) => drop(failed.borrow_mut().get_or_insert(error)),
        };
        let times = compare(
            &mut [
                Contestant::new("rusqlite", || note(bare())),
                Contestant::new("ours", || note(ours())),
            ],
            effort,
        );
        row(name, 1, &times, target);
        match failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn wanted() -> Wanted {
    Wanted {
        tiers: vec![Tier::Semantic],
        limit: 10,
        ..Wanted::default()
    }
}

/// What our store writes for an entry whose words are in its body alone and are not names.
fn insert(bare: &Connection, first: usize, entries: &[NewEntry]) -> Fallible<()> {
    let transaction = bare.unchecked_transaction()?;
    let mut insert = transaction.prepare_cached(statements::MEMORY_INSERT)?;
    for (number, entry) in (first..).zip(entries) {
        let (tag, body) = (&entry.tags[0], &entry.text.body);
        let bytes = entry.key.len() + entry.content.len() + tag.len();
        insert.execute(params![
            (1_i64 << 32) + number as i64 + 1,
            1,
            "",
            entry.key,
            NOW.0,
            NOW.0,
            None::<i64>,
            1.0,
            bytes,
            LENGTH,
            "",
            format!("{tag}\u{1f}"),
            body,
            grams(body),
            format!("t{tag}"),
            entry.content,
        ])?;
    }
    drop(insert);
    Ok(transaction.commit()?)
}

/// The words of the benchmark have digits, so they count as names.
fn grams(body: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for word in body.split(' ').filter(|word| word.len() >= 3) {
        if seen.contains(&word) {
            continue;
        }
        seen.push(word);
        let padded: Vec<char> = format!("0{word}0").chars().collect();
        let grams = padded
            .windows(3)
            .map(|gram| gram.iter().collect::<String>());
        all.extend(grams);
        if word.len() <= 5 {
            all.push(format!("00{}{}", &word[..1], &word[word.len() - 1..]));
        }
    }
    all.sort_unstable();
    all.dedup();
    all.join(" ")
}

fn row(name: &str, count: usize, times: &[f64], target: Option<f64>) {
    let [bare, ours] = times else { return };
    let told = |seconds: f64| match count {
        1 => format!("{:.1} µs", seconds * 1e6),
        count => format!("{:.0}/s", count as f64 / seconds.max(1e-9)),
    };
    let target = target.map_or(String::new(), |target| format!("{target:8.2}x"));
    println!(
        "{name:34} {:>12} {:>12} {:6.2}x {target:>9}",
        told(*bare),
        told(*ours),
        bare / ours
    );
}
