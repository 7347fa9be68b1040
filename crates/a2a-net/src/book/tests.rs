use a2a_identity::{DidKey, Pins, SigningKey};

use super::*;

fn did(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed)))
}

fn key(seed: u8) -> VerifyingKey {
    SigningKey::from_seed(&[seed; 32]).verifying_key()
}

fn peer(seed: u8) -> Peer {
    Peer {
        url: format!("https://127.0.0.1:{seed}/a2a/handshake"),
        did: did(seed),
    }
}

fn anchor(seed: u8) -> TrustAnchor {
    TrustAnchor {
        did: did(seed),
        public_key: Some(key(seed)),
        min_trust_level: TrustLevel::Delegated,
    }
}

fn pin(text: &str) -> Pin {
    Pin {
        manifest: Some(Digest::of(text.as_bytes())),
        ..Pin::default()
    }
}

/// A book with one of each.
fn book() -> Book {
    let mut book = Book::default();
    book.add_peer("bob", peer(1)).unwrap();
    book.add_anchor("acme", anchor(2)).unwrap();
    let made_for_bob = Pin {
        peer: Some("bob".to_owned()),
        signed_at: Some(1_770_000_000),
        ..pin("bob's")
    };
    book.pin(&did(1), made_for_bob).unwrap();
    let why = Block {
        reason: "it sends nonsense".to_owned(),
        since: Some(5),
    };
    book.block(&did(3), why).unwrap();
    book
}

#[test]
fn a_book_is_read_as_it_was_written() {
    for book in [Book::default(), book()] {
        let text = serde_json::to_vec(&book).unwrap();
        assert_eq!(Book::parse(&text).unwrap(), book);
    }
}

#[test]
fn a_book_that_no_command_wrote_is_refused() {
    let good = serde_json::to_value(book()).unwrap();
    let changes: [fn(&mut serde_json::Value); 10] = [
        |it| it["peers"]["b b"] = it["peers"]["bob"].clone(),
        |it| it["peers"]["bob"]["url"] = "http://x/y".into(),
        |it| it["peers"]["bob"]["did"] = "did:key:zzz".into(),
        |it| it["peers"]["bob"]["more"] = 1.into(),
        |it| it["anchors"]["acme"]["min_trust_level"] = "best".into(),
        |it| it["anchors"]["acme"]["public_key"] = "AAAA".into(),
        |it| it["pins"]["did:web:Example.com"] = it["pins"][did(1).to_string()].clone(),
        |it| it["pins"][did(1).to_string()]["manifest"] = serde_json::Value::Null,
        |it| it["blocked"][did(3).to_string()]["reason"] = "\u{1b}[2J".into(),
        |it| drop(it.as_object_mut().unwrap().remove("peers")),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        let read = Book::parse(bad.to_string().as_bytes());
        assert!(read.is_err(), "change {number}: {read:?}");
    }
    assert!(Book::parse(b"{").is_err());
}

#[test]
fn names_are_given_once() {
    let mut book = book();
    let error = book.add_peer("bob", peer(4)).unwrap_err().to_string();
    assert_eq!(error, "there is a peer `bob` already; remove it first");
    assert!(book.add_anchor("acme", anchor(4)).is_err());
    let error = book.remove_peer("eve").unwrap_err().to_string();
    assert!(error.contains("`frith peer list` shows"), "{error}");
    assert!(book.remove_anchor("eve").is_err());
    assert!(book.unpin(&did(9)).is_err() && book.unblock(&did(9)).is_err());
}

