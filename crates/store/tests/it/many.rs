//! A memory of a million entries: everything in it is found, and what is forgotten is gone.
//!
//! `cargo xtask full` has the million; the same with fewer entries is among the daily tests.

use std::sync::Arc;

use store::{Memories, NewEntry, Options, Rooms, Sqlite, Store, Tier, Unwanted, Wanted};

use crate::contract::{entry, session};
use crate::subject::{NOW, ada, folder};

/// Entries that are kept at once.
const BULK: usize = 2_000;

/// Entries that share a tag.
const TAGGED: usize = 100;

#[test]
fn many_entries_are_kept_found_and_forgotten() {
    live_with(12_000);
}

#[test]
#[ignore = "takes many minutes: cargo nextest run -p store --run-ignored only -E 'test(/a_million/)'"]
fn a_million_entries_are_kept_found_and_forgotten() {
    live_with(1_000_000);
}

fn live_with(count: usize) {
    let folder = folder();
    let path = folder.path().join("s.db");
    let memories = open(&path);
    for first in (0..count).step_by(BULK) {
        let entries = (first..first + BULK).map(one).collect();
        let rooms = Rooms {
            semantic: count,
            ..Rooms::default()
        };
        let outcomes = memories.put(NOW, entries, rooms).wait().unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{first}");
    }
    // The next process finds it as it was left.
    drop(memories);
    let memories = open(&path);
    assert_eq!(memories.sizes(NOW).wait().unwrap()[2].entries, count);
    for number in (0..count).step_by(count / 50) {
        assert_eq!(keys(&memories, &by_key(number)), [key(number)]);
        // The word that nothing else has, alone and beside one that everything has.
        for query in [format!("u{number}x"), format!("u{number}x everywhere")] {
            let found = memories.find(NOW, &by_words(&query)).wait().unwrap();
            assert_eq!(found.entries[0].0.key, key(number), "{query}");
        }
        let tagged = memories.find(NOW, &by_tag(number)).wait().unwrap();
        assert_eq!((tagged.total, tagged.is_more), (TAGGED, false));
    }
    let common = memories.find(NOW, &by_words("everywhere")).wait().unwrap();
    assert_eq!((common.total, common.is_more), (10_000, count > 10_000));
    for number in (0..count).step_by(count / 50) {
        let unwanted = Unwanted {
            tiers: vec![Tier::Semantic],
            tags: vec![tag(number)],
            ..Unwanted::default()
        };
        let forgotten = memories.forget(NOW, &unwanted).wait().unwrap();
        assert_eq!((forgotten.removed, forgotten.has_more), (TAGGED, false));
        assert_eq!(keys(&memories, &by_key(number)), [""; 0]);
        let found = memories.find(NOW, &by_words(&format!("u{number}x"))).wait();
        let found = found.unwrap().entries;
        assert!(found.iter().all(|(entry, _)| entry.key != key(number)));
    }
    let left = memories.sizes(NOW).wait().unwrap()[2].entries;
    assert_eq!(left, count - 50 * TAGGED);
}

fn open(path: &std::path::Path) -> Arc<dyn Memories> {
    let store = Store::new(Sqlite::open(&Options::new(path)).unwrap());
    store.for_agent(&ada()).memories(&session("s"), "default")
}

fn one(number: usize) -> NewEntry {
    let body = format!("u{number}x everywhere group {}", number % 1000);
    NewEntry {
        tags: vec![tag(number)],
        ..entry(Tier::Semantic, &key(number), &body)
    }
}

fn key(number: usize) -> String {
    format!("k{number}")
}

fn tag(number: usize) -> String {
    format!("t{}", number / TAGGED)
}

fn wanted() -> Wanted {
    Wanted {
        tiers: vec![Tier::Semantic],
        limit: 10,
        ..Wanted::default()
    }
}

fn by_key(number: usize) -> Wanted {
    Wanted {
        keys: vec![key(number)],
        ..wanted()
    }
}

fn by_words(query: &str) -> Wanted {
    Wanted {
        query: query.to_owned(),
        ..wanted()
    }
}

fn by_tag(number: usize) -> Wanted {
    Wanted {
        tags: vec![tag(number)],
        ..wanted()
    }
}

fn keys(memories: &Arc<dyn Memories>, wanted: &Wanted) -> Vec<String> {
    let found = memories.find(NOW, wanted).wait().unwrap();
    found.entries.into_iter().map(|(it, _)| it.key).collect()
}
