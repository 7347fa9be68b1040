//! The clock by which running components give way.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// A component that runs is asked so often whether it may go on.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// A thread that moves an engine's epoch while something runs, and sleeps otherwise.
pub(super) struct Ticker {
    running: Arc<AtomicUsize>,
    thread: Thread,
}

/// Something runs for as long as this is there.
pub(super) struct Running<'a>(&'a Ticker);

impl Ticker {
    /// Starts the thread, which ends with the engine.
    pub(super) fn start(engine: &Engine) -> io::Result<Self> {
        let running = Arc::new(AtomicUsize::new(0));
        let (counted, engine) = (Arc::clone(&running), engine.weak());
        let named = thread::Builder::new().name("wasm-ticker".into());
        let spawned = named.spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                if counted.load(Ordering::Acquire) == 0 {
                    thread::park();
                } else {
                    thread::sleep(TICK);
                }
            }
        })?;
        let thread = spawned.thread().clone();
        Ok(Self { running, thread })
    }

    /// Ticks for as long as what this gives is there.
    pub(super) fn run(&self) -> Running<'_> {
        if self.running.fetch_add(1, Ordering::AcqRel) == 0 {
            self.thread.unpark();
        }
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // It finds out that the engine is gone.
        self.thread.unpark();
    }
}
