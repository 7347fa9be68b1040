//! The one check of a text: grammar, depth, duplicate names, numbers, in a single walk.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use std::borrow::Cow;

use crate::lex::{self, incomplete, syntax};
use crate::{Checked, Fault, FaultKind, Limits};

/// Checks texts, and remembers the members of the outermost object of the last one.
///
/// It holds only scratch space, so one scanner serves any number of texts without allocating.
#[derive(Debug, Default)]
pub struct Scanner {
    limits: Limits,
    /// Names of all open objects, innermost last.
    keys: Vec<Key>,
    members: Vec<MemberSpan>,
    values: usize,
    /// White space between tokens so far; tells whether a value is compact.
    spaces: usize,
    /// The first fault that does not stop the walk.
    fault: Option<Fault>,
}

/// One member of the outermost object.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    text: &'a str,
    span: MemberSpan,
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
struct Key {
    start: u32,
    end: u32,
    escaped: bool,
}

#[derive(Debug, Clone, Copy)]
struct MemberSpan {
    key: Key,
    value_start: u32,
    value_end: u32,
    compact: bool,
    /// The value is a string without escapes.
    plain: bool,
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

/// Objects up to this many members are compared pairwise (behind the filter), larger ones sorted.
const PAIRWISE: usize = 32;

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
    /// lone surrogate or number out of range. [`Scanner::members`] then still lists what was read.
    pub fn scan<'a>(&mut self, text: &'a str) -> Result<Checked<'a>, Fault> {
        self.scan_with(text, |_| Remember::Yes)
    }

    /// Checks a text as [`Scanner::scan`] does, and shows `visit` each member of the outermost
    /// object as soon as it is read; only those it wants are remembered.
    ///
    /// What was visited counts for nothing until this returns without an error.
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
    /// After a failed scan, the complete ones before the fault. `text` must be the text scanned.
    pub fn members<'s, 'a>(
        &'s self,
        text: &'a str,
    ) -> impl Iterator<Item = Member<'a>> + use<'s, 'a> {
        self.members.iter().map(move |&span| Member { text, span })
    }

    fn reset(&mut self) {
        self.keys.clear();
        self.members.clear();
        self.values = 0;
        self.spaces = 0;
        self.fault = None;
    }
}

/// The names of one open object.
struct Names {
    /// Where they begin among the names of all open objects.
    first_key: usize,
    /// One bit per hashed name; a clear bit proves a name new.
    filter: u64,
}

/// What comes behind a member's value.
enum Next {
    /// A member, whose name starts here.
    Member(usize),
    /// The end of the object, which is here.
    End(usize),
}

/// A walk over one text: recursive descent, as deep as the limit at most.
struct Walk<'s, 't> {
    scanner: &'s mut Scanner,
    text: &'t str,
}

