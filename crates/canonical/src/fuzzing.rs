//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use crate::Value;

/// Any bytes: the canonical form is a fixed point, and reads back as an equal tree by value.
pub fn jcs(bytes: &[u8]) {
    let Ok(value) = Value::parse(bytes) else {
        return;
    };
    let canonical = value.to_canonical();
    // A real such as 1e20 turns into an integer beyond 2^53, which strict parsing refuses.
    match Value::parse_within(&canonical, strict_json::Limits::default()) {
        Ok(again) => assert_eq!(again.to_canonical(), canonical),
        Err(fault) => panic!("the canonical form is not taken: {fault}"),
    }
    assert_eq!(value.to_static(), value);
    assert_eq!(value.clone().into_owned(), value);
}
