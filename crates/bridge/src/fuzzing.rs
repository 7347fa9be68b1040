//! What the fuzz target `bridge_mapping` calls.
#![expect(clippy::expect_used, reason = "a fuzz target fails by panicking")]

use a2e_runtime::Failure;
use a2e_wire::{ErrorCode, Namespace, OWN_VALUES, Object, Raw};
use canonical::Value;

use crate::error::to_refusal;
use crate::mapping::{event_of, to_raw, to_tree};
use crate::trace;

/// Any JSON, as a value, a part of an answer, an intent and the detail of an error.
pub fn bridge_mapping(data: &[u8]) {
    if let Ok(tree) = Value::parse(data) {
        let event = event_of(&tree);
        assert!(!event.kind.as_str().is_empty(), "an event has a kind");
        let back = to_raw(&tree);
        let again = Value::parse(back.as_str().as_bytes()).expect("A2E says what A2A says");
        assert_eq!(again.to_canonical(), tree.to_canonical());
        if let Some(trace) = trace::of(&tree) {
            let text = trace.to_string();
            assert_eq!(text.len(), 55, "{text}");
        }
    }
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(raw) = Raw::parse(text, OWN_VALUES) else {
        return;
    };
    if let Ok(tree) = to_tree(&raw) {
        let there = to_raw(&tree);
        assert!(to_tree(&there).is_ok(), "what went over goes over again");
    }
    if let Some(detail) = Object::new(raw.into_owned()) {
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Tool, "x");
        failure.detail = detail;
        let _ = to_refusal(&failure);
    }
}
