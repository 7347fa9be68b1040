//! Text messages over a WebSocket, framed by hand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use memchr::memmem;

use crate::http::connect;
use crate::load::{Calls, Channel};

/// One WebSocket.
pub(crate) struct WebSocket {
    stream: TcpStream,
    calls: Calls,
    call: Vec<u8>,
    unsent: Vec<u8>,
    chunk: Vec<u8>,
    /// What has come and was not taken yet.
    received: Vec<u8>,
}

const CHUNK: usize = 64 * 1024;

/// The whole of a text message that is not masked.
const TEXT_MESSAGE: u8 = 0x81;

impl WebSocket {
    pub(crate) fn open(address: SocketAddr, calls: Calls) -> io::Result<Self> {
        let mut stream = connect(address)?;
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
        }
        if memmem::find(&head, b" 101 ").is_none() {
            let head = String::from_utf8_lossy(&head);
            return Err(io::Error::other(format!("no WebSocket: {head}")));
        }
        Ok(Self {
            stream,
            calls,
            call: Vec::new(),
            unsent: Vec::new(),
            chunk: vec![0; CHUNK],
            received: Vec::new(),
        })
    }

    /// Sends a message; gives the next one that comes.
    pub(crate) fn ask(&mut self, message: &str) -> io::Result<String> {
        self.unsent.clear();
        frame(message.as_bytes(), &mut self.unsent);
        self.stream.write_all(&self.unsent)?;
        let mut answer = String::new();
        self.read(|_, message| {
            answer = String::from_utf8_lossy(message).into_owned();
            Ok(())
        })?;
        Ok(answer)
    }

    /// Waits for whole messages, and says how many came.
    fn read(
        &mut self,
        mut take: impl FnMut(&mut Calls, &[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        loop {
            let size = self.stream.read(&mut self.chunk)?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let chunk = self.chunk.get(..size).unwrap_or_default();
            self.received.extend_from_slice(chunk);
            match self.take(&mut take)? {
                0 => {}
                messages => return Ok(messages),
            }
        }
    }

    /// Takes the whole messages of what has come; says how many.
    fn take(
        &mut self,
        mut take: impl FnMut(&mut Calls, &[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut messages = 0;
        let mut start = 0;
        while let Some(((opcode, payload), end)) = self.received.get(start..).and_then(unframe) {
            if opcode == TEXT_MESSAGE {
                messages += 1;
                take(&mut self.calls, payload)?;
            }
            start += end;
        }
        self.received.drain(..start);
        Ok(messages)
    }
}

impl Channel for WebSocket {
    fn send(&mut self, requests: usize) -> io::Result<()> {
        self.unsent.clear();
        for _ in 0..requests {
            self.call.clear();
            self.calls.append(&mut self.call);
            frame(&self.call, &mut self.unsent);
        }
        self.stream.write_all(&self.unsent)
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.read(Calls::answered)
    }
}

/// Appends a text message. Masked with zeros, which costs the server the same as any other mask.
fn frame(message: &[u8], out: &mut Vec<u8>) {
    const MASKED: u8 = 0x80;
    out.push(TEXT_MESSAGE);
    match u8::try_from(message.len()) {
        Ok(size) if size < 126 => out.push(MASKED | size),
        _ => {
            out.push(MASKED | 126);
            let size = u16::try_from(message.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&size.to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(message);
}

/// The first byte and the payload of a frame of less than 64 KiB, and where it ends.
fn unframe(bytes: &[u8]) -> Option<((u8, &[u8]), usize)> {
    let (&opcode, &size) = (bytes.first()?, bytes.get(1)?);
    let (start, size) = match size {
        126 => (
            4,
            usize::from(*bytes.get(2)?) << 8 | usize::from(*bytes.get(3)?),
        ),
        size => (2, usize::from(size)),
    };
    let end = start + size;
    Some(((opcode, bytes.get(start..end)?), end))
}
