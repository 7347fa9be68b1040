//! The heads of HTTP/1.1 requests as they go by, to find those that can be read in two ways (RFC 9112 §11.2).

/// Where in the stream of requests the connection is.
#[derive(Debug)]
pub(super) struct Heads {
    at: At,
    /// The line so far, as much of it as matters.
    line: Vec<u8>,
    last: u8,
    length: Option<u64>,
    has_transfer_encoding: bool,
    has_upgrade: bool,
    is_begun: bool,
    is_ambiguous: bool,
}

#[derive(Debug)]
enum At {
    Head,
    Body(u64),
    /// Behind this request nothing more is read as a head.
    Last,
}

/// Enough for the names and values that matter.
const MOST: usize = 64;

impl Default for Heads {
    fn default() -> Self {
        Self {
            at: At::Head,
            line: Vec::with_capacity(MOST),
            last: 0,
            length: None,
            has_transfer_encoding: false,
            has_upgrade: false,
            is_begun: false,
            is_ambiguous: false,
        }
    }
}

impl Heads {
    /// Whether a head has begun and not ended.
    pub(super) const fn is_inside(&self) -> bool {
        self.is_begun
    }

    /// Whether one of them says its length twice, or has lines that others may not see as such.
    pub(super) const fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Last => return,
                At::Body(left) => {
                    let taken =
                        usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left = left.saturating_sub(taken as u64);
                    if *left == 0 {
                        self.at = At::Head;
                    }
                    bytes = bytes.get(taken..).unwrap_or_default();
                }
                At::Head => {
                    self.is_begun = true;
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    let room = MOST.saturating_sub(self.line.len()).min(text.len());
                    self.line
                        .extend_from_slice(text.get(..room).unwrap_or_default());
                    self.last = text.last().copied().unwrap_or(self.last);
                    bytes = rest.get(1..).unwrap_or_default();
                    if end.is_some() {
                        self.end_line();
                    }
                }
            }
        }
    }

    fn end_line(&mut self) {
        if self.last != b'\r' {
            self.is_ambiguous = true;
        }
        self.last = 0;
        let line = self.line.trim_ascii_end();
        if line.is_empty() {
            self.line.clear();
            self.end_head();
            return;
        }
        if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if name.eq_ignore_ascii_case(b"content-length") {
                let length = match self.line.len() < MOST {
                    true => digits(value),
                    // Its end was not kept, and may say anything.
                    false => None,
                };
                self.is_ambiguous |= length.is_none();
                let length = length.unwrap_or_default();
                self.is_ambiguous |= self.length.replace(length).is_some();
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                self.is_ambiguous |= self.has_transfer_encoding;
                self.has_transfer_encoding = true;
            } else if name.eq_ignore_ascii_case(b"upgrade") {
                self.has_upgrade = true;
            }
        }
        self.line.clear();
    }

    fn end_head(&mut self) {
        self.is_begun = false;
        let length = self.length.take();
        self.is_ambiguous |= self.has_transfer_encoding && length.is_some();
        self.at = match length {
            // Chunks are not followed here: a request with them is the last of its connection, as is
            // one that asks for another protocol.
            _ if self.has_transfer_encoding || self.has_upgrade => At::Last,
            Some(0) | None => At::Head,
            Some(length) => At::Body(length),
        };
        self.has_transfer_encoding = false;
        self.has_upgrade = false;
    }
}

/// A number as a length is written: digits and nothing else.
fn digits(text: &[u8]) -> Option<u64> {
    let is_plain = text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| is_plain);
    text.and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(texts: &[&str]) -> Heads {
        let mut heads = Heads::default();
        for text in texts {
            heads.feed(text.as_bytes());
        }
        heads
    }

    #[test]
    fn requests_in_any_pieces_are_followed() {
        let text = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab\n\nePOST / HTTP/1.1\r\n\r\n";
        for cut in 0..text.len() {
            let (one, two) = text.split_at(cut);
            let heads = fed(&[one, two]);
            assert!(!heads.is_ambiguous(), "{cut}");
            assert!(!heads.is_inside(), "{cut}");
        }
        assert!(fed(&["POST / HTTP/1.1\r\nContent-Le"]).is_inside());
        assert!(!fed(&["POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na"]).is_inside());
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_found_in_every_request() {
        let before = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde";
        for bad in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
            "POST / HTTP/1.1\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\n",
        ] {
            assert!(fed(&[bad]).is_ambiguous(), "{bad}");
            assert!(fed(&[before, bad]).is_ambiguous(), "{bad}");
        }
    }

    /// What is kept of a line is short; a length that does not fit there must not pass for none.
    #[test]
    fn a_length_that_is_hidden_behind_the_end_of_a_line_is_found() {
        for value in [
            format!("{}5", " ".repeat(MOST)),
            format!("{}5", "0".repeat(MOST)),
            "5 5".to_owned(),
            "+5".to_owned(),
            String::new(),
        ] {
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {value}\r\n\r\n");
            assert!(fed(&[&head]).is_ambiguous(), "{value}");
        }
        let long = format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MOST));
        assert!(!fed(&[&long]).is_ambiguous());
    }
}