#[test]
fn limits_hold() {
    let mut book = Book::default();
    let longest = "n".repeat(MAX_NAME);
    book.add_peer(&longest, peer(1)).unwrap();
    for name in [
        format!("{longest}n"),
        String::new(),
        "a b".into(),
        "ä".into(),
    ] {
        let refused = book.add_peer(&name, peer(1));
        assert!(matches!(refused, Err(BookError::BadName(_))), "{name}");
    }
    for url in [
        "http://a/b",
        "https://a",
        "https://a/",
        "https://u@a/b",
        &format!("https://a/{}", "b".repeat(2039)),
    ] {
        let (url, did) = (url.to_owned(), did(1));
        let refused = book.add_peer("x", Peer { url, did });
        assert!(
            matches!(refused, Err(BookError::BadUrl { .. })),
            "{refused:?}"
        );
    }
    let url = format!("https://a/{}", "b".repeat(2038));
    book.add_peer("x", Peer { url, did: did(1) }).unwrap();
    let because = |length| Block {
        reason: "r".repeat(length),
        since: None,
    };
    book.block(&did(1), because(MAX_REASON)).unwrap();
    let refused = book.block(&did(1), because(MAX_REASON + 1));
    assert_eq!(refused, Err(BookError::BadReason));
    let with = |count| Pin {
        keys: vec![Digest::of(b"k"); count],
        ..Pin::default()
    };
    book.pin(&did(1), with(MAX_KEYS)).unwrap();
    for count in [0, MAX_KEYS + 1] {
        assert_eq!(book.pin(&did(1), with(count)), Err(BookError::BadPin));
    }
}

#[test]
fn a_full_book_takes_no_more() {
    let mut book = Book::default();
    for number in 0..MAX_ENTRIES {
        book.add_peer(&number.to_string(), peer(1)).unwrap();
        let did = format!("did:web:{number}.example.com").parse().unwrap();
        book.block(&did, Block::default()).unwrap();
    }
    assert_eq!(book.add_peer("more", peer(1)), Err(BookError::Full));
    assert_eq!(book.block(&did(1), Block::default()), Err(BookError::Full));
    // What is there can still be said again.
    let known = "did:web:0.example.com".parse().unwrap();
    book.block(&known, Block::default()).unwrap();
    assert_eq!(Book::parse(&serde_json::to_vec(&book).unwrap()), Ok(book));
}

#[test]
fn the_pin_of_a_peer_goes_with_it() {
    let mut book = book();
    book.pin(&did(7), pin("by hand")).unwrap();
    book.add_peer("carol", peer(7)).unwrap();
    book.remove_peer("bob").unwrap();
    book.remove_peer("carol").unwrap();
    assert_eq!(
        book.pins().keys().collect::<Vec<_>>(),
        [&did(7).to_string()],
        "the operator's own stays"
    );
}

/// Or whoever takes a second name back would let the agent show anything under its first.
#[test]
fn the_pin_stays_with_the_other_name_of_a_peer() {
    let mut book = book();
    book.add_peer("robert", peer(1)).unwrap();
    book.remove_peer("bob").unwrap();
    let kept = Pin {
        peer: Some("robert".to_owned()),
        signed_at: Some(1_770_000_000),
        ..pin("bob's")
    };
    assert_eq!(book.pins().get(&did(1).to_string()), Some(&kept));
    book.remove_peer("robert").unwrap();
    assert!(book.pins().is_empty());
}

#[test]
fn the_configuration_is_right() {
    let mut configured = Book::default();
    configured.add_anchor("acme", anchor(8)).unwrap();
    configured.pin(&did(1), pin("configured")).unwrap();
    configured.block(&did(9), Block::default()).unwrap();
    let books = Books::new(configured.clone(), Book::default());
    books.store(book());
    let pages = books.pages();
    assert_eq!(
        pages.place_of(&did(1)),
        Some("https://127.0.0.1:1/a2a/handshake")
    );
    assert_eq!(pages.peer("bob").map(|peer| &peer.did), Some(&did(1)));
    assert_eq!(pages.place_of(&did(2)), None);
    let anchors = pages.anchors();
    assert_eq!(anchors.len(), 1, "one name, one anchor");
    assert_eq!(anchors[0].did, did(8));
    let pinned = pages.pins(&did(1)).manifest;
    assert_eq!(pinned, Some(Digest::of(b"configured")));
    assert_eq!(pages.pins(&did(2)), Pins::default());
    assert!([3, 9].iter().all(|seed| pages.is_blocked(&did(*seed))));
    assert!(!pages.is_blocked(&did(1)));
    // What someone has in hand does not change under it.
    books.configure(Book::default());
    assert!(!books.pages().is_blocked(&did(9)) && pages.is_blocked(&did(9)));
    assert_eq!(
        books.pages().pins(&did(1)).manifest,
        Some(Digest::of(b"bob's"))
    );
}
