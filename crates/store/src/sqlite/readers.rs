//! Connections to read with.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::connect;
use crate::Error;

/// A few connections that only read. Each is used by one thread at a time; the writer has its own,
/// so nobody here ever waits for it.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
    /// How many wait for one; to wake nobody is a system call too.
    waiting: usize,
}

/// How many read at once.
pub(super) const MAX_READERS: usize = 4;

/// KiB that a connection keeps of what it has read, as SQLite says it. More would be most of what a
/// node has in memory while several read large values. With 2 MiB the upper pages of
/// a million memories do not stay, and are read again for each of them that a search looks at.
const CACHE: i64 = -4 * 1024;

/// A connection on loan; it goes back when this is dropped, also if the reader panics.
struct Loan<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut loan = self.borrow();
        let connection = match loan.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        read(loan.connection.insert(connection))
    }

    fn open(&self) -> Result<Connection, Error> {
        let connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        Ok(connection)
    }

    /// A connection that nobody uses, or the right to open one.
    fn borrow(&self) -> Loan<'_> {
        let mut state = self.lock();
        loop {
            let connection = state.idle.pop();
            if connection.is_none() && state.open < MAX_READERS {
                state.open += 1;
            } else if connection.is_none() {
                state.waiting += 1;
                let waited = self.freed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                continue;
            }
            return Loan {
                readers: self,
                connection,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.lock();
        match self.connection.take() {
            Some(connection) => state.idle.push(connection),
            // It could not be opened.
            None => state.open -= 1,
        }
        let is_wanted = state.waiting > 0;
        drop(state);
        if is_wanted {
            self.readers.freed.notify_one();
        }
    }
}
