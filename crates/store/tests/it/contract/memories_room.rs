//! What agents remember: how much, and how long.

use store::{
    Error, Limits, MAX_KEY, MAX_KEYS, MAX_QUERY, MAX_TAG, MAX_TAGS, NewEntry, Overflow, Rooms,
    Tier, UnixMillis, Unwanted, Wanted,
};

use super::memories::{all, by_keys, by_tags, entry, keys, keys_at, mine, put, query, session};
use crate::subject::{Make, NOW, ada, at, bob, contract, limit};

contract! {
    what_has_expired_is_gone,
    the_oldest_goes_first,
    a_full_tier_may_refuse,
    an_owner_has_so_much_and_no_more,
    one_that_is_refused_keeps_no_other_out,
    so_many_memories_and_no_more,
    sizes_are_limited,
}

fn what_has_expired_is_gone(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let short = NewEntry {
        expires: at(10),
        tags: vec!["t".into()],
        created: at(-5),
        ..entry(Tier::Episodic, "short", "apple")
    };
    put(&memories, NOW, short.clone());
    put(
        &memories,
        NOW,
        NewEntry {
            tags: vec!["t".into()],
            ..entry(Tier::Episodic, "long", "apple")
        },
    );
    for wanted in [
        all(),
        by_tags(&["t"]),
        query("apple"),
        by_keys(&["short", "long"]),
    ] {
        let found = |now| memories.find(now, &wanted).wait().unwrap();
        assert_eq!((found(at(9)).entries.len(), found(at(9)).total), (2, 2));
        assert_eq!((found(at(10)).entries.len(), found(at(10)).total), (1, 1));
    }
    assert_eq!(
        keys_at(&memories, at(10), &by_keys(&["short"])),
        Vec::<String>::new()
    );
    let one = Unwanted {
        tiers: vec![Tier::Episodic],
        keys: vec!["short".into()],
        ..Unwanted::default()
    };
    assert_eq!(memories.forget(at(10), &one).wait().unwrap().removed, 0);
    // Who comes after it is new.
    put(
        &memories,
        at(20),
        NewEntry {
            created: at(20),
            ..short
        },
    );
    let found = memories.find(at(9), &by_keys(&["short"])).wait().unwrap();
    assert_eq!(found.entries[0].0.created, at(20));
}

fn rooms(working: usize, overflow: Overflow) -> Rooms {
    Rooms {
        working,
        overflow,
        ..Rooms::default()
    }
}

fn the_oldest_goes_first(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let put = |key: &str, now| {
        let new = vec![entry(Tier::Working, key, "x")];
        let outcome = memories.put(now, new, rooms(3, Overflow::Evict)).wait();
        assert_eq!(outcome, Ok(vec![Ok(())]), "{key}");
    };
    for key in ["a", "b", "c"] {
        put(key, NOW);
    }
    // What is written again is new.
    put("a", NOW);
    assert_eq!(keys(&memories, &all()), ["a", "c", "b"]);
    put("d", NOW);
    assert_eq!(keys(&memories, &all()), ["d", "a", "c"]);
    // What has expired goes first, although it is younger.
    let short = NewEntry {
        expires: at(5),
        ..entry(Tier::Working, "e", "x")
    };
    memories
        .put(NOW, vec![short], rooms(3, Overflow::Evict))
        .wait()
        .unwrap()[0]
        .clone()
        .unwrap();
    put("f", at(5));
    assert_eq!(keys_at(&memories, at(5), &all()), ["f", "d", "a"]);
}

fn a_full_tier_may_refuse(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let put = |key: &str, now, expires| {
        let new = NewEntry {
            expires,
            ..entry(Tier::Working, key, "x")
        };
        let outcome = memories
            .put(now, vec![new], rooms(2, Overflow::Refuse))
            .wait();
        outcome.unwrap().remove(0)
    };
    let full = Err(Error::Full {
        what: "memory entry",
    });
    assert_eq!(put("a", NOW, UnixMillis::NEVER), Ok(()));
    assert_eq!(put("b", NOW, at(10)), Ok(()));
    assert_eq!(put("c", NOW, UnixMillis::NEVER), full);
    assert_eq!(put("a", NOW, UnixMillis::NEVER), Ok(()));
    // An entry that has expired is in nobody's way.
    assert_eq!(put("c", at(10), UnixMillis::NEVER), Ok(()));
    assert_eq!(keys_at(&memories, at(10), &all()), ["c", "a"]);
}

