//! What is wrong with a policy, a name or a rule, and where.

use std::fmt;

use canonical::Value;

/// Something is wrong at some place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Names and indexes from the top, as in `policy.rules[3].when`; empty for the top itself.
    pub place: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is of another JSON type.
    Type {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number that is too small or too large.
    Range {
        /// The smallest one allowed.
        least: u64,
        /// The largest one allowed.
        most: u64,
    },
    /// It has the right type, but not a form that is allowed.
    Form(&'static str),
    /// It has more parts or bytes than it may.
    TooMany {
        /// How many it may have.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
    /// It is there, and what belongs to it is not.
    Alone {
        /// What is missing.
        needs: &'static str,
    },
    /// It names something that there is not.
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The id stands elsewhere too.
    Repeated {
        /// Where.
        first: String,
    },
    /// It is no JMESPath expression.
    Expression {
        /// What the parser says.
        message: String,
        /// Where in the expression, in bytes.
        offset: usize,
    },
}

impl Error {
    pub(crate) fn at(place: impl Into<String>, problem: Problem) -> Self {
        Self {
            place: place.into(),
            problem,
        }
    }

    /// The same error, seen from what contains the place.
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.place = match self.place.as_str() {
            "" => name.to_owned(),
            place if place.starts_with('[') => format!("{name}{place}"),
            place => format!("{name}.{place}"),
        };
        self
    }
}

impl Problem {
    pub(crate) const fn mistyped(expected: &'static str, found: &Value<'_>) -> Self {
        Self::Type {
            expected,
            found: found.describe(),
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::at("", problem)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => write!(f, "it {}", self.problem),
            place => write!(f, "`{place}` {}", self.problem),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { expected, found } => write!(f, "must be {expected}, not {found}"),
            Self::Range { least, most } => write!(f, "must be from {least} to {most}"),
            Self::Form(rule) => write!(f, "must be {rule}"),
            Self::TooMany { limit, unit } => write!(f, "must have at most {limit} {unit}"),
            Self::Alone { needs } => write!(f, "needs `{needs}` beside it"),
            Self::Unknown { what, name } => {
                write!(f, "names the {what} `{name}`, which is unknown")
            }
            Self::Repeated { first } => write!(f, "is the same as `{first}`"),
            Self::Expression { message, offset } => {
                write!(f, "is no JMESPath expression: {message} (at byte {offset})")
            }
        }
    }
}

impl std::error::Error for Error {}
