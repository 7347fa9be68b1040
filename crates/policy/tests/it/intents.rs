//! Profile §11.3: names of intents and patterns for them.

use policy::{IntentList, IntentName, IntentPattern, IntentRefused, limits};
use serde_json::json;

use crate::{name, server};

#[test]
fn vectors_intent_match() {
    let vectors = testkit::vectors("a2a/a2a-vectors.json");
    let cases = vectors["intent_match"].as_array().unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        let text = |member: &str| case[member].as_str().unwrap();
        let pattern = IntentPattern::parse(text("pattern")).unwrap();
        let name = IntentName::of(text("domain"), text("goal")).unwrap();
        assert_eq!(name.base(), text("name"), "{case}");
        assert_eq!(name.version(), case["version"].as_str(), "{case}");
        for (list, member) in [
            (IntentList::Allowed, "allow_match"),
            (IntentList::Blocked, "block_match"),
        ] {
            let expected = case[member].as_bool().unwrap();
            assert_eq!(pattern.matches(&name, list), expected, "{case}, {list:?}");
        }
    }
}

/// §11.3: "shifting text between domain and goal changes nothing".
/// Proves A-2-9, A-10-7.
#[test]
fn domain_and_goal_make_one_name() {
    for (domain, goal) in [
        ("nlp", "translate.v2"),
        ("", "nlp.translate.v2"),
        ("NLP", "nlp.Translate.V2"),
        ("nlp.translate", "v2"),
        ("nlp.translate", "nlp.translate.v2"),
    ] {
        let name = IntentName::of(domain, goal).unwrap();
        assert_eq!(name.as_str(), "nlp.translate.v2", "{domain} + {goal}");
        assert_eq!(name.base(), "nlp.translate");
    }
    // A domain that only looks like the beginning of the goal is still a domain.
    assert_eq!(
        IntentName::of("nlp", "nlpx.a").unwrap().as_str(),
        "nlp.nlpx.a"
    );
    assert_eq!(IntentName::of("nlp", "nlp").unwrap().as_str(), "nlp.nlp");
}

/// §11.3: a version needs another label before it, and stands alone.
/// Proves A-10-8, A-10-9.
#[test]
fn versions() {
    let parts = |text: &str| {
        let name = name(text);
        (name.base().to_owned(), name.version().map(str::to_owned))
    };
    assert_eq!(parts("v2"), ("v2".into(), None));
    assert_eq!(parts("a.v2"), ("a".into(), Some("v2".into())));
    assert_eq!(parts("a.v2.b"), ("a.v2.b".into(), None));
    assert_eq!(parts("a.v"), ("a.v".into(), None));
    assert_eq!(parts("a.v2x"), ("a.v2x".into(), None));
    assert_eq!(parts("v1.v2"), ("v1".into(), Some("v2".into())));
    assert!(IntentName::parse("a.v1.v2").is_err());
    assert!(IntentName::of("a.v1", "v2").is_err());
}

#[test]
fn lengths_at_the_limit_and_past_it() {
    let label = "a".repeat(limits::LABEL);
    assert!(IntentName::of("", &label).is_ok());
    assert!(IntentName::of("", &format!("{label}a")).is_err());
    let long = |letter: char, bytes: usize| -> String {
        let dotted = |at: usize| if at % 50 == 49 { '.' } else { letter };
        (1..bytes).map(dotted).chain([letter]).collect()
    };
    assert!(IntentName::of("", &long('a', limits::INTENT)).is_ok());
    assert!(IntentName::of("", &long('a', limits::INTENT + 1)).is_err());
    assert!(IntentPattern::parse(&long('a', limits::INTENT)).is_ok());
    assert!(IntentPattern::parse(&long('a', limits::INTENT + 1)).is_err());
    // Each is short enough; with the dot between them both together may not be.
    assert!(IntentName::of(&long('a', 128), &long('b', 127)).is_ok());
    assert!(IntentName::of(&long('a', 128), &long('b', 128)).is_err());
}

