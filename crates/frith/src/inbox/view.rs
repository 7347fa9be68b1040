//! What the inbox shows, and what keys do to it. Neither a terminal nor a node is needed for that.

use a2e_runtime::operator::WaitingCall;

use super::{Reason, fold};
use crate::screen::{count, plain};

/// The calls, the one that is selected, and all of it.
#[derive(Debug, Default)]
pub(super) struct View {
    calls: Vec<WaitingCall>,
    selected: Option<String>,
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

/// The keys in what a terminal gives; arrows as `j` and `k`.
pub(super) fn keys(typed: &str) -> Vec<char> {
    let typed = typed.replace("\u{1b}[A", "k").replace("\u{1b}[B", "j");
    typed.chars().collect()
}

impl View {
    /// Takes the calls of now. Of one that is not there any more the next is selected.
    pub(super) fn take(&mut self, calls: Vec<WaitingCall>) {
        let is_there = |id: &String| calls.iter().any(|call| call.id == *id);
        if !self.selected.as_ref().is_some_and(is_there) {
            let at = self.position().unwrap_or_default();
            let next = calls.get(at).or_else(|| calls.last());
            self.selected = next.map(|call| call.id.clone());
            self.reason = None;
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
                _ => Action::None,
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
        let next = self.position().and_then(|at| at.checked_add_signed(by));
        match next.and_then(|at| self.calls.get(at)) {
            Some(call) => {
                self.selected = Some(call.id.clone());
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
        let at = self.position().unwrap_or_default();
        let first = at.saturating_sub(LIST - 1);
        for (index, call) in self.calls.iter().enumerate().skip(first).take(LIST) {
            let mark = if index == at { '>' } else { ' ' };
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
            return format!("the reason, for the agent (Enter denies, Esc goes back): {text}");
        }
        let message = match self.message.as_str() {
            "" => String::new(),
            message => format!("{message}  "),
        };
        let keys = match (self.calls.is_empty(), self.is_seen) {
            (true, _) => "",
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

    #[test]
    fn call_that_is_gone_is_not_decided_about() {
        let mut inbox = view(&["x", "y"], 3);
        assert_eq!(inbox.press('d'), Action::None);
        inbox.take(vec![call("y")]);
        // What was typed was about the other call.
        assert_eq!(inbox.press('\r'), Action::None);
        assert_eq!(inbox.press('a'), Action::None);
        show(&mut inbox, 3);
        assert_eq!(inbox.press('a'), Action::Approve("y".to_owned()));
        inbox.take(Vec::new());
        assert_eq!((inbox.wanted(), inbox.press('a')), (None, Action::None));
        assert_eq!(inbox.draw((12, 40), 0).1, "[q] quit");
    }
}
