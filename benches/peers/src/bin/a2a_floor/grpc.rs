//! gRPC's frames around a protobuf message with one field of bytes.

use bytes::{BufMut, Bytes, BytesMut};

pub(crate) const MEDIA_TYPE: &str = "application/grpc";

/// Field 1, which has a length.
const TAG: u8 = 0x0a;

pub(crate) fn frame(message: &[u8]) -> Bytes {
    let mut field = BytesMut::with_capacity(message.len() + 16);
    field.put_bytes(0, 5);
    field.put_u8(TAG);
    let mut rest = message.len();
    while rest >= 0x80 {
        field.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    field.put_u8(rest as u8);
    field.extend_from_slice(message);
    let size = (field.len() - 5) as u32;
    field[1..5].copy_from_slice(&size.to_be_bytes());
    field.freeze()
}

pub(crate) fn message(frame: &Bytes) -> Option<Bytes> {
    let (head, field) = frame.split_at_checked(5)?;
    let size = u32::from_be_bytes(head.get(1..)?.try_into().ok()?);
    let (tag, mut rest) = field.split_first()?;
    if head[0] != 0 || size as usize != field.len() || *tag != TAG {
        return None;
    }
    let (mut size, mut shift) = (0_usize, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 28 {
            break;
        }
    }
    (rest.len() == size).then(|| frame.slice(frame.len() - size..))
}
