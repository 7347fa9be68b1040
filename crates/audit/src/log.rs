//! A log that is being written.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use canonical::Digest;

use crate::ahead::{Moment, ahead};
use crate::disk::{Disk, RealDisk};
use crate::error::at;
use crate::folder::segments;
use crate::line::RemoteIp;
use crate::queue::{Control, Entry, Room};
use crate::random::Salt;
use crate::remembered::Nothing;
use crate::writer::{Shared, Writer, run};
use crate::{
    Clock, Error, KeyCheck, NoRandomness, Parts, Pending, Record, Rejected, Rejections, Remembered,
    Settings, SyncWhen, UnixMillis,
};

/// A log that is being written. Clones are the same log; it ends with the last of them, or with
/// [`Log::close`].
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    shared: Arc<Shared>,
    /// None when the log is closed.
    writer: Arc<Mutex<Option<Writer>>>,
    /// Whether to write where records are appended.
    writes_here: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    keys: Arc<dyn KeyCheck>,
    clock: Arc<dyn Clock>,
    /// When the log was opened.
    opened: Moment,
    /// One purge at a time.
    purging: Mutex<()>,
}

/// Room for one record, taken before the thing happens that the record is about. What has its
/// room can be put on record even if the disk fills up in the meantime.
#[must_use = "room that is not used is given back when it is dropped"]
pub struct Permit {
    log: Log,
    /// `None` once it is used.
    room: Option<Room>,
}

impl Log {
    /// Takes the log in a folder and goes on where it ends; makes a new one if there is none. This
    /// verifies the last segment, so it may take a moment.
    ///
    /// # Errors
    /// If another process writes it, or it cannot be read, written or signed.
    pub fn open(folder: &Path, settings: Settings, parts: Parts) -> Result<Self, Error> {
        Self::open_remembered(folder, settings, parts, Box::new(Nothing))
    }

