//! Beginning to write: where a log ends, or as a new one.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use canonical::Digest;

use super::checkpoint::CheckpointFile;
use super::rotate::SegmentFile;
use super::{Chain, MAX_UNTOLD, Shared, Writer};
use crate::disk::{Disk, make_folder};
use crate::error::at;
use crate::folder::{CHECKPOINTS, checkpoint_path};
use crate::keep::Note;
use crate::line::{NO_HASH, is_log_id};
use crate::lock::Lock;
use crate::queue::Queue;
use crate::random::Salts;
use crate::recover::{Recovered, ordinal, recover};
use crate::syncer::Dirty;
use crate::{
    Alarm, Clock, Error, Head, KeyCheck, NoRandomness, Parts, Remembered, Settings, SyncWhen,
    UnixMillis,
};

/// The files to write on, and what is to be said about them first.
struct Attached {
    segment: SegmentFile,
    checkpoints: CheckpointFile,
    chain: Chain,
    note: Option<Note>,
    alarm: Option<Alarm>,
}

impl Writer {
    /// Takes the log in a folder, finds its end, and puts on record that it goes on.
    pub(crate) fn open(
        folder: &Path,
        settings: Settings,
        parts: Parts,
        remembered: Box<dyn Remembered>,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, Error> {
        make_folder(folder).map_err(at("make the folder", folder))?;
        let lock = Lock::take(folder)?;
        let mut salts = Salts::new(parts.random);
        let keys: Arc<dyn KeyCheck> = Arc::from(parts.keys);
        let clock: Arc<dyn Clock> = Arc::from(parts.clock);
        let found = recover(folder, &*keys, None)?;
        let (found, end) = compare(found, remembered.load());
        let now = clock.now();
        let attached = attach(&*disk, folder, &settings, &mut salts, now, found, end)?;
        let number = attached.segment.segment.number;
        let mut writer = Self {
            shared: Arc::new(Shared {
                queue: Queue::new(settings.queue_bytes, settings.queue_records),
                salts: Mutex::new(salts),
                dirty: Arc::new(Dirty::default()),
                rejections: Mutex::default(),
                active: AtomicU64::new(number),
            }),
            disk,
            folder: folder.to_owned(),
            signer: parts.signer,
            keys,
            clock,
            alarm: parts.alarm,
            remembered,
            lock,
            segment: attached.segment,
            checkpoints: attached.checkpoints,
            written: attached.chain.clone(),
            chain: attached.chain,
            out: Vec::new(),
            now,
            looked_at: now,
            is_broken: false,
            is_unsynced: false,
            is_failing: false,
            is_stuck: false,
            untold: Vec::new(),
            settings,
        };
        writer.keep_room()?;
        writer.begin(attached.note, attached.alarm.as_ref())?;
        let start = Note::start(&writer.settings.name);
        writer.push_note(&start)?;
        writer.flush()?;
        match writer.sign() {
            true => Ok(writer),
            // Nobody could tell this log from one that somebody else wrote.
            false => Err(Error::NotSigned("the first checkpoint failed".into())),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn keys_and_clock(&self) -> (Arc<dyn KeyCheck>, Arc<dyn Clock>) {
        (Arc::clone(&self.keys), Arc::clone(&self.clock))
    }

    /// Looks at the files again after something went wrong with them.
    pub(super) fn reopen(&mut self) -> Result<(), Error> {
        // A folder that is gone is not made again: it may come back with what was in it.
        std::fs::metadata(&self.folder).map_err(at("look at", &self.folder))?;
        if !self.lock.holds(&self.folder) {
            self.lock = Lock::take(&self.folder)?;
        }
        let end = self.written.head();
        let found = recover(&self.folder, &*self.keys, Some(&end))?;
        if self.is_unsynced {
            self.rewrite(&found)?;
        }
        let attached = {
            let salts = self.shared.salts.lock();
            let mut salts = salts.unwrap_or_else(PoisonError::into_inner);
            let (disk, folder) = (&*self.disk, &*self.folder);
            attach(
                disk,
                folder,
                &self.settings,
                &mut salts,
                self.now,
                found,
                Some(end),
            )?
        };
        self.set_segment(attached.segment);
        self.checkpoints = attached.checkpoints;
        self.written = attached.chain.clone();
        self.chain = attached.chain;
        self.out.clear();
        self.sync_segment()?;
        self.is_unsynced = false;
        self.begin(attached.note, attached.alarm.as_ref())
    }

    /// Brings the last segment and the checkpoints of its log to the disk after a failed sync.
    fn rewrite(&self, found: &Recovered) -> Result<(), Error> {
        let segment = found.last.as_ref().map(|(segment, _)| segment.path.clone());
        let checkpoints = checkpoint_path(&self.folder, &self.written.log_id);
        for path in segment.into_iter().chain([checkpoints]) {
            if path.try_exists().map_err(at("look at", &path))? {
                self.disk.rewrite(&path).map_err(at("rewrite", &path))?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, note: Option<Note>, alarm: Option<&Alarm>) -> Result<(), Error> {
        if let Some(alarm) = alarm {
            (self.alarm)(alarm);
        }
        // What was torn is cut by now: if this fails, the next try finds nothing to tell of.
        self.untold.extend(note);
        self.untold.truncate(MAX_UNTOLD);
        let untold = std::mem::take(&mut self.untold);
        let told = untold.iter().try_for_each(|note| self.push_note(note));
        let told = told.and_then(|()| self.flush());
        if told.is_err() {
            self.untold = untold;
        }
        told
    }
}

/// Holds what was found against what is remembered; gives where the log really ended, too.
fn compare(mut found: Recovered, remembered: Option<Head>) -> (Recovered, Option<Head>) {
    let end = found.head.clone();
    let Some(remembered) = remembered.filter(|head| is_log_id(&head.log_id)) else {
        return (found, end);
    };
    let Some(missing) = Head::lacks(end.as_ref(), &remembered) else {
        return (found, end);
    };
    found.gap.get_or_insert(missing);
    found.ordinal = found
        .ordinal
        .max(ordinal(&remembered.log_id).min(u64::MAX - 1));
    (found, Some(remembered))
}

/// Opens the files to go on with; `end` is where the log before a new one ended.
fn attach(
    disk: &dyn Disk,
    folder: &Path,
    settings: &Settings,
    salts: &mut Salts,
    now: UnixMillis,
    found: Recovered,
    end: Option<Head>,
) -> Result<Attached, Error> {
    let next = match &found.last {
        None => 1,
        Some((segment, _)) => segment.next_number()?,
    };
    let (head, last) = match (found.gap, found.head, found.last) {
        (None, Some(head), Some(last)) => (head, last),
        (reason, _, _) => {
            let path = folder.join(CHECKPOINTS);
            let ordinal = found.ordinal.checked_add(1);
            let ordinal = ordinal.ok_or(Error::LastNumber { path })?;
            let log_id = new_log_id(ordinal, salts)?;
            return Ok(Attached {
                segment: SegmentFile::begin(disk, folder, next, settings)?,
                checkpoints: open_checkpoints(disk, folder, &log_id, now, settings)?,
                note: reason.map(|reason| Note::new_log(reason, end.as_ref())),
                alarm: reason.map(|reason| Alarm::Gap {
                    reason,
                    log_id: log_id.clone(),
                }),
                chain: Chain {
                    log_id: log_id.into(),
                    seq: 0,
                    hash: Digest::from(NO_HASH),
                    signed: 0,
                    to_name: None,
                    has_news: false,
                },
            });
        }
    };
    let (segment, began) = last;
    let path = segment.path.clone();
    let tail = disk.open(&path).map_err(at("open", &path))?;
    let segment = SegmentFile {
        segment,
        length: tail.len().map_err(at("look at", &path))?,
        tail,
        room: 0,
        began,
    };
    let mut checkpoints = open_checkpoints(disk, folder, &head.log_id, now, settings)?;
    checkpoints.due = found.signed + settings.checkpoint_records;
    Ok(Attached {
        segment,
        checkpoints,
        note: (found.torn > 0).then(|| Note::torn(found.torn)),
        alarm: (found.torn > 0).then_some(Alarm::Torn { bytes: found.torn }),
        chain: Chain {
            log_id: head.log_id.into(),
            seq: head.seq,
            hash: head.hash,
            signed: found.signed,
            to_name: found.to_name,
            has_news: head.seq != found.signed,
        },
    })
}

fn open_checkpoints(
    disk: &dyn Disk,
    folder: &Path,
    log_id: &str,
    now: UnixMillis,
    settings: &Settings,
) -> Result<CheckpointFile, Error> {
    let path = checkpoint_path(folder, log_id);
    let open = || {
        let tail = disk.open(&path)?;
        let length = tail.len()?;
        if let (Some(folder), true) = (path.parent(), settings.sync != SyncWhen::Never) {
            disk.sync_folder(folder)?;
        }
        Ok((tail, length))
    };
    let (tail, length) = open().map_err(at("open", &path))?;
    Ok(CheckpointFile {
        path,
        tail,
        length,
        signed_at: now,
        due: settings.checkpoint_records,
    })
}

/// The id of a new log: a number, so that one that vanished is missed, and randomness, so that no
/// other log has it.
fn new_log_id(ordinal: u64, salts: &mut Salts) -> Result<String, NoRandomness> {
    let mut random = [0; 8];
    salts.fill(&mut random)?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("log-{ordinal}-{digits}"))
}
