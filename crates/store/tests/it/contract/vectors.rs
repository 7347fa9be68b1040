//! Entries as points.

use std::sync::Arc;

use store::{
    EntryNumber, Limits, Memories, Near, NewEntry, Rooms, Tier, Unwanted, Vectors, Wanted,
};

use super::memories::{entry, session};
use crate::subject::{Make, NOW, Subject, ada, at, bob, contract, moment};

contract! {
    what_has_no_vector_is_asked_for,
    what_means_the_same_is_found,
    keys_and_meaning_must_both_hold,
    words_and_meaning_are_one_list,
    what_is_gone_is_not_near,
    vectors_of_a_memory_that_is_gone_are_of_no_other,
    another_model_begins_anew,
    nobody_is_near_to_what_is_not_theirs,
    some_vectors_are_of_no_use,
}

fn mine(store: &Subject) -> Arc<dyn Memories> {
    store.for_agent(&ada()).memories(&session("s"), "default")
}

fn put(memories: &Arc<dyn Memories>, entry: NewEntry) {
    let outcomes = memories.put(NOW, vec![entry], Rooms::default()).wait();
    assert_eq!(outcomes, Ok(vec![Ok(())]));
}

/// Makes the vector of each entry that lacks one, by its key.
fn make_all(vectors: &Arc<dyn Vectors>, vector: impl Fn(&str) -> Vec<f32>) -> usize {
    let missing = vectors.missing(NOW, 100).wait().unwrap();
    let made: Vec<(EntryNumber, Vec<f32>)> = missing
        .iter()
        .map(|entry| (entry.number, vector(&entry.key)))
        .collect();
    let count = made.len();
    vectors.put(made).wait().unwrap();
    count
}

/// Animals on one axis, tools on the other.
fn point(key: &str) -> Vec<f32> {
    match key {
        "dog" => vec![3.0, 0.1],
        "cat" => vec![2.0, 0.3],
        "hammer" => vec![0.1, 1.0],
        _ => vec![1.0, 1.0],
    }
}

fn near(query: &str, vector: &[f32]) -> Wanted {
    Wanted {
        tiers: Tier::ALL.to_vec(),
        query: query.to_owned(),
        near: Some(Near {
            model: "m".to_owned(),
            vector: vector.to_vec(),
        }),
        limit: 10,
        ..Wanted::default()
    }
}

fn keys(memories: &Arc<dyn Memories>, wanted: &Wanted) -> Vec<String> {
    let found = memories.find(NOW, wanted).wait().unwrap();
    found
        .entries
        .into_iter()
        .map(|(entry, _)| entry.key)
        .collect()
}

fn what_has_no_vector_is_asked_for(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["a", "b"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    let short = NewEntry {
        expires: at(-1),
        ..entry(Tier::Episodic, "expired", "x")
    };
    put(&memories, short);
    let missing = vectors.missing(NOW, 1).wait().unwrap();
    assert_eq!(missing.len(), 1);
    assert_eq!(make_all(&vectors, point), 2);
    assert_eq!(make_all(&vectors, point), 0);
    // What is written again is read again.
    put(&memories, entry(Tier::Episodic, "a", "y"));
    let missing = vectors.missing(NOW, 10).wait().unwrap();
    assert_eq!(
        (missing.len(), &*missing[0].key, &*missing[0].content),
        (1, "a", "\"y\"")
    );
}

fn what_means_the_same_is_found(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "cat", "hammer"] {
        let tagged = NewEntry {
            tags: vec![format!("t{key}")],
            ..entry(Tier::Episodic, key, "x")
        };
        put(&memories, tagged);
    }
    make_all(&vectors, point);
    let found = memories
        .find(NOW, &near("puppy", &[1.0, 0.0]))
        .wait()
        .unwrap();
    let keys_found: Vec<&str> = found.entries.iter().map(|(entry, _)| &*entry.key).collect();
    assert_eq!((keys_found, found.total), (vec!["dog", "cat"], 2));
    let scores: Vec<f64> = found.entries.iter().map(|(_, score)| *score).collect();
    assert!(
        scores[0] > 0.99 && scores[0] <= 1.0 && scores[1] < scores[0],
        "{scores:?}"
    );
    let strict = Wanted {
        min_score: scores[0],
        ..near("puppy", &[1.0, 0.0])
    };
    assert_eq!(keys(&memories, &strict), ["dog"]);
    let tagged = Wanted {
        tags: vec!["tcat".to_owned()],
        ..near("puppy", &[1.0, 0.0])
    };
    assert_eq!(keys(&memories, &tagged), ["cat"]);
}

