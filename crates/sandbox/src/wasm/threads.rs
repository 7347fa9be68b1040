//! The threads on which components wait for files.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;

use tokio::runtime::{Builder, Runtime};

/// So many operations on files are under way at a time, of all components together; others wait.
/// Whoever else works with files has other threads, and never waits for a component.
pub const MAX_WAITING: usize = 16;

/// Threads of an engine's own.
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_WAITING)
            .thread_name("wasm-files")
            .enable_time()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Does something here whose tasks, timers and waiting are on these threads.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _entered = self.0.as_ref().map(Runtime::enter);
            work.as_mut().poll(context)
        })
        .await
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Whoever drops it may not be one who can wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use tokio::sync::mpsc::unbounded_channel;
    use tokio::task::spawn_blocking;

    use super::*;

    /// When all of them wait, one more waits for its turn, and others do not.
    #[tokio::test]
    async fn so_many_wait_and_nobody_else() {
        let threads = Arc::new(Threads::start().unwrap());
        let (start, mut started) = unbounded_channel();
        let begin = |what: &'static str, gate: Option<Arc<Barrier>>| {
            let (threads, start) = (Arc::clone(&threads), start.clone());
            let work = move || {
                start.send(what).unwrap();
                gate.map(|gate| gate.wait());
            };
            tokio::spawn(async move {
                let done = threads.during(async { spawn_blocking(work).await });
                done.await.unwrap();
            })
        };
        let gate = Arc::new(Barrier::new(MAX_WAITING + 1));
        let waiting = (0..MAX_WAITING).map(|_| begin("waits", Some(Arc::clone(&gate))));
        let mut all: Vec<_> = waiting.collect();
        for _ in 0..MAX_WAITING {
            assert_eq!(started.recv().await, Some("waits"));
        }
        all.push(begin("one more", None));
        spawn_blocking(|| ()).await.unwrap();
        assert!(started.try_recv().is_err());
        spawn_blocking(move || gate.wait()).await.unwrap();
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(started.recv().await, Some("one more"));
    }
}
