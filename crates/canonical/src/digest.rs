//! `sha256:` strings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; as text `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

/// A text that is not a digest in its one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not `sha256:` followed by 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Appends the text, without memory of its own.
    #[expect(
        clippy::indexing_slicing,
        reason = "seven is the length of the prefix, and the table has every byte"
    )]
    pub fn push_to(&self, out: &mut Vec<u8>) {
        let mut text = *b"sha256:0000000000000000000000000000000000000000000000000000000000000000";
        let (pairs, _) = text[7..].as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(self.0) {
            *pair = PAIRS[usize::from(byte)];
        }
        out.extend_from_slice(&text);
    }
}

/// Bytes of the text.
const TEXT: usize = 71;

/// The digits of every byte: looked up two at a time, which is the faster way for so few bytes.
static PAIRS: [[u8; 2]; 256] = pairs();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const fn pairs() -> [[u8; 2]; 256] {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
}

/// The value of a digit, or more than any digit has.
const fn value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => u8::MAX,
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.strip_prefix("sha256:").ok_or(NotADigest)?;
        let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
            return Err(NotADigest);
        };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| NotADigest)?;
        let values = pairs.map(|pair| pair.map(value));
        // What is no digit has a bit that no digit's value has.
        let all = values.iter().fold(0, |all, [high, low]| all | high | low);
        match all < 16 {
            true => Ok(Self(values.map(|[high, low]| high << 4 | low))),
            false => Err(NotADigest),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        let mut text = Vec::with_capacity(TEXT);
        digest.push_to(&mut text);
        Self::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(TEXT);
        self.push_to(&mut text);
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn one_spelling() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(Digest::of(b"abc")));
        let mut out = Vec::new();
        Digest::of(b"abc").push_to(&mut out);
        assert_eq!(out, ABC.as_bytes());
        for wrong in [
            ABC.to_uppercase(),
            ABC.replace("ba78", "BA78"),
            ABC.replace("sha256:", ""),
            ABC.replace("sha256", "sha512"),
            format!("{ABC}0"),
            ABC[..70].into(),
            format!(" {ABC}"),
            ABC.replace("ad", "ag"),
            ABC.replace("ba", "b/"),
            ABC.replace("ba", "b:"),
            ABC.replace("ba", "é"),
        ] {
            assert_eq!(wrong.parse::<Digest>(), Err(NotADigest), "{wrong}");
        }
    }
}
