//! Words and ids: texts whose form is checked once, where they are read.

use std::fmt;
use std::str::FromStr;

use canonical::{Value, base64url};

use crate::limits;
use crate::read::text;
use crate::{FieldError, Read, Write};

/// A text of the wrong form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {0}")]
pub struct WrongForm(pub &'static str);

/// Declares a text with a form: a check, and the rule that a failed check is told as.
macro_rules! texts {
    ($($(#[$meta:meta])* $name:ident: $check:expr, $rule:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = WrongForm;

            fn from_str(text: &str) -> Result<Self, WrongForm> {
                let check: fn(&str) -> bool = $check;
                match check(text) {
                    true => Ok(Self(text.to_owned())),
                    false => Err(WrongForm($rule)),
                }
            }
        }

        impl Read for $name {
            fn read(value: &Value<'_>) -> Result<Self, FieldError> {
                text(value)?.parse().map_err(|WrongForm(rule)| FieldError::form(rule))
            }
        }

        impl Write for $name {
            fn write(&self) -> Value<'static> {
                Value::String(self.0.clone().into())
            }

            fn into_value(self) -> Value<'static> {
                Value::String(self.0.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

texts! {
    /// 32 to 64 random bytes in base64url. A value whose bytes are all the same is refused.
    Nonce: is_nonce, "32 to 64 random bytes in base64url";
    /// 16 bytes or more in base64url.
    SessionId: |text| text.len() <= limits::SESSION_ID && decoded_length(text) >= Some(16),
        "16 bytes or more in unpadded base64url, at most 128 characters";
    /// A lower-case UUID of version 4 that names one attempt.
    RequestId: is_uuid_v4, "a lower-case UUID of version 4";
    /// A lower-case UUID of version 4 that names one piece of work.
    IntentId: is_uuid_v4, "a lower-case UUID of version 4";
    /// Names a key within a key set.
    Kid: |text| within(text, 1, limits::KID) && text.bytes().all(is_kid_byte),
        "1 to 128 of `A-Za-z0-9._:#/-`";
    /// A DID as it was written; `a2a-identity` says whether it is one.
    DidText: |text| within(text, 1, limits::DID) && is_visible_ascii(text),
        "a DID of at most 512 visible ASCII characters";
    /// What an agent calls itself; a label, never an identity.
    AgentId: |text| within(text, 1, limits::AGENT_ID) && is_printable_ascii(text),
        "1 to 128 printable ASCII characters";
    /// The program a client runs.
    UserAgent: |text| within(text, 0, limits::USER_AGENT) && is_printable_ascii(text),
        "at most 256 printable ASCII characters";
    /// A protocol version; versions are compared as texts.
    Version: |text| within(text, 1, limits::VERSION), "1 to 32 bytes";
    /// A compact JWS, not looked into yet.
    JwsText: |text| within(text, 1, limits::JWS), "a JWS of at most 256 KiB";
    /// The compact JWS of a request, not looked into yet.
    RequestJws: |text| within(text, 1, limits::REQUEST_JWS), "a JWS of at most 64 MiB";
    /// A short word.
    Word: |text| within(text, 0, limits::WORD), "at most 256 bytes";
    /// A text for people.
    Text: |text| within(text, 0, limits::TEXT), "at most 4096 bytes";
    /// A URL, not looked into yet.
    Url: |text| within(text, 1, limits::URL) && is_visible_ascii(text),
        "a URL of at most 2048 visible ASCII characters";
    /// 32 bytes in base64url: a key that others may see.
    Key32: |text| decoded_length(text) == Some(32), "32 bytes in unpadded base64url";
}

impl Key32 {
    /// The text of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        Self(base64url::encode(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        let bytes = base64url::decode(&self.0).unwrap_or_default();
        bytes.try_into().unwrap_or_default()
    }
}

impl Nonce {
    /// The nonce of some random bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        Self(base64url::encode(bytes))
    }

    /// Whether it has padding, which only peers of the base specification may write.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.0.ends_with('=')
    }
}

impl SessionId {
    /// The id of some random bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        Self(base64url::encode(bytes))
    }
}

/// A text whose form is a later check of its own, since the profile orders checks and gives each
/// its error code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed<T> {
    text: Text,
    form: std::marker::PhantomData<fn() -> T>,
}

impl<T: FromStr> Unparsed<T> {
    /// Checks the form.
    ///
    /// # Errors
    /// If the text does not have it.
    pub fn parse(&self) -> Result<T, T::Err> {
        self.text.0.parse()
    }

    /// The text as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text.0
    }
}