impl<'t> Walk<'_, 't> {
    /// Reads any value at `at`, inside `depth` containers; returns the offset behind it.
    fn value(&mut self, at: usize, depth: usize) -> Result<usize, Box<Fault>> {
        let bytes = self.text.as_bytes();
        self.count_value(at)?;
        match bytes.get(at) {
            Some(b'"') => match lex::plain_string(bytes, at + 1) {
                Some(end) => Ok(end + 1),
                None => Ok(self.escaped_string(at + 1)? + 1),
            },
            Some(b'{') => self.object(at, depth),
            Some(b'[') => self.array(at, depth),
            Some(b'-' | b'0'..=b'9') => {
                let token = lex::number(bytes, at)?;
                if let Err(fault) = token.range(self.text, at, self.scanner.limits.integers) {
                    self.note(*fault);
                }
                Ok(token.end)
            }
            Some(_) => lex::word(bytes, at),
            None => Err(incomplete(bytes)),
        }
    }

    fn array(&mut self, open: usize, depth: usize) -> Result<usize, Box<Fault>> {
        let bytes = self.text.as_bytes();
        self.check_depth(open, depth)?;
        let mut at = self.skip_spaces(open + 1);
        if bytes.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
        loop {
            at = self.value(at, depth + 1)?;
            at = self.skip_spaces(at);
            match bytes.get(at) {
                Some(b',') => at = self.skip_spaces(at + 1),
                Some(b']') => return Ok(at + 1),
                Some(_) => return Err(syntax("',' or ']'", at)),
                None => return Err(incomplete(bytes)),
            }
        }
    }

    fn object(&mut self, open: usize, depth: usize) -> Result<usize, Box<Fault>> {
        self.check_depth(open, depth)?;
        let mut at = self.skip_spaces(open + 1);
        if self.text.as_bytes().get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        let mut names = self.open_names();
        loop {
            let (key, value) = self.key(at, &mut names)?;
            self.scanner.keys.push(key);
            let end = self.value(value, depth + 1)?;
            match self.after_member(end)? {
                Next::Member(next) => at = next,
                Next::End(end) => {
                    self.close_names(&names);
                    return Ok(end);
                }
            }
        }
    }

    /// Reads the outermost object, whose members are shown to `visit`.
    fn outermost_object(
        &mut self,
        open: usize,
        mut visit: impl FnMut(&Member<'t>) -> Remember,
    ) -> Result<usize, Box<Fault>> {
        self.check_depth(open, 0)?;
        self.count_value(open)?;
        let mut at = self.skip_spaces(open + 1);
        if self.text.as_bytes().get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        let mut names = self.open_names();
        loop {
            let (key, value) = self.key(at, &mut names)?;
            self.scanner.keys.push(key);
            let (member, end) = self.member(key, value)?;
            if visit(&member) == Remember::Yes {
                self.scanner.members.push(member.span);
            }
            match self.after_member(end)? {
                Next::Member(next) => at = next,
                Next::End(end) => {
                    self.close_names(&names);
                    return Ok(end);
                }
            }
        }
    }

    /// Reads a member name, checks that it is new, and its colon; returns where the value starts.
    #[inline]
    fn key(&mut self, at: usize, names: &mut Names) -> Result<(Key, usize), Box<Fault>> {
        let bytes = self.text.as_bytes();
        match bytes.get(at) {
            Some(b'"') => {}
            Some(_) => return Err(syntax("a member name", at)),
            None => return Err(incomplete(bytes)),
        }
        let start = at + 1;
        let plain = lex::plain_string(bytes, start);
        let end = match plain {
            Some(end) => end,
            None => self.escaped_string(start)?,
        };
        let key = Key {
            start: offset(start),
            end: offset(end),
            escaped: plain.is_none(),
        };
        let bit = key.filter_bit(self.text);
        if names.filter & bit != 0 {
            self.compare_with_earlier(key, names.first_key);
        }
        names.filter |= bit;
        let colon = self.skip_spaces(end + 1);
        match bytes.get(colon) {
            Some(b':') => Ok((key, self.skip_spaces(colon + 1))),
            Some(_) => Err(syntax("':'", colon)),
            None => Err(incomplete(bytes)),
        }
    }

    /// Reads the value of a member of the outermost object.
    #[inline]
    fn member(&mut self, key: Key, at: usize) -> Result<(Member<'t>, usize), Box<Fault>> {
        let bytes = self.text.as_bytes();
        let spaces = self.scanner.spaces;
        let plain = match bytes.get(at) {
            Some(b'"') => lex::plain_string(bytes, at + 1),
            _ => None,
        };
        let end = match plain {
            Some(end) => {
                self.count_value(at)?;
                end + 1
            }
            None => self.value(at, 1)?,
        };
        let span = MemberSpan {
            key,
            value_start: offset(at),
            value_end: offset(end),
            compact: self.scanner.spaces == spaces,
            plain: plain.is_some(),
        };
        let text = self.text;
        Ok((Member { text, span }, end))
    }

    /// Passes what stands behind a member's value.
    #[inline]
    fn after_member(&mut self, end: usize) -> Result<Next, Box<Fault>> {
        let bytes = self.text.as_bytes();
        let at = self.skip_spaces(end);
        match bytes.get(at) {
            Some(b',') => Ok(Next::Member(self.skip_spaces(at + 1))),
            Some(b'}') => Ok(Next::End(at + 1)),
            Some(_) => Err(syntax("',' or '}'", at)),
            None => Err(incomplete(bytes)),
        }
    }

    /// Reads a string with escapes; returns the offset of its closing quote.
    #[cold]
    fn escaped_string(&mut self, start: usize) -> Result<usize, Box<Fault>> {
        let token = lex::escaped_string(self.text.as_bytes(), start)?;
        if let Some(at) = token.lone {
            let kind = FaultKind::LoneSurrogate;
            self.note(Fault { kind, at });
        }
        Ok(token.end)
    }

    #[inline]
    fn skip_spaces(&mut self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        // Most texts have none.
        if bytes.get(at).is_some_and(|&byte| byte > b' ') {
            return at;
        }
        let next = lex::white_space(bytes, at);
        self.scanner.spaces += next - at;
        next
    }

    #[inline]
    fn count_value(&mut self, at: usize) -> Result<(), Box<Fault>> {
        self.scanner.values += 1;
        if self.scanner.values > self.scanner.limits.values {
            return refuse(FaultKind::TooManyValues(self.scanner.limits.values), at);
        }
        Ok(())
    }

    #[inline]
    fn check_depth(&self, at: usize, depth: usize) -> Result<(), Box<Fault>> {
        if depth >= self.scanner.limits.depth {
            return refuse(FaultKind::TooDeep(self.scanner.limits.depth), at);
        }
        Ok(())
    }

    #[inline]
    fn open_names(&self) -> Names {
        Names {
            first_key: self.scanner.keys.len(),
            filter: 0,
        }
    }

    /// Forgets the names of an object; a large one is searched for duplicates now.
    #[inline]
    fn close_names(&mut self, names: &Names) {
        if self.scanner.keys.len() - names.first_key > PAIRWISE {
            self.compare_all(names.first_key);
        }
        self.scanner.keys.truncate(names.first_key);
    }

    /// Looks for a name among the earlier ones of its object, while these are few.
    #[inline(never)]
    fn compare_with_earlier(&mut self, key: Key, first_key: usize) {
        let earlier = self.scanner.keys.get(first_key..).unwrap_or_default();
        let text = self.text;
        if earlier.len() <= PAIRWISE && earlier.iter().any(|other| other.same_name(key, text)) {
            self.note_duplicate(key);
        }
    }

    /// Sorts the names of an object, so that equal ones are neighbours.
    #[inline(never)]
    fn compare_all(&mut self, first_key: usize) {
        let text = self.text;
        let keys = self.scanner.keys.get_mut(first_key..).unwrap_or_default();
        keys.sort_unstable_by(|a, b| a.compare(*b, text));
        let same = keys.array_windows().find(|[a, b]| a.same_name(*b, text));
        if let Some(&[_, key]) = same {
            self.note_duplicate(key);
        }
    }

    #[cold]
    fn note_duplicate(&mut self, key: Key) {
        let name = lex::unescape(key.name(self.text)).into_owned();
        self.note(Fault {
            kind: FaultKind::DuplicateName(name),
            at: key.start as usize,
        });
    }

    #[cold]
    fn note(&mut self, fault: Fault) {
        self.scanner.fault.get_or_insert(fault);
    }
}

