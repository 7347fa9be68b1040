//! What agents remember: keeping and forgetting.

use std::sync::Arc;

use store::{
    Entry, Forgotten, Limits, Memories, NewEntry, Rooms, SessionId, Text, Tier, UnixMillis,
    Unwanted, Wanted,
};

use crate::subject::{Make, NOW, Subject, ada, at, bob, contract};

contract! {
    what_is_kept_is_found,
    one_key_is_one_entry,
    tiers_are_apart,
    what_is_forgotten_is_gone,
    a_tier_is_cleared_bit_by_bit,
    a_session_ends,
    nobody_reaches_what_is_not_theirs,
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(super) fn mine(store: &Subject) -> Arc<dyn Memories> {
    store.for_agent(&ada()).memories(&session("s"), "default")
}

pub(crate) fn entry(tier: Tier, key: &str, body: &str) -> NewEntry {
    NewEntry {
        tier,
        key: key.to_owned(),
        content: format!("\"{body}\""),
        text: Text {
            title: key.to_owned(),
            body: body.to_owned(),
        },
        tags: Vec::new(),
        source: String::new(),
        weight: 1.0,
        created: NOW,
        expires: UnixMillis::NEVER,
    }
}

pub(super) fn tagged(key: &str, tags: &[&str]) -> NewEntry {
    NewEntry {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..entry(Tier::Episodic, key, "x")
    }
}

pub(super) fn put(memories: &Arc<dyn Memories>, now: UnixMillis, entry: NewEntry) {
    put_all(memories, now, vec![entry]);
}

pub(super) fn put_all(memories: &Arc<dyn Memories>, now: UnixMillis, entries: Vec<NewEntry>) {
    let outcomes = memories.put(now, entries, Rooms::default()).wait().unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

pub(super) fn all() -> Wanted {
    Wanted {
        tiers: Tier::ALL.to_vec(),
        limit: 100,
        ..Wanted::default()
    }
}

pub(super) fn by_keys(keys: &[&str]) -> Wanted {
    Wanted {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..all()
    }
}

pub(super) fn by_tags(tags: &[&str]) -> Wanted {
    Wanted {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..all()
    }
}

pub(super) fn query(text: &str) -> Wanted {
    Wanted {
        query: text.to_owned(),
        ..all()
    }
}

pub(super) fn keys_at(
    memories: &Arc<dyn Memories>,
    now: UnixMillis,
    wanted: &Wanted,
) -> Vec<String> {
    let found = memories.find(now, wanted).wait().unwrap();
    found
        .entries
        .into_iter()
        .map(|(entry, _)| entry.key)
        .collect()
}

pub(super) fn keys(memories: &Arc<dyn Memories>, wanted: &Wanted) -> Vec<String> {
    keys_at(memories, NOW, wanted)
}

fn what_is_kept_is_found(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let new = NewEntry {
        tags: vec!["b".into(), "a".into(), "b".into()],
        source: "test".into(),
        weight: 0.5,
        created: at(-60),
        expires: at(60),
        ..entry(Tier::Episodic, "k", "words")
    };
    put(&memories, NOW, new);
    let found = memories.find(NOW, &by_keys(&["k"])).wait().unwrap();
    let expected = Entry {
        tier: Tier::Episodic,
        key: "k".into(),
        content: "\"words\"".into(),
        tags: vec!["a".into(), "b".into()],
        source: "test".into(),
        weight: 0.5,
        created: at(-60),
        updated: NOW,
        expires: at(60),
    };
    assert_eq!(found.entries, [(expected, 1.0)]);
    assert_eq!((found.total, found.is_more), (1, false));
    let none = keys(&memories, &by_keys(&["K", "k ", ""]));
    assert_eq!(none, Vec::<String>::new());
    assert_eq!(keys(&memories, &all()), ["k"]);
}

fn one_key_is_one_entry(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    put(&memories, NOW, entry(Tier::Episodic, "k", "first"));
    let second = NewEntry {
        created: at(1),
        ..entry(Tier::Episodic, "k", "second")
    };
    put(&memories, at(1), second);
    let found = memories.find(at(1), &all()).wait().unwrap();
    assert_eq!(found.total, 1);
    let (kept, _) = &found.entries[0];
    assert_eq!((kept.created, kept.updated), (NOW, at(1)));
    assert_eq!(kept.content, "\"second\"");
    assert_eq!(keys(&memories, &query("first")), Vec::<String>::new());
    assert_eq!(keys(&memories, &query("second")), ["k"]);
    // Twice in one call: the last counts.
    let both = ["third", "fourth"].map(|body| entry(Tier::Episodic, "k", body));
    put_all(&memories, at(2), both.into());
    assert_eq!(keys(&memories, &query("third")), Vec::<String>::new());
    assert_eq!(memories.find(at(2), &all()).wait().unwrap().total, 1);
    // What is said to be of tomorrow is of now.
    let tomorrow = NewEntry {
        created: at(86_400),
        ..entry(Tier::Episodic, "new", "x")
    };
    put(&memories, at(3), tomorrow);
    let found = memories.find(at(3), &by_keys(&["new"])).wait().unwrap();
    assert_eq!(found.entries[0].0.created, at(3));
}

fn tiers_are_apart(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    for tier in Tier::ALL {
        put(&memories, NOW, entry(tier, "k", "same words"));
    }
    for tier in Tier::ALL {
        let wanted = Wanted {
            tiers: vec![tier],
            ..query("words")
        };
        let found = memories.find(NOW, &wanted).wait().unwrap();
        assert_eq!(found.entries.len(), 1);
        assert_eq!(found.entries[0].0.tier, tier);
    }
    assert_eq!(keys(&memories, &by_keys(&["k"])).len(), 3);
    let none = Wanted {
        tiers: Vec::new(),
        ..all()
    };
    assert_eq!(keys(&memories, &none), Vec::<String>::new());
}

fn what_is_forgotten_is_gone(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let put_them = || {
        for (key, tags) in [("1", ["a", "x"]), ("2", ["b", "x"]), ("3", ["c", "y"])] {
            put(&memories, NOW, tagged(key, &tags));
        }
        put(&memories, NOW, entry(Tier::Semantic, "1", "shared"));
    };
    let forget = |keys: &[&str], tags: &[&str]| {
        let unwanted = Unwanted {
            tiers: vec![Tier::Episodic],
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        };
        memories.forget(NOW, &unwanted).wait().unwrap()
    };
    let removed = |removed| Forgotten {
        removed,
        has_more: false,
    };
    put_them();
    assert_eq!(forget(&["1", "none"], &[]), removed(1));
    assert_eq!(forget(&["1"], &[]), removed(0));
    assert_eq!(keys(&memories, &by_tags(&["a"])), Vec::<String>::new());
    put_them();
    assert_eq!(forget(&[], &["a", "y"]), removed(2));
    put_them();
    // Both must hold.
    assert_eq!(forget(&["1", "3"], &["x"]), removed(1));
    put_them();
    assert_eq!(forget(&[], &[]), removed(3));
    // Other tiers are not concerned.
    assert_eq!(keys(&memories, &all()), ["1"]);
    assert_eq!(keys(&memories, &query("x")), Vec::<String>::new());
}

fn a_tier_is_cleared_bit_by_bit(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let entries = (0..2001).map(|number| entry(Tier::Episodic, &number.to_string(), "x"));
    put_all(&memories, NOW, entries.collect());
    let everything = Unwanted {
        tiers: vec![Tier::Episodic],
        ..Unwanted::default()
    };
    let forget = || memories.forget(NOW, &everything).wait().unwrap();
    let forgotten = |removed, has_more| Forgotten { removed, has_more };
    assert_eq!(forget(), forgotten(2000, true));
    assert_eq!(forget(), forgotten(1, false));
    assert_eq!(forget(), forgotten(0, false));
    assert_eq!(keys(&memories, &all()), Vec::<String>::new());
}

fn a_session_ends(make: Make) {
    let store = make(Limits::default());
    let place = |name: &str, space: &str| store.for_agent(&ada()).memories(&session(name), space);
    for (name, space) in [("s", "one"), ("s", "two"), ("t", "one")] {
        let memories = place(name, space);
        put(&memories, NOW, entry(Tier::Working, "w", "x"));
        put(&memories, NOW, entry(Tier::Episodic, "e", "x"));
    }
    let end = || place("s", "one").end_session().wait().unwrap().removed;
    assert_eq!(end(), 2);
    assert_eq!(keys(&place("s", "two"), &all()), ["e"]);
    assert_eq!(keys(&place("t", "one"), &all()), ["w", "e"]);
    assert_eq!(end(), 0);
}

/// Every verb, tried by another agent, in another session and in another space.
fn nobody_reaches_what_is_not_theirs(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    for tier in Tier::ALL {
        let new = NewEntry {
            tags: vec!["t".into()],
            ..entry(tier, "k", "secret")
        };
        put(&memories, NOW, new);
    }
    let place = |agent, name: &str, space: &str| {
        let scope = store.for_agent(&agent);
        scope.memories(&session(name), space)
    };
    let others = [
        (
            place(bob(), "s", "default"),
            vec![Tier::Working, Tier::Episodic],
        ),
        (place(ada(), "t", "default"), vec![Tier::Working]),
        (place(ada(), "s", "other"), Tier::ALL.to_vec()),
        (place(ada(), "s", "Default"), Tier::ALL.to_vec()),
    ];
    for (other, tiers) in others {
        let ways = [
            all(),
            by_keys(&["k"]),
            by_keys(&["k", "l"]),
            by_tags(&["t"]),
            query("secret"),
        ];
        for wanted in ways {
            let wanted = Wanted {
                tiers: tiers.clone(),
                ..wanted
            };
            let found = other.find(NOW, &wanted).wait().unwrap();
            assert_eq!(found.total, 0, "{wanted:?}");
        }
        for tier in &tiers {
            assert_eq!(other.page(NOW, *tier, 0, 10).wait().unwrap(), Vec::new());
        }
        let unwanted = Unwanted {
            tiers: tiers.clone(),
            ..Unwanted::default()
        };
        assert_eq!(other.forget(NOW, &unwanted).wait().unwrap().removed, 0);
    }
    let ended = place(bob(), "s", "default").end_session().wait().unwrap();
    assert_eq!(ended.removed, 0);
    assert_eq!(keys(&memories, &all()).len(), 3);
    // What is shared is shared.
    let shared = Wanted {
        tiers: vec![Tier::Semantic],
        ..all()
    };
    assert_eq!(keys(&place(bob(), "u", "default"), &shared), ["k"]);
}
