//! NDJSON over pipes and sockets, with plain blocking calls.

use std::io::{self, Read, Write};

use crate::load::{Calls, Channel};

/// One connection that takes and gives lines.
pub(crate) struct Lines<R, W> {
    input: R,
    output: W,
    calls: Calls,
    unsent: Vec<u8>,
    chunk: Vec<u8>,
    /// The begin of a line whose end has not come.
    begun: Vec<u8>,
    last: Vec<u8>,
}

const CHUNK: usize = 64 * 1024;

impl<R: Read, W: Write> Lines<R, W> {
    pub(crate) fn new(input: R, output: W, calls: Calls) -> Self {
        Self {
            input,
            output,
            calls,
            unsent: Vec::new(),
            chunk: vec![0; CHUNK],
            begun: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Sends a line; gives the next line that comes.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<String> {
        self.tell(line)?;
        self.receive()?;
        Ok(String::from_utf8_lossy(&self.last).into_owned())
    }

    /// Sends a line that gets no answer.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        self.output.write_all(format!("{line}\n").as_bytes())?;
        self.output.flush()
    }
}

impl<R: Read, W: Write> Channel for Lines<R, W> {
    fn send(&mut self, requests: usize) -> io::Result<()> {
        self.unsent.clear();
        for _ in 0..requests {
            self.calls.append(&mut self.unsent);
            self.unsent.push(b'\n');
        }
        self.output.write_all(&self.unsent)?;
        self.output.flush()
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            let size = self.input.read(&mut self.chunk)?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let chunk = self.chunk.get(..size).unwrap_or_default();
            let Some(end) = memchr::memrchr(b'\n', chunk) else {
                self.begun.extend_from_slice(chunk);
                continue;
            };
            let (lines, rest) = chunk.split_at(end);
            self.last.clear();
            match memchr::memrchr(b'\n', lines) {
                Some(start) => self
                    .last
                    .extend_from_slice(lines.get(start..).unwrap_or_default()),
                None => {
                    self.last.append(&mut self.begun);
                    self.last.extend_from_slice(lines);
                }
            }
            self.begun.clear();
            self.begun
                .extend_from_slice(rest.get(1..).unwrap_or_default());
            return Ok(memchr::memchr_iter(b'\n', lines).count() + 1);
        }
    }

    fn last(&self) -> &[u8] {
        &self.last
    }
}
