use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn request(text: &str) -> Vec<u8> {
    format!(r#"{{"a2e":"1.0","ts":1,"type":"tool/call/req","id":"1","arguments":{text}}}"#).into()
}

fn begin(ledger: &Arc<Ledger>, now: Duration, id: &str, line: Vec<u8>) -> Begun {
    ledger.begin(now, &id.to_owned().into(), line.into())
}

#[tokio::test]
async fn a_request_that_was_answered_gets_its_answer() {
    let ledger = Arc::new(Ledger::default());
    assert!(matches!(
        begin(&ledger, SECOND, "1", request("{}")),
        Begun::New
    ));
    ledger.event(&"1".into(), b"event");
    ledger.finish(&"1".into(), b"answer");
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
        later.event(&"1".into(), b"event");
    });
    assert_eq!(piece, Some(Piece::Event(Line::new(b"event"))));
    ledger.forget(&"1".into());
    assert_eq!(follow.next().await, None, "it was given up");
    assert!(matches!(
        begin(&ledger, SECOND, "1", request("{}")),
        Begun::New
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
        Begun::New
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
    ledger.finish(&"1".into(), b"answer");
    let late = SECOND + KEPT - Duration::from_nanos(1);
    assert!(matches!(
        begin(&ledger, late, "1", request("{}")),
        Begun::Again(_)
    ));
    assert!(matches!(
        begin(&ledger, SECOND + KEPT, "1", request("{}")),
        Begun::New
    ));
}

#[test]
fn ten_thousand_and_64_mib() {
    let ledger = Arc::new(Ledger::default());
    for number in 0..MAX_ENTRIES {
        begin(&ledger, SECOND, &number.to_string(), request("{}"));
        // The first is still worked on, and is not forgotten.
        if number > 0 {
            ledger.finish(&number.to_string().into(), b"");
        }
    }
    let again = |id: &str| begin(&ledger, SECOND, id, request("{}"));
    assert!(
        matches!(again("1"), Begun::New),
        "the oldest that was done went"
    );
    assert!(
        matches!(again("0"), Begun::Again(_)),
        "what is worked on stays"
    );
    assert!(ledger.lock().entries.len() <= MAX_ENTRIES);

    let ledger = Arc::new(Ledger::default());
    for id in ["a", "b"] {
        begin(&ledger, SECOND, id, request("{}"));
    }
    ledger.finish(&"a".into(), &vec![b'x'; MAX_BYTES]);
    begin(&ledger, SECOND, "c", request("{}"));
    let entries = ledger.lock();
    assert!(entries.bytes < MAX_BYTES);
    assert_eq!(entries.entries.len(), 2, "only what is too much went");
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
        Begun::New
    ));
}

/// A stream without an end is not remembered to its end; its answer is.
#[tokio::test]
async fn a_request_with_too_many_events() {
    let ledger = Arc::new(Ledger::default());
    begin(&ledger, SECOND, "1", request("{}"));
    let event = vec![b'e'; MAX_ENTRY / 4];
    for _ in 0..10 {
        ledger.event(&"1".into(), &event);
    }
    ledger.finish(&"1".into(), b"answer");
    let Begun::Again(mut follow) = begin(&ledger, SECOND, "1", request("{}")) else {
        panic!()
    };
    for _ in 0..3 {
        assert!(matches!(follow.next().await, Some(Piece::Event(_))));
    }
    let answer = Piece::Answer(Line::new(b"answer"));
    assert_eq!(follow.next().await, Some(answer));
    assert!(ledger.lock().bytes <= MAX_ENTRY);
}
