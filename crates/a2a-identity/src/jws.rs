//! Compact JWS with EdDSA (profile §2): made, and taken apart in the one order that is safe.

use std::fmt;
use std::marker::PhantomData;

use a2a_wire::{ErrorCode, JwsText, Kid, Payload, Place, UnixSeconds, WireError, limits};
use canonical::base64url::{self, NotBase64Url};
use canonical::{Object, Value};

use crate::{Key, KeySet, SigningKey};

/// Whom a JWS comes from, as far as its header goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Someone who keeps to the profile: `typ` and `kid` must be there.
    Profile,
    /// Someone who knows the base specification alone: `typ` may be missing or `JWT`, and `kid` may
    /// be missing.
    Baseline,
}

/// Why a JWS is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JwsError {
    /// More characters than any JWS may have.
    #[error("the signature is longer than allowed")]
    TooLong,
    /// Not three parts of strict base64url.
    #[error("not a compact JWS: {0}")]
    Form(&'static str),
    /// The header is not the one header there is.
    #[error("the JWS header is refused: {0}")]
    Header(&'static str),
    /// A signature made for another place.
    #[error("the JWS was made for another place: its typ is not `{0}`")]
    Typ(&'static str),
    /// No key of the signer has this name.
    #[error("the signer has no key of this kid")]
    UnknownKey,
    /// The key has expired, was revoked, or never was one to sign with.
    #[error("the key `{0}` is not usable now")]
    UnusableKey(Kid),
    /// The signature is not this key's over these bytes.
    #[error("the signature does not verify")]
    BadSignature,
    /// It is signed, but it is not what should be signed.
    #[error("the signed payload is wrong: {0}")]
    Payload(#[from] WireError),
}

impl JwsError {
    /// Whether this is a matter of form, which a manifest answers with another code.
    #[must_use]
    pub const fn is_form(&self) -> bool {
        match self {
            Self::TooLong | Self::Form(_) | Self::Header(_) | Self::Typ(_) | Self::Payload(_) => {
                true
            }
            Self::UnknownKey | Self::UnusableKey(_) | Self::BadSignature => false,
        }
    }

    /// The code to answer with, at any place but a manifest.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::TooLong => ErrorCode::InvalidMessage,
            Self::Form(_)
            | Self::Header(_)
            | Self::Typ(_)
            | Self::UnknownKey
            | Self::UnusableKey(_)
            | Self::BadSignature
            | Self::Payload(_) => ErrorCode::UnverifiedAgent,
        }
    }
}

/// Signs a payload for its place.
#[must_use]
pub fn sign<T: Payload>(payload: &T, kid: &Kid, key: &SigningKey) -> String {
    sign_value(&payload.write(), T::PLACE, kid, key)
}

/// The same for good: nothing of the payload is copied.
#[must_use]
pub fn sign_owned<T: Payload>(payload: T, kid: &Kid, key: &SigningKey) -> String {
    sign_value(&payload.into_value(), T::PLACE, kid, key)
}

fn sign_value(payload: &Value<'_>, place: Place, kid: &Kid, key: &SigningKey) -> String {
    let typ = place.typ();
    let header = format!("{{\"alg\":\"EdDSA\",\"kid\":\"{kid}\",\"typ\":\"{typ}\"}}");
    let payload = payload.to_canonical();
    let size = header.len() + payload.len() + SIGNATURE;
    // Four characters for three bytes, and what is rounded up.
    let mut text = Vec::with_capacity(size / 3 * 4 + 16);
    base64url::push(&mut text, header.as_bytes());
    text.push(b'.');
    base64url::push(&mut text, &payload);
    let signature = key.sign(&text);
    text.push(b'.');
    base64url::push(&mut text, &signature);
    // Base64url and dots are text.
    String::from_utf8(text).unwrap_or_default()
}

/// The bytes of a part of a JWS. Libraries of baseline peers may have left its padding.
fn decode(part: &str, peer: Peer) -> Result<Vec<u8>, NotBase64Url> {
    match peer {
        Peer::Profile => base64url::decode(part),
        Peer::Baseline => base64url::decode_padded(part),
    }
}

/// Bytes of a signature.
const SIGNATURE: usize = 64;
/// Keys of a baseline peer that are tried for a signature which names none.
const TRIED_KEYS: usize = 8;

/// A JWS whose form and header are right for its place. Nothing in it is proven.
#[derive(Clone, PartialEq)]
pub struct Signed<T> {
    /// What the signature covers: header and payload with the dot between.
    input: String,
    payload: Vec<u8>,
    signature: [u8; SIGNATURE],
    kid: Option<Kid>,
    has_typ: bool,
    place: PhantomData<fn() -> T>,
}

/// A payload that a usable key of its signer has signed, for this place. Only [`Signed::verify`]
/// makes one.
///
/// ```compile_fail,E0451
/// use a2a_identity::Verified;
/// let forged = Verified { payload: 1, bytes: Vec::new(), key: todo!() };
/// ```
#[derive(Clone, PartialEq)]
pub struct Verified<T> {
    payload: T,
    bytes: Vec<u8>,
    key: Key,
}

impl<T: Payload> Signed<T> {
    /// Takes a JWS apart.
    ///
    /// # Errors
    /// If its form or header is not right for the place.
    pub fn parse(jws: &JwsText, peer: Peer) -> Result<Self, JwsError> {
        Self::parse_within(jws.as_str(), peer, limits::JWS_PAYLOAD)
    }

    /// Takes a JWS apart whose payload may have another size: that of a baseline peer's request.
    ///
    /// # Errors
    /// As [`Signed::parse`].
    pub fn parse_within(jws: &str, peer: Peer, payload_limit: usize) -> Result<Self, JwsError> {
        let mut parts = jws.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwsError::Form("it must have three parts"));
        };
        // What is too long is not even decoded: four characters are three bytes.
        if header.len() > limits::JWS_HEADER.saturating_mul(2)
            || payload.len() / 4 > payload_limit / 3
        {
            return Err(JwsError::TooLong);
        }
        let [header, payload, signature] =
            [header, payload, signature].map(|part| match decode(part, peer) {
                Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                Ok(_) => Err(JwsError::Form("a part is empty")),
                Err(_) => Err(JwsError::Form("a part is not strict base64url")),
            });
        let (header, payload, signature) = (header?, payload?, signature?);
        if header.len() > limits::JWS_HEADER || payload.len() > payload_limit {
            return Err(JwsError::TooLong);
        }
        let header = Header::read(&header)?;
        header.check_typ(T::PLACE, peer)?;
        if header.kid.is_none() && peer == Peer::Profile {
            return Err(JwsError::UnknownKey);
        }
        let rest = jws.rfind('.').unwrap_or_default();
        Ok(Self {
            input: jws.get(..rest).unwrap_or_default().to_owned(),
            payload,
            signature: signature
                .try_into()
                .map_err(|_| JwsError::Form("the signature must have 64 bytes"))?,
            kid: header.kid,
            has_typ: header.typ.is_some(),
            place: PhantomData,
        })
    }

    /// The name of the key it says it was signed with.
    #[must_use]
    pub const fn kid(&self) -> Option<&Kid> {
        self.kid.as_ref()
    }

    /// Whether its header is that of the profile, rather than a baseline peer's.
    #[must_use]
    pub const fn is_profile(&self) -> bool {
        self.kid.is_some() && self.has_typ
    }

    /// Reads the payload *before* it is verified. Good for one thing: to find the state that a
    /// message belongs to.
    ///
    /// # Errors
    /// If it is not the payload of its place.
    pub fn read_unverified(&self) -> Result<T, WireError> {
        let value = match T::MEMBERS {
            Some(names) => Value::parse_members(&self.payload, names),
            None => Value::parse(&self.payload),
        };
        let value = value.map_err(WireError::from)?;
        Ok(T::read(&value)?)
    }

    /// Verifies the signature with the key that it names, then reads the payload. A baseline peer
    /// may name none: then each usable key is tried, up to eight.
    ///
    /// # Errors
    /// If there is no such key, it is not usable now, or the signature is not its own.
    pub fn verify(self, keys: &KeySet, now: UnixSeconds) -> Result<Verified<T>, JwsError> {
        let Some(kid) = &self.kid else {
            let mut usable = keys.iter().filter(|key| key.verifies_at(now)).peekable();
            usable.peek().ok_or(JwsError::UnknownKey)?;
            let signer = usable.take(TRIED_KEYS).find(|key| self.is_by(key));
            return self.verified(signer.ok_or(JwsError::BadSignature)?);
        };
        let key = keys.get(kid.as_str()).ok_or(JwsError::UnknownKey)?;
        self.verify_with(key, now)
    }

    /// Verifies the signature with this key, whichever it names, then reads the payload.
    ///
    /// # Errors
    /// If the key is not usable now, or the signature is not its own.
    pub fn verify_with(self, key: &Key, now: UnixSeconds) -> Result<Verified<T>, JwsError> {
        if !key.verifies_at(now) {
            return Err(JwsError::UnusableKey(key.kid.clone()));
        }
        match self.is_by(key) {
            true => self.verified(key),
            false => Err(JwsError::BadSignature),
        }
    }

    fn is_by(&self, key: &Key) -> bool {
        key.key.verifies(self.input.as_bytes(), &self.signature)
    }

    fn verified(self, key: &Key) -> Result<Verified<T>, JwsError> {
        Ok(Verified {
            payload: self.read_unverified()?,
            bytes: self.payload,
            key: key.clone(),
        })
    }
}

