//! One process.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2e_wire::messages::proc::{ProcState, ProcStatus, ProcStatusValue};
use a2e_wire::{ProcId, Timestamp};
use sandbox::{Child, Exit, Handle, Input, Size, Status, Stdin, Why};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::commands::limit;
use crate::truncate::truncate;

/// A process of a session, running or ended.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcId<'static>,
    /// What it was started with, in one line, as lists have it.
    pub(super) command: String,
    pub(super) pid: u32,
    started_at: Timestamp,
    /// Nothing of one that an earlier host had.
    handle: Option<Handle>,
    /// One writer at a time, so that what two requests write is not mixed.
    stdin: tokio::sync::Mutex<Option<Stdin>>,
    is_terminal: bool,
    /// Whether it was sent a signal.
    signalled: AtomicBool,
    state: Mutex<State>,
    ended: watch::Sender<bool>,
}

/// How a process is doing.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) status: ProcStatusValue<'static>,
    /// The exit code; that of a signal is negative.
    pub(super) code: Option<i64>,
    pub(super) error: Cow<'static, str>,
}

/// Bytes of a command in a list; a longer one ends with `…`.
pub const MAX_LISTED_COMMAND: usize = 2 * 1024;

/// The end of the input of a terminal.
const END_OF_INPUT: u8 = 4;

impl Process {
    pub(super) fn new(
        id: ProcId<'static>,
        words: &[Cow<'_, str>],
        started_at: Timestamp,
        child: &mut Child,
        input: Input,
    ) -> Self {
        Self {
            id,
            command: truncate(words.join(" "), MAX_LISTED_COMMAND),
            pid: child.pid(),
            started_at,
            handle: Some(child.handle()),
            stdin: tokio::sync::Mutex::new(child.stdin.take()),
            is_terminal: matches!(input, Input::Terminal(_)),
            signalled: AtomicBool::new(false),
            state: Mutex::new(State {
                status: ProcStatusValue::Running,
                code: None,
                error: Cow::Borrowed(""),
            }),
            ended: watch::Sender::new(false),
        }
    }

    /// One that an earlier host had.
    pub(super) fn earlier(id: ProcId<'static>, command: String, state: State) -> Self {
        Self {
            id,
            command,
            pid: 0,
            started_at: Timestamp::default(),
            handle: None,
            stdin: tokio::sync::Mutex::new(None),
            is_terminal: false,
            signalled: AtomicBool::new(false),
            state: Mutex::new(state),
            ended: watch::Sender::new(true),
        }
    }

    pub(super) const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(super) fn state(&self) -> State {
        self.lock().clone()
    }

    pub(super) fn is_running(&self) -> bool {
        self.lock().status == ProcStatusValue::Running
    }

    /// Writes to its input, then ends that if it is to be.
    pub(super) async fn write(&self, data: &[u8], eof: bool) -> Result<(), Cow<'static, str>> {
        let mut slot = self.stdin.lock().await;
        let Some(stdin) = slot.as_mut() else {
            return Err("the input of the process is closed".into());
        };
        let mut bytes = Cow::Borrowed(data);
        if eof && self.is_terminal {
            bytes.to_mut().push(END_OF_INPUT);
        }
        let mut ended = self.ended.subscribe();
        let written = tokio::select! {
            written = stdin.write_all(&bytes) => written.map_err(|error| error.to_string().into()),
            // Nobody would ever read the rest.
            _ = ended.wait_for(|ended| *ended) => Err("the process has ended".into()),
        };
        if written.is_err() || (eof && !self.is_terminal) {
            *slot = None;
        }
        written
    }

    /// Sends it and its group a signal; says whether there was still somebody to send it to.
    pub(super) fn signal(&self, signal: i32) -> bool {
        let Some(handle) = self.handle.as_ref().filter(|_| self.is_running()) else {
            return false;
        };
        self.signalled.store(true, Ordering::Release);
        match signal {
            super::signal::KILL => {
                handle.kill_tree();
                true
            }
            signal => handle.signal(signal).is_ok(),
        }
    }

    /// Ends it and all it has started.
    pub(super) fn kill(&self) {
        self.signal(super::signal::KILL);
    }

    /// Gives its terminal another size.
    pub(super) fn resize(&self, size: Size) -> Result<(), Cow<'static, str>> {
        let handle = self.handle.as_ref().ok_or("the process has ended")?;
        handle
            .resize(size)
            .map_err(|error| error.to_string().into())
    }

    /// It has ended so; says whether somebody killed it.
    pub(super) fn end(&self, exit: Exit) -> (i64, bool) {
        let signalled = self.signalled.load(Ordering::Acquire);
        let (status, error, code) = judge(exit, signalled);
        let killed = status == ProcStatusValue::Killed;
        *self.lock() = State {
            status,
            code: Some(code),
            error,
        };
        (code, killed)
    }

    /// All there is to say of it was said.
    pub(super) fn set_ended(&self) {
        self.ended.send_replace(true);
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // It cannot fail: the sender is here.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// As it is listed.
    pub(super) fn listed(&self) -> ProcStatus<'static> {
        let state = self.state();
        let how = match (&state.status, &*state.error) {
            (ProcStatusValue::Running, _) => ProcState::Running,
            (_, "timeout") => ProcState::TimedOut,
            (ProcStatusValue::Failed, _) => ProcState::Crashed,
            _ => ProcState::Stopped,
        };
        ProcStatus {
            pid: self.pid.into(),
            exit_code: state.code,
            started_at: self.started_at,
            ..ProcStatus::new(self.id.clone(), self.command.clone().into(), how)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the end of a process means.
fn judge(exit: Exit, signalled: bool) -> (ProcStatusValue<'static>, Cow<'static, str>, i64) {
    let code = match exit.status {
        Status::Code(code) => i64::from(code),
        Status::Signal(signal) => -i64::from(signal),
    };
    let killed = |error: &'static str| (ProcStatusValue::Killed, Cow::Borrowed(error));
    let (status, error) = match (exit.why, exit.status) {
        (Some(Why::Killed), _) => killed(""),
        (Some(why), _) => killed(limit(why)),
        (None, Status::Signal(_)) if signalled => killed(""),
        (None, Status::Code(0)) => (ProcStatusValue::Completed, Cow::Borrowed("")),
        (None, Status::Code(code)) => {
            let error = format!("it ended with exit code {code}");
            (ProcStatusValue::Failed, error.into())
        }
        (None, Status::Signal(signal)) => {
            let error = format!("it was ended by signal {signal}");
            (ProcStatusValue::Failed, error.into())
        }
    };
    (status, error, code)
}
