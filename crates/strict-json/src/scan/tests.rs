use proptest::prelude::*;

use super::*;
use crate::Integers;
use crate::walk::PAIRWISE;

fn scan(text: &str) -> Result<(), FaultKind> {
    scan_with(text, Limits::default())
}

fn scan_with(text: &str, limits: Limits) -> Result<(), FaultKind> {
    Scanner::new(limits)
        .scan(text)
        .map(drop)
        .map_err(|fault| fault.kind)
}

#[test]
fn takes_every_kind_of_value() {
    for text in [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.5e-7",
        "\"\"",
        "[]",
        "{}",
        " [ 1 , { \"a\" : [ ] } ] ",
        r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#,
    ] {
        assert_eq!(scan(text), Ok(()), "{text}");
    }
}

#[test]
fn refuses_what_is_not_json() {
    for text in [
        "",
        " ",
        "nul",
        "nulL",
        "tru",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "-",
        "NaN",
        "'a'",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\u{1}\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "[1}",
        "{\"a\":1]",
        "1 2",
        "{} x",
        "\u{feff}{}",
        "]",
        "{\"a\" 1}",
        "[1 2]",
        "\0",
    ] {
        let fault = scan(text).unwrap_err();
        assert!(fault.breaks_grammar(), "{text}: {fault}");
    }
}

