//! Why a text was refused, and where.

use std::fmt;

/// Why a text was refused, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// Offset of the byte where it was seen.
    pub at: usize,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text breaks the JSON grammar; the string says what was expected.
    Syntax(&'static str),
    /// The text ends inside a value.
    Incomplete,
    /// Something other than white space follows the value.
    TrailingText,
    /// An object has two members of this name (compared after unescaping; shown shortened).
    DuplicateName(String),
    /// A member name that `serde_json` keeps for itself: where its `raw_value` feature is on, it
    /// would read the member as something else than it is.
    ReservedName,
    /// A `\u` escape is half of a surrogate pair.
    LoneSurrogate,
    /// A number is too large for binary64.
    NumberOverflow,
    /// An integer is outside ±(2^53−1) where [`Integers::Exact`](crate::Integers) holds.
    InexactInteger,
    /// More arrays and objects are open than the limit.
    TooDeep(usize),
    /// The text has more values than the limit.
    TooManyValues(usize),
    /// The text is longer than 4 GiB.
    TooLong,
}

impl FaultKind {
    /// Whether the text is not JSON at all, rather than JSON that is not taken.
    #[must_use]
    pub const fn breaks_grammar(&self) -> bool {
        match self {
            Self::NotUtf8 | Self::Syntax(_) | Self::Incomplete | Self::TrailingText => true,
            Self::DuplicateName(_)
            | Self::ReservedName
            | Self::LoneSurrogate
            | Self::NumberOverflow
            | Self::InexactInteger
            | Self::TooDeep(_)
            | Self::TooManyValues(_)
            | Self::TooLong => false,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Syntax(expected) => write!(f, "not JSON: expected {expected}"),
            Self::Incomplete => f.write_str("not JSON: the text ends too early"),
            Self::TrailingText => f.write_str("not JSON: text after the value"),
            Self::DuplicateName(name) => write!(f, "duplicate member name {name:?}"),
            Self::ReservedName => f.write_str("a member name of serde_json's own"),
            Self::LoneSurrogate => f.write_str("a lone surrogate in a string"),
            Self::NumberOverflow => f.write_str("a number too large for a double"),
            Self::InexactInteger => f.write_str("an integer beyond ±(2^53−1)"),
            Self::TooDeep(limit) => write!(f, "nested deeper than {limit}"),
            Self::TooManyValues(limit) => write!(f, "more than {limit} values"),
            Self::TooLong => f.write_str("longer than 4 GiB"),
        }
    }
}
