//! The one who writes: whoever commits while nobody else does, or else a thread, which also does what
//! takes long: syncing, signing, the next segment.
//!
//! It takes all that waits as one group, chains and writes it with one call, syncs if it must, and
//! only then says so to those who wait. What fails is taken back: the file is cut to where it was,
//! and the chain goes on from there. After a failed sync the files are written again as a whole.

mod checkpoint;
mod open;
mod rotate;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canonical::{Digest, Value};

use self::checkpoint::CheckpointFile;
use self::rotate::SegmentFile;
use crate::disk::Disk;
use crate::error::at;
use crate::keep::Note;
use crate::line::{Content, Link, RemoteIp, push_line};
use crate::lock::Lock;
use crate::pending::{Group, Outcome};
use crate::queue::{Batch, Control, Queue, Work};
use crate::random::Salts;
use crate::syncer::Dirty;
use crate::{
    Alarm, Clock, Error, Head, KeyCheck, Rejections, Remembered, Settings, Signer, SyncWhen,
    UnixMillis,
};

/// What the thread shares with all who append.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) salts: Mutex<Salts>,
    pub(crate) dirty: Arc<Dirty>,
    /// Those who were turned away and are not on record yet.
    pub(crate) rejections: Mutex<Rejections>,
    /// The number of the segment that is being written.
    pub(crate) active: AtomicU64,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    settings: Settings,
    signer: Box<dyn Signer>,
    keys: Arc<dyn KeyCheck>,
    clock: Arc<dyn Clock>,
    alarm: Box<dyn Fn(&Alarm) + Send>,
    remembered: Box<dyn Remembered>,
    lock: Lock,
    segment: SegmentFile,
    checkpoints: CheckpointFile,
    /// The chain as far as it is written.
    written: Chain,
    /// The chain with what is in `out`.
    chain: Chain,
    /// Lines that are not written yet.
    out: Vec<u8>,
    /// The time of the group at hand.
    now: UnixMillis,
    /// When the names of the files were looked at.
    looked_at: UnixMillis,
    /// Something is wrong with the files; they must be looked at again before anything is written.
    is_broken: bool,
    /// A sync has failed since the files were last on the disk as a whole.
    is_unsynced: bool,
    /// New requests are refused.
    is_failing: bool,
    /// The next segment could not be begun, and that was said.
    is_stuck: bool,
    /// What became of the files, as long as that could not be put on record.
    untold: Vec<Note>,
}

/// Where the chain stands.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    log_id: Arc<str>,
    seq: u64,
    hash: Digest,
    /// The last record with a checkpoint.
    signed: u64,
    /// That checkpoint, if the next record has to name it.
    to_name: Option<Digest>,
    /// Whether anything is unsigned but what names a checkpoint.
    has_news: bool,
}

impl Chain {
    fn head(&self) -> Head {
        Head {
            log_id: self.log_id.to_string(),
            seq: self.seq,
            hash: self.hash,
        }
    }
}

/// Something that is not about records, and may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chore {
    /// The segment is full or old.
    Rotate,
    /// What is written is not signed, and has not been for long enough.
    Sign,
}

/// How long the thread waits before it tries again to write.
const RETRY: Duration = Duration::from_millis(250);
/// Milliseconds after which the names of the files are looked at again.
const LOOK_EVERY: u64 = 100;
/// What is remembered of a disk that fails again and again.
const MAX_UNTOLD: usize = 8;
/// How long it waits when it has nothing to do.
const IDLE: Duration = Duration::from_secs(60);

impl Writer {
    /// Does what there is to do; says whether there is more to come.
    fn work(&mut self) -> bool {
        self.shared.record_rejections(self.clock.now());
        loop {
            self.now = self.clock.now();
            // What became due with what was written last, here or elsewhere, comes first.
            self.keep_up();
            match self.shared.queue.take() {
                Some(Work::Records(batch)) => {
                    let outcome = self.write_batch(&batch);
                    self.shared.queue.done(batch, outcome);
                }
                Some(Work::Control(control, group)) => self.control(control, &group),
                Some(Work::Close) => {
                    self.stop();
                    return false;
                }
                None => break,
            }
        }
        if self.is_failing {
            let _ = self.make_ready();
        }
        true
    }

