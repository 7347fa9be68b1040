//! What a server's program has written on its standard error, and what became of it.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbox::Output;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

/// How much of it is kept: the last bytes.
pub const MAX_SAID: usize = 64 * 1024;

/// The last bytes that it has said, over all its starts.
#[derive(Debug, Default)]
pub(super) struct Said {
    ring: Mutex<Ring>,
    /// How much there was in all.
    total: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<u8>,
}

/// A part of what a server has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The text.
    pub text: String,
    /// Where to read on.
    pub next: u64,
}

impl Said {
    /// Adds what a program has written.
    fn add(&self, bytes: &[u8]) {
        let mut ring = self.lock();
        ring.kept.extend(bytes);
        let over = ring.kept.len().saturating_sub(MAX_SAID);
        ring.kept.drain(..over);
        drop(ring);
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.total
            .send_modify(|total| *total = total.saturating_add(more));
    }

    /// Adds a line of the node's own.
    pub(super) fn note(&self, text: &dyn Display) {
        let begins = match self.lock().kept.back() {
            Some(b'\n') | None => "",
            Some(_) => "\n",
        };
        self.add(format!("{begins}[frith] {text}\n").as_bytes());
    }

    /// How much there was in all.
    pub(super) fn end(&self) -> u64 {
        *self.total.borrow()
    }

    /// What was said from a place on, as far as it is kept.
    pub(super) fn since(&self, from: u64) -> Heard {
        let ring = self.lock();
        let next = self.end();
        let new = usize::try_from(next.saturating_sub(from)).unwrap_or(usize::MAX);
        let skipped = ring.kept.len().saturating_sub(new);
        let bytes: Vec<u8> = ring.kept.iter().skip(skipped).copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Heard { text, next }
    }

    /// The last lines of its program from a place on.
    pub(super) fn last_lines(&self, from: u64, most: usize) -> Vec<String> {
        let text = self.since(from).text;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let own: Vec<&str> = lines.filter(|line| !line.starts_with("[frith]")).collect();
        let skipped = own.len().saturating_sub(most);
        own.into_iter().skip(skipped).map(str::to_owned).collect()
    }

    /// Waits until there is more than up to a place.
    pub(super) async fn more(&self, from: u64) {
        let mut total = self.total.subscribe();
        // It lives as long as this.
        let _ = total.wait_for(|total| *total > from).await;
    }

    /// Reads what a program complains of, to its end.
    pub(super) async fn hear(&self, mut stderr: Output) {
        let mut some = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut some).await {
            self.add(some.get(..read).unwrap_or_default());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_64_kib_are_kept() {
        let said = Said::default();
        said.add(&[b'a'; MAX_SAID]);
        assert_eq!(said.since(0).text.len(), MAX_SAID);
        said.add(b"b");
        let heard = said.since(0);
        assert_eq!(heard.text.len(), MAX_SAID);
        assert!(heard.text.ends_with("aab"), "the last byte is there");
        assert_eq!(heard.next, 64 * 1024 + 1);
        assert_eq!(said.since(heard.next - 2).text, "ab");
        assert_eq!(said.since(heard.next).text, "");
    }

    #[test]
    fn last_words_are_those_of_the_program() {
        let said = Said::default();
        said.add(b"one\n\ntwo\nthr");
        said.note(&"it is started again");
        let from = said.end();
        assert_eq!(said.last_lines(0, 2), ["two", "thr"]);
        assert!(
            said.since(0)
                .text
                .ends_with("thr\n[frith] it is started again\n")
        );
        assert!(said.last_lines(from, 2).is_empty());
    }
}
