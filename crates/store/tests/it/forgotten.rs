//! What is forgotten is on no disk: not in the file, not in the log, not in the index, not as a vector,
//! not in a backup.

use std::fs;
use std::path::Path;

use store::{Existing, Limits, NewEntry, Options, Rooms, Sqlite, Store, Tier, Unwanted, Wanted};

use crate::contract::{entry, session};
use crate::subject::{NOW, ada, at, folder, moment, sqlite_at};

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
    let swept = store.sweep(moment(5)).wait().unwrap();
    assert_eq!((swept.removed, swept.is_erased), (1, true));
    assert!(!is_anywhere(folder) && !is_point_anywhere(folder));
    let backups = tempfile::tempdir().unwrap();
    store::backup(&path, &backups.path().join("backup.db"), Existing::Keep).unwrap();
    assert!(!is_anywhere(backups.path()) && !is_point_anywhere(backups.path()));
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}

/// Letters that look random and are the same in every run.
fn word(seed: u64) -> String {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state >> 32 & 0xff).unwrap() % 26)
    };
    (0..12).map(|_| letter()).collect()
}

/// The index has many segments, is merged in pieces, and its process ends meanwhile.
#[test]
fn words_of_replaced_entries_are_erased_from_a_large_index() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let open = || Store::new(Sqlite::open(&Options::new(&path)).unwrap());
    let store = open();
    let memories = store.for_agent(&ada()).memories(&session("s"), "default");
    let new = |number: u64, secret: &str| {
        let words: Vec<String> = (0..20).map(|at| word(number * 20 + at)).collect();
        let text = format!("{} {secret}", words.join(" "));
        entry(Tier::Episodic, &format!("k{number}"), &text)
    };
    // Of every hundredth entry one word must go.
    let secret = |number: u64| word(1_000_000 + number);
    let put = |entries: Vec<NewEntry>| {
        let put = memories.put(NOW, entries, Rooms::default());
        assert!(put.wait().unwrap().iter().all(Result::is_ok));
    };
    for first in (0..4000).step_by(100) {
        put((first..first + 100)
            .map(|number| match number % 100 {
                50 => new(number, &secret(number)),
                _ => new(number, ""),
            })
            .collect());
    }
    let secrets: Vec<u64> = (50..4000).step_by(100).collect();
    assert!(
        secrets
            .iter()
            .all(|it| has(folder.path(), &secret(*it).as_bytes()[3..]))
    );
    for number in &secrets {
        put(vec![new(*number, "")]);
    }
    let swept = store.sweep(moment(1)).wait().unwrap();
    assert!(swept.has_more && !swept.is_erased, "{swept:?}");
    drop((store, memories));
    let store = open();
    while !store.sweep(moment(1)).wait().unwrap().is_erased {}
    for number in secrets {
        let secret = secret(number);
        assert!(!has(folder.path(), &secret.as_bytes()[3..]), "{secret}");
    }
    let memories = store.for_agent(&ada()).memories(&session("s"), "default");
    for number in [0, 50, 3999] {
        let wanted = Wanted {
            tiers: vec![Tier::Episodic],
            query: word(number * 20),
            limit: 10,
            ..Wanted::default()
        };
        let found = memories.find(NOW, &wanted).wait().unwrap();
        let keys: Vec<_> = found.entries.iter().map(|(entry, _)| &entry.key).collect();
        assert_eq!(keys, [&format!("k{number}")]);
    }
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
}
