//! What agents remember: finding it.

use store::{Limits, MAX_FOUND_BYTES, NewEntry, Text, Tier, TierSize, Unwanted, Wanted};

use super::memories::{all, by_keys, by_tags, entry, keys, mine, put, put_all, query, tagged};
use crate::subject::{Make, NOW, at, contract};

contract! {
    what_is_asked_must_all_hold,
    words_find_what_has_them,
    names_are_found_misspelt,
    other_scripts_are_found,
    scores_are_on_a_scale,
    many_are_counted_and_few_given,
    pages_have_everything_once,
    any_label_is_one,
    entries_are_given_up_to_a_size,
}

fn what_is_asked_must_all_hold(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let words = |entry: NewEntry, body: &str| NewEntry {
        text: Text {
            title: String::new(),
            body: body.into(),
        },
        ..entry
    };
    let entries = vec![
        words(tagged("1", &["red", "big"]), "apple"),
        words(tagged("2", &["red"]), "pear"),
        words(tagged("3", &["big"]), "apple"),
    ];
    put_all(&memories, NOW, entries);
    assert_eq!(keys(&memories, &by_tags(&["red"])), ["2", "1"]);
    // Any label will do; who has more of them comes first.
    assert_eq!(keys(&memories, &by_tags(&["red", "big"])), ["1", "3", "2"]);
    assert_eq!(keys(&memories, &by_tags(&["none"])), Vec::<String>::new());
    let mut wanted = by_tags(&["red"]);
    wanted.query = "apple".into();
    assert_eq!(keys(&memories, &wanted), ["1"]);
    wanted.keys = vec!["1".into(), "3".into()];
    assert_eq!(keys(&memories, &wanted), ["1"]);
    wanted.keys = vec!["2".into(), "3".into()];
    assert_eq!(keys(&memories, &wanted), Vec::<String>::new());
    let mut wanted = by_keys(&["1", "2"]);
    wanted.tags = vec!["big".into()];
    assert_eq!(keys(&memories, &wanted), ["1"]);
}

fn words_find_what_has_them(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    for (key, body) in [
        (
            "1",
            "The deployment of the billing service failed on Monday",
        ),
        ("2", "Ada prefers tea, and Müller prefers coffee"),
        ("3", "dueDate of the invoice is 2026-03-01"),
        ("4", "Go and C are languages"),
    ] {
        put(&memories, NOW, entry(Tier::Episodic, key, body));
    }
    for (text, expected) in [
        ("billing", "1"),
        ("BILLING failed?", "1"),
        ("deployed", "1"),
        ("who prefers tea", "2"),
        ("muller", "2"),
        ("due date", "3"),
        ("2026 invoice", "3"),
        ("go", "4"),
        ("c", "4"),
        ("language", "4"),
    ] {
        let found = keys(&memories, &query(text));
        assert_eq!(found.first().map(String::as_str), Some(expected), "{text}");
    }
    for nothing in ["zebra", "?!", "\" OR \"", "words : x", "*"] {
        assert_eq!(
            keys(&memories, &query(nothing)),
            Vec::<String>::new(),
            "{nothing}"
        );
    }
}

fn names_are_found_misspelt(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    put(
        &memories,
        NOW,
        entry(Tier::Episodic, "1", "met Katharina Schroedinger in Rome"),
    );
    put(
        &memories,
        NOW,
        entry(Tier::Episodic, "2", "met John in Paris"),
    );
    put(
        &memories,
        NOW,
        entry(Tier::Episodic, "3", "ticket XK4412 is open"),
    );
    for (text, expected) in [
        ("Katarina", "1"),
        ("Schrodinger", "1"),
        ("Jhon", "2"),
        ("Jon", "2"),
        ("XK4421", "3"),
    ] {
        assert_eq!(keys(&memories, &query(text)), [expected], "{text}");
    }
    assert_eq!(keys(&memories, &query("Jane")), Vec::<String>::new());
}

fn other_scripts_are_found(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    for (key, body) in [
        ("ja", "東京都の天気は晴れです"),
        ("ru", "Ёлка стоит в гостиной"),
        ("el", "Η Αθήνα είναι πρωτεύουσα"),
        ("ar", "القاهرة عاصمة مصر"),
        ("emoji", "birthday 🎂 party"),
    ] {
        put(&memories, NOW, entry(Tier::Semantic, key, body));
    }
    for (text, expected) in [
        ("天気", "ja"),
        ("京", "ja"),
        ("елка", "ru"),
        ("ΑΘΗΝΑ", "el"),
        ("عاصمة", "ar"),
        ("🎂", "emoji"),
    ] {
        assert_eq!(keys(&memories, &query(text)), [expected], "{text}");
    }
}

fn scores_are_on_a_scale(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    put(&memories, NOW, entry(Tier::Episodic, "1", "red apple"));
    put(&memories, NOW, entry(Tier::Episodic, "2", "red pear"));
    put(&memories, NOW, entry(Tier::Episodic, "3", "green pear"));
    let found = memories.find(NOW, &query("red apple")).wait().unwrap();
    let scores: Vec<f64> = found.entries.iter().map(|(_, score)| *score).collect();
    assert_eq!(scores.len(), 2);
    assert!(scores[0] > 0.55 && scores[0] < 1.0, "{scores:?}");
    assert!(scores[1] > 0.0 && scores[1] < scores[0], "{scores:?}");
    let mut wanted = query("red apple");
    wanted.min_score = f64::midpoint(scores[0], scores[1]);
    let found = memories.find(NOW, &wanted).wait().unwrap();
    assert_eq!((found.entries.len(), found.total), (1, 1));
    wanted.min_score = scores[0];
    assert_eq!(memories.find(NOW, &wanted).wait().unwrap().total, 1);
    let mut wanted = all();
    wanted.min_score = 1.0;
    assert_eq!(keys(&memories, &wanted).len(), 3);
    wanted.min_score = 1.1;
    assert_eq!(keys(&memories, &wanted).len(), 0);
}

