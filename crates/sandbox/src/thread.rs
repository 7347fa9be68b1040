//! The one thread that starts supervisors. The kernel kills them when the *thread* that started
//! them ends, so it is one that lives as long as the host.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use crate::Error;

type Job = Box<dyn FnOnce() + Send>;

/// Has the thread do something.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    static THREAD: OnceLock<Result<Sender<Job>, Error>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let thread = Builder::new().name("sandbox".into());
        thread
            .spawn(move || jobs.into_iter().for_each(|job| job()))
            .map_err(|why| Error::io("start a thread", why))?;
        Ok(sender)
    });
    let sender = thread.as_ref().map_err(Clone::clone)?;
    sender
        .send(Box::new(job))
        .map_err(|_| Error::io("start a supervisor", "its thread has ended"))
}
