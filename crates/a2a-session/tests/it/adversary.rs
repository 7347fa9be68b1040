//! What an attacker can do with messages: look into them, change them, sign them with its own key.

use a2a_identity::sign;
use a2a_session::{Refused, Reply};
use a2a_wire::{ErrorCode, FieldError, Payload, Place, Read, Reason, Write};
use canonical::{Value, base64url};
use serde_json::json;

use crate::support::{MALLORY, World, json, jwk, key, text, tree};

/// Any payload, signed for the place of this number in [`Place::ALL`].
pub(crate) struct Raw<const N: usize>(pub(crate) Value<'static>);

impl<const N: usize> Read for Raw<N> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Ok(Self(value.to_static()))
    }
}

impl<const N: usize> Write for Raw<N> {
    fn write(&self) -> Value<'static> {
        self.0.clone()
    }
}

impl<const N: usize> Payload for Raw<N> {
    const PLACE: Place = Place::ALL[N];
}

pub(crate) const CHALLENGE: usize = 1;
pub(crate) const PROOF: usize = 2;
pub(crate) const POLICY: usize = 3;
pub(crate) const ACCEPT: usize = 4;
pub(crate) const SESSION: usize = 5;
pub(crate) const REQUEST: usize = 6;
pub(crate) const RESPONSE: usize = 7;
pub(crate) const ERROR: usize = 8;
pub(crate) const CONTROL: usize = 9;

/// A signature of the key of a seed over any payload.
pub(crate) fn forge<const N: usize>(payload: &serde_json::Value, seed: u8) -> String {
    let payload = Raw::<N>(Value::Object(tree(payload)));
    sign(&payload, &"k".parse().unwrap(), &key(seed))
}

/// What a JWS signs.
pub(crate) fn payload(jws: &serde_json::Value) -> serde_json::Value {
    let part = jws.as_str().unwrap().split('.').nth(1).unwrap();
    json(&base64url::decode(part).unwrap())
}

/// The same JWS with another part.
pub(crate) fn with_part(jws: &serde_json::Value, index: usize, part: &str) -> String {
    let mut parts: Vec<&str> = jws.as_str().unwrap().split('.').collect();
    parts[index] = part;
    parts.join(".")
}

pub(crate) fn encode(value: &serde_json::Value) -> String {
    base64url::encode(value.to_string().as_bytes())
}

/// A message with a change.
pub(crate) fn edit(message: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut value = json(message);
    change(&mut value);
    text(&value)
}

/// A message whose payload is changed and signed again by the key of a seed.
pub(crate) fn resign<const N: usize>(
    message: &[u8],
    seed: u8,
    change: impl FnOnce(&mut serde_json::Value),
) -> Vec<u8> {
    edit(message, |message| {
        let member = Place::ALL[N].member();
        let mut payload = payload(&message[member]);
        change(&mut payload);
        message[member] = json!(forge::<N>(&payload, seed));
    })
}

/// Every name that `details` may have (profile §12).
const DETAILS: [&str; 12] = [
    "reason",
    "field",
    "limit",
    "size",
    "current_rate",
    "reset_at",
    "retry_after_ms",
    "scope",
    "server_time",
    "supported_versions",
    "timeout_ms",
    "incident",
];

/// G1: one error of this code, with listed details alone.
pub(crate) fn check_error(message: &[u8], code: &ErrorCode, reason: Option<Reason>) {
    let error = json(message);
    assert_eq!(error["type"], "error");
    assert_eq!(error["error_code"], code.as_str(), "{error}");
    assert_eq!(error["error_message"], code.text());
    let details = error["details"].as_object().cloned().unwrap_or_default();
    for name in details.keys() {
        assert!(DETAILS.contains(&name.as_str()), "{name}");
    }
    if let Some(reason) = reason {
        assert_eq!(details["reason"], reason.as_str());
        assert!(reason.codes().contains(code), "{reason} is not of {code}");
    }
    if *code == ErrorCode::UnverifiedAgent && reason == Some(Reason::VerificationFailed) {
        assert_eq!(details.len(), 1, "{details:?}");
    }
}

/// A message that the server refuses (G1), and that leaves nothing behind (G2), not even a question
/// about anyone (G3).
pub(crate) fn refused(
    world: &mut World,
    message: &[u8],
    code: ErrorCode,
    reason: impl Into<Option<Reason>>,
) -> Refused {
    let before = (world.server.nonces(), world.server.sessions());
    let resolutions = world.resolutions;
    let refused = refusal(world.serve(message));
    check_error(&refused.message, &code, reason.into());
    assert_eq!(refused.failure.code, code, "{}", refused.failure);
    assert!(!refused.failure.cause.is_empty(), "G4");
    assert_eq!(before, (world.server.nonces(), world.server.sessions()));
    assert_eq!(world.resolutions, resolutions);
    refused
}

pub(crate) fn refusal(reply: Result<Reply, Box<Refused>>) -> Refused {
    match reply {
        Err(refused) => *refused,
        Ok(reply) => panic!("{reply:?}"),
    }
}

/// A JWS made of another.
pub(crate) type Form = Box<dyn Fn(&serde_json::Value) -> String>;

/// Forms that no JWS of this `typ` may have, though its payload can be read (threats 43 to 51).
pub(crate) fn bad_forms(typ: &str) -> Vec<Form> {
    let headers = [
        json!({"alg": "none", "kid": "k", "typ": typ}),
        json!({"alg": "None", "kid": "k", "typ": typ}),
        json!({"kid": "k", "typ": typ}),
        json!({"alg": "HS256", "kid": "k", "typ": typ}),
        json!({"alg": "ES256", "kid": "k", "typ": typ}),
        json!({"alg": "RS256", "kid": "k", "typ": typ}),
        json!({"alg": "eddsa", "kid": "k", "typ": typ}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "crit": ["b64"]}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "b64": false}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "zip": "DEF"}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "x": 1}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "jwk": jwk("k", MALLORY)}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "jku": "https://m.example/k"}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "x5u": "https://m.example/k"}),
        json!({"alg": "EdDSA", "kid": "k", "typ": typ, "x5c": ["AA"]}),
        json!({"alg": "EdDSA", "kid": "other", "typ": typ}),
        json!({"alg": "EdDSA", "kid": "k\"", "typ": typ}),
        json!({"alg": "EdDSA", "typ": typ}),
        json!({"alg": "EdDSA", "kid": "k", "typ": "a2a-manifest+jws"}),
        json!({"alg": "EdDSA", "kid": "k"}),
        json!({"alg": "EdDSA", "kid": "x".repeat(129), "typ": typ}),
    ];
    let mut forms: Vec<Form> = Vec::new();
    for header in headers {
        forms.push(Box::new(move |jws| with_part(jws, 0, &encode(&header))));
    }
    let double = r#"{"alg":"EdDSA","alg":"EdDSA","kid":"k","typ":"x"}"#;
    let double = base64url::encode(double.as_bytes());
    forms.push(Box::new(move |jws| with_part(jws, 0, &double)));
    forms.push(Box::new(|jws| format!("{}=", jws.as_str().unwrap())));
    forms.push(Box::new(|jws| format!("{}.x", jws.as_str().unwrap())));
    forms.push(Box::new(|jws| with_part(jws, 2, "")));
    forms.push(Box::new(|jws| with_part(jws, 2, "AAAA")));
    forms
}