fn many_are_counted_and_few_given(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let entries = (0..1500).map(|number| {
        let rare = if number == 3 { "needle" } else { "" };
        let pair = if number % 500 == 7 { "beta" } else { "" };
        NewEntry {
            tags: vec!["t".into()],
            ..entry(
                Tier::Episodic,
                &format!("k{number}"),
                &format!("alpha {pair} {rare}"),
            )
        }
    });
    put_all(&memories, NOW, entries.collect());
    for wanted in [query("alpha"), by_tags(&["t"]), all()] {
        let wanted = Wanted { limit: 5, ..wanted };
        let found = memories.find(NOW, &wanted).wait().unwrap();
        assert_eq!(
            (found.entries.len(), found.total, found.is_more),
            (5, 1500, false)
        );
    }
    // What is rare is found among all that is common, however old it is.
    assert_eq!(keys(&memories, &query("alpha needle"))[0], "k3");
    let found = keys(&memories, &query("alpha beta"));
    assert_eq!(found[..3], ["k1007", "k507", "k7"]);
}

fn pages_have_everything_once(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let mut entries: Vec<NewEntry> = (0..25)
        .map(|number| entry(Tier::Episodic, &number.to_string(), "x"))
        .collect();
    entries[3].expires = at(1);
    put_all(&memories, NOW, entries);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = memories
            .page(at(1), Tier::Episodic, after, 10)
            .wait()
            .unwrap();
        let Some((last, _)) = page.last() else {
            break;
        };
        after = *last;
        seen.extend(page.into_iter().map(|(_, entry)| entry.key));
    }
    let expected: Vec<String> = (0..25)
        .filter(|number| *number != 3)
        .map(|n| n.to_string())
        .collect();
    assert_eq!(seen, expected);
    let sizes = memories.sizes(at(1)).wait().unwrap();
    // Two words are indexed, the key and that of the content.
    let size = |key: &String| key.len() + 3 + 2 * (key.len() + 2) + 2 * 6;
    let expected: usize = expected.iter().map(size).sum();
    assert_eq!(sizes[0], TierSize::default());
    assert_eq!((sizes[1].entries, sizes[1].bytes), (24, expected));
}

fn any_label_is_one(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let labels = [
        "", "a", "A", "a b", "a\u{1f}b", "\\u", "é", "x61", "a\"b", "\0",
    ];
    for (number, label) in labels.iter().enumerate() {
        put(&memories, NOW, tagged(&number.to_string(), &[label]));
    }
    for (number, label) in labels.iter().enumerate() {
        let found = memories.find(NOW, &by_tags(&[label])).wait().unwrap();
        let found: Vec<(String, Vec<String>)> = found
            .entries
            .into_iter()
            .map(|(it, _)| (it.key, it.tags))
            .collect();
        assert_eq!(found, [(number.to_string(), vec![(*label).to_owned()])]);
    }
    put(&memories, NOW, tagged("all", &labels));
    let found = memories.find(NOW, &by_keys(&["all"])).wait().unwrap();
    let mut sorted = labels.map(str::to_owned).to_vec();
    sorted.sort_unstable();
    assert_eq!(found.entries[0].0.tags, sorted);
}

/// A search gives the best of what it finds as far as there is room, and a copy goes on where it was.
fn entries_are_given_up_to_a_size(make: Make) {
    let store = make(Limits::default());
    let memories = mine(&store);
    let third = "x".repeat(MAX_FOUND_BYTES / 3);
    let large = "y".repeat(MAX_FOUND_BYTES - 2);
    let mut entries: Vec<NewEntry> = (0..6)
        .map(|number| entry(Tier::Episodic, &number.to_string(), &third))
        .collect();
    entries.push(entry(Tier::Working, "large", &large));
    put_all(&memories, NOW, entries);
    let latest = |tier| Wanted {
        tiers: vec![tier],
        limit: 100,
        ..Wanted::default()
    };
    let found = memories.find(NOW, &latest(Tier::Episodic)).wait().unwrap();
    let keys: Vec<&str> = found.entries.iter().map(|(entry, _)| &*entry.key).collect();
    assert_eq!((keys.as_slice(), found.total), (["5", "4"].as_slice(), 6));
    // What has one key in several tiers, too.
    let same = Tier::ALL.map(|tier| entry(tier, "same", &large));
    put_all(&memories, NOW, same.to_vec());
    let found = memories.find(NOW, &by_keys(&["same"])).wait().unwrap();
    assert_eq!((found.entries.len(), found.total), (1, 3));
    let unwanted = Unwanted {
        tiers: Tier::ALL.to_vec(),
        keys: vec!["same".to_owned()],
        ..Unwanted::default()
    };
    memories.forget(NOW, &unwanted).wait().unwrap();
    // One that alone is too large is given all the same.
    let found = memories.find(NOW, &latest(Tier::Working)).wait().unwrap();
    assert_eq!(found.entries.len(), 1);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = memories.page(NOW, Tier::Episodic, after, 100);
        let page = page.wait().unwrap();
        let Some((last, _)) = page.last() else {
            break;
        };
        assert_eq!(page.len(), 2);
        after = *last;
        seen.extend(page.into_iter().map(|(_, entry)| entry.key));
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5"]);
}
