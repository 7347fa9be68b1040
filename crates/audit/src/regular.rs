//! Files that are files. A pipe or a device under a name of the log's would keep whoever opens it
//! waiting for ever.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Opens a file, if it is one.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let options = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).and_then(|file| {
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        let why = "it is not a regular file, and no part of an audit log: move it away";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    });
    file.map_err(of(path))
}

/// Opens a file to read.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// The whole text of a file. What is no text in it is replaced.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = open_to_read(path)?.read_to_end(&mut bytes);
    read.map_err(of(path))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Puts the file before why something failed: of a folder one has to know which.
pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), OfFile { path, error })
}

/// An error, and the file it is about.
#[derive(Debug)]
pub(crate) struct OfFile {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

impl fmt::Display for OfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

/// It says all that its cause says, so it names none.
impl std::error::Error for OfFile {}