impl<T> Verified<T> {
    /// What was signed.
    #[must_use]
    pub const fn payload(&self) -> &T {
        &self.payload
    }

    /// What was signed, for good.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// All members that were signed, known or not. They are read anew: few need them.
    #[must_use]
    pub fn tree(&self) -> Object<'_> {
        match Value::parse(&self.bytes) {
            Ok(Value::Object(tree)) => tree,
            // It was read as an object before.
            _ => Object::default(),
        }
    }

    /// The key that signed.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }
}

impl<T> fmt::Debug for Signed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signed")
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Verified<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("payload", &self.payload)
            .field("kid", &self.key.kid)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq)]
struct Header {
    kid: Option<Kid>,
    typ: Option<String>,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, JwsError> {
        match Self::read_usual(bytes) {
            Some(header) => Ok(header),
            None => Self::read_any(bytes),
        }
    }

    /// Reads a header that is written as [`sign`] writes it, letter by letter: no parser is needed to
    /// know what it says. Any other is left to [`Header::read_any`].
    fn read_usual(bytes: &[u8]) -> Option<Self> {
        let rest = str::from_utf8(bytes).ok()?;
        let rest = rest.strip_prefix(r#"{"alg":"EdDSA","kid":""#)?;
        let (kid, rest) = rest.split_once('"')?;
        let typ = rest.strip_prefix(r#","typ":""#)?.strip_suffix(r#""}"#)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+');
        // No kid has a letter that JSON escapes.
        (typ.bytes().all(plain)).then_some(Self {
            kid: Some(kid.parse().ok()?),
            typ: Some(typ.to_owned()),
        })
    }

    fn read_any(bytes: &[u8]) -> Result<Self, JwsError> {
        let value = Value::parse(bytes).map_err(|_| JwsError::Header("it is not strict JSON"))?;
        let object = value
            .as_object()
            .ok_or(JwsError::Header("it is not an object"))?;
        if object
            .iter()
            .any(|(name, _)| !["alg", "kid", "typ"].contains(&name))
        {
            return Err(JwsError::Header("it has members other than alg, kid, typ"));
        }
        if object.get("alg").and_then(Value::as_str) != Some("EdDSA") {
            return Err(JwsError::Header("its alg is not `EdDSA`"));
        }
        let text = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_str()
                .map(Some)
                .ok_or(JwsError::Header("kid and typ are texts")),
        };
        let kid = text("kid")?.map(str::parse).transpose();
        Ok(Self {
            kid: kid.map_err(|_| JwsError::Header("its kid has a form that no kid has"))?,
            typ: text("typ")?.map(str::to_owned),
        })
    }

    fn check_typ(&self, place: Place, peer: Peer) -> Result<(), JwsError> {
        let lenient = peer == Peer::Baseline || place == Place::Manifest;
        match self.typ.as_deref() {
            Some(typ) if typ == place.typ() => Ok(()),
            None | Some("JWT") if lenient => Ok(()),
            _ => Err(JwsError::Typ(place.typ())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profile §2: a header is read alike whether it is written as usual or not.
    #[test]
    fn the_short_way_to_read_a_header_is_no_other_way() {
        let usual = r#"{"alg":"EdDSA","kid":"sig-1","typ":"a2a-request+jws"}"#;
        assert!(Header::read_usual(usual.as_bytes()).is_some());
        // Each character replaced by, followed by, or left out for one that could matter.
        for at in 0..=usual.len() {
            for insert in [
                "", "\"", "\\", "\0", " ", "{", "}", ":", ",", "a", "é", "\u{7f}",
            ] {
                for skip in [0, 1] {
                    let rest = usual.get(at + skip..).unwrap_or_default();
                    let text = format!("{}{insert}{rest}", &usual[..at]);
                    if let Some(short) = Header::read_usual(text.as_bytes()) {
                        assert_eq!(Header::read_any(text.as_bytes()), Ok(short), "{text}");
                    }
                }
            }
        }
        for twice in [
            r#"{"alg":"EdDSA","kid":"a","typ":"JWT","typ":"a2a-request+jws"}"#,
            r#"{"alg":"EdDSA","kid":"a","kid":"b","typ":"JWT"}"#,
            r#"{"alg":"EdDSA","kid":"","typ":"JWT"}"#,
            r#"{"alg":"EdDSA","kid":"a","typ":"a\u002b"}"#,
        ] {
            assert_eq!(Header::read_usual(twice.as_bytes()), None, "{twice}");
        }
    }
}
