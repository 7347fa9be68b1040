//! The one thread that starts supervisors. The kernel kills them when the *thread* that started
//! them ends, so it is one that lives as long as the host.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;

use crate::{Error, warm};

type Job = Box<dyn FnOnce() + Send>;

/// Has the thread do something.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    static THREAD: OnceLock<Result<Sender<Job>, Error>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let thread = Builder::new().name("sandbox".into());
        thread
            .spawn(move || work(&jobs))
            .map_err(|why| Error::io("start a thread", why))?;
        Ok(sender)
    });
    let sender = thread.as_ref().map_err(Clone::clone)?;
    sender
        .send(Box::new(job))
        .map_err(|_| Error::io("start a supervisor", "its thread has ended"))
}

fn work(jobs: &Receiver<Job>) {
    loop {
        let job = match warm::any() {
            true => jobs.recv_timeout(warm::IDLE),
            false => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            Ok(job) => job(),
            Err(RecvTimeoutError::Timeout) => warm::clear(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
