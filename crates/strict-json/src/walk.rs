//! The walk behind a scan: recursive descent over one text.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use crate::lex::{self, incomplete, syntax};
use crate::scan::{Key, Member, MemberSpan, Remember, Scanner};
use crate::{Fault, FaultKind};

/// A name in a fault is cut to this many characters.
const SHOWN: usize = 64;

/// `serde_json` gives names with this prefix a meaning of its own.
const RESERVED: &str = "$serde_json::private::";

/// Objects up to this many members are compared pairwise (behind the filter), larger ones sorted.
pub(crate) const PAIRWISE: usize = 32;

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
pub(crate) struct Walk<'s, 't> {
    pub(crate) scanner: &'s mut Scanner,
    pub(crate) text: &'t str,
}

impl<'t> Walk<'_, 't> {
    /// Reads any value at `at`, inside `depth` containers; returns the offset behind it.
    pub(crate) fn value(&mut self, at: usize, depth: usize) -> Result<usize, Box<Fault>> {
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
            let (_, value) = self.key(at, &mut names)?;
            let end = self.value(value, depth + 1)?;
            match self.after_member(end)? {
                Next::Member(next) => at = next,
                Next::End(end) => {
                    self.close_names(&names, open);
                    return Ok(end);
                }
            }
        }
    }

    /// Reads the outermost object, whose members are shown to `visit`.
    pub(crate) fn outermost_object(
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
            let (member, end) = self.member(key, value)?;
            let sound = member.span.plain || self.scanner.fault.is_none();
            if sound && visit(&member) == Remember::Yes {
                self.scanner.members.push(member.span);
            }
            match self.after_member(end)? {
                Next::Member(next) => at = next,
                Next::End(end) => {
                    self.close_names(&names, open);
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
        let name = match plain {
            Some(_) => key,
            None => self.unescape(key),
        };
        let bytes_of_name = name.bytes(self.text, &self.scanner.unescaped);
        let bit = filter_bit(bytes_of_name);
        if bytes_of_name.first() == Some(&b'$') {
            self.check_reserved(name, start);
        }
        if names.filter & bit != 0 {
            self.compare_with_earlier(name, names.first_key, start);
        }
        names.filter |= bit;
        self.scanner.keys.push(name);
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
    fn close_names(&mut self, names: &Names, open: usize) {
        if self.scanner.keys.len() - names.first_key > PAIRWISE {
            self.compare_all(names.first_key, open);
        }
        self.scanner.keys.truncate(names.first_key);
    }

    /// Looks for a name among the earlier ones of its object, while these are few.
    #[inline(never)]
    fn compare_with_earlier(&mut self, name: Key, first_key: usize, at: usize) {
        let (text, unescaped) = (self.text, self.scanner.unescaped.as_str());
        let wanted = name.bytes(text, unescaped);
        let earlier = self.scanner.keys.get(first_key..).unwrap_or_default();
        let is_same = |other: &Key| other.bytes(text, unescaped) == wanted;
        if earlier.len() <= PAIRWISE && earlier.iter().any(is_same) {
            self.note_duplicate(name, at);
        }
    }

    /// Sorts the names of an object, so that equal ones are neighbours.
    #[inline(never)]
    fn compare_all(&mut self, first_key: usize, at: usize) {
        let (text, unescaped) = (self.text, self.scanner.unescaped.as_str());
        let keys = self.scanner.keys.get_mut(first_key..).unwrap_or_default();
        keys.sort_unstable_by(|a, b| a.bytes(text, unescaped).cmp(b.bytes(text, unescaped)));
        let same = keys
            .array_windows()
            .find(|[a, b]| a.bytes(text, unescaped) == b.bytes(text, unescaped));
        if let Some(&[_, name]) = same {
            self.note_duplicate(name, at);
        }
    }

    /// The unescaped form of a name, in the scanner's scratch space.
    #[cold]
    fn unescape(&mut self, key: Key) -> Key {
        let unescaped = &mut self.scanner.unescaped;
        let start = unescaped.len();
        unescaped.push_str(&lex::unescape(key.name(self.text)));
        Key {
            start: offset(start),
            end: offset(unescaped.len()),
            escaped: true,
        }
    }

    #[cold]
    fn check_reserved(&mut self, name: Key, at: usize) {
        let bytes = name.bytes(self.text, &self.scanner.unescaped);
        if bytes.starts_with(RESERVED.as_bytes()) {
            let kind = FaultKind::ReservedName;
            self.note(Fault { kind, at });
        }
    }

    #[cold]
    fn note_duplicate(&mut self, name: Key, at: usize) {
        let bytes = name.bytes(self.text, &self.scanner.unescaped);
        let name = String::from_utf8_lossy(bytes).chars().take(SHOWN).collect();
        let kind = FaultKind::DuplicateName(name);
        self.note(Fault { kind, at });
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

/// A bit that depends on a name's length and on its ends.
#[inline]
fn filter_bit(name: &[u8]) -> u64 {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else {
        return 1;
    };
    let mixed = (name.len() as u32) << 16 ^ u32::from(last) << 8 ^ u32::from(first);
    // By trial: few names that occur together in messages share a bit with this factor.
    1 << (mixed.wrapping_mul(0xEACC_110F) >> 26)
}

/// An offset as it is kept; [`Scanner::scan`] refuses texts that have larger ones.
const fn offset(at: usize) -> u32 {
    at as u32
}
