//! What waits to be written: filled by anyone, emptied by whoever has the writer.

use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canonical::Digest;

use crate::keep::Note;
use crate::line::MAX_WRITTEN;
use crate::pending::{Group, Outcome};
use crate::random::Salt;
use crate::{Error, Pending};

/// Shared by all who append and the one who writes.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is something to do for the one who writes.
    work: Condvar,
    max_bytes: usize,
    max_records: usize,
}

struct State {
    batch: Batch,
    /// One that was written, for its memory.
    spare: Batch,
    controls: Vec<(Control, Arc<Group>)>,
    /// What the one who writes has in its hands.
    current: Option<Arc<Group>>,
    /// What is promised, waits or is being written.
    bytes: usize,
    records: usize,
    sink: Sink,
    /// Refused since the sink fails.
    refused: u64,
    is_writer_waiting: bool,
    /// The thread was called for something that does not stand here.
    is_called: bool,
}

impl State {
    fn has_work(&self) -> bool {
        let is_closed = matches!(self.sink, Sink::Closed);
        !self.batch.entries.is_empty() || !self.controls.is_empty() || is_closed
    }
}

/// Whether anything can be put on record.
enum Sink {
    Working,
    Failing(Error),
    Closed,
}

/// Records that are written together. Their bodies lie in one piece of memory.
#[derive(Default)]
pub(crate) struct Batch {
    /// The bodies, each without the brace that opens it.
    pub(crate) bodies: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) group: Arc<Group>,
    /// What it takes of the queue's limits.
    bytes: usize,
}

/// A record without its place in the chain.
pub(crate) struct Entry {
    pub(crate) event_type: &'static str,
    pub(crate) body_hash: Digest,
    pub(crate) salt: Salt,
    pub(crate) remote_ip: Option<(IpAddr, Salt)>,
    /// Where its body ends; it begins where that before it ends.
    pub(crate) end: usize,
}

/// Something else that the one who writes is asked for.
pub(crate) enum Control {
    /// Find out whether it can be written.
    Probe,
    /// Seal the segment.
    Seal,
    /// Put this on record, synced, with a checkpoint.
    Note(Note),
}

/// What the one who writes is to do.
pub(crate) enum Work {
    Records(Batch),
    Control(Control, Arc<Group>),
    /// Nothing will come any more.
    Close,
}

/// Room for one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room(());

impl Queue {
    pub(crate) fn new(max_bytes: usize, max_records: usize) -> Self {
        Self {
            state: Mutex::new(State {
                batch: Batch::default(),
                spare: Batch::default(),
                controls: Vec::new(),
                current: None,
                bytes: 0,
                records: 0,
                sink: Sink::Working,
                refused: 0,
                is_writer_waiting: false,
                is_called: false,
            }),
            work: Condvar::new(),
            max_bytes,
            max_records,
        }
    }

    /// Takes room for one record of any size, unless there is none or nothing can be written.
    pub(crate) fn reserve(&self) -> Result<Room, Error> {
        let mut state = self.lock();
        match &state.sink {
            Sink::Working => {}
            Sink::Failing(error) => {
                let error = error.clone();
                state.refused += 1;
                return Err(error);
            }
            Sink::Closed => return Err(Error::Closed),
        }
        if state.records >= self.max_records || state.bytes + MAX_WRITTEN > self.max_bytes {
            return Err(Error::QueueFull);
        }
        state.records += 1;
        state.bytes += MAX_WRITTEN;
        Ok(Room(()))
    }

    /// Gives room back that was not used.
    pub(crate) fn release(&self, _: Room) {
        let mut state = self.lock();
        state.records -= 1;
        state.bytes -= MAX_WRITTEN;
    }

    /// Puts a record into its room. `body` is its canonical form without the opening brace.
    pub(crate) fn push(&self, _: Room, mut entry: Entry, body: &[u8]) -> Pending {
        let mut state = self.lock();
        let used = MAX_WRITTEN.min(body.len() + ENVELOPE);
        state.bytes = state.bytes - MAX_WRITTEN + used;
        if let Sink::Closed = state.sink {
            state.records -= 1;
            state.bytes -= used;
            let group = Arc::<Group>::default();
            group.complete(Outcome::failed(Error::Closed));
            return group.pending(0);
        }
        let batch = &mut state.batch;
        batch.bodies.extend_from_slice(body);
        batch.bytes += used;
        entry.end = batch.bodies.len();
        let index = batch.entries.len();
        batch.entries.push(entry);
        Arc::clone(&batch.group).pending(index)
    }

