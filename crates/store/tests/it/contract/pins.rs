//! Pins: what was approved must not change unseen; threat 69 (rollback of a manifest).

use store::{Advanced, Compared, Error, Limits, MAX_NAME, Pin, PinKind};

use crate::subject::{Make, NOW, at, contract, hash, limit};

contract! {
    what_changes_is_quarantined_until_it_is_approved,
    an_older_manifest_is_a_rollback,
    kinds_are_apart,
    pins_are_listed_and_removed,
    limits_hold,
}

fn what_changes_is_quarantined_until_it_is_approved(make: Make) {
    let store = make(Limits::default());
    let pins = store.pins(&PinKind::TOOL);
    let compare = |seconds, number| {
        let compared = pins.compare(at(seconds), "git__commit", hash(number));
        compared.wait().unwrap()
    };
    let get = || pins.get("git__commit").wait().unwrap().unwrap();
    assert_eq!(compare(0, 1), Compared::Unknown);
    let offered = Pin {
        pinned: None,
        version: 0,
        offered: Some(hash(1)),
        since: NOW,
        at: NOW,
    };
    assert_eq!(get(), offered);
    pins.pin(at(1), "git__commit", hash(1)).wait().unwrap();
    assert_eq!(compare(2, 1), Compared::Same);
    assert_eq!(compare(3, 2), Compared::Changed { pinned: hash(1) });
    let changed = Pin {
        pinned: Some(hash(1)),
        version: 0,
        offered: Some(hash(2)),
        since: NOW,
        at: at(3),
    };
    // Seen again it is no news.
    assert_eq!(compare(4, 2), Compared::Changed { pinned: hash(1) });
    assert_eq!(get(), changed);
    pins.pin(at(5), "git__commit", hash(2)).wait().unwrap();
    assert_eq!(compare(6, 2), Compared::Same);
    assert_eq!(get().since, NOW);
    assert_eq!(compare(6, 1), Compared::Changed { pinned: hash(2) });
}

/// A2A profile §7: another hash needs a strictly newer timestamp; an older signature over the same
/// hash is fine.
fn an_older_manifest_is_a_rollback(make: Make) {
    let store = make(Limits::default());
    let pins = store.pins(&PinKind::MANIFEST);
    let advance = |number, version| {
        let advanced = pins.advance(NOW, "did:web:a.example", hash(number), version);
        advanced.wait().unwrap()
    };
    let rollback = |number, version| Advanced::Rollback {
        pinned: hash(number),
        version,
    };
    assert_eq!(advance(1, 100), Advanced::Pinned);
    assert_eq!(advance(1, 100), Advanced::Same);
    assert_eq!(advance(2, 100), rollback(1, 100));
    assert_eq!(advance(2, 99), rollback(1, 100));
    assert_eq!(advance(1, 50), Advanced::Same);
    assert_eq!(advance(2, 99), rollback(1, 100));
    assert_eq!(advance(1, 200), Advanced::Same);
    assert_eq!(advance(2, 150), rollback(1, 200));
    assert_eq!(advance(2, 201), Advanced::Pinned);
    assert_eq!(advance(1, 200), rollback(2, 201));
    // What was only offered binds nobody.
    let other = pins.compare(NOW, "did:web:b.example", hash(1)).wait();
    assert_eq!(other, Ok(Compared::Unknown));
    let first = pins.advance(NOW, "did:web:b.example", hash(2), 1).wait();
    assert_eq!(first, Ok(Advanced::Pinned));
}

fn kinds_are_apart(make: Make) {
    let store = make(Limits::default());
    store
        .pins(&PinKind::TOOL)
        .pin(NOW, "a", hash(1))
        .wait()
        .unwrap();
    assert_eq!(store.pins(&PinKind::SCRIPT).get("a").wait(), Ok(None));
    let compared = store.pins(&PinKind::SCRIPT).compare(NOW, "a", hash(1));
    assert_eq!(compared.wait(), Ok(Compared::Unknown));
}

fn pins_are_listed_and_removed(make: Make) {
    let store = make(Limits::default());
    let pins = store.pins(&PinKind::TOOL);
    for name in ["b", "a", "B"] {
        pins.pin(NOW, name, hash(1)).wait().unwrap();
    }
    let names = || -> Vec<String> {
        let list = pins.list().wait().unwrap();
        list.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(), ["B", "a", "b"]);
    pins.remove("a").wait().unwrap();
    pins.remove("a").wait().unwrap();
    assert_eq!(names(), ["B", "b"]);
}

fn limits_hold(make: Make) {
    let store = make(Limits {
        pins: limit(0, 2, 1000),
        ..Limits::default()
    });
    let pins = store.pins(&PinKind::TOOL);
    pins.pin(NOW, "a", hash(1)).wait().unwrap();
    pins.compare(NOW, "b", hash(1)).wait().unwrap();
    let full = Error::Full { what: "pin" };
    assert_eq!(pins.pin(NOW, "c", hash(1)).wait(), Err(full.clone()));
    assert_eq!(pins.compare(NOW, "c", hash(1)).wait(), Err(full.clone()));
    assert_eq!(pins.advance(NOW, "c", hash(1), 1).wait(), Err(full.clone()));
    pins.pin(NOW, "b", hash(2)).wait().unwrap();
    let long = pins.pin(NOW, &"x".repeat(MAX_NAME + 1), hash(1)).wait();
    assert!(matches!(long, Err(Error::TooLarge { .. })));
    // Each counts its name and two hashes.
    let store = make(Limits {
        pins: limit(0, 10, 130),
        ..Limits::default()
    });
    let pins = store.pins(&PinKind::TOOL);
    pins.pin(NOW, "a", hash(1)).wait().unwrap();
    assert_eq!(pins.pin(NOW, "bc", hash(1)).wait(), Err(full));
    pins.pin(NOW, "b", hash(1)).wait().unwrap();
}
