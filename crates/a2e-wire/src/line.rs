//! NDJSON framing: bytes in, lines out, whatever the chunks.

use memchr::memchr;

/// Cuts a stream of bytes into lines.
///
/// A line ends with LF or CRLF; blank lines are passed over; what stands behind the last newline
/// is a line when the stream ends. A line over the limit is one error, and the next line is read
/// as if nothing had been there; at most `max_line` + 1 bytes are kept, never more, and the space
/// of a long line is given back.
///
/// ```
/// use a2e_wire::Framer;
///
/// let mut framer = Framer::new(1024);
/// let mut lines = framer.feed(b"{\"a\":1}\r\n\n{\"b\"");
/// assert_eq!(lines.next(), Some(Ok(&b"{\"a\":1}"[..])));
/// assert_eq!(lines.next(), None);
/// assert_eq!(framer.feed(b":2}\n").next(), Some(Ok(&b"{\"b\":2}"[..])));
/// assert_eq!(framer.finish(), None);
/// ```
#[derive(Debug)]
pub struct Framer {
    max_line: usize,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The line in `partial` has been handed out and can go.
    handed_out: bool,
    /// The rest of the current line is thrown away.
    discarding: bool,
    /// Ends of lines seen so far.
    newlines: u64,
}

/// Space for a line of this size is kept between lines.
const KEPT: usize = 64 * 1024;

/// A line over the limit. Its content is gone; the stream goes on behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the line is longer than {limit} bytes")]
pub struct LineTooLong {
    /// The limit in bytes, without the line's end.
    pub limit: usize,
}

/// The lines that a chunk completes; see [`Framer::feed`].
#[derive(Debug)]
pub struct Lines<'f, 'c> {
    framer: &'f mut Framer,
    chunk: &'c [u8],
}

impl Framer {
    /// A framer for lines of at most `max_line` bytes, not counting the line's end.
    #[must_use]
    pub const fn new(max_line: usize) -> Self {
        Self {
            max_line,
            partial: Vec::new(),
            handed_out: false,
            discarding: false,
            newlines: 0,
        }
    }

    /// Takes lines of at most `max_line` bytes from now on.
    pub const fn set_max_line(&mut self, max_line: usize) {
        self.max_line = max_line;
    }

    /// Takes the next chunk of the stream and hands out the lines it completes.
    ///
    /// Call [`Lines::next`] until it returns `None`: only then is the chunk's tail kept.
    pub fn feed<'f, 'c>(&'f mut self, chunk: &'c [u8]) -> Lines<'f, 'c> {
        Lines {
            framer: self,
            chunk,
        }
    }

    /// The line behind the last newline, if the stream has ended there.
    pub fn finish(&mut self) -> Option<Result<&[u8], LineTooLong>> {
        self.forget_handed_out();
        self.newlines = self.newlines.saturating_add(1);
        if std::mem::take(&mut self.discarding) {
            return None;
        }
        self.complete_partial()
    }

    /// Bytes kept for a line whose end has not come yet.
    #[must_use]
    pub fn buffered(&self) -> usize {
        if self.handed_out {
            0
        } else {
            self.partial.len()
        }
    }

    /// The number of the line last handed out, blank ones counted, from 1.
    #[must_use]
    pub const fn line_number(&self) -> u64 {
        self.newlines
    }

    fn forget_handed_out(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.partial.clear();
            self.partial.shrink_to(KEPT);
        }
    }

    /// Hands out the line in `partial`, whose end has come.
    fn complete_partial(&mut self) -> Option<Result<&[u8], LineTooLong>> {
        self.handed_out = true;
        content(&self.partial, self.max_line)
    }

    /// Keeps the beginning of a line. True if it is already too long to become one.
    fn keep(&mut self, tail: &[u8]) -> bool {
        // One byte over the limit may be the CR of the line's end.
        let room = self
            .max_line
            .saturating_add(1)
            .saturating_sub(self.partial.len());
        let fits = tail.is_empty()
            || tail.len() < room
            || (tail.len() == room && tail.last() == Some(&b'\r'));
        if fits {
            self.partial.extend_from_slice(tail);
            return false;
        }
        self.partial = Vec::new();
        self.discarding = true;
        true
    }

    const fn too_long(&self) -> LineTooLong {
        LineTooLong {
            limit: self.max_line,
        }
    }
}

impl Lines<'_, '_> {
    /// The number of the line last handed out, blank ones counted, from 1.
    #[must_use]
    pub const fn line_number(&self) -> u64 {
        self.framer.newlines
    }

    /// The next complete line, without its end.
    #[expect(
        clippy::should_implement_trait,
        reason = "a line borrows from the framer, which `Iterator` cannot express"
    )]
    pub fn next(&mut self) -> Option<Result<&[u8], LineTooLong>> {
        self.framer.forget_handed_out();
        loop {
            let Some(newline) = memchr(b'\n', self.chunk) else {
                let tail = std::mem::take(&mut self.chunk);
                if !self.framer.discarding && self.framer.keep(tail) {
                    return Some(Err(self.framer.too_long()));
                }
                return None;
            };
            let (line, rest) = self.chunk.split_at_checked(newline)?;
            self.chunk = rest.get(1..).unwrap_or_default();
            self.framer.newlines = self.framer.newlines.saturating_add(1);
            if std::mem::take(&mut self.framer.discarding) {
                continue;
            }
            if self.framer.partial.is_empty() {
                if let Some(outcome) = content(line, self.framer.max_line) {
                    return Some(outcome);
                }
                continue;
            }
            if self.framer.keep(line) {
                self.framer.discarding = false;
                return Some(Err(self.framer.too_long()));
            }
            if is_blank(&self.framer.partial) {
                self.framer.partial.clear();
                continue;
            }
            return self.framer.complete_partial();
        }
    }
}

/// A line without its CR; `None` if it is blank.
fn content(line: &[u8], max_line: usize) -> Option<Result<&[u8], LineTooLong>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > max_line {
        return Some(Err(LineTooLong { limit: max_line }));
    }
    (!is_blank(line)).then_some(Ok(line))
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests;
