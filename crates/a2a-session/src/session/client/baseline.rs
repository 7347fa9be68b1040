//! What a baseline peer signs and is signed for (§14): the intent, and the answer in some form.

use a2a_wire::{FieldError, Payload, Place, Read, Write};
use canonical::{Object, Value};

/// An intent, with or without the ids of its message.
#[derive(Debug, Clone)]
pub(super) struct SignedIntent(Value<'static>);

impl SignedIntent {
    pub(super) fn of(message: &Object<'static>, bound: bool) -> Self {
        let mut intent = match message.get("intent") {
            Some(Value::Object(intent)) => intent.clone(),
            _ => Object::default(),
        };
        for name in ["session_id", "request_id"] {
            if let Some(id) = message.get(name).filter(|_| bound) {
                intent.insert(name, id.clone());
            }
        }
        Self(Value::Object(intent))
    }
}

impl Read for SignedIntent {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Ok(Self(value.to_static()))
    }
}

impl Write for SignedIntent {
    fn write(&self) -> Value<'static> {
        self.0.clone()
    }
}

impl Payload for SignedIntent {
    const PLACE: Place = Place::Request;
}

/// Whether what a baseline server signed is this answer: all of it, or what came out.
pub(super) fn is_answer(message: &Object<'_>, signed: &Object<'_>, jws_member: &str) -> bool {
    let whole = signed.digest_without(&[]);
    let result = message.get("result");
    let inner = signed.get("result").map(Value::digest);
    whole == message.digest_without(&[jws_member])
        || result.is_some_and(|result| result.digest() == whole)
        || (result.is_some() && inner == result.map(Value::digest))
}
