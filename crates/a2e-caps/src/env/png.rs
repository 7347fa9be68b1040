//! A small writer of PNG: true colour, rows as their difference to the row above, runs as matches.
//!
//! Drawings are mostly rows like the one above and long runs, and those become a few bytes each. It
//! finds no other repetitions: a photograph would be as large as it is.

use super::picture::Picture;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The filter `up`: each byte less the one above.
const UP: u8 = 2;
/// The longest and the shortest run that one code says.
const LONGEST: usize = 258;
const SHORTEST: usize = 3;

/// A picture as a PNG file.
pub(super) fn encode(picture: &Picture) -> Vec<u8> {
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut header = Vec::from([size(picture.width()), size(picture.height())].as_flattened());
    // Eight bits, true colour, and the one way of compressing, filtering and ordering there is.
    header.extend([8, 2, 0, 0, 0]);
    let mut out = SIGNATURE.to_vec();
    chunk(&mut out, *b"IHDR", &header);
    chunk(&mut out, *b"IDAT", &zlib(&filtered(picture)));
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(kind);
    out.extend(content);
    out.extend(crc32(kind.iter().chain(content)).to_be_bytes());
}

/// The rows, each after the number of its filter.
fn filtered(picture: &Picture) -> Vec<u8> {
    let width = picture.width().saturating_mul(3).max(1);
    let mut out = Vec::with_capacity(picture.bytes().len().saturating_add(picture.height()));
    let mut above = vec![0; width];
    for row in picture.bytes().chunks(width) {
        out.push(UP);
        out.extend(
            row.iter()
                .zip(&above)
                .map(|(byte, up)| byte.wrapping_sub(*up)),
        );
        above = row.to_vec();
    }
    out
}

/// Bytes in the format of zlib, as one block with the fixed codes.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut bits = Bits {
        out: vec![0x78, 0x01],
        ..Bits::default()
    };
    // The last block; fixed codes.
    bits.low_first(1, 1);
    bits.low_first(1, 2);
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        bits.literal(*first);
        rest = tail;
        loop {
            let run = rest.iter().take(LONGEST).take_while(|byte| *byte == first);
            let run = run.count();
            if run < SHORTEST {
                break;
            }
            bits.run(run);
            rest = rest.get(run..).unwrap_or_default();
        }
    }
    bits.symbol(256);
    let mut out = bits.finish();
    out.extend(adler32(bytes).to_be_bytes());
    out
}

/// Bits, from the lowest of each byte up.
#[derive(Debug, Default)]
struct Bits {
    out: Vec<u8>,
    waiting: u32,
    count: u32,
}

impl Bits {
    fn low_first(&mut self, value: u32, count: u32) {
        self.waiting |= value << self.count;
        self.count = self.count.saturating_add(count);
        while self.count >= 8 {
            let [byte, ..] = self.waiting.to_le_bytes();
            self.out.push(byte);
            self.waiting >>= 8;
            self.count = self.count.saturating_sub(8);
        }
    }

    /// A code word, whose highest bit comes first.
    fn word(&mut self, value: u32, count: u32) {
        let reversed = value.reverse_bits() >> 32_u32.saturating_sub(count);
        self.low_first(reversed, count);
    }

    /// A symbol in the fixed code (RFC 1951, 3.2.6).
    fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.word(symbol.saturating_add(0x30), 8),
            144..=255 => self.word(symbol.saturating_sub(144).saturating_add(0x190), 9),
            256..=279 => self.word(symbol.saturating_sub(256), 7),
            _ => self.word(symbol.saturating_sub(280).saturating_add(0xC0), 8),
        }
    }

    fn literal(&mut self, byte: u8) {
        self.symbol(byte.into());
    }

    /// The last byte so many times more: a match at distance 1.
    fn run(&mut self, length: usize) {
        let (symbol, extra, bits) = length_code(length);
        self.symbol(symbol);
        self.low_first(extra, bits);
        self.word(0, 5);
    }

    fn finish(mut self) -> Vec<u8> {
        let missing = 8_u32.saturating_sub(self.count) % 8;
        self.low_first(0, missing);
        self.out
    }
}

/// The symbol of a length, and what follows it: a value and its number of bits (RFC 1951, 3.2.5).
fn length_code(length: usize) -> (u32, u32, u32) {
    let length = u32::try_from(length).unwrap_or(258);
    if length >= 258 {
        return (285, 0, 0);
    }
    let from_zero = length.saturating_sub(3);
    if from_zero < 8 {
        return (257_u32.saturating_add(from_zero), 0, 0);
    }
    // Groups of four symbols; the lengths of each group have one bit more than those of the last.
    let bits = from_zero.ilog2().saturating_sub(2);
    let within = (from_zero >> bits) & 3;
    let symbol = 265_u32
        .saturating_add(bits.saturating_sub(1).saturating_mul(4))
        .saturating_add(within);
    (symbol, from_zero & ((1 << bits) - 1), bits)
}

fn crc32<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let odd = crc & 1;
            crc = (crc >> 1) ^ (0xEDB8_8320 * odd);
        }
    }
    !crc
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    // So many can be added up before a sum is too large.
    for part in bytes.chunks(5552) {
        for byte in part {
            a = a.wrapping_add(u32::from(*byte));
            b = b.wrapping_add(a);
        }
        a %= 65_521;
        b %= 65_521;
    }
    (b << 16) | a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of both sums.
    #[test]
    fn sums() {
        assert_eq!(crc32(b"123456789".iter()), 0xCBF4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    /// The table of RFC 1951, at the ends of its rows.
    #[test]
    fn lengths() {
        for (length, expected) in [
            (3, (257, 0, 0)),
            (10, (264, 0, 0)),
            (11, (265, 0, 1)),
            (12, (265, 1, 1)),
            (18, (268, 1, 1)),
            (19, (269, 0, 2)),
            (34, (272, 3, 2)),
            (35, (273, 0, 3)),
            (67, (277, 0, 4)),
            (130, (280, 15, 4)),
            (131, (281, 0, 5)),
            (257, (284, 30, 5)),
            (258, (285, 0, 0)),
        ] {
            assert_eq!(length_code(length), expected, "{length}");
        }
    }

    /// What zlib itself writes for no bytes, and for runs (`zlib.compress(b"a" * 300, 1)` inflates to
    /// the same; these bytes were inflated by it).
    #[test]
    fn streams() {
        assert_eq!(zlib(b""), [0x78, 0x01, 3, 0, 0, 0, 0, 1]);
        assert_eq!(zlib(b"a"), [0x78, 0x01, 0x4b, 4, 0, 0, 0x62, 0, 0x62]);
        assert!(zlib(&[b'a'; 300]).len() < 16);
    }
}
