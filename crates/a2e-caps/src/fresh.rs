//! What a capability makes up itself: ids and times.

use std::time::{SystemTime, UNIX_EPOCH};

use a2e_runtime::Failure;
use a2e_wire::{ErrorCode, Namespace, Timestamp};
use store::UnixMillis;

/// An id of 12 hexadecimal digits.
pub(crate) fn id(namespace: Namespace) -> Result<String, Failure> {
    let mut bytes = [0; 6];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(hex::encode(bytes)),
        Err(_) => {
            let text = "the system gives no random bytes";
            Err(Failure::new(ErrorCode::RuntimeError, namespace, text))
        }
    }
}

/// The time.
pub(crate) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// A time that was kept, as the wire has it.
pub(crate) fn timestamp(time: UnixMillis) -> Timestamp {
    // Milliseconds of our times have fewer than 53 bits.
    let seconds = time.0 as f64 / 1000.0;
    Timestamp::from_unix_seconds(seconds).unwrap_or_default()
}
