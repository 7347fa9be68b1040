//! A log in a file of limited size: when it is full it is set aside under a number, and so are those
//! before it, as far as they are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file that is written to.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    /// How many older ones are kept.
    keep: usize,
}

/// The same file, for all who have something to say. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct SharedLogFile(Arc<Mutex<LogFile>>);

impl SharedLogFile {
    pub(crate) fn new(file: LogFile) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }

    /// As [`LogFile::reopen`].
    pub(crate) fn reopen(&self) -> io::Result<()> {
        self.lock().reopen()
    }

    fn lock(&self) -> MutexGuard<'_, LogFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for SharedLogFile {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        self.lock().write(message)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

impl LogFile {
    /// Goes on with a file, or begins it, for its owner alone.
    pub(crate) fn open(path: &Path, max_bytes: u64, keep: usize) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            max_bytes,
            keep,
        })
    }

    /// Looks for the file by its name again: somebody may have moved the one that was written to.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..=self.keep).rev() {
            let older = match number {
                1 => self.path.clone(),
                _ => numbered(&self.path, number.saturating_sub(1)),
            };
            match fs::rename(older, numbered(&self.path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        }
        self.reopen()
    }
}

impl Write for LogFile {
    /// A message comes whole, and stays in one file.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(message.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.max_bytes {
            // A log that is too large is better than none.
            let _ = self.rotate();
        }
        self.file.write_all(message)?;
        self.bytes = self.bytes.saturating_add(length);
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{number}"));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn texts(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut texts: Vec<(String, String)> = entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        texts.sort();
        texts
    }

    fn named(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        texts.iter().map(own).collect()
    }

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "old\n").unwrap();
        let mut log = LogFile::open(&path, 8, 2).unwrap();
        // Eight bytes are not too many; nine are.
        for message in ["one\n", "two\n", "three\n", "four\n", "five and more\n"] {
            log.write_all(message.as_bytes()).unwrap();
        }
        let left = [
            ("log", "five and more\n"),
            ("log.1", "four\n"),
            ("log.2", "three\n"),
        ];
        assert_eq!(texts(folder.path()), named(&left));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn none_may_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(&folder.path().join("log"), 4, 0).unwrap();
        for message in ["one\n", "two\n"] {
            log.write_all(message.as_bytes()).unwrap();
        }
        assert_eq!(texts(folder.path()), named(&[("log", "two\n")]));
    }

    #[test]
    fn a_file_that_was_moved_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::open(&path, 100, 2).unwrap();
        log.write_all(b"one\n").unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        log.reopen().unwrap();
        log.write_all(b"two\n").unwrap();
        assert_eq!(
            texts(folder.path()),
            named(&[("log", "two\n"), ("moved", "one\n")])
        );
    }
}
