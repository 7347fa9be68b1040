//! The operator's inbox: calls that wait for approval, decided with one key.

mod attend;
mod details;
mod view;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use a2e_runtime::DataDir;
use a2e_runtime::operator::{
    AskError, Decide, HeldCall, HeldCalls, Nothing, Show, WaitingCall, ask,
};
use anyhow::Result;
use serde_json::json;

use self::view::{Action, View};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::key_mode::{CtrlC, KeyMode};
use crate::screen::plain;

pub(crate) use attend::attend;
pub(crate) use details::details;

/// A text that is typed key by key.
#[derive(Debug, Default)]
struct Reason(String);

/// How often one looks for calls.
const INTERVAL: Duration = Duration::from_millis(500);

/// The longest reason, in characters.
const MAX_REASON: usize = 200;

/// Shows calls as they come, until the operator goes: an inbox at a terminal, lines elsewhere.
pub(crate) async fn watch(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let is_terminal = std::io::stdout().is_terminal() && !as_json;
    let keys = is_terminal.then(|| KeyMode::enter(CtrlC::Key)).flatten();
    match keys {
        Some(keys) => inbox(dir, &keys).await,
        None => lines(dir, as_json).await,
    }
}

async fn lines(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let mut seen = BTreeSet::new();
    loop {
        let calls = list(dir).await?;
        let ids: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
        for call in calls.iter().filter(|call| !seen.contains(&call.id)) {
            match as_json {
                true => print_json(&json!(call))?,
                false => print(&format!(
                    "{}  {}  {}",
                    call.id,
                    plain(&call.agent),
                    plain(&call.summary)
                ))?,
            }
        }
        std::io::stdout().flush()?;
        seen = ids;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Another screen of the terminal; dropped, the one before is there again.
struct OtherScreen;

impl OtherScreen {
    fn enter() -> Result<Self> {
        write!(std::io::stdout(), "\u{1b}[?1049h\u{1b}[?25l")?;
        Ok(Self)
    }
}

impl Drop for OtherScreen {
    fn drop(&mut self) {
        let mut out = std::io::stdout();
        let _ = write!(out, "\u{1b}[?25h\u{1b}[?1049l");
        let _ = out.flush();
    }
}

async fn inbox(dir: &DataDir, keys: &KeyMode) -> Result<Outcome> {
    let _screen = OtherScreen::enter()?;
    let (mut view, mut last) = (View::default(), String::new());
    loop {
        view.take(list(dir).await?);
        refresh(dir, &mut view, keys, &mut last).await?;
        let typed = keys.next().await;
        for key in view::keys(&typed) {
            let action = view.press(key);
            let done = match action {
                Action::None => continue,
                Action::End => return Ok(Outcome::Good),
                // What was typed after that was typed before this was shown.
                Action::Moved => break,
                Action::Approve(id) => decide(dir, &id, None).await,
                Action::Deny(id, reason) => decide(dir, &id, Some(&reason)).await,
            };
            view.say(match done {
                Ok(call) if call.verdict == "granted" => format!("approved {}", call.id),
                Ok(call) => format!("denied {}", call.id),
                Err(error) => plain(error),
            });
            break;
        }
    }
}

/// Shows what there is now. If that is something else than before, what was typed until then decides
/// nothing; the last line, which says what keys do, comes after that.
async fn refresh(dir: &DataDir, view: &mut View, keys: &KeyMode, last: &mut String) -> Result<()> {
    if let Some(id) = view.wanted() {
        let lines = show(dir, &id).await.map(|call| details(&call));
        view.show(id, lines.unwrap_or_else(|error| vec![plain(error)]));
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let size = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let (lines, keys_line) = view.draw(size, i64::try_from(now.as_millis())?);
    let screen = lines.join("\r\n");
    let whole = format!("{screen}{keys_line}");
    if whole == *last {
        return Ok(());
    }
    *last = whole;
    let mut out = std::io::stdout().lock();
    write!(out, "\u{1b}[H\u{1b}[2J{screen}")?;
    out.flush()?;
    if view.has_moved() {
        keys.discard();
    }
    write!(out, "\u{1b}[{};1H{keys_line}", size.0.max(1))?;
    Ok(out.flush()?)
}

impl Reason {
    /// Takes a key. At the end the text, or none if it was given up.
    #[expect(
        clippy::option_option,
        reason = "not to be at the end is not to give up"
    )]
    fn press(&mut self, key: char) -> Option<Option<String>> {
        match key {
            '\r' | '\n' => return Some(Some(std::mem::take(&mut self.0))),
            '\u{1b}' | '\u{3}' => return Some(None),
            '\u{7f}' | '\u{8}' => drop(self.0.pop()),
            key if !key.is_control() && self.0.chars().count() < MAX_REASON => self.0.push(key),
            _ => {}
        }
        None
    }
}

/// The calls that wait, oldest first.
async fn list(dir: &DataDir) -> Result<Vec<WaitingCall>, AskError> {
    let held: HeldCalls = ask(dir, "approvals.list", &Nothing {}).await?;
    Ok(held.calls)
}

async fn show(dir: &DataDir, id: &str) -> Result<HeldCall, AskError> {
    ask(dir, "approvals.show", &Show { id: id.to_owned() }).await
}

/// Decides about a call; a reason denies it.
async fn decide(dir: &DataDir, id: &str, denied: Option<&str>) -> Result<HeldCall, AskError> {
    let request = Decide {
        id: id.to_owned(),
        grant: denied.is_none(),
        reason: denied.unwrap_or_default().to_owned(),
    };
    ask(dir, "approvals.decide", &request).await
}

/// A line in as many columns at most; letters that are not ASCII may take two.
fn fold(line: &str, columns: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut used = 0;
    for letter in line.chars() {
        let width = if letter.is_ascii() { 1 } else { 2 };
        if used + width > columns {
            parts.push(String::new());
            used = 0;
        }
        used += width;
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_typed_key_by_key() {
        let mut reason = Reason::default();
        for key in "nott\u{7f} no\u{1}w".chars() {
            assert_eq!(reason.press(key), None);
        }
        assert_eq!(reason.press('\r'), Some(Some("not now".to_owned())));
        assert_eq!(Reason::default().press('\u{1b}'), Some(None));
        let mut long = Reason::default();
        for _ in 0..=MAX_REASON {
            assert_eq!(long.press('x'), None);
        }
        assert_eq!(long.0.len(), MAX_REASON);
    }

    #[test]
    fn lines_are_folded() {
        assert_eq!(fold("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(fold("", 2), [""]);
        assert_eq!(fold("a\u{4e2d}b", 3), ["a\u{4e2d}", "b"]);
    }
}
