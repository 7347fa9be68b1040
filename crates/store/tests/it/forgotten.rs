//! What is forgotten is on no disk: not in the file, not in the log, not in the index, not in a backup.

use std::fs;
use std::path::Path;

use store::{Existing, Limits, NewEntry, Rooms, Tier, Unwanted};

use crate::contract::{entry, session};
use crate::subject::{NOW, ada, at, sqlite_at};

/// Letters that nothing else makes; the index has words in pieces.
const SECRET: &str = "xqzvkwjyhp";

fn is_anywhere(folder: &Path) -> bool {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let has = |bytes: &[u8], part: &str| {
        bytes
            .windows(part.len())
            .any(|window| window == part.as_bytes())
    };
    // The first letters of a word may be left out where the word before it has them too.
    files
        .map(|file| fs::read(file).unwrap())
        .any(|bytes| has(&bytes, &SECRET[3..]))
}

#[test]
fn what_is_forgotten_is_on_no_disk() {
    let (store, path) = sqlite_at(Limits::default());
    let folder = path.parent().unwrap();
    let memories = store.for_agent(&ada()).memories(&session("s"), "default");
    let entries = (0..50).map(|number| entry(Tier::Episodic, &format!("k{number}"), "other words"));
    let secret = NewEntry {
        tags: vec![SECRET.into()],
        ..entry(Tier::Episodic, SECRET, &format!("say {SECRET} to nobody"))
    };
    let expiring = NewEntry {
        expires: at(5),
        ..entry(Tier::Semantic, "other", &format!("{SECRET} too"))
    };
    let all = entries.chain([secret, expiring]).collect();
    memories.put(NOW, all, Rooms::default()).wait().unwrap();
    assert!(is_anywhere(folder));
    let unwanted = Unwanted {
        tiers: vec![Tier::Episodic],
        tags: vec![SECRET.into()],
        ..Unwanted::default()
    };
    assert_eq!(memories.forget(NOW, &unwanted).wait().unwrap().removed, 1);
    // Also what has expired is gone with the next sweep.
    let swept = store.sweep(at(5)).wait().unwrap();
    assert_eq!((swept.removed, swept.is_erased), (1, true));
    assert!(!is_anywhere(folder));
    let backups = tempfile::tempdir().unwrap();
    store::backup(&path, &backups.path().join("backup.db"), Existing::Keep).unwrap();
    assert!(!is_anywhere(backups.path()));
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}