    /// As [`Log::open`]. If the log lacks what is remembered of it, another one begins, and says so.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_remembered(
        folder: &Path,
        settings: Settings,
        parts: Parts,
        remembered: Box<dyn Remembered>,
    ) -> Result<Self, Error> {
        Self::open_on(folder, settings, parts, remembered, Arc::new(RealDisk))
    }

    pub(crate) fn open_on(
        folder: &Path,
        settings: Settings,
        parts: Parts,
        remembered: Box<dyn Remembered>,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, Error> {
        let sync = settings.sync;
        let writer = Writer::open(folder, settings, parts, remembered, disk)?;
        let shared = writer.shared();
        let (keys, clock) = writer.keys_and_clock();
        let mut threads = Vec::new();
        if let SyncWhen::Every(every) = sync {
            let queue = Arc::clone(&shared);
            let started = shared.dirty.start(every, move || {
                // The one who writes finds out why, and says so.
                drop(queue.queue.control(Control::Probe));
            });
            threads.push(started.map_err(at("start a thread for", folder))?);
        }
        let writer = Arc::new(Mutex::new(Some(writer)));
        let guard = Abandon(Arc::clone(&shared));
        let builder = thread::Builder::new().name("audit".into());
        let started = builder.spawn({
            let writer = Arc::clone(&writer);
            let shared = Arc::clone(&shared);
            move || {
                // Also if the thread should panic: nobody may wait for it then.
                let _guard = guard;
                run(&writer, &shared);
            }
        });
        threads.push(started.map_err(at("start a thread for", folder))?);
        Ok(Self {
            inner: Arc::new(Inner {
                folder: folder.to_owned(),
                shared,
                writer,
                // A sync takes long, and is for a thread of its own.
                writes_here: sync != SyncWhen::Commit,
                threads: Mutex::new(threads),
                keys,
                opened: Moment::now(&*clock),
                clock,
                purging: Mutex::new(()),
            }),
        })
    }

    /// Puts a record on its way.
    ///
    /// # Errors
    /// At once, if nothing can be written or too much waits already. Then the record is not in the
    /// log, and what it is about must not happen.
    pub fn append(&self, record: &Record<'_>) -> Result<Pending, Error> {
        self.reserve()?.append(record)
    }

    /// Has everything that waits written: here, if nobody else writes and it takes no sync, else by
    /// a thread. Records that were enqueued go in one group.
    pub fn commit(&self) {
        let inner = &self.inner;
        let is_needed = match inner.writer.try_lock() {
            Ok(mut writer) if inner.writes_here => writer.as_mut().is_none_or(Writer::write_now),
            _ => true,
        };
        if is_needed {
            inner.shared.queue.call_thread();
        }
    }

    /// Takes room for one record, before the thing happens that it is about.
    ///
    /// # Errors
    /// If nothing can be written or too much waits already. Then the thing must not happen.
    pub fn reserve(&self) -> Result<Permit, Error> {
        Ok(Permit {
            room: Some(self.inner.shared.queue.reserve()?),
            log: self.clone(),
        })
    }

    /// Counts something that was refused and of which there may be any number: by those whom nobody
    /// knows, or by an agent that sends too much. What was counted is put on record once a minute, for
    /// each source, agent and reason.
    pub fn reject(&self, source: Option<IpAddr>, agent: Option<&str>, reason: &'static str) {
        let shared = &self.inner.shared;
        let now = self.inner.clock.now();
        let finished = shared.rejections().note(now, source, agent, reason);
        if shared.record(&finished) {
            self.commit();
        }
    }

    /// Whether records are taken now, as far as that is known.
    ///
    /// # Errors
    /// If they are not.
    pub fn check(&self) -> Result<(), Error> {
        self.inner.shared.queue.check()
    }

    /// Has the files looked at now, and a log that could not be written tried again. The receipt
    /// is that of the last record.
    pub fn probe(&self) -> Pending {
        self.inner.shared.queue.control(Control::Probe)
    }

    /// Seals the segment that is being written and begins the next one.
    pub fn rotate(&self) -> Pending {
        self.inner.shared.queue.control(Control::Seal)
    }

    /// Writes what waits, puts the end on record under a last checkpoint, and waits until all is
    /// done. Records that come later are refused.
    pub fn close(&self) {
        self.inner.shared.close();
        let threads = {
            let threads = self.inner.threads.lock();
            std::mem::take(&mut *threads.unwrap_or_else(PoisonError::into_inner))
        };
        for thread in threads {
            // A thread that panicked has abandoned the queue, and there is nobody to tell.
            let _ = thread.join();
        }
    }

    /// How far the clock is ahead of the log: a pause of more than a day between two records counts
    /// as a day until the log has gone on for seven days after it. What is purged by its age is
    /// younger by so much ([`Log::retain`]).
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn clock_ahead(&self) -> Result<Duration, Error> {
        let read = |error| at("read", self.folder())(error);
        let segments = segments(self.folder()).map_err(read)?;
        let now = Moment::now(self.clock());
        let millis = ahead(&segments, self.inner.opened, now).map_err(read)?;
        Ok(Duration::from_millis(millis.try_into().unwrap_or_default()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.inner.folder
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    pub(crate) fn keys(&self) -> &dyn KeyCheck {
        &*self.inner.keys
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Keeps other purges out as long as it is held.
    pub(crate) fn purging(&self) -> MutexGuard<'_, ()> {
        let purging = self.inner.purging.lock();
        purging.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The log that the record is for.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Puts the record on its way.
    ///
    /// # Errors
    /// If there is no randomness for its salt.
    pub fn append(self, record: &Record<'_>) -> Result<Pending, Error> {
        let log = self.log.clone();
        let pending = self.enqueue(record)?;
        log.commit();
        Ok(pending)
    }

    /// Adds the record to those that wait; [`Log::commit`] has them written.
    ///
    /// # Errors
    /// If there is no randomness for its salt.
    pub fn enqueue(mut self, record: &Record<'_>) -> Result<Pending, Error> {
        let room = self.room.take().ok_or(Error::Closed)?;
        self.log.inner.shared.append(room, record)
    }
}

impl Shared {
    /// Hashes the body and puts the record into its room. Hashing is done here rather than in the
    /// one thread that writes: callers are many.
    fn append(&self, room: Room, record: &Record<'_>) -> Result<Pending, Error> {
        let (salt, ip_salt) = match self.draw(record) {
            Ok(salts) => salts,
            Err(error) => {
                self.queue.release(room);
                return Err(error.into());
            }
        };
        let remote_ip = record.body.remote_ip.zip(ip_salt);
        let ip_hash = remote_ip.map(|(ip, salt)| {
            let text = &ip.to_string();
            RemoteIp { text, salt }.hash()
        });
        SPACE.with_borrow_mut(|space| {
            space.clear();
            space.extend_from_slice(&salt.0);
            record.body.push_canonical(space, ip_hash);
            let entry = Entry {
                event_type: record.event.as_str(),
                body_hash: Digest::of(space),
                salt,
                remote_ip,
                end: 0,
            };
            let members = space.get(salt.0.len() + 1..).unwrap_or_default();
            Ok(self.queue.push(room, entry, members))
        })
    }

    /// Takes no more; what waits is still written.
    fn close(&self) {
        let rejected = self.rejections().take();
        self.record(&rejected);
        self.queue.close();
    }

    /// Puts on record who was turned away in a minute that is over.
    pub(crate) fn record_rejections(&self, now: UnixMillis) {
        let finished = self.rejections().finished(now);
        self.record(&finished);
    }

    /// Adds these to the records that wait; says whether there are any. If nothing can be written
    /// they are lost, and the log says later that something was.
    fn record(&self, rejected: &[Rejected]) -> bool {
        for rejected in rejected {
            let room = self.queue.reserve();
            let _ = room.and_then(|room| self.append(room, &rejected.record()));
        }
        !rejected.is_empty()
    }

    fn rejections(&self) -> MutexGuard<'_, Rejections> {
        let rejections = self.rejections.lock();
        rejections.unwrap_or_else(PoisonError::into_inner)
    }

    /// A salt for the body, and one for the address if there is one.
    fn draw(&self, record: &Record<'_>) -> Result<(Salt, Option<Salt>), NoRandomness> {
        let salts = self.salts.lock();
        let mut salts = salts.unwrap_or_else(PoisonError::into_inner);
        let ip_salt = record.body.remote_ip.map(|_| salts.take());
        Ok((salts.take()?, ip_salt.transpose()?))
    }
}

thread_local! {
    /// Where bodies are written and hashed.
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.log.inner.shared.queue.release(room);
        }
    }
}

/// Only tells the thread; it ends by itself, when it has written all.
impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct Abandon(Arc<Shared>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon();
        self.0.dirty.close();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.inner.folder).finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit(..)")
    }
}
