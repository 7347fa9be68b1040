//! An outcome that may still be under way: a future that needs no runtime.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::Error;

/// The outcome of something that a store was asked. It is done whether or not anybody waits for it.
///
/// Async code awaits it; other code calls [`wait`](Pending::wait).
#[must_use = "what was written is not yet kept"]
pub struct Pending<T>(State<T>);

/// Settles a [`Pending`]. One that is dropped settles it with [`Error::Closed`].
pub struct Promise<T>(Arc<Slot<T>>);

enum State<T> {
    Ready(Option<Result<T, Error>>),
    Waiting(Arc<Slot<T>>),
}

struct Slot<T>(Mutex<Progress<T>>);

enum Progress<T> {
    Open(Option<Waker>),
    Settled(Result<T, Error>),
    /// The outcome was handed over.
    Taken,
}

impl<T> Pending<T> {
    /// An outcome that is there already.
    pub const fn ready(outcome: Result<T, Error>) -> Self {
        Self(State::Ready(Some(outcome)))
    }

    /// An outcome that somebody will settle.
    pub fn promised() -> (Promise<T>, Self) {
        let slot = Arc::new(Slot(Mutex::new(Progress::Open(None))));
        (Promise(Arc::clone(&slot)), Self(State::Waiting(slot)))
    }

    /// Blocks this thread until the outcome is there. Not for async code.
    ///
    /// # Errors
    /// As the operation says.
    pub fn wait(self) -> Result<T, Error> {
        match self.0 {
            State::Ready(outcome) => outcome.unwrap_or(Err(Error::Closed)),
            State::Waiting(_) => wait(self),
        }
    }
}

/// Blocks this thread until a future is done. Not for async code.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

// Nothing in it is ever pinned.
impl<T> Unpin for Pending<T> {}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match &mut self.0 {
            State::Ready(outcome) => {
                return Poll::Ready(outcome.take().unwrap_or(Err(Error::Closed)));
            }
            State::Waiting(slot) => slot,
        };
        let mut progress = slot.lock();
        match &mut *progress {
            Progress::Open(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            Progress::Settled(_) | Progress::Taken => {}
        }
        match std::mem::replace(&mut *progress, Progress::Taken) {
            Progress::Settled(outcome) => Poll::Ready(outcome),
            Progress::Open(_) | Progress::Taken => Poll::Ready(Err(Error::Closed)),
        }
    }
}

impl<T> Promise<T> {
    /// Says what came of it.
    pub fn settle(self, outcome: Result<T, Error>) {
        self.0.settle(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.settle(Err(Error::Closed));
    }
}

impl<T> Slot<T> {
    /// The first word stands.
    fn settle(&self, outcome: Result<T, Error>) {
        let mut progress = self.lock();
        if !matches!(*progress, Progress::Open(_)) {
            return;
        }
        let before = std::mem::replace(&mut *progress, Progress::Settled(outcome));
        drop(progress);
        if let Progress::Open(Some(waker)) = before {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "Pending(ready)",
            State::Waiting(_) => "Pending(waiting)",
        })
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reaches_a_waiting_thread() {
        let (promise, pending) = Pending::promised();
        let waiting = thread::spawn(move || pending.wait());
        promise.settle(Ok(5));
        assert_eq!(waiting.join().unwrap(), Ok(5));
        assert_eq!(Pending::ready(Ok(6)).wait(), Ok(6));
    }

    #[test]
    fn a_broken_promise_is_told() {
        let (promise, pending) = Pending::<()>::promised();
        drop(promise);
        assert_eq!(pending.wait(), Err(Error::Closed));
    }

    #[test]
    fn the_last_waker_is_woken() {
        struct Count(Mutex<usize>);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let count = || Arc::new(Count(Mutex::new(0)));
        let (first, second) = (count(), count());
        let (promise, mut pending) = Pending::promised();
        for waker in [&first, &second] {
            let waker = Waker::from(Arc::clone(waker));
            let poll = Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
            assert_eq!(poll, Poll::Pending);
        }
        promise.settle(Ok(()));
        assert_eq!(
            (*first.0.lock().unwrap(), *second.0.lock().unwrap()),
            (0, 1)
        );
        assert_eq!(pending.wait(), Ok(()));
    }
}