#[test]
fn finds_duplicates_at_any_depth_and_in_any_spelling() {
    for (text, name) in [
        (r#"{"a":1,"a":2}"#, "a"),
        (r#"{"a":1,"\u0061":2}"#, "a"),
        (r#"{"\u0061":1,"a":2}"#, "a"),
        (r#"[{"x":[{"b":{},"c":0,"b":[]}]}]"#, "b"),
        (r#"{"":1,"":2}"#, ""),
        (r#"{"\ud83d\ude00":1,"😀":2}"#, "😀"),
    ] {
        assert_eq!(
            scan(text),
            Err(FaultKind::DuplicateName(name.into())),
            "{text}"
        );
    }
    assert_eq!(scan(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#), Ok(()));
}

#[test]
fn finds_duplicates_in_large_objects() {
    for count in [PAIRWISE - 1, PAIRWISE, PAIRWISE + 1, 1000] {
        let names: Vec<String> = (0..count).map(|n| format!("\"k{n}\":0")).collect();
        assert_eq!(scan(&format!("{{{}}}", names.join(","))), Ok(()));
        let twice = format!("{{{},\"\\u006b3\":1}}", names.join(","));
        assert_eq!(scan(&twice), Err(FaultKind::DuplicateName("k3".into())));
    }
}

#[test]
fn a_fault_in_the_grammar_wins_over_an_earlier_duplicate() {
    assert_eq!(scan(r#"{"a":1,"a":2"#), Err(FaultKind::Incomplete));
}

#[test]
fn lone_surrogates_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#"{"\ud800x":1}"#,
    ] {
        assert_eq!(scan(text), Err(FaultKind::LoneSurrogate), "{text}");
    }
}

#[test]
fn depth_at_the_limit_and_past_it() {
    let limits = Limits {
        depth: 3,
        ..Limits::default()
    };
    assert_eq!(scan_with(r#"[{"a":[1]}]"#, limits), Ok(()));
    assert_eq!(scan_with("[[[]]]", limits), Ok(()));
    assert_eq!(
        scan_with(r#"[{"a":[[]]}]"#, limits),
        Err(FaultKind::TooDeep(3))
    );
    let deep = "[".repeat(5_000_000);
    assert_eq!(scan(&deep), Err(FaultKind::TooDeep(64)));
}

#[test]
fn values_at_the_limit_and_past_it() {
    let limits = Limits {
        values: 4,
        ..Limits::default()
    };
    assert_eq!(scan_with("[1,2,3]", limits), Ok(()));
    assert_eq!(
        scan_with("[1,2,[3]]", limits),
        Err(FaultKind::TooManyValues(4))
    );
}

#[test]
fn numbers_at_the_limits_and_past_them() {
    let exact = Limits {
        integers: Integers::Exact,
        ..Limits::default()
    };
    for (text, any, strict) in [
        ("9007199254740991", Ok(()), Ok(())),
        ("-9007199254740991", Ok(()), Ok(())),
        ("9007199254740992", Ok(()), Err(FaultKind::InexactInteger)),
        ("-9007199254740992", Ok(()), Err(FaultKind::InexactInteger)),
        (
            "99999999999999999999",
            Ok(()),
            Err(FaultKind::InexactInteger),
        ),
        ("9007199254740992.0", Ok(()), Ok(())),
        ("1.7976931348623157e308", Ok(()), Ok(())),
        (
            "1e309",
            Err(FaultKind::NumberOverflow),
            Err(FaultKind::NumberOverflow),
        ),
        ("1e-400", Ok(()), Ok(())),
    ] {
        assert_eq!(scan(text), any, "{text}");
        assert_eq!(scan_with(text, exact), strict, "{text}");
    }
    let huge = "9".repeat(310);
    assert_eq!(scan(&huge), Err(FaultKind::NumberOverflow));
}

#[test]
fn members_of_the_outermost_object_are_remembered() {
    let text = r#" {"a":{"x":1}, "\u0062" : [ 1 ] ,"c":"s"} "#;
    let mut scanner = Scanner::default();
    scanner.scan(text).unwrap();
    let members: Vec<_> = scanner
        .members(text)
        .map(|member| (member.name().into_owned(), member.value()))
        .collect();
    let shown: Vec<_> = members
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str(), value.is_compact()))
        .collect();
    assert_eq!(
        shown,
        [
            ("a", r#"{"x":1}"#, true),
            ("b", "[ 1 ]", false),
            ("c", "\"s\"", true)
        ]
    );
    scanner.scan("[1]").unwrap();
    assert_eq!(scanner.members("[1]").count(), 0);
}

/// A refused text may say who sent it, but none of it counts as checked.
#[test]
fn behind_a_fault_only_plain_strings_are_shown() {
    let text = r#"{"first":[1],"a":{"b":1,"b":2},"c":[3],"id":"x","d":"\ud800"}"#;
    let mut scanner = Scanner::default();
    let mut shown = Vec::new();
    let visit = |member: &Member<'_>| {
        shown.push(member.name().into_owned());
        Remember::Yes
    };
    scanner.scan_with(text, visit).unwrap_err();
    assert_eq!(shown, ["first", "id"]);
    assert_eq!(scanner.members(text).count(), 0);
}

#[test]
fn names_that_serde_json_reads_otherwise_are_refused() {
    for text in [
        r#"{"args":{"$serde_json::private::RawValue":"[1]"}}"#,
        r#"{"\u0024serde_json::private::RawValue":"{\"x\":1,\"x\":2}"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
    ] {
        assert_eq!(scan(text), Err(FaultKind::ReservedName), "{text}");
    }
    assert_eq!(scan(r#"{"$ref":1,"$":2,"$serde_json":3}"#), Ok(()));
}

#[test]
fn depth_is_capped_whatever_is_asked_for() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let limits = Limits {
        depth: usize::MAX,
        ..Limits::default()
    };
    let deepest = nested(Limits::MAX_DEPTH);
    assert_eq!(scan_with(&deepest, limits), Ok(()));
    assert!(serde_json::from_str::<serde_json::Value>(&deepest).is_ok());
    assert_eq!(
        scan_with(&nested(Limits::MAX_DEPTH + 1), limits),
        Err(FaultKind::TooDeep(Limits::MAX_DEPTH))
    );
}

#[test]
fn the_shipped_limit_of_values() {
    let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
    let limit = Limits::default().values;
    assert_eq!(scan(&list(limit)), Ok(()));
    assert_eq!(scan(&list(limit + 1)), Err(FaultKind::TooManyValues(limit)));
}

#[test]
fn escaped_names_in_a_large_object() {
    let names: Vec<String> = (0..1000).map(|n| format!("\"\\u006b{n}\":0")).collect();
    assert_eq!(scan(&format!("{{{}}}", names.join(","))), Ok(()));
    let twice = format!("{{{},\"k7\":1}}", names.join(","));
    assert_eq!(scan(&twice), Err(FaultKind::DuplicateName("k7".into())));
}

#[test]
fn scratch_space_does_not_stay_large() {
    let names: Vec<String> = (0..50_000).map(|n| format!("\"\\u006b{n}\":0")).collect();
    let mut scanner = Scanner::default();
    scanner.scan(&format!("{{{}}}", names.join(","))).unwrap();
    scanner.scan("{}").unwrap();
    assert!(scanner.keys.capacity() <= KEPT);
    assert!(scanner.members.capacity() <= KEPT);
    assert!(scanner.unescaped.capacity() <= KEPT);
}

proptest! {
    #[test]
    fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9a-e\\u .tnrl-]{0,40}"#) {
        crate::fuzzing::strict_json(text.as_bytes());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::strict_json(&bytes);
    }
}