impl<T: fmt::Display> From<&T> for Unparsed<T> {
    fn from(value: &T) -> Self {
        Self {
            text: Text(value.to_string()),
            form: std::marker::PhantomData,
        }
    }
}

impl<T> Read for Unparsed<T> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Text::read(value).map(|text| Self {
            text,
            form: std::marker::PhantomData,
        })
    }
}

impl<T> Write for Unparsed<T> {
    fn write(&self) -> Value<'static> {
        self.text.write()
    }

    fn into_value(self) -> Value<'static> {
        self.text.into_value()
    }
}

const fn within(text: &str, least: usize, most: usize) -> bool {
    text.len() >= least && text.len() <= most
}

fn decoded_length(text: &str) -> Option<usize> {
    base64url::decode(text).ok().map(|bytes| bytes.len())
}

fn is_nonce(text: &str) -> bool {
    let Ok(bytes) = base64url::decode_padded(text) else {
        return false;
    };
    (32..=64).contains(&bytes.len()) && bytes.iter().any(|byte| Some(byte) != bytes.first())
}

fn is_uuid_v4(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

const fn is_kid_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'#' | b'/' | b'-')
}

fn is_visible_ascii(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes<T: FromStr>(text: &str) -> bool {
        text.parse::<T>().is_ok()
    }

    /// Threat 12.
    #[test]
    fn nonces_have_one_form() {
        let of =
            |length: usize| base64url::encode(&(0..length).map(|n| n as u8).collect::<Vec<_>>());
        for length in [32, 33, 64] {
            assert!(takes::<Nonce>(&of(length)), "{length}");
        }
        for length in [0, 31, 65] {
            assert!(!takes::<Nonce>(&of(length)), "{length}");
        }
        let good = of(32);
        let padded = format!("{good}=");
        assert!(takes::<Nonce>(&padded));
        assert!(padded.parse::<Nonce>().unwrap().is_padded());
        for wrong in [
            base64url::encode(&[0; 32]),
            base64url::encode(&[7; 64]),
            format!("{good}=="),
            format!("{}+", &good[..42]),
            format!("{}/", &good[..42]),
            format!("{}9", &good[..42]),
            format!(" {good}"),
        ] {
            assert!(!takes::<Nonce>(&wrong), "{wrong}");
        }
    }

    #[test]
    fn request_ids_are_lower_case_uuids_of_version_4() {
        let good = "7f1c0e0a-9a3b-4d7e-8f00-0123456789ab";
        assert!(takes::<RequestId>(good));
        for wrong in [
            good.to_uppercase(),
            good.replace("-4d", "-1d"),
            good.replace("-8f", "-cf"),
            good.replace('-', ""),
            format!("{good}0"),
            format!("{{{good}}}"),
        ] {
            assert!(!takes::<RequestId>(&wrong), "{wrong}");
        }
    }

    /// Profile §1, size limits: at the limit and one past it.
    #[test]
    fn lengths_are_limited() {
        let x = |length| "x".repeat(length);
        assert!(takes::<Kid>(&x(128)) && !takes::<Kid>(&x(129)) && !takes::<Kid>(""));
        assert!(!takes::<Kid>("a\"b") && !takes::<Kid>("a b") && takes::<Kid>("../a:#b"));
        assert!(takes::<DidText>(&x(512)) && !takes::<DidText>(&x(513)));
        assert!(takes::<AgentId>(&x(128)) && !takes::<AgentId>(&x(129)));
        assert!(takes::<UserAgent>(&x(256)) && !takes::<UserAgent>(&x(257)));
        assert!(!takes::<UserAgent>("a\nb") && !takes::<UserAgent>("é"));
        assert!(takes::<JwsText>(&x(limits::JWS)) && !takes::<JwsText>(&x(limits::JWS + 1)));
        assert!(takes::<Version>(&x(32)) && !takes::<Version>(&x(33)));
        assert!(takes::<Word>(&x(256)) && !takes::<Word>(&x(257)));
        assert!(takes::<Text>(&x(4096)) && !takes::<Text>(&x(4097)));
        assert!(takes::<Url>(&x(2048)) && !takes::<Url>(&x(2049)));
        let id = |bytes: usize| base64url::encode(&vec![1; bytes]);
        assert!(takes::<SessionId>(&id(16)) && !takes::<SessionId>(&id(15)));
        assert!(takes::<SessionId>(&id(96)) && !takes::<SessionId>(&id(97)));
        assert!(takes::<Key32>(&id(32)) && !takes::<Key32>(&id(33)) && !takes::<Key32>(&id(31)));
    }
}
