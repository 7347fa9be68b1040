use store::{Limits, Memory};

use super::*;

const SOURCE: &str = "mounted:other";

fn definitions() -> Definitions {
    Definitions::new(&Store::new(Memory::new(Limits::default()))).unwrap()
}

fn shown<'a>(name: &'a str, text: &'a str) -> Shown<'a> {
    let source = SOURCE;
    Shown { source, name, text }
}

#[tokio::test]
async fn the_first_sight_pins_and_a_change_waits() {
    let all = definitions();
    let (first, second) = (Digest::of(b"harmless"), Digest::of(b"your keys"));
    for _ in 0..2 {
        let standing = all.compare(shown("t", "harmless")).await;
        assert_eq!(standing.unwrap(), Standing::Approved);
    }
    assert_eq!(all.changed().await.unwrap(), []);
    for _ in 0..2 {
        let standing = all.compare(shown("t", "your keys")).await.unwrap();
        assert_eq!(standing, Standing::Changed { approved: first });
    }
    let pin = pin(SOURCE, "t");
    let waiting = Changed {
        pin: pin.clone(),
        approved: Some(first),
        offered: second,
    };
    assert_eq!(all.changed().await.unwrap(), [waiting]);
    let text = |hash| all.text(&pin, hash);
    assert_eq!(text(first).await.unwrap().unwrap(), "harmless");
    assert_eq!(text(second).await.unwrap().unwrap(), "your keys");

    // What the operator has not seen is not approved.
    assert!(!all.approve(&pin, Digest::of(b"another")).await.unwrap());
    assert!(!all.approve("mounted:other/u", second).await.unwrap());
    assert!(!all.is_approved(&pin, second).await.unwrap());
    assert!(all.approve(&pin, second).await.unwrap());
    assert!(all.is_approved(&pin, second).await.unwrap());
    assert_eq!(all.changed().await.unwrap(), []);
    assert_eq!(text(first).await.unwrap(), None);
    // What was good once is another change.
    let standing = all.compare(shown("t", "harmless")).await.unwrap();
    assert_eq!(standing, Standing::Changed { approved: second });
}

/// A tool that is again what it was waits for nobody, and of several changes the last one waits.
#[tokio::test]
async fn only_the_last_change_waits() {
    let all = definitions();
    for text in ["a", "b", "c"] {
        all.compare(shown("t", text)).await.unwrap();
    }
    let offered: Vec<Digest> = all
        .changed()
        .await
        .unwrap()
        .iter()
        .map(|it| it.offered)
        .collect();
    assert_eq!(offered, [Digest::of(b"c")]);
    let pin = pin(SOURCE, "t");
    assert_eq!(all.text(&pin, Digest::of(b"b")).await.unwrap(), None);
    assert!(!all.approve(&pin, Digest::of(b"b")).await.unwrap());
    let standing = all.compare(shown("t", "a")).await.unwrap();
    assert_eq!(standing, Standing::Approved);
    assert_eq!(all.changed().await.unwrap(), []);
    assert_eq!(all.text(&pin, Digest::of(b"c")).await.unwrap(), None);
}

#[tokio::test]
async fn a_source_has_so_many_tools() {
    let store = Store::new(Memory::new(Limits::default()));
    let all = Definitions::new(&store).unwrap();
    let numbered = |number: usize| format!("t{number}");
    for number in 0..MAX_PINNED - 1 {
        all.compare(shown(&numbered(number), "x")).await.unwrap();
    }
    // Another process counts those of the one before it.
    let all = Definitions::new(&store).unwrap();
    let last = all.compare(shown("last", "x")).await.unwrap();
    assert_eq!(last, Standing::Approved);
    let past = all.compare(shown("past", "x")).await.unwrap();
    assert_eq!(past, Standing::TooMany);
    // Those that are known are served, and other sources have their own.
    let known = all.compare(shown("t0", "x")).await.unwrap();
    assert_eq!(known, Standing::Approved);
    let other = Shown {
        source: "mounted:othe",
        ..shown("t", "x")
    };
    assert_eq!(all.compare(other).await.unwrap(), Standing::Approved);
}

#[tokio::test]
async fn large_definitions_are_pinned_without_their_text() {
    let all = definitions();
    for (name, size, kept) in [("at", MAX_TEXT, true), ("past", MAX_TEXT + 1, false)] {
        let text = "x".repeat(size);
        all.compare(shown(name, &text)).await.unwrap();
        let pin = pin(SOURCE, name);
        let found = all.text(&pin, Digest::of(text.as_bytes())).await;
        assert_eq!(found.unwrap().is_some(), kept);
        let standing = all.compare(shown(name, "y")).await.unwrap();
        assert!(matches!(standing, Standing::Changed { .. }));
    }
}
