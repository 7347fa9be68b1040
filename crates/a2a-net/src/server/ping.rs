//! `frith.ping`: whether somebody is there, and who. It is subject to the agreed policy like any
//! other intent.

use canonical::{Number, Object, Value};

use super::handler::{Call, HandlerError};
use crate::Clock;

/// The name it is served under.
pub(super) const NAME: &str = "frith.ping";
/// Bytes of `inputs.echo` in canonical form.
const ECHO: usize = 1024;

/// The node's version, its time, and what it was told to echo.
pub(super) fn pong(clock: &Clock, call: &Call) -> Result<Value<'static>, HandlerError> {
    let mut result = Object::default();
    let version = env!("CARGO_PKG_VERSION");
    result.insert("version", Value::String(version.into()));
    if let Some(time) = Number::integer(clock.now().unix.0) {
        result.insert("time", Value::Number(time));
    }
    if let Some(echo) = call.inputs.get("echo") {
        if echo.to_canonical().len() > ECHO {
            return Err(HandlerError::Invalid {
                field: "intent.inputs.echo",
                cause: "at most 1024 bytes are echoed",
            });
        }
        result.insert("echo", echo.clone());
    }
    Ok(Value::Object(result))
}