    /// Writes what waits where it was appended, unless that may take long; says whether the thread
    /// is needed.
    pub(crate) fn write_now(&mut self) -> bool {
        self.now = self.clock.now();
        let waiting = self.shared.queue.waiting() as u64;
        // The log's own records come between: each names a checkpoint, and one is due at most.
        let is_due = self.chain.seq + waiting + 2 >= self.checkpoints.due;
        if self.is_failing || self.is_broken || is_due || self.chore().is_some() {
            return true;
        }
        let had_news = self.written.has_news;
        while let Some(batch) = self.shared.queue.take_records() {
            let outcome = self.write_batch(&batch);
            self.shared.queue.done(batch, outcome);
        }
        // A first one is to be signed in a while.
        !had_news || self.is_failing || self.chore().is_some()
    }

    const fn patience(&self) -> Duration {
        match (self.is_failing, self.written.has_news) {
            (true, _) => RETRY,
            (false, true) => self.settings.checkpoint_age,
            (false, false) => IDLE,
        }
    }

    /// Writes a group, and between its records what the log has to say itself.
    fn write_batch(&mut self, batch: &Batch) -> Outcome {
        let mut outcome = Outcome {
            timestamp: Some(self.now),
            ..Outcome::default()
        };
        if let Err(error) = self.make_ready() {
            return Outcome::failed(error);
        }
        let mut start = 0;
        let mut expected = 0;
        for (index, entry) in batch.entries.iter().enumerate() {
            if let Err(error) = self.name_checkpoint() {
                outcome.error = Some(error);
                break;
            }
            if self.chain.seq + 1 != expected {
                outcome.runs.push((index, self.chain.seq + 1));
            }
            let ip = entry.remote_ip.map(|(ip, salt)| (ip.to_string(), salt));
            let content = Content::Body {
                salt: entry.salt,
                remote_ip: ip
                    .as_ref()
                    .map(|(text, salt)| RemoteIp { text, salt: *salt }),
                members: batch.bodies.get(start..entry.end).unwrap_or_default(),
            };
            start = entry.end;
            self.push(entry.event_type, entry.body_hash, &content);
            self.chain.has_news = true;
            expected = self.chain.seq + 1;
            let is_due = self.chain.seq >= self.checkpoints.due;
            if is_due || self.out.len() >= CHUNK {
                if let Err(error) = self.flush() {
                    outcome.error = Some(error);
                    return outcome;
                }
                outcome.written = index + 1;
            }
            if is_due {
                self.sign();
            }
        }
        match self.flush() {
            Ok(()) if outcome.error.is_none() => outcome.written = batch.entries.len(),
            // Without salts the log cannot speak of itself, and what follows is not written.
            Ok(()) => {}
            Err(error) => outcome.error = Some(error),
        }
        outcome
    }

    fn control(&mut self, control: Control, group: &Group) {
        let outcome = match control {
            Control::Probe => self.probe(),
            Control::Seal => self.make_ready().and_then(|()| self.rotate()),
            Control::Note(note) => self.write_note(&note),
        };
        group.complete(match outcome {
            Ok(()) => Outcome {
                written: 1,
                runs: vec![(0, self.written.seq)],
                timestamp: Some(self.now),
                error: None,
            },
            Err(error) => Outcome::failed(error),
        });
    }

    /// Finds out whether anything can be written.
    fn probe(&mut self) -> Result<(), Error> {
        self.looked_at = UnixMillis(0);
        if !self.is_broken && !self.is_in_place() {
            self.is_broken = true;
        }
        self.make_ready()?;
        self.shared.queue.check()
    }

