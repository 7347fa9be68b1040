//! What happens when somebody interrupts a command that waits for a host: its session is ended in
//! order, and so the host stops what it does for it. A connection that merely breaks would not have
//! that effect, for an agent may come back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2e_runtime::Client;
use a2e_wire::messages::base::Shutdown;
use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

tokio::task_local! {
    /// The sessions of the command that runs.
    static SESSIONS: Arc<Sessions>;
}

/// Somebody wanted a command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted(SignalKind);

/// The sessions that a command has begun.
#[derive(Debug, Default)]
struct Sessions {
    open: Mutex<Vec<Client>>,
    told: watch::Sender<Option<Interrupted>>,
}

/// Signals that mean that a command is to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// How long hosts may take to hear that their sessions end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a command. However it ends, and be it that somebody interrupts it, so do its sessions.
pub(crate) async fn until_interrupted<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let sessions = Arc::new(Sessions::default());
    let mut told = sessions.told.subscribe();
    let mut command = Box::pin(SESSIONS.scope(Arc::clone(&sessions), command));
    let outcome = tokio::select! {
        biased;
        outcome = &mut command => outcome,
        interrupted = told.wait_for(Option::is_some) => match interrupted.as_deref() {
            Ok(Some(interrupted)) => Err((*interrupted).into()),
            // The sender is in `sessions`, and its value was looked at.
            Ok(None) | Err(_) => Err(Interrupted(SignalKind::interrupt()).into()),
        },
    };
    drop(command);
    sessions.end().await;
    outcome
}

/// Waits until somebody interrupts the command. From now on signals do not end the process.
pub(crate) async fn interrupted() -> Result<Interrupted> {
    Ok(Signals::new()?.next().await)
}

/// Has a session end with the command that has begun it. From now on signals do not end the process,
/// but the session first.
pub(crate) fn ends_with_command(client: &Client) {
    // Elsewhere nobody would end it.
    let _ = SESSIONS.try_with(|sessions| {
        let mut open = sessions.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            listen(sessions.told.clone());
        }
        open.push(client.clone());
    });
}

/// Waits for signals: the first interrupts the command, the next ends the process. In a thread of its
/// own, which hears of them whatever the command does.
fn listen(told: watch::Sender<Option<Interrupted>>) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        // Without them, signals do what they do to any process.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::new() else {
                return;
            };
            let _ = ready.send(());
            let interrupted = signals.next().await;
            told.send_replace(Some(interrupted));
            let again = tokio::time::timeout(PATIENCE, signals.next()).await;
            exit(again.unwrap_or(interrupted));
        });
    });
    let _ = is_ready.recv();
}

#[expect(
    clippy::exit,
    reason = "somebody has insisted, or the command does not come to its end"
)]
fn exit(interrupted: Interrupted) {
    std::process::exit(interrupted.exit_code().into());
}

impl Sessions {
    /// Ends those that the command has not ended itself. What their hosts say meanwhile is read: one
    /// that cannot get rid of it would not come to hear of the end.
    async fn end(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async {
            for client in &open {
                if client.notify(Shutdown { timeout: 0 }).await.is_ok() {
                    client.closed().await;
                }
            }
        };
        // A host that does not listen notices that the connection is gone.
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Interrupted {
        Interrupted(tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        })
    }
}

impl Interrupted {
    /// As a shell has it: a signal counts from 128.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.0.as_raw_value()).unwrap_or(u8::MAX)
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; the host was told to stop what it does for this")
    }
}

impl std::error::Error for Interrupted {}
