//! gRPC by hand: one message type with one field needs no code generator. `proto/a2a.proto` is the contract.

mod status;

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub(crate) use status::{from_error, http_status, ok};

/// The call with one answer.
pub(crate) const EXCHANGE: &str = "/a2a.v1.A2A/Exchange";

/// The call with any number of answers.
pub(crate) const EXCHANGE_STREAM: &str = "/a2a.v1.A2A/ExchangeStream";

/// The media type, with or without `+proto` behind it.
pub(crate) const MEDIA_TYPE: &str = "application/grpc";

/// The trailer with the error message.
pub(crate) const ERROR: &str = "a2a-error-bin";

/// Bytes before each message: whether it is compressed, and its length.
pub(crate) const PREFIX: usize = 5;

/// The most that is around the JSON of a message: prefix, tag and length.
pub(crate) const AROUND: usize = PREFIX + 1 + 10;

/// `bytes json = 1` (protobuf: field 1, length-delimited).
const JSON: u8 = 0x0a;

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Not a message of protobuf, or not a whole one.
    Malformed,
    /// Compressed, which was not offered.
    Compressed,
    /// Longer than is read.
    TooLong,
}

/// Writes a message with what is around it.
pub(crate) fn put(out: &mut BytesMut, json: &[u8]) {
    let mut varint = [0_u8; 10];
    let mut filled = 0;
    let mut left = json.len();
    for place in &mut varint {
        let low = u8::try_from(left & 0x7f).unwrap_or_default();
        left >>= 7;
        *place = low | if left > 0 { 0x80 } else { 0 };
        filled += 1;
        if left == 0 {
            break;
        }
    }
    let length = varint.get(..filled).unwrap_or_default();
    // An empty field is the default and is left out.
    let size = match json.is_empty() {
        true => 0,
        false => json.len().saturating_add(length.len()).saturating_add(1),
    };
    out.reserve(size.saturating_add(PREFIX));
    out.put_u8(0);
    out.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
    if size > 0 {
        out.put_u8(JSON);
        out.put_slice(length);
        out.put_slice(json);
    }
}

/// A message with what is around it.
pub(crate) fn framed(json: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    put(&mut out, json);
    out.freeze()
}

/// Takes the next message out of a buffer; `None` if it is not whole.
pub(crate) fn take(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Bad> {
    let Some((prefix, _)) = buffer.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let [compressed, a, b, c, d] = *prefix;
    if compressed != 0 {
        return Err(Bad::Compressed);
    }
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > limit.saturating_add(AROUND) {
        return Err(Bad::TooLong);
    }
    let whole = length.saturating_add(PREFIX);
    if buffer.len() < whole {
        return Ok(None);
    }
    let mut message = buffer.split_to(whole).freeze();
    message.advance(PREFIX);
    let json = json(message).ok_or(Bad::Malformed)?;
    match json.len() > limit {
        true => Err(Bad::TooLong),
        false => Ok(Some(json)),
    }
}

/// The one message of a whole body.
pub(crate) fn only(body: Bytes, limit: usize) -> Result<Bytes, Bad> {
    let mut buffer = BytesMut::from(body);
    let message = take(&mut buffer, limit)?.ok_or(Bad::Malformed)?;
    match buffer.is_empty() {
        true => Ok(message),
        false => Err(Bad::Malformed),
    }
}

/// The field `json`, the last one if there are several; fields that are not known are passed over.
fn json(mut message: Bytes) -> Option<Bytes> {
    let mut json = Bytes::new();
    while message.has_remaining() {
        let tag = varint(&mut message)?;
        if tag >> 3 == 0 {
            return None;
        }
        let length = match tag & 7 {
            0 => {
                varint(&mut message)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        if length > message.len() {
            return None;
        }
        let field = message.split_to(length);
        if tag == u64::from(JSON) {
            json = field;
        }
    }
    Some(json)
}

fn varint(bytes: &mut Bytes) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..10_u32 {
        let byte = bytes.try_get_u8().ok()?;
        let bits = u64::from(byte & 0x7f);
        value |= bits.checked_shl(place.saturating_mul(7))?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// `grpc-timeout`: at most eight digits and a unit.
pub(crate) fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count.saturating_mul(3600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
