//! Writing one entry, new and in place of another, at several sizes: ours beside a table of FTS5 alone
//! that has the same texts and the same durability.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use benches::median;
use rusqlite::{Connection, params};
use store::{
    AgentId, Memories, Moment, NewEntry, Options, Rooms, SessionId, Sqlite, Store, Text, Tier,
    UnixMillis, Uptime,
};

use crate::{BULK, Fallible, NOW, Random};

/// Entries that are there before the writes that are measured.
pub(crate) const SIZES: [usize; 4] = [1_000, 20_000, 100_000, 300_000];

/// Writes of each kind at each size.
pub(crate) const WRITES: usize = 2_000;

/// How many times as long as FTS5 alone a write may take.
const AT_MOST: f64 = 3.0;

pub(crate) fn report(sizes: &[usize], writes: usize) -> Fallible<()> {
    println!("one entry at a time, {writes} of each kind; mean and median");
    println!(
        "{:28} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "", "FTS5", "median", "ours", "median", "ratio", "at most"
    );
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let mut subject = Subject::open(folder.path())?;
    for size in sizes {
        subject.grow(*size)?;
        subject.contest(&format!("{size} entries, new"), writes, Kind::New)?;
        subject.contest(&format!("{size} entries, replaced"), writes, Kind::Replaced)?;
        subject.erase(writes)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    New,
    Replaced,
}

impl Kind {
    const fn sql(self) -> &'static str {
        match self {
            Self::New => "INSERT INTO plain (rowid, key, tag, body) VALUES (?1, ?2, ?3, ?4)",
            Self::Replaced => {
                "INSERT OR REPLACE INTO plain (rowid, key, tag, body) VALUES (?1, ?2, ?3, ?4)"
            }
        }
    }
}

struct Subject {
    entries: usize,
    now: UnixMillis,
    random: Random,
    bare: Connection,
    store: Store,
    ours: Arc<dyn Memories>,
}

impl Subject {
    fn open(folder: &Path) -> Fallible<Self> {
        let store = Store::new(Sqlite::open(&Options::new(folder.join("ours.db")))?);
        let ours = store
            .for_agent(&AgentId::new("ada")?)
            .memories(&SessionId::new("s")?, "default");
        let bare = Connection::open(folder.join("bare.db"))?;
        bare.pragma_update(None, "journal_mode", "wal")?;
        bare.pragma_update(None, "synchronous", "NORMAL")?;
        bare.execute(
            "CREATE VIRTUAL TABLE plain USING fts5 (key UNINDEXED, tag, body)",
            [],
        )?;
        Ok(Self {
            entries: 0,
            now: NOW,
            random: Random(0x9e37_79b9_7f4a_7c15),
            bare,
            store,
            ours,
        })
    }

    /// Adds entries up to a number, in groups.
    fn grow(&mut self, size: usize) -> Fallible<()> {
        while self.entries < size {
            let last = (self.entries + BULK).min(size);
            let new: Vec<NewEntry> = (self.entries..last)
                .map(|number| entry(number, &mut self.random))
                .collect();
            self.bare.execute_batch("BEGIN")?;
            for (number, entry) in (self.entries..).zip(&new) {
                self.put_bare(Kind::New, number, entry)?;
            }
            self.bare.execute_batch("COMMIT")?;
            for outcome in self.ours.put(NOW, new, Rooms::default()).wait()? {
                outcome?;
            }
            self.entries = last;
        }
        Ok(())
    }

    /// Writes entries by turns, each alone, and prints how long that took.
    fn contest(&mut self, name: &str, writes: usize, kind: Kind) -> Fallible<()> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..writes {
            let number = match kind {
                Kind::New => self.entries,
                Kind::Replaced => self.random.below(self.entries),
            };
            let entry = entry(number, &mut self.random);
            let start = Instant::now();
            self.put_bare(kind, number, &entry)?;
            times[0].push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            for outcome in self.ours.put(NOW, vec![entry], Rooms::default()).wait()? {
                outcome?;
            }
            times[1].push(start.elapsed().as_secs_f64());
            self.entries += usize::from(number == self.entries);
        }
        let [bare, ours] = times.map(|times| {
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            [mean, median(times)].map(|seconds| seconds * 1e3)
        });
        let told = [bare[0], bare[1], ours[0], ours[1]].map(|millis| format!("{millis:.3} ms"));
        println!(
            "{name:28} {:>9} {:>9} {:>9} {:>9} {:>6.2}x {:>8.2}x",
            told[0],
            told[1],
            told[2],
            told[3],
            ours[0] / bare[0],
            AT_MOST
        );
        Ok(())
    }

    /// Erases from the file what was replaced, as a node does once a minute.
    fn erase(&mut self, replaced: usize) -> Fallible<()> {
        // A large index is not erased again at once.
        self.now.0 += 3_600_000;
        let start = Instant::now();
        let (mut steps, mut longest) = (0, 0.0_f64);
        loop {
            let begun = Instant::now();
            let swept = self
                .store
                .sweep(Moment {
                    unix: self.now,
                    uptime: Uptime::default(),
                })
                .wait()?;
            longest = longest.max(begun.elapsed().as_secs_f64());
            steps += 1;
            if !swept.has_more {
                break;
            }
        }
        println!(
            "{:28} {:.0} ms in {steps} steps of at most {:.0} ms",
            format!("  erasing those {replaced}"),
            start.elapsed().as_secs_f64() * 1e3,
            longest * 1e3
        );
        Ok(())
    }

    fn put_bare(&self, kind: Kind, number: usize, entry: &NewEntry) -> Fallible<()> {
        let mut put = self.bare.prepare_cached(kind.sql())?;
        put.execute(params![
            number as i64 + 1,
            entry.key,
            entry.tags[0],
            entry.text.body
        ])?;
        Ok(())
    }
}

/// An entry of thirty words, each tenth of them a name.
fn entry(number: usize, random: &mut Random) -> NewEntry {
    let words: Vec<String> = (0..crate::LENGTH)
        .map(|at| {
            let word = letters(random.word());
            match at % 10 {
                0 => word[..1].to_uppercase() + &word[1..],
                _ => word,
            }
        })
        .collect();
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

/// A word of syllables: frequent words have a small number and are short.
fn letters(mut number: u64) -> String {
    const SYLLABLES: [&str; 20] = [
        "ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu",
        "xa", "ye", "zi", "jo", "qu",
    ];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[(number % 20) as usize]);
        number /= 20;
        if number == 0 {
            return word + "n";
        }
    }
}
