use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn request(text: &str) -> Vec<u8> {
    format!(r#"{{"a2e":"1.0","ts":1,"type":"tool/call/req","id":"1","arguments":{text}}}"#).into()
}

fn key(ledger: &Ledger, id: &str) -> Key {
    Key {
        hash: ledger.hashes.hash_one(id),
        id: id.into(),
    }
}

fn begin(ledger: &Arc<Ledger>, now: Duration, id: &str, line: Vec<u8>) -> Begun {
    ledger.begin(now, &id.to_owned().into(), line.into())
}

#[tokio::test]
async fn a_request_that_was_answered_gets_its_answer() {
    let ledger = Arc::new(Ledger::default());
    assert!(matches!(
        begin(&ledger, SECOND, "1", request("{}")),
        Begun::New(_)
    ));
    ledger.event(&key(&ledger, "1"), b"event");
    ledger.finish(SECOND, &key(&ledger, "1"), b"answer");
    let Begun::Again(mut follow) = begin(&ledger, SECOND, "1", request("{}")) else {
        panic!()
    };
    assert_eq!(follow.next().await, Some(Piece::Event(Line::new(b"event"))));
    assert_eq!(
        follow.next().await,
        Some(Piece::Answer(Line::new(b"answer")))
    );
}

#[tokio::test]
async fn one_that_still_runs_is_joined() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request("{}"));
    let Begun::Again(mut follow) = begin(&ledger, SECOND, "1", request("{}")) else {
        panic!()
    };
    let later = Arc::clone(&ledger);
    let (piece, ()) = tokio::join!(follow.next(), async move {
        later.event(&key(&later, "1"), b"event");
    });
    assert_eq!(piece, Some(Piece::Event(Line::new(b"event"))));
    ledger.forget(&key(&ledger, "1"));
    assert_eq!(follow.next().await, None, "it was given up");
    assert!(matches!(
        begin(&ledger, SECOND, "1", request("{}")),
        Begun::New(_)
    ));
}

#[test]
fn what_each_sending_changes_does_not_count() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request(r#"{"a":1,"b":[2.0]}"#));
    let again = br#"{"ts":2,"session_id":"x","arguments":{"b":[2],"a":1e0},"id":"1","type":"tool/call/req"}"#;
    assert!(matches!(
        begin(&ledger, SECOND, "1", again.to_vec()),
        Begun::Again(_)
    ));
    for other in [
        r#"{"a":2,"b":[2]}"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":[2],"c":0}"#,
    ] {
        assert!(
            matches!(begin(&ledger, SECOND, "1", request(other)), Begun::Reused),
            "{other}"
        );
    }
    assert!(matches!(
        begin(&ledger, SECOND, "2", request("{}")),
        Begun::New(_)
    ));
}

/// Doubles cannot tell these apart, so nobody may take one for the other.
#[test]
fn great_numbers_are_not_mistaken_for_one_another() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request("{\"n\":9007199254740992}"));
    let other = request("{\"n\":9007199254740993}");
    assert!(matches!(begin(&ledger, SECOND, "1", other), Begun::Reused));
    let same = request("{\"n\":9007199254740992}");
    assert!(matches!(begin(&ledger, SECOND, "1", same), Begun::Again(_)));
}

#[test]
fn ten_minutes() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request("{}"));
    ledger.finish(SECOND, &key(&ledger, "1"), b"answer");
    let late = SECOND + KEPT - Duration::from_nanos(1);
    assert!(matches!(
        begin(&ledger, late, "1", request("{}")),
        Begun::Again(_)
    ));
    assert!(matches!(
        begin(&ledger, SECOND + KEPT, "1", request("{}")),
        Begun::New(_)
    ));
}

/// Numbers of what was forgotten stay for a while; they are found neither as what they were nor as anything else, and
/// are not kept for ever.
#[test]
fn what_is_forgotten_is_not_found_however_many_come() {
    let ledger = Arc::new(Ledger::default());
    let count = 6 * MAX_ENTRIES;
    for number in 0..count {
        begin(&ledger, SECOND, &number.to_string(), request("{}"));
        let answer = format!("answer {number}");
        let key = key(&ledger, &number.to_string());
        ledger.finish(SECOND, &key, answer.as_bytes());
    }
    let entries = ledger.lock();
    assert_eq!(entries.done.len(), MAX_ENTRIES);
    assert!(entries.done.numbers() <= 4 * MAX_ENTRIES);
    for number in 0..count {
        let id = number.to_string();
        let found = entries.done.find(ledger.hashes.hash_one(&id), &id);
        let expected = (number >= count - MAX_ENTRIES).then(|| format!("answer {number}"));
        let answer = found.map(|found| found.answer());
        assert_eq!(answer, expected.as_ref().map(|it| it.as_bytes()), "{id}");
    }
}

