//! Why a message was not taken.

use std::fmt;

use strict_json::{Fault, Kind};

use crate::{ErrorCode, MessageId};

/// A line that is not a message we can take, with what an answer to it needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    /// The code to answer with.
    pub code: ErrorCode<'static>,
    /// The line's `id`, as far as it could be read; empty otherwise.
    pub id: MessageId<'static>,
    /// Its `req_id`, likewise.
    pub req_id: MessageId<'static>,
    /// The line's `type`, as far as it could be read, shortened; empty otherwise.
    pub type_name: String,
    /// What is wrong.
    pub cause: Box<Cause>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It is not JSON, or JSON that is never taken.
    Json(Fault),
    /// It is JSON but not an object.
    NotAnObject,
    /// A field is missing or wrong.
    Field(Invalid),
    /// It says it is of a protocol version that is not spoken here.
    Version(String),
}

/// A field that is missing, of the wrong type or out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    // One pointer, so that a result with it is no larger than one without.
    path_and_reason: Box<(String, Reason)>,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is required and not there.
    Missing,
    /// It is null, which this field cannot be.
    Null {
        /// What it should have been.
        expected: &'static str,
    },
    /// It is of another type.
    Type {
        /// What it should have been.
        expected: &'static str,
        /// What it is.
        found: Kind,
    },
    /// It is of the right type, but such a value is not taken.
    Value {
        /// What it should have been.
        expected: &'static str,
        /// The value, shortened.
        found: String,
    },
}

/// What a peer wrote is cut to this many characters in an error.
const SHOWN: usize = 64;

/// A peer's text as it is shown in an error.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.into(),
    }
}

impl DecodeError {
    /// A line of which nothing can be told.
    pub(crate) fn unreadable(cause: Cause) -> Self {
        Self {
            code: ErrorCode::ParseError,
            id: MessageId::default(),
            req_id: MessageId::default(),
            type_name: String::new(),
            cause: cause.into(),
        }
    }
}

impl Invalid {
    #[cold]
    pub(crate) fn missing() -> Self {
        Self::because(Reason::Missing)
    }

    #[cold]
    pub(crate) fn null(expected: &'static str) -> Self {
        Self::because(Reason::Null { expected })
    }

    #[cold]
    pub(crate) fn kind(expected: &'static str, found: Kind) -> Self {
        Self::because(Reason::Type { expected, found })
    }

    #[cold]
    pub(crate) fn value(expected: &'static str, found: &str) -> Self {
        let found = shortened(found);
        Self::because(Reason::Value { expected, found })
    }

    /// The same error, seen from the object that has the field `name`.
    #[cold]
    pub(crate) fn at_field(mut self, name: &str) -> Self {
        let path = &mut self.path_and_reason.0;
        let name = shortened(name);
        let dot = if path.is_empty() || path.starts_with('[') {
            ""
        } else {
            "."
        };
        *path = format!("{name}{dot}{path}");
        self
    }

    /// The same error, seen from the array that has the element `index`.
    #[cold]
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        let path = &mut self.path_and_reason.0;
        let dot = if path.is_empty() { "" } else { "." };
        *path = format!("[{index}]{dot}{path}");
        self
    }

    /// The way to the field, such as `tools[2].input_parameters[0].type`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path_and_reason.0
    }

    /// What is wrong with it.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.path_and_reason.1
    }

    fn because(reason: Reason) -> Self {
        Self {
            path_and_reason: Box::new((String::new(), reason)),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.type_name.is_empty() {
            write!(f, "{}: ", self.type_name)?;
        }
        match &*self.cause {
            Cause::Json(fault) => write!(f, "{fault}"),
            Cause::NotAnObject => f.write_str("a message is a JSON object"),
            Cause::Field(invalid) => write!(f, "{invalid}"),
            Cause::Version(version) => {
                write!(
                    f,
                    "protocol version {version:?} is not spoken here, only 1.x"
                )
            }
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}` ", self.path())?;
        match self.reason() {
            Reason::Missing => f.write_str("is missing"),
            Reason::Null { expected } => write!(f, "must be {expected}, not null"),
            Reason::Type { expected, found } => {
                let found = match found {
                    Kind::Null => "null",
                    Kind::Bool => "a boolean",
                    Kind::Number => "a number",
                    Kind::String => "a string",
                    Kind::Array => "an array",
                    Kind::Object => "an object",
                };
                write!(f, "must be {expected}, not {found}")
            }
            Reason::Value { expected, found } => write!(f, "must be {expected}, not {found}"),
        }
    }
}
