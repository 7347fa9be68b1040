//! HTTP/1.1 responses: heads, and bodies of any framing. Only what the transport needs.

use std::io;

/// What a response says before its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// The connection ends after this response.
    pub(super) last: bool,
    pub(super) body: Body,
}

/// How a body ends, and how much of it is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunked {
    /// Before a chunk's size; the first chunk has no line end of an earlier one before it.
    Size,
    Data(u64),
    /// Behind a chunk's data.
    End,
    /// Behind the last chunk.
    Trailer,
    Done,
}

/// The longest head, and the longest line between chunks.
const LONGEST_HEAD: usize = 16 * 1024;

/// Reads a head, and how long it is; `None` if it is not all there yet.
pub(super) fn head(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes).map_err(broken)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if bytes.len() > LONGEST_HEAD => {
            return Err(broken("the head of a response is too long"));
        }
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    let mut last = response.version == Some(0);
    let mut body = Body::UntilClose;
    for header in response.headers.iter() {
        let value = String::from_utf8_lossy(header.value).to_ascii_lowercase();
        if header.name.eq_ignore_ascii_case("transfer-encoding") && value.contains("chunked") {
            body = Body::Chunked(Chunked::Size);
        } else if header.name.eq_ignore_ascii_case("content-length") && body == Body::UntilClose {
            let length = value.trim().parse();
            body = Body::Length(length.map_err(|_| broken("a bad content length"))?);
        } else if header.name.eq_ignore_ascii_case("connection") {
            last = value.contains("close");
        }
    }
    if status < 200 || status == 204 {
        body = Body::Length(0);
    }
    last |= body == Body::UntilClose;
    Ok(Some((Head { status, last, body }, length)))
}

impl Body {
    pub(super) const fn is_done(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunked::Done))
    }

    /// Takes the next bytes: how many of them are used up, and which of those are the body's.
    /// Nothing used up means that more must come first.
    pub(super) fn take<'b>(&mut self, bytes: &'b [u8]) -> io::Result<(usize, &'b [u8])> {
        match self {
            Self::UntilClose => Ok((bytes.len(), bytes)),
            Self::Length(left) | Self::Chunked(Chunked::Data(left)) => {
                let size = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left = left.saturating_sub(size as u64);
                if matches!(self, Self::Chunked(Chunked::Data(0))) {
                    *self = Self::Chunked(Chunked::End);
                }
                Ok((size, bytes.get(..size).unwrap_or_default()))
            }
            Self::Chunked(state) => {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                    if bytes.len() > LONGEST_HEAD {
                        return Err(broken("a line between chunks is too long"));
                    }
                    return Ok((0, &[]));
                };
                let line = bytes.get(..end).unwrap_or_default().trim_ascii();
                *state = match state {
                    Chunked::End if line.is_empty() => Chunked::Size,
                    Chunked::Size => match size(line)? {
                        0 => Chunked::Trailer,
                        size => Chunked::Data(size),
                    },
                    Chunked::Trailer if line.is_empty() => Chunked::Done,
                    Chunked::Trailer => Chunked::Trailer,
                    Chunked::Data(_) | Chunked::Done | Chunked::End => {
                        return Err(broken("a chunk does not end where it should"));
                    }
                };
                Ok((end.saturating_add(1), &[]))
            }
        }
    }
}

/// The size of a chunk, without its extensions.
fn size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default().trim();
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u64::from_str_radix(text, 16) {
        Ok(size) if plain => Ok(size),
        _ => Err(broken("a chunk has no size")),
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, body: &[u8], size: usize) -> io::Result<(Head, Vec<u8>)> {
        let (head, length) = super::head(head.as_bytes())?.unwrap();
        assert!(length > 0);
        let (mut rest, mut state, mut found) = (Vec::new(), head.body, Vec::new());
        for chunk in body.chunks(size) {
            rest.extend_from_slice(chunk);
            while !state.is_done() {
                let (used, data) = state.take(&rest)?;
                found.extend_from_slice(data);
                if used == 0 {
                    break;
                }
                rest.drain(..used);
            }
        }
        Ok((head, found))
    }

    #[test]
    fn every_framing() {
        for size in [1, 2, 7, 1000] {
            let (head, body) = read(
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
                b"abcdef",
                size,
            )
            .unwrap();
            assert_eq!(
                (head.status, head.last, &body[..]),
                (200, false, &b"abc"[..])
            );
            let chunked =
                "HTTP/1.1 404 x\r\ntransfer-encoding: Chunked\r\nConnection: close\r\n\r\n";
            let text = b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: r\r\n\r\nmore";
            let (head, body) = read(chunked, text, size).unwrap();
            assert_eq!((head.status, head.last), (404, true));
            assert_eq!(body, b"abc0123456789");
            let (head, body) = read("HTTP/1.0 200 OK\r\n\r\n", b"all", size).unwrap();
            assert_eq!((head.last, &body[..]), (true, &b"all"[..]));
        }
    }

    #[test]
    fn what_is_no_response() {
        assert!(head(b"220 mail.example.org").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").is_err());
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(LONGEST_HEAD));
        assert!(head(long.as_bytes()).is_err());
        assert_eq!(head(&long.as_bytes()[..LONGEST_HEAD]).unwrap(), None);
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for body in [
            &b"x\r\n"[..],
            b"\r\n",
            b"+3\r\nabc",
            b"3\r\nabcd\r\n",
            b"11111111111111111\r\n",
        ] {
            assert!(read(chunked, body, 100).is_err(), "{body:?}");
        }
    }
}
