//! Signing where the chain stands.

use std::path::PathBuf;
use std::sync::Arc;

use canonical::Digest;

use super::Writer;
use crate::disk::Tail;
use crate::error::at;
use crate::keep::Note;
use crate::{Alarm, Checkpoint, Error, MAX_CHECKPOINT, SyncWhen, UnixMillis};

/// The file with the checkpoints of the log that is being written.
pub(super) struct CheckpointFile {
    pub(super) path: PathBuf,
    pub(super) tail: Arc<dyn Tail>,
    pub(super) length: u64,
    /// When the last one was signed, or tried to.
    pub(super) signed_at: UnixMillis,
    /// With which record the next one is due.
    pub(super) due: u64,
}

impl Writer {
    /// Brings the checkpoints to the disk, unless the settings leave that to the kernel.
    pub(super) fn sync_checkpoints(&mut self) -> Result<(), Error> {
        if self.settings.sync == SyncWhen::Never {
            return Ok(());
        }
        let synced = self.checkpoints.tail.sync();
        synced.map_err(|error| self.sync_failed(error))
    }

    /// Signs the chain as it is written, unless it is signed. If it cannot be, that is said and
    /// tried again; records go on, since they are chained all the same.
    pub(super) fn sign(&mut self) -> bool {
        if self.written.signed == self.written.seq {
            return true;
        }
        match self.try_sign() {
            Ok(hash) => {
                self.written.signed = self.written.seq;
                self.written.to_name = Some(hash);
                self.written.has_news = false;
                self.chain = self.written.clone();
                self.remembered.save(&self.written.head());
                true
            }
            Err(error) => {
                (self.alarm)(&Alarm::NoCheckpoint(error));
                false
            }
        }
    }

    fn try_sign(&mut self) -> Result<Digest, Error> {
        // If it fails, the next try is due when the next checkpoint would have been.
        self.checkpoints.signed_at = self.now;
        self.checkpoints.due = self.written.seq + self.settings.checkpoint_records;
        let checkpoint = Checkpoint {
            log_id: self.written.log_id.to_string(),
            seq: self.written.seq,
            head_hash: self.written.hash,
            timestamp: self.now.seconds(),
        };
        let jws = self.signer.sign(&checkpoint);
        let jws = jws.map_err(|error| Error::NotSigned(error.0))?;
        if jws.len() > MAX_CHECKPOINT || !jws.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::NotSigned(
                "the signature is not a compact JWS".into(),
            ));
        }
        let hash = Digest::of(jws.as_bytes());
        let line = format!("{jws}\n");
        let CheckpointFile {
            path, tail, length, ..
        } = &mut self.checkpoints;
        let is_in_place = tail
            .is_whole(*length)
            .and_then(|whole| Ok(whole && tail.is_at(path)?));
        if !is_in_place.unwrap_or(false) {
            self.is_broken = true;
            return Err(Error::Replaced { path: path.clone() });
        }
        let written = tail.write(line.as_bytes());
        let written = written.map_err(at("write", path));
        let result = match written {
            Ok(()) if self.settings.sync == SyncWhen::Commit => self.sync_checkpoints(),
            written => written,
        };
        let CheckpointFile { tail, length, .. } = &mut self.checkpoints;
        if let Err(error) = result {
            self.is_broken |= tail.set_len(*length).is_err();
            return Err(error);
        }
        *length += line.len() as u64;
        if let SyncWhen::Every(_) = self.settings.sync {
            self.shared.dirty.mark(tail);
        }
        Ok(hash)
    }

    /// Chains the record that names the last checkpoint, if it is not there. It comes after the
    /// checkpoint is written: a record never names one that a crash has swallowed.
    pub(super) fn name_checkpoint(&mut self) -> Result<(), Error> {
        let Some(hash) = self.chain.to_name else {
            return Ok(());
        };
        self.push_unnamed(&Note::checkpoint(&hash))?;
        self.chain.to_name = None;
        Ok(())
    }
}