fn keys_and_meaning_must_both_hold(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "cat", "hammer"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    make_all(&vectors, point);
    let among = |keys: &[&str], min_score: f64| Wanted {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        min_score,
        ..near("puppy", &[1.0, 0.0])
    };
    assert_eq!(keys(&memories, &among(&["hammer", "cat"], 0.0)), ["cat"]);
    let both = memories.find(NOW, &among(&["cat", "dog"], 0.0)).wait();
    let both = both.unwrap();
    let found: Vec<&str> = both.entries.iter().map(|(entry, _)| &*entry.key).collect();
    assert_eq!((found, both.total), (vec!["dog", "cat"], 2));
    let (best, next) = (both.entries[0].1, both.entries[1].1);
    assert!(best > next, "{best} {next}");
    assert_eq!(keys(&memories, &among(&["cat", "dog"], best)), ["dog"]);
    assert_eq!(keys(&memories, &among(&["hammer"], 0.0)), [""; 0]);
    // Without anybody who knows what is meant, words alone count.
    let words = Wanted {
        near: None,
        ..among(&["cat", "dog"], 0.0)
    };
    assert_eq!(keys(&memories, &words), [""; 0]);
}

fn words_and_meaning_are_one_list(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "cat", "hammer"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    make_all(&vectors, point);
    // In both lists; then first in one of them; then the rest.
    assert_eq!(keys(&memories, &near("cat", &[1.0, 0.0])), ["cat", "dog"]);
    assert_eq!(keys(&memories, &near("hammer", &[1.0, 0.0])).len(), 3);
    // Without a query there is nothing to be near to.
    assert_eq!(keys(&memories, &near("", &[1.0, 0.0])).len(), 3);
}

fn what_is_gone_is_not_near(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "cat"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    make_all(&vectors, point);
    let puppy = near("puppy", &[1.0, 0.0]);
    assert_eq!(keys(&memories, &puppy), ["dog", "cat"]);
    let unwanted = Unwanted {
        tiers: vec![Tier::Episodic],
        keys: vec!["dog".to_owned()],
        ..Unwanted::default()
    };
    memories.forget(NOW, &unwanted).wait().unwrap();
    assert_eq!(keys(&memories, &puppy), ["cat"]);
    // What takes its place has no vector yet.
    put(&memories, entry(Tier::Episodic, "cat", "new"));
    assert_eq!(keys(&memories, &puppy), Vec::<String>::new());
    make_all(&vectors, point);
    assert_eq!(keys(&memories, &puppy), ["cat"]);
    let expiring = NewEntry {
        expires: at(5),
        ..entry(Tier::Episodic, "dog", "x")
    };
    put(&memories, expiring);
    make_all(&vectors, point);
    assert_eq!(keys(&memories, &puppy), ["dog", "cat"]);
    let later = memories.find(at(5), &puppy).wait().unwrap();
    assert_eq!(later.entries.len(), 1);
}

