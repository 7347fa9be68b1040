//! Values and events of one protocol in the form of the other.
//!
//! A2A takes less than A2E does: numbers beyond ±(2^53−1), deep trees and many values have no form
//! there.

use a2a_identity as a2a;
use a2e_wire::messages::base::{Event, EventDataStatus, EventKind};
use a2e_wire::{Body, Limits, Object, Raw};
use canonical::Value;
use policy::TrustLevel;

/// Something that A2A has no form for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it has no form in A2A: {0}")]
pub(crate) struct NoForm(String);

/// What a value may have, so that there is room for the message around it (profile §1).
const LIMITS: Limits = Limits {
    depth: 56,
    values: 19_000,
    ..canonical::LIMITS
};

/// Bytes of the kind of an event.
const MAX_KIND: usize = 64;

/// A value of A2E as A2A has it.
pub(crate) fn to_tree(raw: &Raw<'_>) -> Result<Value<'static>, NoForm> {
    let tree = Value::parse_within(raw.as_str().as_bytes(), LIMITS);
    tree.map(Value::into_owned)
        .map_err(|fault| NoForm(fault.to_string()))
}

/// A value of A2A as A2E has it. Whatever A2A takes, A2E takes too.
pub(crate) fn to_raw(tree: &Value<'_>) -> Raw<'static> {
    Raw::from_serialize(tree).unwrap_or(Raw::NULL)
}

/// The members of an object of A2A, as arguments.
pub(crate) fn to_object(members: canonical::Object<'static>) -> Object<'static> {
    Object::new(to_raw(&Value::Object(members))).unwrap_or_default()
}

/// An event of a request as a part of an answer: `{"kind", "data", "seq"}`. Nothing for messages
/// that are no events.
pub(crate) fn part_of(event: &Body<'_>, seq: i64) -> Option<Result<Value<'static>, NoForm>> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is an event")]
    let (kind, data) = match event {
        Body::Event(event) => (&event.kind, &event.data),
        Body::ToolEvent(event) => (&event.kind, &event.data),
        Body::SkillEvent(event) => (&event.kind, &event.data),
        _ => return None,
    };
    Some(to_tree(data.raw()).map(|data| {
        let mut part = canonical::Object::default();
        part.insert("kind", Value::String(kind.as_str().to_owned().into()));
        part.insert("data", data);
        if let Some(seq) = canonical::Number::integer(seq) {
            part.insert("seq", Value::Number(seq));
        }
        Value::Object(part)
    }))
}

/// A part of an answer as an event. What is no event of a node like this one is one of the kind
/// `part`, with the part inside.
pub(crate) fn event_of(part: &Value<'_>) -> Event<'static> {
    let own = part.as_object().and_then(|part| {
        let kind = part.get("kind")?.as_str()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=MAX_KIND).contains(&kind.len()) || !kind.bytes().all(plain) {
            return None;
        }
        let data = part.get("data").filter(|data| data.as_object().is_some())?;
        Some((kind, data))
    });
    let (kind, data) = match own {
        Some((kind, data)) => (kind.to_owned(), to_raw(data)),
        None => {
            let mut data = canonical::Object::default();
            data.insert("part", part.to_static());
            ("part".to_owned(), to_raw(&Value::Object(data)))
        }
    };
    Event {
        kind: EventKind::from(kind),
        data: Object::new(data).unwrap_or_default(),
        ..Event::new()
    }
}

/// An event that says something to people.
pub(crate) fn status(text: &str) -> Event<'static> {
    let data = Object::from_record(&EventDataStatus::new(text.into()));
    Event {
        kind: EventKind::Status,
        data: data.unwrap_or_default(),
        ..Event::new()
    }
}

/// The trust that a handshake found, as rules name it.
pub(crate) const fn trust(level: a2a::TrustLevel) -> TrustLevel {
    match level {
        a2a::TrustLevel::Own => TrustLevel::Own,
        a2a::TrustLevel::Delegated => TrustLevel::Delegated,
        a2a::TrustLevel::Verified => TrustLevel::Verified,
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::messages::tool::ToolEvent;
    use serde_json::json;

    use super::*;

    fn raw(value: &serde_json::Value) -> Raw<'static> {
        Raw::from_serialize(value).unwrap()
    }

    #[test]
    fn values_come_back_as_they_were() {
        let value =
            json!({"a": [1, -2.5, null, true, "ü\n"], "b": {"c": 9_007_199_254_740_991_i64}});
        let back = to_raw(&to_tree(&raw(&value)).unwrap());
        assert_eq!(back.deserialize::<serde_json::Value>().unwrap(), value);
    }

    /// Profile §1: at each limit, and one past it.
    #[test]
    fn what_a2a_does_not_take_is_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let many = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        for (good, bad) in [
            ("9007199254740991".to_owned(), "9007199254740992".to_owned()),
            (deep(LIMITS.depth), deep(LIMITS.depth + 1)),
            (many(LIMITS.values), many(LIMITS.values + 1)),
        ] {
            let wide = Limits {
                depth: 100,
                ..a2e_wire::OWN_VALUES
            };
            assert!(to_tree(&Raw::parse(&good, wide).unwrap()).is_ok());
            assert!(to_tree(&Raw::parse(&bad, wide).unwrap()).is_err());
        }
    }

    #[test]
    fn an_event_is_the_same_on_the_other_side() {
        let event = ToolEvent {
            kind: EventKind::Log,
            data: Object::new(raw(&json!({"level": "info", "message": "x"}))).unwrap(),
            seq: 3,
        };
        let part = part_of(&Body::from(event.clone()), 7).unwrap().unwrap();
        let number = part.as_object().and_then(|part| part.get("seq"));
        assert_eq!(
            number,
            Some(&Value::Number(canonical::Number::integer(7).unwrap()))
        );
        let there = event_of(&part);
        assert_eq!((there.kind, there.data), (event.kind, event.data));
    }

    #[test]
    fn any_part_is_an_event() {
        let kind = |length: usize| json!({"kind": "k".repeat(length), "data": {}});
        let longest = event_of(&to_tree(&raw(&kind(MAX_KIND))).unwrap());
        assert_eq!(longest.kind.as_str().len(), MAX_KIND);
        for part in [
            json!(5),
            json!({"kind": 1, "data": {}}),
            json!({"kind": "x", "data": 1}),
            json!({"kind": "a\u{1b}", "data": {}}),
            kind(0),
            kind(MAX_KIND + 1),
        ] {
            let event = event_of(&to_tree(&raw(&part)).unwrap());
            assert_eq!(event.kind.as_str(), "part");
            let data: serde_json::Value = event.data.raw().deserialize().unwrap();
            assert_eq!(data, json!({"part": part}));
        }
    }
}
