//! Segments: room for what was let in, and the change from one to the next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Writer;
use crate::disk::{Disk, Tail};
use crate::error::at;
use crate::folder::Segment;
use crate::{Alarm, Error, Settings, SyncWhen, UnixMillis};

/// The segment that is being written.
pub(super) struct SegmentFile {
    pub(super) segment: Segment,
    pub(super) tail: Arc<dyn Tail>,
    /// How long it is.
    pub(super) length: u64,
    /// Up to which length the disk has room for it.
    pub(super) room: u64,
    /// When its first record was written.
    pub(super) began: Option<UnixMillis>,
}

/// Room is taken in pieces of this size.
const PIECE: u64 = 1 << 20;

impl SegmentFile {
    pub(super) fn path(&self) -> PathBuf {
        self.segment.path.clone()
    }

    /// Begins a segment.
    pub(super) fn begin(
        disk: &dyn Disk,
        folder: &Path,
        number: u64,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let segment = Segment::new(folder, number);
        let path = segment.path.clone();
        let begun = || {
            let tail = disk.open(&path)?;
            // What an earlier try may have left.
            tail.set_len(0)?;
            let mut next = Self {
                segment,
                tail,
                length: 0,
                room: 0,
                began: None,
            };
            next.keep_room(settings.queue_bytes as u64)?;
            if settings.sync != SyncWhen::Never {
                disk.sync_folder(folder)?;
            }
            Ok(next)
        };
        begun().map_err(at("begin", &path))
    }

    /// Keeps so much of the disk free for what may come.
    pub(super) fn keep_room(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.length + bytes;
        if self.room >= needed {
            return Ok(());
        }
        let reserve = |length| self.tail.allocate(length).map(|()| length);
        let mut reserved = reserve(needed + PIECE);
        let is = |reserved: &io::Result<u64>, kind| {
            reserved.as_ref().is_err_and(|error| error.kind() == kind)
        };
        if is(&reserved, io::ErrorKind::StorageFull) {
            // There may be space for what is needed and no more.
            reserved = reserve(needed);
        }
        // Some file systems cannot; a full disk is noticed when it is written then.
        self.room = match is(&reserved, io::ErrorKind::Unsupported) {
            true => u64::MAX,
            false => reserved?,
        };
        Ok(())
    }
}

impl Writer {
    /// Sees to it that everything the queue may let in has its room on the disk, so that what was
    /// executed can be put on record also when the disk is full.
    pub(super) fn keep_room(&mut self) -> Result<(), Error> {
        let bytes = self.settings.queue_bytes as u64;
        let path = self.segment.path();
        self.segment
            .keep_room(bytes)
            .map_err(at("keep room for", &path))
    }

    /// Seals the segment with a checkpoint and begins the next one.
    pub(super) fn rotate(&mut self) -> Result<(), Error> {
        if self.segment.length == 0 {
            return Ok(());
        }
        self.flush()?;
        if !self.sign() {
            return Err(Error::NotSigned("the segment has no checkpoint".into()));
        }
        // So that only the segment that is being written may not be on the disk.
        self.sync_segment()?;
        let next = self.next_segment();
        let next = next.inspect_err(|error| {
            if !self.is_stuck {
                (self.alarm)(&Alarm::NotRotated(error.clone()));
            }
        })?;
        // Only what was kept free goes; if that fails, it goes when the log is opened next.
        let _ = self.segment.tail.set_len(self.segment.length);
        self.set_segment(next);
        Ok(())
    }

    fn next_segment(&self) -> Result<SegmentFile, Error> {
        let number = self.segment.segment.next_number()?;
        SegmentFile::begin(&*self.disk, &self.folder, number, &self.settings)
    }
}
