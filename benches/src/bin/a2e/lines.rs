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
        }
    }

    /// Sends a line; gives the next line that comes.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<String> {
        self.tell(line)?;
        let mut answer = String::new();
        self.read(|_, line| {
            answer = String::from_utf8_lossy(line).into_owned();
            Ok(())
        })?;
        Ok(answer)
    }

    /// Sends a line that gets no answer.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        self.output.write_all(format!("{line}\n").as_bytes())?;
        self.output.flush()
    }

    /// Waits for whole lines, and says how many came.
    fn read(
        &mut self,
        mut take: impl FnMut(&mut Calls, &[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut lines = 0;
        while lines == 0 {
            let size = self.input.read(&mut self.chunk)?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let chunk = self.chunk.get(..size).unwrap_or_default();
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', chunk) {
                let part = chunk.get(start..end).unwrap_or_default();
                if self.begun.is_empty() {
                    take(&mut self.calls, part)?;
                } else {
                    self.begun.extend_from_slice(part);
                    take(&mut self.calls, &self.begun)?;
                    self.begun.clear();
                }
                lines += 1;
                start = end + 1;
            }
            self.begun
                .extend_from_slice(chunk.get(start..).unwrap_or_default());
        }
        Ok(lines)
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
        self.read(Calls::answered)
    }
}
