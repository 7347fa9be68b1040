//! What is wrong with a received message, and where.

use std::fmt;

use canonical::{Fault, FaultKind, Value};

use crate::{ErrorCode, Reason};

/// Why a received text is not the message it should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WireError {
    /// Not JSON within the rules of profile §1.
    #[error("not acceptable JSON: {0}")]
    Json(#[from] Fault),
    /// More bytes than this kind of text may have.
    #[error("{size} bytes are more than the limit of {limit}")]
    TooLarge {
        /// The bytes received.
        size: usize,
        /// The bytes allowed.
        limit: usize,
    },
    /// A message of no known type.
    #[error("there is no message type `{0}`")]
    UnknownType(String),
    /// A member is missing or wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// A member that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Names and indexes from the top, as in `public_keys[0].kid`; empty for the top itself.
    pub path: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is not there.
    Missing,
    /// It is of another JSON type.
    Type {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// It has the right type, but not a form that is allowed.
    Form(&'static str),
}

impl WireError {
    /// The code to answer with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            Self::Field(error) => error.code(),
            Self::Json(_) | Self::UnknownType(_) => ErrorCode::InvalidMessage,
        }
    }

    /// The `details.reason` to answer with.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Json(fault) if matches!(fault.kind, FaultKind::DuplicateName(_)) => {
                Some(Reason::DuplicateMember)
            }
            Self::Json(_) => Some(Reason::Malformed),
            Self::UnknownType(_) => Some(Reason::UnknownType),
            Self::Field(error) => Some(error.reason()),
            Self::TooLarge { .. } => None,
        }
    }
}

impl FieldError {
    pub(crate) const fn new(problem: Problem) -> Self {
        Self {
            path: String::new(),
            problem,
        }
    }

    pub(crate) const fn form(rule: &'static str) -> Self {
        Self::new(Problem::Form(rule))
    }

    pub(crate) const fn mistyped(expected: &'static str, found: &Value<'_>) -> Self {
        Self::new(Problem::Type {
            expected,
            found: found.describe(),
        })
    }

    /// The same error, seen from the object that has the member.
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => name.to_owned(),
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        };
        self
    }

    /// The code to answer with: what is wrong inside an intent is a matter of the intent.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.path == "intent" || self.path.starts_with("intent.") {
            true => ErrorCode::InvalidIntent,
            false => ErrorCode::InvalidMessage,
        }
    }

    /// The `details.reason` to answer with.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self.problem {
            Problem::Missing => Reason::MissingField,
            Problem::Type { .. } | Problem::Form(_) => Reason::BadField,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str("it ")?,
            path => write!(f, "`{path}` ")?,
        }
        match self.problem {
            Problem::Missing => f.write_str("is missing"),
            Problem::Type { expected, found } => write!(f, "must be {expected}, not {found}"),
            Problem::Form(rule) => write!(f, "must be {rule}"),
        }
    }
}

impl std::error::Error for FieldError {}
