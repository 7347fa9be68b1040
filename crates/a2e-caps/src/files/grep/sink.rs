//! What a search finds in one file.

use grep_searcher::{Searcher, SinkContext, SinkContextKind, SinkMatch};
use serde_json::{Value, json};

use super::Kind;

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) lines: Vec<Line>,
    pub(super) count: u64,
}

/// A line that matches, and those around it.
#[derive(Debug, Default)]
pub(super) struct Line {
    number: u64,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
}

/// Collects what is found in a file.
pub(super) struct Sink<A> {
    kind: Kind,
    found: Found,
    before: Vec<String>,
    /// Bytes of the path, which each line names.
    path: usize,
    /// Whether there is room for more.
    admit: A,
    is_full: bool,
}

/// What there should be room for, with its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// One more line, or file.
    One(usize),
    /// A line around another.
    Context(usize),
}

/// Bytes of a line in the output beside its texts.
const LINE: usize = 64;

/// Longer lines are cut, in bytes.
const MAX_SHOWN: usize = 500;

impl Line {
    pub(super) fn told(self, path: &str) -> Value {
        let Self {
            number,
            text,
            before,
            after,
        } = self;
        match before.is_empty() && after.is_empty() {
            true => json!({"path": path, "line": number, "text": text}),
            false => json!({
                "path": path, "line": number, "text": text, "before": before, "after": after,
            }),
        }
    }
}

impl<A: FnMut(Room) -> bool> Sink<A> {
    pub(super) fn new(kind: Kind, path: usize, admit: A) -> Self {
        Self {
            kind,
            path,
            found: Found::default(),
            before: Vec::new(),
            admit,
            is_full: false,
        }
    }

    /// What was found, if anything, and whether there is no room for more.
    pub(super) fn finish(self) -> (Option<Found>, bool) {
        ((self.found.count > 0).then_some(self.found), self.is_full)
    }

    /// Whether the output has room for that too.
    fn is_room(&mut self, more: Room) -> bool {
        self.is_full = self.is_full || !(self.admit)(more);
        !self.is_full
    }
}

impl<A: FnMut(Room) -> bool> grep_searcher::Sink for Sink<A> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let text = match self.kind {
            Kind::Content => shown(found.bytes()),
            Kind::FilesWithMatches | Kind::Count => String::new(),
        };
        let is_new = self.kind == Kind::Content || self.found.count == 0;
        let size = text.len().saturating_add(self.path).saturating_add(LINE);
        if is_new && !self.is_room(Room::One(size)) {
            return Ok(false);
        }
        self.found.count = self.found.count.saturating_add(1);
        match self.kind {
            Kind::FilesWithMatches => return Ok(false),
            Kind::Count => {}
            Kind::Content => self.found.lines.push(Line {
                number: found.line_number().unwrap_or_default(),
                text,
                before: std::mem::take(&mut self.before),
                after: Vec::new(),
            }),
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, Self::Error> {
        let text = shown(line.bytes());
        if !self.is_room(Room::Context(text.len())) {
            return Ok(false);
        }
        match (line.kind(), self.found.lines.last_mut()) {
            (SinkContextKind::After, Some(last)) => last.after.push(text),
            _ => self.before.push(text),
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.before.clear();
        Ok(true)
    }
}

/// A line as it is told: without its end, and not too long.
fn shown(bytes: &[u8]) -> String {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let begin = line.get(..line.len().min(MAX_SHOWN)).unwrap_or(line);
    let mut text = String::from_utf8_lossy(begin).into_owned();
    if begin.len() < line.len() {
        // A character that was cut in two is left out.
        let whole = text.trim_end_matches('\u{FFFD}').len();
        text.truncate(whole);
        text.push('…');
    }
    text
}
