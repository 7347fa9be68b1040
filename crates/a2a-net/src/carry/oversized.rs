//! Messages that are too large to be kept: read to their end, within bounds, for the ids that say who
//! must be told.

use a2a_wire::limits as wire;
use bytes::BytesMut;
use hyper::body::{Body as _, Incoming};
use net::StreamDiscard;

use super::grpc;
use crate::transport::Ids;

/// Looks for the ids among the outermost members of a message. What is no message has none worth
/// anything, and whoever gets them looks them up.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes of gRPC that are still before the message, and whether its length follows them.
    before: usize,
    is_in_length: bool,
    ids: Ids,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Whether the next string at the outermost level is a value.
    is_value: bool,
    name: Vec<u8>,
    string: Vec<u8>,
}

impl Scan {
    fn new(is_grpc: bool) -> Self {
        Self {
            before: if is_grpc { grpc::PREFIX + 1 } else { 0 },
            is_in_length: is_grpc,
            ..Self::default()
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.take_byte(*byte));
    }

    fn take_byte(&mut self, byte: u8) {
        if self.before > 0 {
            self.before = self.before.saturating_sub(1);
            return;
        }
        if self.is_in_length {
            self.is_in_length = byte >= 0x80;
            return;
        }
        if self.is_in_string {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => self.keep(byte),
                b'"' => self.end_string(),
                _ => {
                    self.is_escaped = byte == b'\\';
                    self.keep(byte);
                }
            }
            return;
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string.clear();
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.is_value = true,
            b',' if self.depth == 1 => self.is_value = false,
            _ => {}
        }
    }

    /// Keeps what an id may have, and one byte more, so that what is longer is none.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.string.len() <= wire::SESSION_ID {
            self.string.push(byte);
        }
    }

    fn end_string(&mut self) {
        self.is_in_string = false;
        if self.depth != 1 {
            return;
        }
        if !self.is_value {
            std::mem::swap(&mut self.name, &mut self.string);
            return;
        }
        let place = match self.name.as_slice() {
            b"session_id" => &mut self.ids.session_id,
            b"request_id" => &mut self.ids.request_id,
            _ => return,
        };
        *place = String::from_utf8(std::mem::take(&mut self.string)).ok();
    }
}

/// The ids of a message that was read as a whole.
pub(crate) fn ids_of(message: &[u8]) -> Ids {
    let mut scan = Scan::default();
    scan.take(message);
    scan.ids
}

/// Reads the rest of a message that began like this; `None` if it does not end within bounds.
pub(super) async fn ids(
    begun: BytesMut,
    is_grpc: bool,
    body: &mut Incoming,
    (discard, most): (&StreamDiscard, usize),
) -> Option<Ids> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > most {
        return None;
    }
    let mut scan = Scan::new(is_grpc);
    scan.take(&begun);
    // It is not counted any more.
    drop(begun);
    let is_whole = discard.read(body, |data| scan.take(data)).await;
    is_whole.then_some(scan.ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_parts(text: &str, size: usize) -> Ids {
        let mut scan = Scan::default();
        text.as_bytes()
            .chunks(size)
            .for_each(|part| scan.take(part));
        scan.ids
    }

    #[test]
    fn ids_are_those_of_the_message_itself() {
        let text = r#"{"intent":{"session_id":"x","a":["request_id","y"]},"type":"request",
            "request_id":"r","z":"session_id","session_id":"s"}"#;
        for size in 1..text.len() {
            let ids = in_parts(text, size);
            assert_eq!(ids.session_id.as_deref(), Some("s"), "{size}");
            assert_eq!(ids.request_id.as_deref(), Some("r"), "{size}");
        }
    }

    /// At the limit of an id, and one past it.
    #[test]
    fn long_strings_are_cut() {
        for (length, kept) in [
            (wire::SESSION_ID, wire::SESSION_ID),
            (1 << 20, wire::SESSION_ID + 1),
        ] {
            let text = format!(r#"{{"session_id":"{}"}}"#, "x".repeat(length));
            let ids = in_parts(&text, 1000);
            assert_eq!(ids.session_id.unwrap().len(), kept);
        }
    }

    #[test]
    fn what_is_before_a_message_of_grpc_is_no_part_of_it() {
        // Lengths whose bytes are all braces and quotes.
        for length in [0x7b, 0x22 << 7 | 0x7b] {
            let text = format!(r#"{{"request_id":"r","x":"{}"}}"#, "x".repeat(length));
            let mut scan = Scan::new(true);
            scan.take(&grpc::framed(text.as_bytes()));
            assert_eq!(scan.ids.request_id.as_deref(), Some("r"));
        }
    }
}
