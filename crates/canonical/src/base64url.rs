//! Strict base64url (profile §1): no padding, no white space, unused trailing bits zero.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A text that is not strict base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not unpadded base64url")]
pub struct NotBase64Url;

/// The text of some bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Appends the text of some bytes.
pub fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    // Four characters for three bytes, rounded up.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let rest = out.get_mut(start..).unwrap_or_default();
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, rest);
    out.truncate(start + written.unwrap_or_default());
}

/// The bytes of a text.
///
/// # Errors
/// On any text that [`encode`] would not have written.
pub fn decode(text: &str) -> Result<Vec<u8>, NotBase64Url> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| NotBase64Url)
}

/// The bytes of a text that may have its padding, as other libraries write it.
///
/// # Errors
/// On any text that is neither what [`encode`] would have written nor that with its padding.
pub fn decode_padded(text: &str) -> Result<Vec<u8>, NotBase64Url> {
    let plain = text.trim_end_matches('=');
    let padding = text.len() - plain.len();
    let is_whole = padding == 0 || (padding <= 2 && text.len().is_multiple_of(4));
    match is_whole {
        true => decode(plain),
        false => Err(NotBase64Url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_spelling_is_taken() {
        for (text, bytes) in [("", "".as_bytes()), ("Zg", b"f"), ("-_8", b"\xfb\xff")] {
            assert_eq!(decode(text).as_deref(), Ok(bytes));
            assert_eq!(encode(bytes), text);
            let mut out = b"before ".to_vec();
            push(&mut out, bytes);
            assert_eq!(out, format!("before {text}").into_bytes());
        }
        for wrong in ["Zg==", "Z", "Zh", "+/8", "Zg\n", " Zg", "Zm9v\0", "Zé"] {
            assert_eq!(decode(wrong), Err(NotBase64Url), "{wrong:?}");
        }
        for (text, bytes) in [("Zg==", b"f".as_slice()), ("Zm8=", b"fo"), ("Zm9v", b"foo")] {
            assert_eq!(decode_padded(text).as_deref(), Ok(bytes));
            assert_eq!(
                decode_padded(text.trim_end_matches('=')).as_deref(),
                Ok(bytes)
            );
        }
        for wrong in ["Zg=", "Zg===", "Zm9v=", "Zm9v====", "=", "Zh==", "Z=g="] {
            assert_eq!(decode_padded(wrong), Err(NotBase64Url), "{wrong:?}");
        }
    }
}
