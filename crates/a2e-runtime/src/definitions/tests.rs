use store::{Limits, Memory};

use super::*;

const SOURCE: &str = "remote_plugin:other";

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
        looks_like: None,
    };
    assert_eq!(all.changed().await.unwrap(), [waiting]);
    let text = |hash| all.text(&pin, hash);
    assert_eq!(text(first).await.unwrap().unwrap(), "harmless");
    assert_eq!(text(second).await.unwrap().unwrap(), "your keys");

    // What the operator has not seen is not approved.
    assert!(!all.approve(&pin, Digest::of(b"another")).await.unwrap());
    assert!(!all.approve("remote_plugin:other/u", second).await.unwrap());
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
        source: "remote_plugin:othe",
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

/// All tools of a source, by name; each says `x`.
async fn all(definitions: &Definitions, source: &str, names: &[&str]) -> Vec<Standing> {
    let shown = names.iter().map(|name| Shown {
        source,
        name,
        text: "x",
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    definitions.compare_all(&shown).await.unwrap()
}

#[tokio::test]
async fn what_a_known_source_adds_waits() {
    let store = Store::new(Memory::new(Limits::default()));
    let definitions = Definitions::new(&store).unwrap();
    assert!(!definitions.was_seen(SOURCE).await.unwrap());
    let (approved, new) = (Standing::Approved, Standing::New);
    assert_eq!(
        all(&definitions, SOURCE, &["a", "b"]).await,
        [approved, approved]
    );
    assert!(definitions.was_seen(SOURCE).await.unwrap());
    // Also for the next process, and as often as it is shown.
    let definitions = Definitions::new(&store).unwrap();
    for _ in 0..2 {
        assert_eq!(
            all(&definitions, SOURCE, &["c", "a"]).await,
            [new, approved]
        );
    }
    let waiting = definitions.changed().await.unwrap();
    let pins: Vec<&str> = waiting.iter().map(|it| &*it.pin).collect();
    assert_eq!(pins, ["remote_plugin:other/c"]);
    assert_eq!((waiting[0].approved, &waiting[0].looks_like), (None, &None));
    let text = definitions.text(pins[0], waiting[0].offered).await;
    assert_eq!(text.unwrap().unwrap(), "x");
    assert!(
        definitions
            .approve(pins[0], waiting[0].offered)
            .await
            .unwrap()
    );
    assert_eq!(all(&definitions, SOURCE, &["c"]).await, [approved]);
    // One that showed nothing at first has shown all it has.
    definitions.see("remote_plugin:empty").await.unwrap();
    assert_eq!(
        all(&definitions, "remote_plugin:empty", &["z"]).await,
        [new]
    );
}

#[tokio::test]
async fn what_could_be_taken_for_another_waits_at_first_sight() {
    let definitions = definitions();
    definitions.reserve("built-in", ["read_file"]);
    all(&definitions, "remote_plugin:first", &["search"]).await;
    let (approved, new) = (Standing::Approved, Standing::New);
    let names = [
        "Read-File",
        "read_file",
        "se\u{430}rch",
        "search",
        "find",
        "FIND",
    ];
    let standings = all(&definitions, SOURCE, &names).await;
    assert_eq!(standings, [new, new, new, new, approved, new]);
    let waiting = definitions.changed().await.unwrap();
    let likes = |name: &str| {
        let found = waiting.iter().find(|it| it.pin == pin(SOURCE, name));
        found.unwrap().looks_like.clone()
    };
    assert_eq!(likes("Read-File").unwrap(), "read_file (built-in)");
    assert_eq!(likes("read_file").unwrap(), "read_file (built-in)");
    assert_eq!(likes("search").unwrap(), "search (remote_plugin:first)");
    assert_eq!(likes("FIND").unwrap(), "find (remote_plugin:other)");
    assert_eq!(likes("se\u{430}rch"), None);
}

/// New names take room as others do, approved or not.
#[tokio::test]
async fn a_source_adds_no_more_than_it_may_have() {
    let definitions = definitions();
    let numbered: Vec<String> = (0..MAX_PINNED).map(|number| format!("t{number}")).collect();
    definitions.see(SOURCE).await.unwrap();
    let names: Vec<&str> = numbered.iter().map(|name| &**name).collect();
    let standings = all(&definitions, SOURCE, &names).await;
    assert!(standings.iter().all(|standing| *standing == Standing::New));
    assert_eq!(
        all(&definitions, SOURCE, &["past"]).await,
        [Standing::TooMany]
    );
    assert_eq!(all(&definitions, SOURCE, &["t0"]).await, [Standing::New]);
}

/// Shows tools of an agent's server, numbered; each says `x`.
async fn own(
    definitions: &Definitions,
    source: &str,
    numbers: std::ops::Range<usize>,
) -> Vec<Standing> {
    let names: Vec<String> = numbers.map(|number| format!("t{number}")).collect();
    let shown = names.iter().map(|name| Shown {
        source,
        name,
        text: "x",
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    let owner = source.split_inclusive('/').next().unwrap();
    definitions.compare_owned(owner, &shown).await.unwrap()
}

#[tokio::test]
async fn an_agent_has_a_share_and_its_own_make_room() {
    let store = Store::new(Memory::new(Limits::default()));
    let definitions = Definitions::new(&store).unwrap();
    let (approved, full) = (Standing::Approved, Standing::TooMany);
    let standings = own(&definitions, "mcp:a/one", 0..MAX_OWN_PINNED).await;
    assert!(standings.iter().all(|standing| *standing == approved));
    // One past it, of the same server and of another; what is known stays, and so do other agents.
    assert_eq!(
        own(
            &definitions,
            "mcp:a/one",
            MAX_OWN_PINNED..MAX_OWN_PINNED + 1
        )
        .await,
        [full]
    );
    assert_eq!(own(&definitions, "mcp:a/two", 0..1).await, [full]);
    assert_eq!(own(&definitions, "mcp:a/one", 0..1).await, [approved]);
    assert_eq!(own(&definitions, "mcp:ab/one", 0..1).await, [approved]);

    // What was released goes, no more of it than is needed.
    definitions.release("mcp:a/one").await;
    assert_eq!(own(&definitions, "mcp:a/two", 0..2).await, [approved; 2]);
    let left = definitions.approved("mcp:a/one").await.unwrap().len();
    assert_eq!(left, MAX_OWN_PINNED - 2);

    // So does what a process before has left, but nothing that this one was shown.
    let definitions = Definitions::new(&store).unwrap();
    assert_eq!(own(&definitions, "mcp:a/two", 0..2).await, [approved; 2]);
    let standings = own(&definitions, "mcp:a/three", 0..MAX_OWN_PINNED).await;
    let served = standings.iter().filter(|standing| **standing == approved);
    assert_eq!(served.count(), MAX_OWN_PINNED - 2);
    assert_eq!(definitions.approved("mcp:a/two").await.unwrap().len(), 2);
    assert_eq!(definitions.approved("mcp:ab/one").await.unwrap().len(), 1);
}

/// A server that is taken away and comes back otherwise is not new.
#[tokio::test]
async fn what_was_released_is_compared_while_there_is_room() {
    let definitions = definitions();
    let source = "mcp:a/one";
    let say = |text| Shown {
        source,
        name: "t",
        text,
    };
    let standings = definitions
        .compare_owned("mcp:a/", &[say("harmless")])
        .await;
    assert_eq!(standings.unwrap(), [Standing::Approved]);
    definitions.release(source).await;
    let standings = definitions
        .compare_owned("mcp:a/", &[say("your keys")])
        .await;
    let approved = Digest::of(b"harmless");
    assert_eq!(standings.unwrap(), [Standing::Changed { approved }]);
}

/// An agent may register a server under another name each time.
#[tokio::test]
async fn servers_of_an_agent_leave_one_entry_for_the_agent() {
    let definitions = definitions();
    for number in 0..100 {
        let source = format!("mcp:@eve/{number}");
        let shown = own(&definitions, &source, 0..1).await;
        assert_eq!(shown, [Standing::Approved]);
        definitions.release(&source).await;
    }
    let known = definitions.known.lock().await;
    assert_eq!(known.counts.len(), 1);
    assert!(known.held.is_empty());
}

/// An agent's own tools are seen by that agent alone, so no other source is taken for them, whatever the
/// agent has called its server.
#[tokio::test]
async fn names_of_an_agents_tools_quarantine_nothing_of_others() {
    let store = Store::new(Memory::new(Limits::default()));
    let definitions = Definitions::new(&store).unwrap();
    // Names that have been read are added to, others are read later.
    all(&definitions, "remote_plugin:first", &["other"]).await;
    for (server, tool) in [("-", "-__shout"), ("w", "w__ipe")] {
        let source = format!("mcp:@eve/{server}");
        let shown = Shown {
            source: &source,
            name: tool,
            text: "x",
        };
        let standings = definitions.compare_owned("mcp:@eve/", &[shown]).await;
        assert_eq!(standings.unwrap(), [Standing::Approved]);
    }
    for definitions in [definitions, Definitions::new(&store).unwrap()] {
        let source = format!(
            "remote_plugin:{}",
            definitions.known.lock().await.counts.len()
        );
        let standings = all(&definitions, &source, &["shout", "wipe"]).await;
        assert_eq!(standings, [Standing::Approved; 2], "{source}");
        for tool in ["shout", "wipe"] {
            store
                .pins(&PinKind::TOOL)
                .remove(&pin(&source, tool))
                .await
                .unwrap();
        }
    }
}
