//! How far a long piece of work is, by number.

use std::io::{IsTerminal, Write};

use super::WIDTH;
use crate::screen::count;

/// Counts; draws a bar on standard error if that is a terminal.
pub(crate) struct Counted {
    one: &'static str,
    many: &'static str,
    done: usize,
    terminal: bool,
    is_drawn: bool,
}

impl Counted {
    /// Counts what one of is called so, and many so.
    pub(crate) fn new(one: &'static str, many: &'static str) -> Self {
        Self {
            one,
            many,
            done: 0,
            terminal: std::io::stderr().is_terminal(),
            is_drawn: false,
        }
    }

    /// So many more are done, of about so many.
    pub(crate) fn add(&mut self, more: usize, total: Option<usize>) {
        self.done += more;
        if self.terminal {
            self.is_drawn = true;
            let bar = bar(self.done, total, self.many);
            // Who has no terminal any more needs no bar.
            let _ = write!(std::io::stderr(), "\r{bar}\u{1b}[K");
        }
    }

    /// A line of its own, above the bar.
    pub(crate) fn line(&mut self, text: &str) {
        self.clear();
        tell!("{text}");
    }

    /// Says what was done.
    pub(crate) fn end(&mut self, did: &str) {
        self.clear();
        let done = u64::try_from(self.done).unwrap_or(u64::MAX);
        tell!("{did} {}", count(done, self.one, self.many));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

fn bar(done: usize, total: Option<usize>, what: &str) -> String {
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let full = done.min(total) * WIDTH / total;
            let (full, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
            format!("[{full}{rest}] {done} of {total} {what}")
        }
        None => format!("{done} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_itself() {
        assert_eq!(bar(5, None, "x"), "5 x");
        for (done, full) in [(0, 0), (5, 15), (10, 30), (20, 30)] {
            let bar = bar(done, Some(10), "x");
            assert_eq!(bar.matches('#').count(), full, "{bar}");
        }
        assert_eq!(bar(1, Some(0), "x"), "1 x");
    }
}