#[cold]
fn refuse<T>(kind: FaultKind, at: usize) -> Result<T, Box<Fault>> {
    Err(Box::new(Fault { kind, at }))
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
    fn name(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    #[inline]
    fn bytes(self, text: &str) -> &[u8] {
        let range = self.start as usize..self.end as usize;
        text.as_bytes().get(range).unwrap_or_default()
    }

    #[inline]
    fn filter_bit(self, text: &str) -> u64 {
        if self.escaped {
            return filter_bit(lex::unescape(self.name(text)).as_bytes());
        }
        filter_bit(self.bytes(text))
    }

    fn same_name(self, other: Self, text: &str) -> bool {
        if !self.escaped && !other.escaped {
            let same_length = self.end - self.start == other.end - other.start;
            return same_length && self.bytes(text) == other.bytes(text);
        }
        self.compare(other, text).is_eq()
    }

    fn compare(self, other: Self, text: &str) -> std::cmp::Ordering {
        if !self.escaped && !other.escaped {
            return self.bytes(text).cmp(other.bytes(text));
        }
        lex::unescape(self.name(text)).cmp(&lex::unescape(other.name(text)))
    }
}

/// A bit that depends on a name's length and on its ends.
#[inline]
fn filter_bit(name: &[u8]) -> u64 {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else {
        return 1;
    };
    let mixed = (name.len() as u32) << 16 ^ u32::from(last) << 8 ^ u32::from(first);
    1 << (mixed.wrapping_mul(0x9E37_79B1) >> 26)
}

/// An offset as it is kept; [`Scanner::scan`] refuses texts that have larger ones.
const fn offset(at: usize) -> u32 {
    at as u32
}

#[cfg(test)]
mod tests;
