use super::*;
use crate::{Limits, Raw};

fn cursor(text: &str) -> Cursor<'_> {
    Cursor::new(crate::Scanner::new(Limits::default()).scan(text).unwrap())
}

#[test]
fn reads_what_it_is_asked_for_and_stays_otherwise() {
    let mut at = cursor(r#"[ 1 , "two", true ,null, {"k" : [ ] , "l":-2.5e1} ]"#);
    let mut elements = at.begin_array().unwrap();
    at.next_element(&mut elements).unwrap();
    assert_eq!(at.string(), None);
    assert_eq!(at.number(), Some("1"));
    at.next_element(&mut elements).unwrap();
    assert_eq!(at.number(), None);
    assert_eq!(at.string().as_deref(), Some("two"));
    at.next_element(&mut elements).unwrap();
    assert_eq!(at.bool(), Some(true));
    at.next_element(&mut elements).unwrap();
    assert!(at.null());
    at.next_element(&mut elements).unwrap();
    assert_eq!(at.kind(), Kind::Object);
    let mut members = at.begin_object().unwrap();
    assert_eq!(at.next_member(&mut members).as_deref(), Some("k"));
    assert_eq!(at.raw().as_str(), "[ ]");
    assert_eq!(at.next_member(&mut members).as_deref(), Some("l"));
    assert_eq!(at.number(), Some("-2.5e1"));
    assert_eq!(at.next_member(&mut members), None);
    assert_eq!(at.next_element(&mut elements), None);
}

#[test]
fn skips_whole_values() {
    let mut at = cursor(r#"[{"a":["]",{"b":"}"}]},1.5e+3,"x\"y",7]"#);
    let mut elements = at.begin_array().unwrap();
    for _ in 0..3 {
        at.next_element(&mut elements).unwrap();
        at.skip();
    }
    at.next_element(&mut elements).unwrap();
    assert_eq!(at.number(), Some("7"));
}

#[test]
fn strings_are_borrowed_unless_escaped() {
    assert!(matches!(
        cursor("\"plain é\"").string(),
        Some(Cow::Borrowed("plain é"))
    ));
    let escaped = cursor(r#""\u00e9\n\ud83d\ude00\/""#).string().unwrap();
    assert_eq!(escaped, "é\n😀/");
}

#[test]
fn raw_values_compare_by_their_compact_form() {
    let limits = Limits::default();
    let loose = Raw::parse(r#"{ "a" : [ 1, " x" ] }"#, limits).unwrap();
    let tight = Raw::parse(r#"{"a":[1," x"]}"#, limits).unwrap();
    let other = Raw::parse(r#"{"a":[1,"x"]}"#, limits).unwrap();
    assert_eq!(loose, tight);
    assert_ne!(loose, other);
}

#[test]
fn raw_values_go_through_serde() {
    let raw = Raw::from_serialize(&vec![Some(1), None]).unwrap();
    assert_eq!(raw.as_str(), "[1,null]");
    assert_eq!(
        raw.deserialize::<Vec<Option<i32>>>().unwrap(),
        [Some(1), None]
    );
}
