//! Reads server-sent events: bytes in, the data of events out, whatever the chunks.

use a2e_wire::{LineTooLong, MAX_LINE};
use memchr::memchr2;

use super::link::Lines;

/// A stream of events. Of an event only its data and its id matter here.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The data of the event that is being read.
    data: Vec<u8>,
    has_data: bool,
    /// The event or the line is over the limit; it is thrown away.
    too_long: bool,
    /// The last byte was a CR, so an LF belongs to it.
    after_cr: bool,
    /// The id of the event that is being read, and of the last one that was handed out.
    id: String,
    last_id: String,
}

/// The longest line: the longest message and its field name.
const LONGEST: usize = MAX_LINE + 16;

/// The longest id that is remembered.
const LONGEST_ID: usize = 1024;

/// Space of this size is kept between events.
const KEPT: usize = 4 * 1024;

impl Events {
    /// The id to send when the stream is opened again; empty for none.
    pub(super) fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Forgets what was begun; the stream starts anew.
    pub(super) fn restart(&mut self) {
        let last_id = std::mem::take(&mut self.last_id);
        *self = Self {
            id: last_id.clone(),
            last_id,
            ..Self::default()
        };
    }

    /// Takes the next bytes and hands out the data of each event that they complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], lines: &mut dyn Lines) {
        if std::mem::take(&mut self.after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            let crlf = rest.starts_with(b"\r\n");
            self.after_cr = rest == b"\r";
            bytes = rest.get(if crlf { 2 } else { 1 }..).unwrap_or_default();
            if self.partial.is_empty() {
                self.line(line, lines);
            } else {
                self.keep(line);
                let whole = std::mem::take(&mut self.partial);
                self.line(&whole, lines);
                self.partial = whole;
                self.partial.clear();
                self.partial.shrink_to(KEPT);
            }
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.partial.len().saturating_add(bytes.len()) > LONGEST {
            self.too_long = true;
            // Something must stay, or the rest would be taken for a line of its own.
            self.partial = b":".to_vec();
        } else if !self.too_long || self.partial.is_empty() {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &[u8], lines: &mut dyn Lines) {
        if line.is_empty() {
            return self.dispatch(lines);
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let value = line.get(colon.saturating_add(1)..).unwrap_or_default();
                let value = value.strip_prefix(b" ").unwrap_or(value);
                (line.get(..colon).unwrap_or_default(), value)
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data" => self.add_data(value),
            b"id" if value.len() <= LONGEST_ID && !value.contains(&0) => {
                self.id = String::from_utf8_lossy(value).into_owned();
            }
            // Comments, names of events, times to wait.
            _ => {}
        }
    }

    fn add_data(&mut self, value: &[u8]) {
        let length = self.data.len().saturating_add(value.len());
        if length.saturating_add(1) > LONGEST {
            self.too_long = true;
            self.data = Vec::new();
            return;
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self, lines: &mut dyn Lines) {
        self.last_id.clone_from(&self.id);
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.too_long) {
            lines.line(Err(LineTooLong { limit: MAX_LINE }));
        } else if has_data {
            lines.line(Ok(&self.data));
        }
        self.data.clear();
        self.data.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Collected(Vec<Option<String>>);

    impl Lines for Collected {
        fn line(&mut self, line: Result<&[u8], LineTooLong>) {
            let text = line
                .ok()
                .map(|line| String::from_utf8(line.into()).unwrap());
            self.0.push(text);
        }
    }

    fn read(chunks: &[&[u8]]) -> (Vec<Option<String>>, String) {
        let (mut events, mut collected) = (Events::default(), Collected::default());
        for chunk in chunks {
            events.feed(chunk, &mut collected);
        }
        (collected.0, events.last_id().to_owned())
    }

    #[test]
    fn any_chunks_give_the_same_events() {
        let stream = b": hello\n\nid: 1\ndata: {\"a\":1}\n\nevent: x\r\ndata:{}\r\nretry: 5\r\n\r\nid:2\rdata: a\rdata: b\r\rdata\n\ndata: lost";
        let whole = read(&[stream]);
        let expected = ["{\"a\":1}", "{}", "a\nb", ""].map(|text| Some(text.to_owned()));
        assert_eq!(whole, (expected.into(), "2".into()));
        for cut in 0..stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(read(&[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn the_longest_event_and_one_past_it() {
        for (length, fits) in [(MAX_LINE, true), (LONGEST, false), (3 * LONGEST, false)] {
            let data = format!("data: {}\n\ndata: next\n\n", "x".repeat(length));
            for size in [data.len(), 60_000] {
                let chunks: Vec<&[u8]> = data.as_bytes().chunks(size).collect();
                let (found, _) = read(&chunks);
                assert_eq!(found.len(), 2);
                assert_eq!(found[0].as_ref().map(String::len), fits.then_some(length));
                assert_eq!(found[1].as_deref(), Some("next"));
            }
        }
    }

    #[test]
    fn ids_have_a_limit() {
        for (length, taken) in [(LONGEST_ID, true), (LONGEST_ID + 1, false)] {
            let stream = format!("id: {}\ndata: x\n\n", "7".repeat(length));
            assert_eq!(read(&[stream.as_bytes()]).1.is_empty(), !taken);
        }
    }

    #[test]
    fn a_stream_that_starts_anew_keeps_its_place() {
        let (mut events, mut collected) = (Events::default(), Collected::default());
        events.feed(b"id: 7\ndata: a\n\nid: 8\ndata: ha", &mut collected);
        events.restart();
        assert_eq!(events.last_id(), "7");
        events.feed(b"data: b\n\n", &mut collected);
        assert_eq!((collected.0.len(), events.last_id()), (2, "7"));
    }
}
