//! The processes of a session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::Session;
use a2e_wire::messages::proc::ProcStatusValue;
use a2e_wire::wire::ToStatic;
use a2e_wire::{ProcId, Raw};
use serde::{Deserialize, Serialize};

use super::process::{Process, State};

/// The processes of a session, oldest first.
#[derive(Debug, Default)]
pub(super) struct Table {
    processes: Mutex<Vec<Arc<Process>>>,
    /// Those that are being started.
    starting: Arc<AtomicUsize>,
}

/// A place for a process that is being started.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

/// How many that have ended are remembered.
const MAX_ENDED: usize = 64;

/// A process as it is kept for the next host.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: String,
    command: String,
    status: String,
    code: Option<i64>,
    error: String,
}

impl Table {
    /// A place for one more, if fewer than so many run or are being started.
    pub(super) fn place(&self, max_running: usize) -> Option<Place> {
        let processes = self.lock();
        let running = processes.iter().filter(|it| it.is_running()).count();
        let starting = self.starting.load(Ordering::Acquire);
        if running.saturating_add(starting) >= max_running {
            return None;
        }
        // Nobody else adds while the lock is held.
        self.starting.fetch_add(1, Ordering::AcqRel);
        Some(Place(Arc::clone(&self.starting)))
    }

    /// Puts a process of the session into its place; of those that have ended the oldest are forgotten.
    pub(super) fn insert(&self, session: &Session, place: Place, process: Arc<Process>) {
        let mut processes = self.lock();
        // It was started while the session ended.
        if session.ended().is_cancelled() {
            process.kill();
        }
        processes.push(process);
        let ended = processes.iter().filter(|it| !it.is_running()).count();
        let mut surplus = ended.saturating_sub(MAX_ENDED);
        processes.retain(|it| {
            let goes = surplus > 0 && !it.is_running();
            surplus = surplus.saturating_sub(usize::from(goes));
            !goes
        });
        drop(place);
    }

    pub(super) fn find(&self, id: &ProcId<'_>) -> Option<Arc<Process>> {
        let processes = self.lock();
        let found = processes.iter().find(|it| it.id.as_str() == id.as_str());
        found.map(Arc::clone)
    }

    pub(super) fn all(&self) -> Vec<Arc<Process>> {
        self.lock().clone()
    }

    /// Kills all processes: the session is over.
    pub(super) fn kill_all(&self) {
        for process in self.lock().iter() {
            process.kill();
        }
    }

    /// What the next host is to know of them.
    pub(super) fn save(&self) -> Option<Raw<'static>> {
        let processes = self.all();
        let kept: Vec<Kept> = processes.iter().map(|it| Kept::of(it)).collect();
        Raw::from_serialize(&kept).ok()
    }

    /// Takes what an earlier host knew. What ran has ended with it.
    pub(super) fn restore(&self, state: &Raw<'_>) {
        let Ok(kept) = state.deserialize::<Vec<Kept>>() else {
            return;
        };
        let processes = kept.into_iter().take(MAX_ENDED).map(Kept::into_process);
        *self.lock() = processes.map(Arc::new).collect();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn of(process: &Process) -> Self {
        let state = process.state();
        Self {
            id: process.id.as_str().to_owned(),
            command: process.command.clone(),
            status: state.status.as_str().to_owned(),
            code: state.code,
            error: state.error.into_owned(),
        }
    }

    fn into_process(self) -> Process {
        let status = ProcStatusValue::from_any_case(self.status.into());
        let state = match status {
            ProcStatusValue::Running => State {
                status: ProcStatusValue::Killed,
                code: None,
                error: "host_restarted".into(),
            },
            status @ (ProcStatusValue::Completed
            | ProcStatusValue::Failed
            | ProcStatusValue::Killed
            | ProcStatusValue::NotFound
            | ProcStatusValue::Error
            | ProcStatusValue::Other(_)) => State {
                status,
                code: self.code,
                error: self.error.into(),
            },
        };
        Process::earlier(ProcId::from(self.id).to_static(), self.command, state)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Processes end with their session, however it ends.
impl Drop for Table {
    fn drop(&mut self) {
        self.kill_all();
    }
}
