//! Patterns of rules: texts in which `*` stands for anything.

use std::fmt;

use crate::{Error, Problem, limits};

/// A pattern for the name of a tool, of an agent, or for a DID. `*` stands for any characters, none
/// included; everything else stands for itself, in its case.
///
/// A match takes time in proportion to the lengths of name and pattern: the pieces between stars
/// are looked for from left to right, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// No star.
    Literal,
    /// Before the first star and after the last so many bytes stand for themselves.
    Stars {
        prefix: usize,
        suffix: usize,
        /// What must stand between them, in this order.
        middle: Box<[Box<str>]>,
    },
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is empty, too long, or has one of the characters that other kinds of patterns give a
    /// meaning: a rule that was meant otherwise would silently never match.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > limits::GLOB {
            let limit = limits::GLOB;
            return Err(Error::from(Problem::TooMany {
                limit,
                unit: "bytes",
            }));
        }
        let reserved = |c: char| c.is_control() || matches!(c, '?' | '[' | ']' | '{' | '}' | '\\');
        if text.is_empty() || text.contains(reserved) {
            return Err(FORM.into());
        }
        Ok(Self {
            text: text.into(),
            shape: Shape::of(text),
        })
    }

    /// Whether a name fits.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let Shape::Stars {
            prefix,
            suffix,
            middle,
        } = &self.shape
        else {
            return *self.text == *name;
        };
        let Some(inner_end) = name.len().checked_sub(*suffix).filter(|end| end >= prefix) else {
            return false;
        };
        let bytes = (name.as_bytes(), self.text.as_bytes());
        if bytes.0.get(..*prefix) != bytes.1.get(..*prefix)
            || bytes.0.get(inner_end..) != bytes.1.get(bytes.1.len().saturating_sub(*suffix)..)
        {
            return false;
        }
        // The ends are equal to pieces of the pattern, so they lie between characters.
        let mut rest = name.get(*prefix..inner_end).unwrap_or_default();
        middle.iter().all(|piece| match rest.split_once(&**piece) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every name that fits the other pattern fits this one. May be false although it is so.
    ///
    /// No piece of this pattern contains a star, so a star of the other's text can only stand where
    /// a star of this one does, and there anything else may stand too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.matches(&other.text)
    }

    /// Whether no name fits both. May be false although it is so.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (Shape::Literal, _) => !other.matches(&self.text),
            (_, Shape::Literal) => !self.matches(&other.text),
            (Shape::Stars { .. }, Shape::Stars { .. }) => {
                let (a, b) = (self.ends(), other.ends());
                !(a.0.starts_with(b.0) || b.0.starts_with(a.0))
                    || !(a.1.ends_with(b.1) || b.1.ends_with(a.1))
            }
        }
    }

    /// What every name that fits begins with.
    pub(crate) fn prefix(&self) -> &str {
        self.ends().0
    }

    /// What stands before the first star and after the last.
    fn ends(&self) -> (&str, &str) {
        let first = self.text.split('*').next();
        let last = self.text.rsplit('*').next();
        (first.unwrap_or_default(), last.unwrap_or_default())
    }
}

impl Shape {
    fn of(text: &str) -> Self {
        let Some((prefix, rest)) = text.split_once('*') else {
            return Self::Literal;
        };
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let pieces = middle.split('*').filter(|piece| !piece.is_empty());
        Self::Stars {
            prefix: prefix.len(),
            suffix: suffix.len(),
            middle: pieces.map(Into::into).collect(),
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const FORM: Problem = Problem::Form(
    "a name in which `*` stands for anything, without control characters and ? [ ] { } \\",
);
