//! The keyboard: keys one by one where that is possible, lines elsewhere.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::key_mode::{CtrlC, KeyMode};
use crate::run::standard_input;

/// What somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// An action, as it was typed.
    Act(String),
    /// What the environment suggests.
    Suggestion,
    /// To begin anew.
    Again,
    /// To end.
    End,
}

/// Where wishes come from.
pub(super) struct Keyboard {
    input: mpsc::Receiver<std::io::Result<String>>,
    /// Where keys come one by one; dropped, the terminal is as it was.
    keys: Option<KeyMode>,
    typed: String,
    wishes: VecDeque<Wish>,
}

impl Keyboard {
    /// The keyboard, key by key if one key can be an action and this is a terminal.
    pub(super) fn new(by_key: bool) -> Self {
        let keys = match by_key {
            true => KeyMode::enter(CtrlC::Key),
            false => None,
        };
        Self {
            input: standard_input(),
            keys,
            typed: String::new(),
            wishes: VecDeque::new(),
        }
    }

    pub(super) const fn is_by_key(&self) -> bool {
        self.keys.is_some()
    }

    /// The next wish; at the end of the input, to end.
    pub(super) async fn next(&mut self) -> Wish {
        loop {
            if let Some(wish) = self.wishes.pop_front() {
                return wish;
            }
            let Some(Ok(piece)) = self.input.recv().await else {
                let rest = std::mem::take(&mut self.typed);
                return match rest.trim() {
                    "" => Wish::End,
                    rest => Wish::Act(rest.to_owned()),
                };
            };
            self.typed.push_str(&piece);
            match self.keys {
                Some(_) => self
                    .wishes
                    .extend(pressed(&std::mem::take(&mut self.typed))),
                None => self.take_lines(),
            }
        }
    }

    fn take_lines(&mut self) {
        while let Some((line, rest)) = self.typed.split_once('\n') {
            self.wishes.push_back(match line.trim() {
                "" => Wish::Suggestion,
                "q" | "quit" => Wish::End,
                line => Wish::Act(line.to_owned()),
            });
            self.typed = rest.to_owned();
        }
    }
}

/// What keys mean.
fn pressed(mut keys: &str) -> Vec<Wish> {
    const ARROWS: [(&str, &str); 4] = [
        ("\u{1b}[A", "up"),
        ("\u{1b}[B", "down"),
        ("\u{1b}[C", "right"),
        ("\u{1b}[D", "left"),
    ];
    let mut wishes = Vec::new();
    while let Some(key) = keys.chars().next() {
        let arrow = ARROWS
            .iter()
            .find(|(sequence, _)| keys.starts_with(sequence));
        let (length, wish) = match (arrow, key) {
            (Some((sequence, verb)), _) => (sequence.len(), Wish::Act((*verb).to_owned())),
            // Escape itself, Ctrl-C and Ctrl-D.
            (None, 'q' | '\u{1b}' | '\u{3}' | '\u{4}') => (key.len_utf8(), Wish::End),
            (None, 'R') => (key.len_utf8(), Wish::Again),
            (None, ' ' | '\n' | '\r') => (key.len_utf8(), Wish::Suggestion),
            (None, key) => (key.len_utf8(), Wish::Act(key.to_string())),
        };
        wishes.push(wish);
        keys = keys.get(length..).unwrap_or_default();
    }
    wishes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_wishes() {
        let act = |text: &str| Wish::Act(text.to_owned());
        assert_eq!(
            pressed("\u{1b}[A\u{1b}[Dl3 Rq"),
            [
                act("up"),
                act("left"),
                act("l"),
                act("3"),
                Wish::Suggestion,
                Wish::Again,
                Wish::End
            ]
        );
        assert_eq!(pressed("\u{1b}"), [Wish::End]);
        assert_eq!(pressed(""), []);
    }
}
