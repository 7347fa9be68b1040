//! What is forgotten is on no disk: not in the file, not in the log, not in the index, not as a vector,
//! not in a backup.

use std::fs;
use std::path::Path;

use store::{Existing, Limits, NewEntry, Rooms, Store, Tier, Unwanted};

use crate::contract::{entry, session};
use crate::subject::{NOW, ada, at, sqlite_at};

/// Letters that nothing else makes; the index has words in pieces.
const SECRET: &str = "xqzvkwjyhp";

/// Whether bytes are in any file of a folder.
fn has(folder: &Path, part: &[u8]) -> bool {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .map(|file| fs::read(file).unwrap())
        .any(|bytes| bytes.windows(part.len()).any(|window| window == part))
}

fn is_anywhere(folder: &Path) -> bool {
    // The first letters of a word may be left out where the word before it has them too.
    has(folder, &SECRET.as_bytes()[3..])
}

/// A point of length 1, so that it is kept as it is, whose signs say something.
fn point(signs: u16) -> Vec<f32> {
    let value = |place: u32| match signs >> place & 1 {
        1 => 0.25,
        _ => -0.25,
    };
    (0..16).map(value).collect()
}

const SECRET_POINT: u16 = 0b1101_0011_0101_1000;

fn is_point_anywhere(folder: &Path) -> bool {
    let bytes: Vec<u8> = point(SECRET_POINT)
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    has(folder, &bytes)
}

/// Makes the points of all entries, those of the secret ones of their own.
fn make_points(store: &Store) {
    let vectors = store.vectors("m");
    let unread = vectors.missing(NOW, 100).wait().unwrap();
    let points = unread.iter().map(|it| {
        let is_secret = it.content.contains(SECRET);
        let signs = if is_secret { SECRET_POINT } else { 1 };
        (it.number, point(signs))
    });
    vectors.put(points.collect()).wait().unwrap();
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
    make_points(&store);
    assert!(is_anywhere(folder) && is_point_anywhere(folder));
    let unwanted = Unwanted {
        tiers: vec![Tier::Episodic],
        tags: vec![SECRET.into()],
        ..Unwanted::default()
    };
    assert_eq!(memories.forget(NOW, &unwanted).wait().unwrap().removed, 1);
    // Also what has expired is gone with the next sweep.
    let swept = store.sweep(at(5)).wait().unwrap();
    assert_eq!((swept.removed, swept.is_erased), (1, true));
    assert!(!is_anywhere(folder) && !is_point_anywhere(folder));
    let backups = tempfile::tempdir().unwrap();
    store::backup(&path, &backups.path().join("backup.db"), Existing::Keep).unwrap();
    assert!(!is_anywhere(backups.path()) && !is_point_anywhere(backups.path()));
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}
