//! Components in the text format.

use super::error::WasmError;

/// Bytes of the largest component in the text format: what is that large was not written by hand.
pub const MAX_TEXT: usize = 1 << 20;

/// Whether it is text. No binary begins so.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'(' | b';'))
}

/// What the text says, as compilers would have it.
pub(super) fn to_binary(text: &[u8]) -> Result<Vec<u8>, WasmError> {
    if text.len() > MAX_TEXT {
        return Err(WasmError::TooLarge {
            size: text.len(),
            most: MAX_TEXT,
        });
    }
    let text = std::str::from_utf8(text).map_err(|error| WasmError::Invalid(error.to_string()))?;
    wat::parse_str(text).map_err(|error| WasmError::Invalid(error.to_string()))
}
