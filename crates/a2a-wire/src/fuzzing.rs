//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use canonical::{FaultKind, Value};

use crate::{Received, WireError, limits};

/// Any bytes: what is read as a message is read as the same one from its canonical form, and with
/// the same hash.
pub fn a2a_message(bytes: &[u8]) {
    let Ok(received) = Received::parse(bytes, limits::HANDSHAKE) else {
        return;
    };
    let text = Value::Object(received.tree().clone()).to_canonical();
    match Received::parse(&text, usize::MAX) {
        Ok(again) => assert_eq!(again.hash(), received.hash()),
        // 1e16 is taken, but its canonical form is an integer that is not.
        Err(WireError::Json(fault)) if fault.kind == FaultKind::InexactInteger => {}
        Err(error) => panic!("the canonical form is refused: {error}"),
    }
    let written = received.message().to_object();
    match Received::from_tree(Value::Object(written.clone())) {
        Ok(again) => assert_eq!(again.message().to_object(), written),
        Err(error) => panic!("what was read cannot be written: {error}"),
    }
}
