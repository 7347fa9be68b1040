//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use serde_json::Value;

use crate::{Charset, Cursor, Kind, Limits, Scanner, utf8};

/// Any bytes: the scanner must agree with `serde_json` about the grammar, and the cursor about
/// every value; compacting must keep the value.
pub fn strict_json(bytes: &[u8]) {
    let limits = Limits::default();
    let foreign = serde_json::from_slice::<Value>(bytes);
    let mut scanner = Scanner::new(limits);
    let checked = match utf8(bytes).and_then(|text| scanner.scan(text)) {
        Ok(checked) => checked,
        Err(fault) => {
            assert!(
                foreign.is_err() || !fault.kind.breaks_grammar(),
                "serde_json takes what we call {fault}"
            );
            return;
        }
    };
    let Ok(foreign) = foreign else {
        panic!("serde_json refuses what we take: {checked:?}");
    };
    assert_eq!(tree(&mut Cursor::new(checked)), foreign);
    for charset in [Charset::Utf8, Charset::Ascii] {
        let mut compact = Vec::new();
        checked.push_to(&mut compact, charset);
        assert!(charset == Charset::Utf8 || compact.is_ascii());
        let Ok(again) = utf8(&compact).and_then(|text| scanner.scan(text)) else {
            panic!("compact form is not taken");
        };
        assert!(again.is_compact());
        assert_eq!(tree(&mut Cursor::new(again)), foreign);
    }
    check_members(&mut scanner, checked.as_str());
}

/// The members that the scanner remembers are those that a cursor finds.
fn check_members(scanner: &mut Scanner, text: &str) {
    let Ok(checked) = scanner.scan(text) else {
        panic!("a checked value is not taken again");
    };
    let mut cursor = Cursor::new(checked);
    let mut remembered = scanner.members(text);
    if let Some(mut members) = cursor.begin_object() {
        while let Some(name) = cursor.next_member(&mut members) {
            let value = cursor.raw();
            let Some(member) = remembered.next() else {
                panic!("member {name} was not remembered");
            };
            assert_eq!(
                (member.name(), member.value().as_str()),
                (name, value.as_str())
            );
        }
    }
    assert!(remembered.next().is_none());
}

fn tree(cursor: &mut Cursor<'_>) -> Value {
    match cursor.kind() {
        Kind::Null => {
            assert!(cursor.null());
            Value::Null
        }
        Kind::Bool => cursor.bool().map(Value::Bool).unwrap_or_default(),
        Kind::Number => cursor
            .number()
            .and_then(|literal| serde_json::from_str(literal).ok())
            .unwrap_or_default(),
        Kind::String => Value::String(cursor.string().unwrap_or_default().into_owned()),
        Kind::Array => {
            let mut list = Vec::new();
            if let Some(mut elements) = cursor.begin_array() {
                while cursor.next_element(&mut elements).is_some() {
                    list.push(tree(cursor));
                }
            }
            Value::Array(list)
        }
        Kind::Object => {
            let mut map = serde_json::Map::new();
            if let Some(mut members) = cursor.begin_object() {
                while let Some(name) = cursor.next_member(&mut members) {
                    let value = tree(cursor);
                    map.insert(name.into_owned(), value);
                }
            }
            Value::Object(map)
        }
    }
}