#[test]
fn ten_thousand_and_64_mib() {
    let ledger = Arc::new(Ledger::default());
    for number in 0..=MAX_ENTRIES + 1 {
        begin(&ledger, SECOND, &number.to_string(), request("{}"));
        // The first is still worked on, and is not forgotten.
        if number > 0 {
            ledger.finish(SECOND, &key(&ledger, &number.to_string()), b"");
        }
    }
    let again = |id: &str| begin(&ledger, SECOND, id, request("{}"));
    assert!(
        matches!(again("1"), Begun::New(_)),
        "the oldest that was done went"
    );
    assert!(
        matches!(again("0"), Begun::Again(_)),
        "what is worked on stays"
    );
    assert!(matches!(again("2"), Begun::Again(_)), "the next is there");
    assert_eq!(ledger.lock().done.len(), MAX_ENTRIES);

    let ledger = Arc::new(Ledger::default());
    let answer = vec![b'x'; MAX_BYTES / 2 - request("{}").len() - 1];
    for id in ["a", "b"] {
        begin(&ledger, SECOND, id, request("{}"));
        ledger.finish(SECOND, &key(&ledger, id), &answer);
    }
    assert_eq!(ledger.lock().done.bytes(), MAX_BYTES);
    begin(&ledger, SECOND, "c", request("{}"));
    ledger.finish(SECOND, &key(&ledger, "c"), b"");
    let entries = ledger.lock();
    assert!(entries.done.bytes() < MAX_BYTES);
    assert_eq!(entries.done.len(), 2, "only what is too much went");
}

/// Whatever comes and goes, each id has what was last said of it, and memory is used again.
#[test]
fn what_is_remembered_is_what_was_said() {
    let mut done = Done::default();
    let mut last = HashMap::new();
    for number in 0..1000_usize {
        let id = (number % 170).to_string();
        let events: Vec<Line> = (0..number % 3)
            .map(|event| Line::new(&[b'a'; 7][event..]))
            .collect();
        let answer = vec![b'0' + (number % 10) as u8; number * 37 % 3000];
        let request = match number % 5 {
            0 => Asked::Content(&[7; 32]),
            _ => Asked::Line(id.as_bytes()),
        };
        let content = Content {
            id: &id,
            request,
            events: &events,
            answer: &answer,
        };
        done.push(SECOND, (number % 170) as u64 / 2, &content);
        last.insert(id.clone(), (number, number % 5 > 0, events, answer));
        while done.len() > 100 {
            done.forget_oldest();
        }
        let from = number.saturating_sub(99);
        for (id, (number, is_whole, events, answer)) in &last {
            let found = done.find(id.parse::<u64>().unwrap() / 2, id);
            assert_eq!(found.is_some(), *number >= from, "{id}");
            let Some(found) = found else { continue };
            match found.request() {
                Asked::Line(line) => assert_eq!((line, true), (id.as_bytes(), *is_whole)),
                Asked::Content(digest) => assert_eq!((digest, false), (&[7; 32][..], *is_whole)),
            }
            assert_eq!(found.answer(), answer);
            for (index, event) in events.iter().enumerate() {
                assert_eq!(found.event(index), Some(event.bytes()));
            }
            assert_eq!(found.event(events.len()), None);
        }
        if number > 200 {
            last.retain(|_, (number, ..)| *number >= from);
        }
    }
    while done.len() > 0 {
        done.forget_oldest();
    }
    assert_eq!(done.bytes(), 0);
}

/// Of a request of before a restart only the digest is known; that is enough to tell it from others.
#[tokio::test]
async fn a_request_of_before_a_restart() {
    let ledger = Arc::new(Ledger::default());
    let Begun::New(key) = begin(&ledger, SECOND, "1", request(r#"{"n":1}"#)) else {
        panic!()
    };
    let content = ledger.content(&key).unwrap();
    let next = Arc::new(Ledger::default());
    next.restore(SECOND, "1", content, b"answer");
    let Begun::Again(mut follow) = begin(&next, SECOND, "1", request(r#"{ "n": 1 }"#)) else {
        panic!()
    };
    assert_eq!(
        follow.next().await,
        Some(Piece::Answer(Line::new(b"answer")))
    );
    assert!(matches!(
        begin(&next, SECOND, "1", request(r#"{"n":2}"#)),
        Begun::Reused
    ));
    // What has no canonical form is not done again either, if it is the very same.
    let odd = request(r#"{"n":1e999}"#);
    let Begun::New(key) = begin(&ledger, SECOND, "2", odd.clone()) else {
        panic!()
    };
    next.restore(SECOND, "2", ledger.content(&key).unwrap(), b"answer");
    assert!(matches!(begin(&next, SECOND, "2", odd), Begun::Again(_)));
}

#[test]
fn agents_do_not_see_each_other() {
    let retries = Retries::default();
    begin(&retries.of("a"), SECOND, "1", request("{}"));
    assert!(matches!(
        begin(&retries.of("a"), SECOND, "1", request("{}")),
        Begun::Again(_)
    ));
    assert!(matches!(
        begin(&retries.of("b"), SECOND, "1", request("{}")),
        Begun::New(_)
    ));
}

/// A stream without an end is not remembered to its end; its answer is.
#[tokio::test]
async fn a_request_with_too_many_events() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request("{}"));
    let event = vec![b'e'; MAX_ENTRY / 4];
    for _ in 0..10 {
        ledger.event(&key(&ledger, "1"), &event);
    }
    ledger.finish(SECOND, &key(&ledger, "1"), b"answer");
    let Begun::Again(mut follow) = begin(&ledger, SECOND, "1", request("{}")) else {
        panic!()
    };
    for _ in 0..3 {
        assert!(matches!(follow.next().await, Some(Piece::Event(_))));
    }
    let answer = Piece::Answer(Line::new(b"answer"));
    assert_eq!(follow.next().await, Some(answer));
    assert!(ledger.lock().done.bytes() <= MAX_ENTRY + 10);
}
