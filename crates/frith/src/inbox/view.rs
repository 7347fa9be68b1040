//! What the inbox shows, and what keys do to it. Neither a terminal nor a node is needed for that.

use a2e_runtime::operator::WaitingCall;

use super::{Reason, fold};
use crate::screen::{count, plain};

/// The calls, the one that is selected, and all of it.
#[derive(Debug, Default)]
pub(super) struct View {
    calls: Vec<WaitingCall>,
    selected: Option<String>,
    /// Where the selected call was when it went away. Until the operator selects one, none is.
    lost: Option<usize>,
    /// The call whose details these are.
    shown: Option<String>,
    details: Vec<String>,
    /// How far the details are scrolled, and how much of them was shown at the last look.
    top: usize,
    page: usize,
    /// Whether their end was shown.
    is_seen: bool,
    /// Whether something else is to be shown than at the last look.
    is_moved: bool,
    message: String,
    /// The reason that is being typed.
    reason: Option<Reason>,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// Something else is to be shown before the next key counts.
    Moved,
    Approve(String),
    Deny(String, String),
    End,
}

/// Rows of the list of calls.
const LIST: usize = 6;

/// What is said when a key decides about nothing.
const NOT_SELECTED: &str = "the call went away, and no other is selected";

/// The keys in what a terminal gives; arrows as `j` and `k`.
pub(super) fn keys(typed: &str) -> Vec<char> {
    let typed = typed.replace("\u{1b}[A", "k").replace("\u{1b}[B", "j");
    typed.chars().collect()
}

impl View {
    /// Takes the calls of now. The first is selected, but none in place of one that went away: what is typed
    /// may still be meant for that one.
    pub(super) fn take(&mut self, calls: Vec<WaitingCall>) {
        let is_there = |id: &String| calls.iter().any(|call| call.id == *id);
        if self.selected.as_ref().is_some_and(|id| !is_there(id)) {
            self.lost = self.position();
            self.selected = None;
        }
        if self.selected.is_none() && self.lost.is_none() {
            self.selected = calls.first().map(|call| call.id.clone());
        }
        self.calls = calls;
    }

    /// The call whose details are to be shown and are not.
    pub(super) fn wanted(&mut self) -> Option<String> {
        if self.selected.is_none() {
            self.shown = None;
            self.details.clear();
        }
        self.selected
            .clone()
            .filter(|id| self.shown.as_ref() != Some(id))
    }

    pub(super) fn show(&mut self, id: String, details: Vec<String>) {
        self.shown = Some(id);
        self.details = details;
        (self.top, self.is_seen, self.is_moved) = (0, false, true);
    }

