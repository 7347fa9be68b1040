//! Evidence that a text was checked.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::write::push_checked;
use crate::{Charset, Cursor, Fault, Kind, Limits, Scanner};

/// One JSON value that passed [`Scanner::scan`], borrowed, without white space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked<'a> {
    text: &'a str,
    compact: bool,
}

/// One JSON value that passed [`Scanner::scan`], borrowed or owned.
///
/// Two are equal when their compact forms are: white space between tokens does not count.
#[derive(Clone)]
pub struct Raw<'a> {
    text: Cow<'a, str>,
    compact: bool,
}

impl<'a> Checked<'a> {
    /// The value as it was written.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.text
    }

    /// What kind of value it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        Cursor::new(self).kind()
    }

    /// Whether there is no white space between its tokens.
    #[must_use]
    pub const fn is_compact(self) -> bool {
        self.compact
    }

    /// Appends the value in compact form.
    pub fn push_to(self, out: &mut Vec<u8>, charset: Charset) {
        push_checked(out, self, charset);
    }

    /// Only for text that a scan has covered.
    pub(crate) const fn assume(text: &'a str, compact: bool) -> Self {
        Self { text, compact }
    }
}

impl<'a> Raw<'a> {
    /// The literal `null`.
    pub const NULL: Raw<'static> = Raw::literal("null");
    /// The literal `{}`.
    pub const EMPTY_OBJECT: Raw<'static> = Raw::literal("{}");

    /// Checks a text.
    ///
    /// # Errors
    /// As [`Scanner::scan`].
    pub fn parse(text: &'a str, limits: Limits) -> Result<Self, Fault> {
        Scanner::new(limits).scan(text).map(Self::from)
    }

    /// The value of any serialisable type.
    ///
    /// # Errors
    /// If the type fails to serialise, or serialises to JSON that is not taken (duplicate names).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Raw<'static>, RawError> {
        let text = serde_json::to_string(value)?;
        let checked = Scanner::new(Limits::default()).scan(&text)?;
        let compact = checked.compact;
        Ok(Raw {
            text: Cow::Owned(text),
            compact,
        })
    }

    /// Reads the value into any deserialisable type.
    ///
    /// # Errors
    /// If the value does not fit the type.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.text)
    }

    /// The value as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same value, borrowed.
    #[must_use]
    pub fn checked(&self) -> Checked<'_> {
        Checked::assume(&self.text, self.compact)
    }

    /// The same value, independent of the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Raw<'static> {
        Raw {
            text: Cow::Owned(self.text.into_owned()),
            compact: self.compact,
        }
    }

    const fn literal(text: &'static str) -> Raw<'static> {
        Raw {
            text: Cow::Borrowed(text),
            compact: true,
        }
    }
}

impl<'a> From<Checked<'a>> for Raw<'a> {
    fn from(checked: Checked<'a>) -> Self {
        Self {
            text: Cow::Borrowed(checked.text),
            compact: checked.compact,
        }
    }
}

impl PartialEq for Raw<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.compact && other.compact {
            return self.text == other.text;
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.checked().push_to(&mut left, Charset::Utf8);
        other.checked().push_to(&mut right, Charset::Utf8);
        left == right
    }
}

impl Eq for Raw<'_> {}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a value could not be turned into [`Raw`].
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The type's own `Serialize` failed.
    #[error("cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    /// It wrote JSON that is not taken.
    #[error(transparent)]
    Fault(#[from] Fault),
}