/// A memory that is empty is swept; another one that is made then has none of its vectors, whichever
/// were read into memory before.
fn vectors_of_a_memory_that_is_gone_are_of_no_other(make: Make) {
    let store = make(Limits::default());
    let vectors = store.vectors("m");
    let puppy = near("puppy", &[1.0, 0.0]);
    let first = mine(&store);
    put(&first, entry(Tier::Episodic, "dog", "x"));
    let unread = vectors.missing(NOW, 1).wait().unwrap()[0].number;
    make_all(&vectors, point);
    assert_eq!(keys(&first, &puppy), ["dog"]);
    let unwanted = Unwanted {
        tiers: vec![Tier::Episodic],
        ..Unwanted::default()
    };
    first.forget(NOW, &unwanted).wait().unwrap();
    store.sweep(moment(0)).wait().unwrap();
    let second = store.for_agent(&bob()).memories(&session("s"), "other");
    put(&second, entry(Tier::Episodic, "hammer", "x"));
    assert_eq!(keys(&second, &puppy), [""; 0]);
    // A vector that was made for an entry that is gone is none of a new one.
    vectors.put(vec![(unread, point("dog"))]).wait().unwrap();
    assert_eq!(keys(&second, &puppy), [""; 0]);
    assert_eq!(make_all(&vectors, |_| vec![0.0, 1.0]), 1);
    assert_eq!(keys(&second, &puppy), [""; 0]);
}

fn another_model_begins_anew(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "cat"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    make_all(&vectors, point);
    assert_eq!(vectors.retire().wait(), Ok(0));
    let other = store.vectors("n");
    let mut wanted = near("puppy", &[0.0, 1.0, 0.0]);
    wanted.near.as_mut().unwrap().model = "n".to_owned();
    assert_eq!(keys(&memories, &wanted), Vec::<String>::new());
    assert_eq!(other.retire().wait(), Ok(2));
    assert_eq!(other.retire().wait(), Ok(0));
    assert_eq!(make_all(&other, |_| vec![0.0, 1.0, 0.1]), 2);
    assert_eq!(keys(&memories, &wanted).len(), 2);
    assert_eq!(
        keys(&memories, &near("puppy", &[1.0, 0.0])),
        Vec::<String>::new()
    );
}

fn nobody_is_near_to_what_is_not_theirs(make: Make) {
    let store = make(Limits::default());
    let vectors = store.vectors("m");
    put(&mine(&store), entry(Tier::Episodic, "dog", "x"));
    make_all(&vectors, point);
    let others = [
        store.for_agent(&bob()).memories(&session("s"), "default"),
        store.for_agent(&ada()).memories(&session("s"), "other"),
    ];
    for other in &others {
        put(other, entry(Tier::Episodic, "cat", "x"));
    }
    make_all(&vectors, point);
    for other in &others {
        assert_eq!(keys(other, &near("puppy", &[1.0, 0.0])), ["cat"]);
    }
    assert_eq!(keys(&mine(&store), &near("puppy", &[1.0, 0.0])), ["dog"]);
}

fn some_vectors_are_of_no_use(make: Make) {
    let store = make(Limits::default());
    let (memories, vectors) = (mine(&store), store.vectors("m"));
    for key in ["dog", "zero", "wide"] {
        put(&memories, entry(Tier::Episodic, key, "x"));
    }
    make_all(&vectors, |key| match key {
        "dog" => vec![1.0, 0.0],
        "zero" => vec![0.0, 0.0],
        _ => vec![1.0; 3],
    });
    // They are not asked for again.
    assert_eq!(make_all(&vectors, point), 0);
    assert_eq!(keys(&memories, &near("puppy", &[1.0, 0.0])), ["dog"]);
    assert_eq!(
        keys(&memories, &near("puppy", &[0.0, 0.0])),
        Vec::<String>::new()
    );
    assert_eq!(
        keys(&memories, &near("puppy", &[f32::NAN, 0.0])),
        Vec::<String>::new()
    );
    // Of one that is gone nothing is kept.
    let missing = vectors.missing(NOW, 10).wait().unwrap();
    assert_eq!(missing, Vec::new());
}
