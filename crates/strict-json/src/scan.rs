//! The one check of a text: grammar, depth, duplicate names, numbers, in a single walk.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use std::borrow::Cow;

use crate::walk::Walk;
use crate::{Checked, Fault, FaultKind, Limits, lex};

/// Checks texts, and remembers the members of the outermost object of the last one.
///
/// It holds only scratch space, so one scanner serves any number of texts without allocating.
#[derive(Debug, Default)]
pub struct Scanner {
    pub(crate) limits: Limits,
    /// Names of all open objects, innermost last.
    pub(crate) keys: Vec<Key>,
    /// Those of these names that were written with escapes, unescaped.
    pub(crate) unescaped: String,
    pub(crate) members: Vec<MemberSpan>,
    pub(crate) values: usize,
    /// White space between tokens so far; tells whether a value is compact.
    pub(crate) spaces: usize,
    /// The first fault that does not stop the walk.
    pub(crate) fault: Option<Fault>,
}

/// One member of the outermost object.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub(crate) text: &'a str,
    pub(crate) span: MemberSpan,
}

/// Whether a member that was visited is to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remember {
    /// [`Scanner::members`] will list it.
    Yes,
    /// The visitor has taken what it wanted.
    No,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Written with escapes. Then a member's key spans the text, and one among `keys` the
    /// scanner's `unescaped`.
    pub(crate) escaped: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberSpan {
    pub(crate) key: Key,
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    pub(crate) compact: bool,
    /// The value is a string without escapes.
    pub(crate) plain: bool,
}

/// The text of some bytes.
///
/// # Errors
/// [`FaultKind::NotUtf8`], with the offset of the first byte that does not fit.
pub fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(bytes).map_err(|error| Fault {
        kind: FaultKind::NotUtf8,
        at: error.valid_up_to(),
    })
}

/// Scratch space for this many names or members is kept between texts.
const KEPT: usize = 1024;

/// Room for the names of a usual message, so that it need not grow step by step.
const USUAL: usize = 32;

impl Scanner {
    /// A scanner with these limits; a depth over [`Limits::MAX_DEPTH`] is cut to that.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits {
                depth: limits.depth.min(Limits::MAX_DEPTH),
                ..limits
            },
            ..Self::default()
        }
    }

    /// Checks that `text` is one JSON value within the limits, with white space around it at most.
    ///
    /// # Errors
    /// The first breach of the grammar or of a limit; if there is none, the first duplicate name,
    /// lone surrogate or number out of range.
    pub fn scan<'a>(&mut self, text: &'a str) -> Result<Checked<'a>, Fault> {
        self.scan_with(text, |_| Remember::Yes)
    }

    /// Checks a text as [`Scanner::scan`] does, and shows `visit` each member of the outermost
    /// object as soon as it is read; only those it wants are remembered.
    ///
    /// A text that is refused may still tell who sent it: once a fault is known, only strings
    /// without escapes are shown.
    ///
    /// # Errors
    /// As [`Scanner::scan`].
    pub fn scan_with<'a>(
        &mut self,
        text: &'a str,
        visit: impl FnMut(&Member<'a>) -> Remember,
    ) -> Result<Checked<'a>, Fault> {
        self.reset();
        if u32::try_from(text.len()).is_err() {
            return Err(Fault {
                kind: FaultKind::TooLong,
                at: 0,
            });
        }
        let start = lex::white_space(text.as_bytes(), 0);
        let mut walk = Walk {
            scanner: self,
            text,
        };
        let end = match text.as_bytes().get(start) {
            Some(b'{') => walk.outermost_object(start, visit),
            _ => walk.value(start, 0),
        };
        self.keys.clear();
        self.keys.shrink_to(KEPT);
        let checked = self.conclude(text, start, end);
        if checked.is_err() {
            self.members.clear();
        }
        checked
    }

    fn conclude<'a>(
        &mut self,
        text: &'a str,
        start: usize,
        end: Result<usize, Box<Fault>>,
    ) -> Result<Checked<'a>, Fault> {
        let end = end.map_err(|fault| *fault)?;
        let rest = lex::white_space(text.as_bytes(), end);
        if rest != text.len() {
            return Err(Fault {
                kind: FaultKind::TrailingText,
                at: rest,
            });
        }
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let value = text.get(start..end).unwrap_or_default();
        Ok(Checked::assume(value, self.spaces == 0))
    }

    /// The members of the outermost object of the text last scanned, in their order.
    ///
    /// None after a scan that failed. `text` must be the text scanned.
    pub fn members<'s, 'a>(
        &'s self,
        text: &'a str,
    ) -> impl Iterator<Item = Member<'a>> + use<'s, 'a> {
        self.members.iter().map(move |&span| Member { text, span })
    }

    fn reset(&mut self) {
        self.keys.clear();
        self.keys.reserve(USUAL);
        self.members.clear();
        self.members.shrink_to(KEPT);
        self.unescaped.clear();
        self.unescaped.shrink_to(KEPT);
        self.values = 0;
        self.spaces = 0;
        self.fault = None;
    }
}

impl<'a> Member<'a> {
    /// The name, unescaped.
    #[must_use]
    #[inline]
    pub fn name(&self) -> Cow<'a, str> {
        let name = self.span.key.name(self.text);
        if self.span.key.escaped {
            return lex::unescape(name);
        }
        Cow::Borrowed(name)
    }

    /// The name's bytes, if it is written without escapes.
    #[must_use]
    #[inline]
    pub fn plain_name(&self) -> Option<&'a [u8]> {
        let key = self.span.key;
        let range = key.start as usize..key.end as usize;
        match key.escaped {
            true => None,
            false => self.text.as_bytes().get(range),
        }
    }

    /// The value, checked.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Checked<'a> {
        let range = self.span.value_start as usize..self.span.value_end as usize;
        Checked::assume(self.text.get(range).unwrap_or("null"), self.span.compact)
    }

    /// The value's content, if it is a string without escapes.
    #[must_use]
    #[inline]
    pub fn plain_string(&self) -> Option<&'a str> {
        if !self.span.plain {
            return None;
        }
        let (start, end) = (self.span.value_start as usize, self.span.value_end as usize);
        self.text.get(start + 1..end - 1)
    }
}

impl Key {
    #[inline]
    pub(crate) fn name(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    #[inline]
    pub(crate) fn bytes<'k>(self, text: &'k str, unescaped: &'k str) -> &'k [u8] {
        let text = if self.escaped { unescaped } else { text };
        let range = self.start as usize..self.end as usize;
        text.as_bytes().get(range).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
