//! `DATA/audit.head`: how far the audit log had come, beside its folder. Whoever empties the folder, or
//! puts an earlier one in its place, is found out unless he changes this too.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use audit::{Head, Remembered};
use base::Durability;
use serde::{Deserialize, Serialize};

use crate::keystore::cannot;

/// The file beside the folder of a node's log.
#[derive(Debug)]
pub(crate) struct HeadFile {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    log_id: String,
    seq: u64,
    hash: String,
}

/// No content is longer.
const LIMIT: u64 = 1024;

impl HeadFile {
    pub(crate) fn beside(folder: &Path) -> Self {
        Self {
            path: folder.with_extension("head"),
        }
    }

    /// What is in it, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Head>> {
        let path = &self.path;
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.with_context(|| cannot("read", path))?,
        };
        if !found.is_file() {
            bail!("{} is not a regular file", path.display());
        }
        let mut text = String::new();
        let file = fs::File::open(path).with_context(|| cannot("read", path))?;
        let read = file.take(LIMIT).read_to_string(&mut text);
        read.with_context(|| cannot("read", path))?;
        let damaged = || format!("{} is damaged", path.display());
        let content: Content = serde_json::from_str(&text).with_context(damaged)?;
        Ok(Some(Head {
            hash: content.hash.parse().ok().with_context(damaged)?,
            log_id: content.log_id,
            seq: content.seq,
        }))
    }

    /// Not synced: after a power failure it may be an earlier one, which does
    /// no harm, and a checkpoint must not wait for the disk.
    fn write(&self, head: &Head) -> Result<()> {
        let content = Content {
            log_id: head.log_id.clone(),
            seq: head.seq,
            hash: head.hash.to_string(),
        };
        let text = serde_json::to_string(&content)?;
        base::replace_file(&self.path, base::PRIVATE, Durability::Volatile, |file| {
            writeln!(file, "{text}")
        })
        .with_context(|| cannot("write", &self.path))
    }
}

impl Remembered for HeadFile {
    fn load(&self) -> Option<Head> {
        let read = self.read();
        let read = read.inspect_err(|error| {
            tracing::warn!("how far the audit log had come is not known: {error:#}");
        });
        read.ok().flatten()
    }

    fn save(&self, head: &Head) {
        if let Err(error) = self.write(head) {
            tracing::warn!("how far the audit log has come is not remembered: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let home = tempfile::tempdir().unwrap();
        let file = HeadFile::beside(&home.path().join("audit"));
        assert!(file.load().is_none());
        for seq in [1, u64::MAX] {
            let head = Head {
                log_id: "log-1-x".into(),
                seq,
                hash: canonical::Digest::of(b"x"),
            };
            file.save(&head);
            assert_eq!(file.load(), Some(head));
        }
        let path = home.path().join("audit.head");
        for bad in ["", "{}", r#"{"log_id":"a","seq":1,"hash":"b"}"#] {
            fs::write(&path, bad).unwrap();
            assert!(file.load().is_none() && file.read().is_err(), "{bad}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.load().is_none());
    }
}