fn an_owner_has_so_much_and_no_more(make: Make) {
    let store = make(Limits {
        // Two of a key of one byte, three of content, and two words that are indexed.
        memories: limit(100, 3, 50),
        ..Limits::default()
    });
    let spaces = ["one", "two"].map(|space| store.for_agent(&ada()).memories(&session("s"), space));
    let put = |space: usize, key: &str, body: &str| {
        let new = vec![entry(Tier::Episodic, key, body)];
        spaces[space]
            .put(NOW, new, Rooms::default())
            .wait()
            .unwrap()
            .remove(0)
    };
    assert_eq!(put(0, "a", "x"), Ok(()));
    assert_eq!(put(1, "b", "x"), Ok(()));
    // Makes room in its own memory, and in no other.
    assert_eq!(put(0, "c", "x"), Ok(()));
    assert_eq!(keys(&spaces[0], &all()), ["c"]);
    assert_eq!(keys(&spaces[1], &all()), ["b"]);
    let full = Err(Error::Full {
        what: "memory entry",
    });
    assert_eq!(put(1, "d", "1234567"), full);
    assert_eq!(keys(&spaces[1], &all()), ["b"]);
    // Others are not concerned.
    let other = store.for_agent(&bob()).memories(&session("s"), "one");
    let new = vec![entry(Tier::Episodic, "a", "x")];
    assert_eq!(
        other.put(NOW, new, Rooms::default()).wait(),
        Ok(vec![Ok(())])
    );
}

fn one_that_is_refused_keeps_no_other_out(make: Make) {
    let store = make(Limits {
        memories: limit(10, 100, 10_000),
        ..Limits::default()
    });
    let memories = mine(&store);
    let large = entry(Tier::Episodic, "large", "123456789");
    let entries = vec![
        entry(Tier::Episodic, "a", "x"),
        large,
        entry(Tier::Episodic, "b", "x"),
    ];
    let outcomes = memories.put(NOW, entries, Rooms::default()).wait().unwrap();
    let refused = Err(Error::TooLarge {
        what: "memory entry",
        size: 11,
        limit: 10,
    });
    assert_eq!(outcomes, [Ok(()), refused, Ok(())]);
    assert_eq!(keys(&memories, &all()), ["b", "a"]);
}

fn so_many_memories_and_no_more(make: Make) {
    let store = make(Limits {
        memory_spaces: 2,
        ..Limits::default()
    });
    let put = |space: &str| {
        let memories = store.for_agent(&ada()).memories(&session("s"), space);
        let new = vec![entry(Tier::Episodic, "k", "x")];
        memories
            .put(NOW, new, Rooms::default())
            .wait()
            .unwrap()
            .remove(0)
    };
    assert_eq!((put("one"), put("two")), (Ok(()), Ok(())));
    assert_eq!(put("three"), Err(Error::Full { what: "memory" }));
    assert_eq!(put("two"), Ok(()));
    let clear = Unwanted {
        tiers: vec![Tier::Episodic],
        ..Unwanted::default()
    };
    let one = store.for_agent(&ada()).memories(&session("s"), "one");
    assert_eq!(one.forget(NOW, &clear).wait().unwrap().removed, 1);
    assert_eq!(put("three"), Ok(()));
}

fn sizes_are_limited(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let put = |entry: NewEntry| {
        let outcome = memories.put(NOW, vec![entry], Rooms::default()).wait();
        outcome.unwrap().remove(0).is_ok()
    };
    let plain = || entry(Tier::Episodic, "k", "x");
    let numbered = |count: usize| -> Vec<String> { (0..count).map(|n| n.to_string()).collect() };
    for more in [0, 1] {
        let fits = more == 0;
        assert_eq!(
            put(NewEntry {
                key: "k".repeat(MAX_KEY + more),
                ..plain()
            }),
            fits
        );
        assert_eq!(
            put(NewEntry {
                source: "s".repeat(MAX_KEY + more),
                ..plain()
            }),
            fits
        );
        assert_eq!(
            put(NewEntry {
                tags: vec!["t".repeat(MAX_TAG + more)],
                ..plain()
            }),
            fits
        );
        assert_eq!(
            put(NewEntry {
                tags: numbered(MAX_TAGS + more),
                ..plain()
            }),
            fits
        );
        let content = "c".repeat(Limits::default().memories.value + more);
        assert_eq!(put(NewEntry { content, ..plain() }), fits);
        let find = |wanted: Wanted| memories.find(NOW, &wanted).wait().is_ok();
        assert_eq!(find(query(&"q".repeat(MAX_QUERY + more))), fits);
        assert_eq!(
            find(Wanted {
                keys: numbered(MAX_KEYS + more),
                ..all()
            }),
            fits
        );
        assert_eq!(
            find(Wanted {
                tags: numbered(MAX_TAGS + more),
                ..all()
            }),
            fits
        );
        let unwanted = Unwanted {
            keys: numbered(MAX_KEYS + more),
            ..Unwanted::default()
        };
        assert_eq!(memories.forget(NOW, &unwanted).wait().is_ok(), fits);
        let space = "n".repeat(store::MAX_NAME + more);
        let other = store.for_agent(&ada()).memories(&session("s"), &space);
        assert_eq!(
            other
                .put(NOW, vec![plain()], Rooms::default())
                .wait()
                .is_ok(),
            fits
        );
    }
}