/// What is malformed is named: `INVALID_INTENT` with its field.
#[test]
fn the_malformed_member_is_named() {
    let place = |domain: &str, goal: &str| IntentName::of(domain, goal).unwrap_err().place;
    assert_eq!(place("n lp", "translate"), "domain");
    assert_eq!(place("nlp", "translate."), "goal");
    assert_eq!(place("nlp", ""), "goal");
    assert_eq!(
        IntentName::of(".", "a").unwrap_err().to_string(),
        "`domain` must be labels of 1 to 63 letters, digits, `_` and `-`, joined by dots"
    );
}

#[test]
fn patterns_that_are_none() {
    for text in [
        "", "a*", "*.a", "a.*.b", "**", ".*", "*.*", "a.**", "a b", "a..b", "a.v1.v2",
    ] {
        assert!(IntentPattern::parse(text).is_err(), "{text}");
    }
    assert_eq!(IntentPattern::parse("NLP.*").unwrap().as_str(), "nlp.*");
}

/// Threat 103: no way to write `delete_database` gets around a block list.
#[test]
fn threat_103_block_list_evasion() {
    let policy = server(&json!({"blocked_intents": ["delete_database"]}));
    for (domain, goal) in [
        ("", "delete_database"),
        ("", "DELETE_DATABASE"),
        ("db", "Delete_Database"),
        ("DB", "delete_database"),
        ("", "db.delete_database"),
        ("db", "db.delete_database"),
        ("db", "delete_database.v2"),
        ("db.delete_database", "v2"),
        ("com.example.db", "delete_database"),
    ] {
        let name = IntentName::of(domain, goal).unwrap();
        let outcome = policy.check_intent(&name, None);
        assert_eq!(outcome, Err(IntentRefused::Blocked), "{domain} + {goal}");
    }
    for (domain, goal) in [
        ("db", "delete_database."),
        ("db", ".delete_database"),
        ("db", " delete_database"),
        ("db", "delete_database "),
        ("db", "delete_d\u{430}tabase"),
        ("db", "delete%5fdatabase"),
        ("db", "delete_database\0"),
        ("db\0", "delete_database"),
        ("db.", "delete_database"),
        ("db", "delete_database.v1.v2"),
    ] {
        assert!(IntentName::of(domain, goal).is_err(), "{domain} + {goal}");
    }
}

/// Threat 104: a request without a version leads to a version that is blocked or not allowed.
#[test]
fn threat_104_the_resolved_version_counts() {
    let offered = [name("nlp.translate.v1"), name("nlp.translate.v2")];
    let requested = name("nlp.translate");
    let handler = requested.resolve(&offered);
    assert_eq!(handler, Some(&offered[1]));

    let blocked = server(&json!({"blocked_intents": ["nlp.translate.v2"]}));
    assert_eq!(blocked.check_intent(&requested, None), Ok(()));
    assert_eq!(
        blocked.check_intent(&requested, handler),
        Err(IntentRefused::Blocked)
    );
    let allowed = server(&json!({"allowed_intents": ["nlp.translate.v1"]}));
    assert_eq!(
        allowed.check_intent(&requested, handler),
        Err(IntentRefused::NotAllowed)
    );
    let first = name("nlp.translate.v1");
    assert_eq!(
        allowed.check_intent(&first, first.resolve(&offered)),
        Ok(())
    );
    // The other way round: the name requested is blocked, the handler's is not.
    let other = name("nlp.interpret.v1");
    let aliased = server(&json!({"blocked_intents": ["translate"]}));
    assert_eq!(
        aliased.check_intent(&requested, Some(&other)),
        Err(IntentRefused::Blocked)
    );
}

/// §11.3: "exact base and version; without version the highest offered one".
#[test]
fn dispatch() {
    let offered = ["a.v2", "a.v10", "a", "b", "a.b.v99"].map(name);
    assert_eq!(name("a").resolve(&offered), Some(&name("a.v10")));
    assert_eq!(name("a.v2").resolve(&offered), Some(&name("a.v2")));
    assert_eq!(name("a.v3").resolve(&offered), None);
    assert_eq!(name("a.v02").resolve(&offered), None);
    assert_eq!(name("b").resolve(&offered), Some(&name("b")));
    assert_eq!(name("b.v1").resolve(&offered), None);
    assert_eq!(name("c").resolve(&offered), None);
}