    /// Tells the thread that there is something to do.
    pub(crate) fn call_thread(&self) {
        self.wake(self.lock());
    }

    /// Asks the one who writes for something.
    pub(crate) fn control(&self, control: Control) -> Pending {
        let group = Arc::<Group>::default();
        let mut state = self.lock();
        match state.sink {
            Sink::Closed => group.complete(Outcome::failed(Error::Closed)),
            Sink::Working | Sink::Failing(_) => {
                state.controls.push((control, Arc::clone(&group)));
                self.wake(state);
            }
        }
        group.pending(0)
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.sink = Sink::Closed;
        self.wake(state);
    }

    /// Waits until there is something to do, for so long at most; says whether there is.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let mut state = self.lock();
        let mut is_late = false;
        while !is_late && !state.has_work() {
            state.is_writer_waiting = true;
            let waited = self.work.wait_timeout(state, patience);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.is_writer_waiting = false;
            is_late = timeout.timed_out();
            if state.is_called {
                state.is_called = false;
                break;
            }
        }
        state.has_work()
    }

    /// The next thing to do. Only for who has the writer: what is taken first is written first.
    pub(crate) fn take(&self) -> Option<Work> {
        if let Some(batch) = self.take_records() {
            return Some(Work::Records(batch));
        }
        let mut state = self.lock();
        if !state.controls.is_empty() {
            let (control, group) = state.controls.remove(0);
            state.current = Some(Arc::clone(&group));
            return Some(Work::Control(control, group));
        }
        matches!(state.sink, Sink::Closed).then_some(Work::Close)
    }

    /// The records that wait; the same holds as for [`Queue::take`].
    pub(crate) fn take_records(&self) -> Option<Batch> {
        let mut state = self.lock();
        if state.batch.entries.is_empty() {
            return None;
        }
        let spare = std::mem::take(&mut state.spare);
        let batch = std::mem::replace(&mut state.batch, spare);
        state.current = Some(Arc::clone(&batch.group));
        Some(batch)
    }

    /// How many records wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().batch.entries.len()
    }

    /// The batch was dealt with, so or so.
    pub(crate) fn done(&self, mut batch: Batch, outcome: Outcome) {
        let (group, bytes, records) = (batch.group, batch.bytes, batch.entries.len());
        batch.bodies.clear();
        batch.entries.clear();
        batch.group = Arc::default();
        batch.bytes = 0;
        {
            let mut state = self.lock();
            state.records -= records;
            state.bytes -= bytes;
            state.refused += (records - outcome.written) as u64;
            // A burst must not keep its memory for ever.
            if batch.bodies.capacity() <= KEPT {
                state.spare = batch;
            }
        }
        group.complete(outcome);
    }

    /// From now on nothing is let in.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        if !matches!(state.sink, Sink::Closed) {
            state.sink = Sink::Failing(error);
        }
    }

    /// How many were refused since the sink fails, or let in and not written.
    pub(crate) fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// It can be written again, and so many refused ones are on record.
    pub(crate) fn recover(&self, refused: u64) {
        let mut state = self.lock();
        if !matches!(state.sink, Sink::Closed) {
            state.sink = Sink::Working;
        }
        state.refused = state.refused.saturating_sub(refused);
    }

    /// Whether something can be put on record.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.lock().sink {
            Sink::Working => Ok(()),
            Sink::Failing(error) => Err(error.clone()),
            Sink::Closed => Err(Error::Closed),
        }
    }

    /// The one who writes is gone: nobody may wait for it.
    pub(crate) fn abandon(&self) {
        let groups: Vec<Arc<Group>> = {
            let mut state = self.lock();
            state.sink = Sink::Closed;
            let waiting = std::mem::take(&mut state.batch).group;
            let controls = std::mem::take(&mut state.controls);
            let controls = controls.into_iter().map(|(_, group)| group);
            controls
                .chain(state.current.take())
                .chain([waiting])
                .collect()
        };
        for group in groups {
            group.complete(Outcome::failed(Error::Closed));
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        // Once is enough: until it runs, all the others need not call it too.
        let is_waiting = std::mem::take(&mut state.is_writer_waiting);
        state.is_called = true;
        drop(state);
        if is_waiting {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a line around its body, at most.
const ENVELOPE: usize = 640;
/// Memory of a batch that is kept for the next one.
const KEPT: usize = 1 << 20;