    /// Whether something else was shown at the last look than before.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.is_moved)
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = message;
    }

    fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.calls.iter().position(|call| call.id == *selected)
    }

    pub(super) fn press(&mut self, key: char) -> Action {
        if let Some(reason) = &mut self.reason {
            let Some(end) = reason.press(key) else {
                return Action::None;
            };
            self.reason = None;
            return match (end, &self.selected) {
                (Some(reason), Some(id)) => Action::Deny(id.clone(), reason),
                (_, None) => {
                    NOT_SELECTED.clone_into(&mut self.message);
                    Action::None
                }
                (None, Some(_)) => Action::None,
            };
        }
        self.message.clear();
        match key {
            'q' | '\u{3}' | '\u{4}' => Action::End,
            'j' => self.select(1),
            'k' => self.select(-1),
            ' ' | 'b' => {
                let page = self.page.max(1);
                self.top = match key {
                    ' ' => self.top.saturating_add(page),
                    _ => self.top.saturating_sub(page),
                };
                self.is_moved = true;
                Action::Moved
            }
            'a' if self.lost.is_some() => {
                NOT_SELECTED.clone_into(&mut self.message);
                Action::None
            }
            // The letters of a reason that follow are no keys.
            'd' if self.lost.is_some() => {
                self.reason = Some(Reason::default());
                Action::None
            }
            'a' | 'd' if self.selected.is_none() || self.shown != self.selected => Action::None,
            'd' => {
                self.reason = Some(Reason::default());
                Action::None
            }
            'a' if !self.is_seen => {
                "not all of it was shown yet".clone_into(&mut self.message);
                Action::None
            }
            'a' => self.selected.clone().map_or(Action::None, Action::Approve),
            _ => Action::None,
        }
    }

    fn select(&mut self, by: isize) -> Action {
        let next = match self.lost {
            Some(at) => Some(at.min(self.calls.len().saturating_sub(1))),
            None => self.position().and_then(|at| at.checked_add_signed(by)),
        };
        match next.and_then(|at| self.calls.get(at)) {
            Some(call) => {
                self.selected = Some(call.id.clone());
                self.lost = None;
                Action::Moved
            }
            None => Action::None,
        }
    }

    /// A screen of so many rows and columns: what is to be read, and the last line, which says what keys do.
    pub(super) fn draw(
        &mut self,
        (rows, columns): (usize, usize),
        now: i64,
    ) -> (Vec<String>, String) {
        let columns = columns.max(20);
        let number = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        let mut lines = vec![match self.calls.is_empty() {
            true => "no call waits".to_owned(),
            false => count(number, "call waits", "calls wait"),
        }];
        let at = self.position();
        let first = at.or(self.lost).unwrap_or_default();
        let first = first.saturating_sub(LIST - 1);
        for (index, call) in self.calls.iter().enumerate().skip(first).take(LIST) {
            let mark = if Some(index) == at { '>' } else { ' ' };
            let left = call.until.saturating_sub(now).max(0) / 1000;
            let (agent, what) = (plain(&call.agent), plain(&call.summary));
            let line = format!("{mark} {}  {left:>4} s  {agent}  {what}", call.id);
            lines.extend(fold(&line, columns).into_iter().next());
        }
        lines.push(String::new());
        let details = self.details.iter().flat_map(|line| fold(line, columns));
        let details: Vec<String> = details.collect();
        let room = rows.saturating_sub(lines.len()).saturating_sub(1).max(1);
        self.top = self.top.min(details.len().saturating_sub(room));
        let end = self.top.saturating_add(room).min(details.len());
        self.page = room;
        // All before it was shown on the way.
        self.is_seen |= end == details.len();
        lines.extend(details.into_iter().take(end).skip(self.top));
        let last = self.last_line();
        (
            lines,
            fold(&last, columns).into_iter().next().unwrap_or_default(),
        )
    }

    fn last_line(&self) -> String {
        if let Some(Reason(text)) = &self.reason {
            if self.selected.is_none() {
                return format!("{NOT_SELECTED} (Enter or Esc goes back)");
            }
            return format!("the reason, for the agent (Enter denies, Esc goes back): {text}");
        }
        let message = match self.message.as_str() {
            "" => String::new(),
            message => format!("{message}  "),
        };
        let keys = match (self.calls.is_empty(), self.is_seen) {
            (true, _) => "",
            (false, _) if self.selected.is_none() => "[j k] select  ",
            (false, true) => "[a] approve  [d] deny  [j k] select  ",
            (false, false) => "[space] more  [d] deny  [j k] select  ",
        };
        format!("{message}{keys}[q] quit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> WaitingCall {
        WaitingCall {
            id: id.to_owned(),
            agent: "ada".to_owned(),
            since: 0,
            until: 9_000,
            summary: format!("write_file {{\"path\":\"{id}\u{1b}[2J\"}}"),
        }
    }

    /// A view of these calls, of which the first is shown in so many lines.
    fn view(ids: &[&str], lines: usize) -> View {
        let mut view = View::default();
        view.take(ids.iter().map(|id| call(id)).collect());
        show(&mut view, lines);
        view
    }

    fn show(view: &mut View, lines: usize) {
        if let Some(id) = view.wanted() {
            view.show(id, (0..lines).map(|line| format!("line {line}")).collect());
        }
        let (mut drawn, last) = view.draw((12, 40), 4_000);
        drawn.push(last);
        assert!(drawn.len() <= 12, "{drawn:?}");
        assert!(
            drawn.iter().all(|line| line.chars().count() <= 40),
            "{drawn:?}"
        );
        assert!(
            drawn.iter().all(|line| !line.contains('\u{1b}')),
            "{drawn:?}"
        );
    }

    #[test]
    fn keys_select_and_decide() {
        let mut inbox = view(&["x", "y"], 3);
        assert_eq!(inbox.press('k'), Action::None);
        assert_eq!(inbox.press('j'), Action::Moved);
        // It was not shown yet.
        assert_eq!(inbox.press('a'), Action::None);
        assert_eq!(inbox.press('d'), Action::None);
        show(&mut inbox, 3);
        assert_eq!(inbox.press('a'), Action::Approve("y".to_owned()));
        assert_eq!(inbox.press('d'), Action::None);
        for key in "no q".chars() {
            assert_eq!(inbox.press(key), Action::None);
        }
        assert_eq!(
            inbox.press('\r'),
            Action::Deny("y".to_owned(), "no q".to_owned())
        );
        assert_eq!(inbox.press('q'), Action::End);
        assert_eq!(keys("\u{1b}[B\u{1b}[Aa"), ['j', 'k', 'a']);
    }

    /// Who approves of a call has seen all of it.
    #[test]
    fn call_is_approved_only_when_all_of_it_was_shown() {
        let mut inbox = view(&["x"], 20);
        assert_eq!(inbox.press('a'), Action::None);
        assert!(
            inbox
                .last_line()
                .starts_with("not all of it was shown yet  [space]")
        );
        for _ in 0..4 {
            assert_eq!(inbox.press(' '), Action::Moved);
            show(&mut inbox, 20);
        }
        assert_eq!(inbox.press('a'), Action::Approve("x".to_owned()));
    }

    /// No call takes the place of one that went away, not even one that comes later.
    #[test]
    fn call_that_is_gone_is_not_decided_about() {
        let mut inbox = view(&["x", "y", "z"], 3);
        assert_eq!(inbox.press('j'), Action::Moved);
        show(&mut inbox, 3);
        inbox.take(vec![call("x"), call("z")]);
        show(&mut inbox, 3);
        let (lines, keys) = inbox.draw((12, 40), 4_000);
        assert!(!lines.iter().any(|line| line.contains('>')), "{lines:?}");
        assert_eq!(keys, "[j k] select  [q] quit");
        assert_eq!(inbox.press('a'), Action::None);
        assert!(inbox.last_line().starts_with(NOT_SELECTED));
        // Nor do the letters of a reason decide.
        for key in "djak a\r".chars() {
            assert_eq!(inbox.press(key), Action::None);
        }
        assert!(inbox.last_line().starts_with(NOT_SELECTED));
        inbox.take(Vec::new());
        assert_eq!(inbox.press('j'), Action::None);
        inbox.take(vec![call("x"), call("z")]);
        show(&mut inbox, 3);
        assert_eq!(inbox.press('a'), Action::None);
        assert_eq!(inbox.press('k'), Action::Moved);
        show(&mut inbox, 3);
        assert_eq!(inbox.press('a'), Action::Approve("z".to_owned()));
    }

    /// A reason for a call that went away denies nothing, and its letters are no keys.
    #[test]
    fn reason_for_a_call_that_is_gone_is_taken_to_its_end() {
        for end in ['\r', '\u{1b}'] {
            let mut inbox = view(&["x", "y"], 3);
            assert_eq!(inbox.press('d'), Action::None);
            assert_eq!(inbox.press('n'), Action::None);
            inbox.take(vec![call("y")]);
            show(&mut inbox, 3);
            assert!(inbox.last_line().ends_with("(Enter or Esc goes back)"));
            for key in "jaq a".chars() {
                assert_eq!(inbox.press(key), Action::None);
            }
            assert_eq!(inbox.press(end), Action::None);
            assert_eq!(inbox.press('a'), Action::None);
            assert_eq!(inbox.press('j'), Action::Moved);
            show(&mut inbox, 3);
            assert_eq!(inbox.press('a'), Action::Approve("y".to_owned()));
        }
    }
}
