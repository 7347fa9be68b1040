//! What an agent has to write: lines, one behind the other in one buffer.

use std::collections::VecDeque;

/// Lines that wait for the transport.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// All of them; what has been taken is cut off when everything has.
    bytes: Vec<u8>,
    /// The lengths of those that have not been taken.
    lengths: VecDeque<usize>,
    taken: usize,
}

/// Space of this size is kept when there is nothing to write.
const KEPT: usize = 4 * 1024;

impl Queue {
    /// Adds the line that a function writes.
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.tidy();
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.lengths
            .push_back(self.bytes.len().saturating_sub(before));
    }

    pub(super) fn push_line(&mut self, line: &[u8]) {
        self.push_with(|out| out.extend_from_slice(line));
    }

    /// The next line.
    pub(super) fn pop(&mut self) -> Option<&[u8]> {
        let Some(length) = self.lengths.pop_front() else {
            self.tidy();
            return None;
        };
        let end = self.taken.saturating_add(length);
        let line = self.bytes.get(self.taken..end);
        self.taken = end;
        line
    }

    pub(super) fn clear(&mut self) {
        self.lengths.clear();
        self.tidy();
    }

    /// Bytes that have not been taken.
    pub(super) fn len(&self) -> usize {
        self.bytes.len().saturating_sub(self.taken)
    }

    fn tidy(&mut self) {
        if self.lengths.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_in_order_and_space_is_given_back() {
        let mut queue = Queue::default();
        for line in [&b"one"[..], b"", b"three"] {
            queue.push_line(line);
        }
        assert_eq!(queue.pop(), Some(&b"one"[..]));
        assert_eq!(queue.len(), 5);
        queue.push_line(&[b'x'; 100_000]);
        assert_eq!(queue.pop(), Some(&b""[..]));
        assert_eq!(queue.pop(), Some(&b"three"[..]));
        assert_eq!(queue.pop().unwrap().len(), 100_000);
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.len(), 0);
        assert!(queue.bytes.capacity() <= KEPT);
    }
}
