//! How a call gets on, for whoever waits for it: a bar on a terminal, lines or JSON elsewhere.

mod counted;

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::{AgentConfig, ClientError};
use a2e_wire::{Body, Message};
use serde_json::Value;
use tokio::time::Instant;

use crate::screen::{json, one_line, plain};

pub(crate) use counted::Counted;

/// Everything goes to standard error, so that standard output is the result alone.
pub(crate) struct Progress {
    /// Whether there is somebody to draw a bar for.
    terminal: bool,
    events: Events,
    state: Mutex<State>,
}

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    /// Not one by one.
    Quiet,
    Lines,
    Json,
}

#[derive(Debug)]
struct State {
    started: Instant,
    /// When something was last heard of the call.
    last: Instant,
    /// Whether it waits for the operator.
    is_held: bool,
    percent: Option<u64>,
    message: String,
    is_drawn: bool,
}

/// How often the bar is drawn when nothing happens: it shows seconds.
const TICK: Duration = Duration::from_millis(250);

/// A call that is over by then needs no bar.
const BEFORE_BAR: Duration = Duration::from_secs(1);

/// The host ends a call itself when its time is over, and says more than that.
const HOST_FIRST: Duration = Duration::from_millis(250);

/// The bar itself, in characters.
const WIDTH: usize = 30;

impl Progress {
    /// For a person, or for a program, which wants no bar.
    pub(crate) fn new(events: Events, for_program: bool) -> Self {
        let now = Instant::now();
        Self {
            terminal: !for_program && std::io::stderr().is_terminal(),
            events,
            state: Mutex::new(State {
                started: now,
                last: now,
                is_held: false,
                percent: None,
                message: String::new(),
                is_drawn: false,
            }),
        }
    }

    /// Something happened.
    pub(crate) fn event(&self, message: &Message<'_>) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "nothing else tells how a call gets on"
        )]
        let (kind, seq, data) = match &message.body {
            Body::ToolEvent(event) => (Some(event.kind.as_str()), event.seq, event.data.raw()),
            Body::Event(event) => (Some(event.kind.as_str()), event.seq, event.data.raw()),
            Body::ChainEvent(event) => (None, event.seq, event.data.raw()),
            Body::Unknown(event) => (Some(&*event.type_name), 0, &event.raw),
            _ => return,
        };
        let data: Value = data.deserialize().unwrap_or_default();
        let mut state = self.lock();
        state.last = Instant::now();
        let approval = data["approval_id"].as_str();
        let approval = approval.filter(|_| data["status"] == "approval_pending");
        state.is_held = approval.is_some();
        if let Some(id) = approval {
            let id = plain(id);
            self.line(
                &mut state,
                &format!("frith: this waits for the operator: frith approvals show {id}"),
            );
            return;
        }
        let Some(kind) = kind else {
            return;
        };
        if let Some(message) = data["message"].as_str() {
            state.message = one_line(message);
        }
        state.percent = percent(&data).or(state.percent);
        match self.events {
            Events::Quiet => {}
            Events::Lines => {
                let text = told(kind, &data);
                self.line(&mut state, &format!("{seq:>4} {} {text}", plain(kind)));
            }
            Events::Json => {
                let event = serde_json::json!({"seq": seq, "kind": kind, "data": data});
                self.line(&mut state, &json(&event.to_string()));
            }
        }
        self.draw(&mut state);
    }

    /// Says something that has happened, in a line of its own.
    pub(crate) fn say(&self, text: &str) {
        let mut state = self.lock();
        self.line(&mut state, text);
    }

    /// Waits for a response until nothing was heard of the call for so many seconds; in all, as long as
    /// a client waits for a call that gets on. The time in which it waits for the operator does not count.
    pub(crate) async fn within<T>(
        &self,
        response: impl Future<Output = Result<T, ClientError>>,
        seconds: u32,
    ) -> Result<T, ClientError> {
        let timeout = Duration::from_secs(seconds.into());
        let longest = timeout.max(AgentConfig::default().progress);
        tokio::pin!(response);
        loop {
            let Some(wait) = self.next_wait(timeout + HOST_FIRST, longest) else {
                return self.over(Err(ClientError::Timeout(timeout)));
            };
            if let Ok(response) = tokio::time::timeout(wait, &mut response).await {
                return self.over(response);
            }
        }
    }

    /// How long to wait before looking again; nothing if that was long enough.
    fn next_wait(&self, patience: Duration, longest: Duration) -> Option<Duration> {
        let mut state = self.lock();
        self.draw(&mut state);
        let end = (state.last + patience).min(state.started + longest);
        let left = end.saturating_duration_since(Instant::now());
        match (state.is_held, self.terminal) {
            (true, _) => Some(TICK),
            (false, _) if left.is_zero() => None,
            (false, true) => Some(left.min(TICK)),
            (false, false) => Some(left),
        }
    }

    fn over<T>(&self, outcome: T) -> T {
        let mut state = self.lock();
        self.clear(&mut state);
        outcome
    }

    /// A line of its own, above the bar.
    fn line(&self, state: &mut State, text: &str) {
        self.clear(state);
        tell!("{text}");
    }

    fn draw(&self, state: &mut State) {
        let is_early = state.percent.is_none() && state.started.elapsed() < BEFORE_BAR;
        if !self.terminal || is_early || state.is_held {
            return;
        }
        state.is_drawn = true;
        let line = state.bar(columns());
        // Who has no terminal any more needs no bar.
        let _ = write!(std::io::stderr(), "\r{line}\u{1b}[K");
    }

    fn clear(&self, state: &mut State) {
        if std::mem::take(&mut state.is_drawn) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The bar with percentage, time and message, in a line of so many columns.
    fn bar(&self, columns: usize) -> String {
        let elapsed = self.started.elapsed().as_secs();
        let done = match self.percent {
            Some(percent) => {
                let full = usize::try_from(percent).unwrap_or(100).min(100) * WIDTH / 100;
                let (full, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
                format!("[{full}{rest}] {percent:>3} %")
            }
            None => "working".to_owned(),
        };
        let line = format!("{done}  {elapsed} s  {}", self.message);
        // One less, or a terminal begins the next line.
        line.trim_end()
            .chars()
            .take(columns.saturating_sub(1))
            .collect()
    }
}

/// How much is done, if an event says so.
fn percent(data: &Value) -> Option<u64> {
    let percent = data["pct"].as_f64()?;
    let percent = percent.clamp(0.0, 100.0) as u64;
    Some(percent)
}

/// What an event says, in words if it has some.
fn told(kind: &str, data: &Value) -> String {
    let text = |name: &str| data[name].as_str().map(one_line);
    let told = match (kind, text("message")) {
        ("progress", message) => percent(data).map(|percent| {
            let message = message.unwrap_or_default();
            format!("{percent:>3} % {message}").trim_end().to_owned()
        }),
        ("status", message) => message,
        ("log", Some(message)) => {
            let level = text("level").unwrap_or_else(|| "log".into());
            Some(format!("{level}: {message}"))
        }
        ("artifact", _) => text("name").map(|name| {
            let chunk = data["chunk"].as_str().unwrap_or_default();
            let bytes = chunk.trim_end_matches('=').len() * 3 / 4;
            format!("{name}, {bytes} bytes")
        }),
        _ => None,
    };
    told.unwrap_or_else(|| plain(data))
}

/// How wide the terminal is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 80 } else { columns }
}

#[cfg(test)]
mod tests;