    /// Puts a note of the log on record, on the disk and under a checkpoint. The outcome's number
    /// is that of the note, and its time the note's.
    fn write_note(&mut self, note: &Note) -> Result<(), Error> {
        self.make_ready()?;
        self.push_note(note)?;
        self.flush()?;
        self.sync_segment()?;
        match self.sign() {
            true => Ok(()),
            // Anybody could have written it, so it excuses nothing.
            false => Err(Error::NotSigned("the purge has no checkpoint".into())),
        }
    }

    /// Makes sure that the files are the ones that were written, or finds out what became of them.
    fn make_ready(&mut self) -> Result<(), Error> {
        if let Some(error) = self.shared.dirty.take_failure() {
            self.sync_failed(error);
        } else if !self.is_broken && !self.is_in_place() {
            let path = self.segment.path();
            self.is_broken = true;
            return Err(self.failed(Error::Replaced { path }));
        }
        if self.is_broken {
            if let Err(error) = self.reopen() {
                return Err(self.failed(error));
            }
            self.is_broken = false;
        }
        if let Err(error) = self.keep_room() {
            self.failed(error);
            // What was let in before has its room still.
            return Ok(());
        }
        self.work_again()
    }

    /// Whether the segment is still the file that was written. That it was removed, replaced or
    /// changed is looked for each time. That it was moved is not so urgent: nothing is lost then.
    fn is_in_place(&mut self) -> bool {
        let SegmentFile { tail, length, .. } = &self.segment;
        if !tail.is_whole(*length).unwrap_or(false) {
            return false;
        }
        if self.now.0.abs_diff(self.looked_at.0) < LOOK_EVERY {
            return true;
        }
        self.looked_at = self.now;
        let is_there = tail.is_at(&self.segment.segment.path);
        is_there.unwrap_or(false) && self.lock.holds(&self.folder)
    }

    /// Chains a record behind the last one.
    fn push(&mut self, event_type: &str, body_hash: Digest, content: &Content<'_>) {
        let link = Link {
            log_id: &self.chain.log_id,
            seq: self.chain.seq + 1,
            timestamp: self.now,
            event_type,
            prev_hash: self.chain.hash,
            body_hash,
        };
        let hash = push_line(&mut self.out, &link, content);
        self.chain.seq += 1;
        self.chain.hash = hash;
    }

    /// Chains a note of the log itself, after the one that names its last checkpoint.
    fn push_note(&mut self, note: &Note) -> Result<(), Error> {
        self.name_checkpoint()?;
        self.chain.has_news = true;
        self.push_unnamed(note)
    }

    fn push_unnamed(&mut self, note: &Note) -> Result<(), Error> {
        let salt = {
            let salts = self.shared.salts.lock();
            salts.unwrap_or_else(PoisonError::into_inner).take()?
        };
        let mut text = salt.0.to_vec();
        Value::Object(note.body.clone()).push_canonical(&mut text);
        let members = text.get(salt.0.len() + 1..).unwrap_or_default();
        let content = Content::Body {
            salt,
            remote_ip: None,
            members,
        };
        self.push(note.keep.as_str(), Digest::of(&text), &content);
        Ok(())
    }

