//! The frames of HTTP/2 as they go by, to know whether a header block has begun and not ended (RFC 9113 §4.3).

/// Where in the stream of frames the connection is.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes to pass before the next frame.
    skip: usize,
    head: [u8; HEAD],
    /// How much of the next frame's head is there.
    filled: usize,
    /// A header block is open behind the frame that is being passed.
    goes_on: bool,
    is_inside: bool,
}

const PREFACE: usize = 24;
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

impl Default for Frames {
    fn default() -> Self {
        Self {
            skip: PREFACE,
            head: [0; HEAD],
            filled: 0,
            goes_on: false,
            is_inside: false,
        }
    }
}

impl Frames {
    /// Whether a header block has begun and not ended.
    pub(super) const fn is_inside(&self) -> bool {
        self.is_inside
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            let passed = self.skip.min(bytes.len());
            self.skip = self.skip.saturating_sub(passed);
            bytes = bytes.get(passed..).unwrap_or_default();
            if self.skip > 0 {
                return;
            }
            self.is_inside = self.goes_on;
            for place in self.head.iter_mut().skip(self.filled) {
                let Some((byte, rest)) = bytes.split_first() else {
                    return;
                };
                *place = *byte;
                self.filled = self.filled.saturating_add(1);
                bytes = rest;
            }
            self.filled = 0;
            let [high, middle, low, kind, flags, ..] = self.head;
            self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if matches!(kind, HEADERS | CONTINUATION) {
                self.goes_on = flags & END_HEADERS == 0;
                self.is_inside = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + usize::from(length), 0xff);
        frame
    }

    fn fed(frames: &[Vec<u8>]) -> Frames {
        let mut seen = Frames::default();
        seen.feed(&[0; PREFACE]);
        for byte in frames.concat() {
            seen.feed(&[byte]);
        }
        let mut at_once = Frames::default();
        at_once.feed(&[&[0; PREFACE], &*frames.concat()].concat());
        assert_eq!(seen.is_inside(), at_once.is_inside());
        seen
    }

    #[test]
    fn a_header_block_is_open_until_its_last_byte() {
        let ping = || frame(6, 0, 8);
        assert!(!fed(&[ping(), frame(HEADERS, END_HEADERS, 20), ping()]).is_inside());
        assert!(!fed(&[frame(HEADERS, END_HEADERS, 0)]).is_inside());
        assert!(fed(&[frame(HEADERS, 0, 20)]).is_inside());
        assert!(fed(&[frame(HEADERS, 0, 20), frame(CONTINUATION, 0, 0)]).is_inside());
        let ended = frame(CONTINUATION, END_HEADERS, 3);
        assert!(!fed(&[frame(HEADERS, 0, 20), ended]).is_inside());
        let mut cut = frame(HEADERS, END_HEADERS, 20);
        cut.truncate(HEAD + 19);
        assert!(fed(&[cut]).is_inside());
    }
}
