//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use strict_json::{Charset, Cursor};

use crate::{Body, Cause, Decoder, Envelope, Framer, Message, Sender, Timestamp, Unknown};

const MAX_LINE: usize = 64;

/// Any stream in any chunks: the lines must be those of the stream in one piece, the framer's
/// memory bounded. The first byte is the size of the chunks.
pub fn a2e_lines(bytes: &[u8]) {
    let Some((&size, stream)) = bytes.split_first() else {
        return;
    };
    let chunked = lines(stream.chunks(usize::from(size).max(1)));
    assert_eq!(chunked, lines([stream].into_iter()));
    let mut decoder = Decoder::default();
    for line in chunked.into_iter().flatten() {
        assert!(line.len() <= MAX_LINE && !line.contains(&b'\n'));
        // Any outcome is fine, a panic is not.
        let _ = decoder.decode(&line, Sender::Host, Timestamp::default());
    }
}

fn lines<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Vec<Option<Vec<u8>>> {
    let mut framer = Framer::new(MAX_LINE);
    let mut all = Vec::new();
    for chunk in chunks {
        let mut lines = framer.feed(chunk);
        while let Some(line) = lines.next() {
            all.push(line.ok().map(<[u8]>::to_vec));
        }
        assert!(framer.buffered() <= MAX_LINE.saturating_add(1));
    }
    if let Some(line) = framer.finish() {
        all.push(line.ok().map(<[u8]>::to_vec));
    }
    all
}

/// Any line, from either side: what is taken is written again, read as the same message and
/// written as the same bytes, in both character sets.
pub fn a2e_message(line: &[u8]) {
    let now = Timestamp::default();
    let mut decoder = Decoder::default();
    for sender in [Sender::Agent, Sender::Host] {
        let Ok(message) = decoder.decode(line, sender, now) else {
            continue;
        };
        let owned = message.clone().into_owned();
        assert_eq!(owned, message);
        for charset in [Charset::Utf8, Charset::Ascii] {
            let mut written = Vec::new();
            message.encode_to(&mut written, charset);
            assert!(!written.contains(&b'\n'));
            assert!(charset == Charset::Utf8 || written.is_ascii());
            let again = match Decoder::default().decode(&written, sender, now) {
                Ok(again) => again,
                // Defaults and mirrored fields can take a message at a limit past it.
                Err(error) if written.len() > line.len().saturating_add(10_000) => {
                    assert!(matches!(*error.cause, Cause::Json(_)));
                    continue;
                }
                Err(error) => panic!("what we write is not taken: {error}"),
            };
            assert_eq!(again.body.tag(), message.body.tag());
            match (&again.body, &message.body) {
                (Body::Unknown(again), Body::Unknown(message)) if charset == Charset::Utf8 => {
                    assert_eq!(own_members(again), own_members(message));
                }
                (again, body) if charset == Charset::Utf8 && !has_envelopes_inside(&message) => {
                    assert_eq!(again, body);
                }
                _ => {}
            }
            let mut rewritten = Vec::new();
            again.encode_to(&mut rewritten, charset);
            assert_eq!(rewritten, written);
        }
    }
}

/// The members of a message of unknown type, without those of its envelope.
fn own_members(unknown: &Unknown<'_>) -> Vec<(String, Vec<u8>)> {
    let mut cursor = Cursor::new(unknown.raw.checked());
    let mut members = Vec::new();
    if let Some(mut open) = cursor.begin_object() {
        while let Some(name) = cursor.next_member(&mut open) {
            let mut value = Vec::new();
            cursor.raw().push_to(&mut value, Charset::Utf8);
            if !Envelope::NAMES.contains(&&*name) {
                members.push((name.into_owned(), value));
            }
        }
    }
    members
}

/// Whether a message contains others, whose envelopes are written with our own version.
const fn has_envelopes_inside(message: &Message<'_>) -> bool {
    matches!(
        message.body,
        Body::ToolCallResponse(_) | Body::SkillCallResponse(_) | Body::EnvBatchStepResponse(_)
    )
}