    /// Hands what was chained to the kernel, and to the disk if that is the setting.
    fn flush(&mut self) -> Result<(), Error> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.segment.tail.write(&self.out);
        let written = written.map_err(at("write", &self.segment.path()));
        let result = match written {
            Ok(()) if self.settings.sync == SyncWhen::Commit => self.sync_segment(),
            written => written,
        };
        let bytes = self.out.len() as u64;
        self.out.clear();
        match result {
            Ok(()) => {
                self.segment.length += bytes;
                self.segment.began.get_or_insert(self.now);
                self.written = self.chain.clone();
                if let SyncWhen::Every(_) = self.settings.sync {
                    self.shared.dirty.mark(&self.segment.tail);
                }
                Ok(())
            }
            Err(error) => {
                // No caller was answered for any of it, so it is cut off again.
                let SegmentFile { tail, length, .. } = &self.segment;
                self.is_broken |= tail.set_len(*length).is_err();
                self.chain = self.written.clone();
                let error = self.failed(error);
                // The cut released the reserved disk space as well. It is reserved again at once for
                // the records that were let in; if that fails, no new permit is given until it works.
                self.segment.room = 0;
                let _ = self.keep_room();
                Err(error)
            }
        }
    }

    /// Brings the segment to the disk, unless the settings leave that to the kernel.
    fn sync_segment(&mut self) -> Result<(), Error> {
        if self.settings.sync == SyncWhen::Never {
            return Ok(());
        }
        let synced = self.segment.tail.sync();
        synced.map_err(|error| self.sync_failed(error))
    }

    /// Nobody knows what of the files is on the disk: nothing is written before they are written again.
    fn sync_failed(&mut self, error: io::Error) -> Error {
        self.is_broken = true;
        self.is_unsynced = true;
        self.failed(at("sync", &self.segment.path())(error))
    }

    /// Refuses new requests from now on.
    fn failed(&mut self, error: Error) -> Error {
        self.shared.queue.fail(error.clone());
        if !self.is_failing {
            (self.alarm)(&Alarm::Failing(error.clone()));
        }
        self.is_failing = true;
        error
    }

    /// Lets requests in again, once there is a record of those that were not.
    fn work_again(&mut self) -> Result<(), Error> {
        if !self.is_failing {
            return Ok(());
        }
        let refused = self.shared.queue.refused();
        self.push_note(&Note::refused(refused))?;
        self.flush()?;
        self.shared.queue.recover(refused);
        self.is_failing = false;
        (self.alarm)(&Alarm::Working { refused });
        Ok(())
    }

    /// Does what time and size ask for.
    fn keep_up(&mut self) {
        if self.is_broken || self.is_failing {
            return;
        }
        match self.chore() {
            Some(Chore::Rotate) => self.is_stuck = self.rotate().is_err(),
            Some(Chore::Sign) => drop(self.sign()),
            None => {}
        }
    }

    /// What time and size ask for.
    fn chore(&self) -> Option<Chore> {
        let age = |since: UnixMillis| {
            let millis = self.now.0.saturating_sub(since.0);
            Duration::from_millis(millis.try_into().unwrap_or_default())
        };
        let is_old = age(self.checkpoints.signed_at) >= self.settings.checkpoint_age;
        let is_full = self.segment.length >= self.settings.segment_bytes;
        let began = self.segment.began;
        let is_aged = began.is_some_and(|began| age(began) >= self.settings.segment_age);
        if (is_full || is_aged) && (is_old || !self.is_stuck) {
            Some(Chore::Rotate)
        } else {
            (self.written.has_news && is_old).then_some(Chore::Sign)
        }
    }

    /// Ends as one should.
    fn stop(&mut self) {
        self.now = self.clock.now();
        if self.make_ready().is_ok()
            && self.push_note(&Note::stop()).is_ok()
            && self.flush().is_ok()
        {
            self.sign();
            let _ = self.segment.tail.set_len(self.segment.length);
            if self.sync_segment().is_ok() {
                let _ = self.sync_checkpoints();
            }
        }
        self.shared.dirty.close();
    }

    fn set_segment(&mut self, segment: SegmentFile) {
        let number = segment.segment.number;
        self.segment = segment;
        self.shared.active.store(number, Ordering::Release);
    }
}

/// What the thread does until the queue is closed. Then nobody writes any more, and whoever comes next
/// can take the log.
pub(crate) fn run(writer: &Mutex<Option<Writer>>, shared: &Shared) {
    let lock = || writer.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let patience = lock().as_ref().map_or(IDLE, Writer::patience);
        shared.queue.wait(patience);
        let mut writer = lock();
        if !writer.as_mut().is_some_and(Writer::work) {
            *writer = None;
            return;
        }
    }
}

/// Bytes that are written with one call, about.
const CHUNK: usize = 1 << 20;
