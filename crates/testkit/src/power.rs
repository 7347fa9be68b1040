//! Power failures: what of a folder is on the disk is what a process has synced.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::preload;

/// Records what processes sync. The records and the library that writes them lie in a folder of the
/// test.
#[derive(Debug)]
pub struct PowerRecord {
    folder: PathBuf,
}

impl PowerRecord {
    /// Compiles the library into a folder.
    ///
    /// # Panics
    /// If there is no C compiler, which the build of SQLite needs as well.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        preload::compile("power", folder);
        Self {
            folder: folder.to_owned(),
        }
    }

    /// What a process has in its environment so that it is recorded.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, OsString); 2] {
        [
            ("LD_PRELOAD", self.folder.join("power.so").into()),
            ("POWER_RECORD", self.folder.clone().into()),
        ]
    }

    /// Writes what a power failure leaves of a folder, and of those in it, into another one: of each
    /// file that had its name at the last sync of its folder what it had at its own last sync.
    ///
    /// # Panics
    /// If files cannot be read or written.
    pub fn cut_power(&self, of: &Path, to: &Path) {
        let of = of.canonicalize().unwrap_or_else(|error| panic!("{error}"));
        for (folder, names) in self.folders() {
            let Ok(below) = folder.strip_prefix(&of) else {
                continue;
            };
            let target = to.join(below);
            make_folder(&target);
            for (number, name) in names {
                let content = fs::read(self.folder.join(format!("file-{number}")));
                write(&target.join(name), &content.unwrap_or_default());
            }
        }
    }

    /// The folders that were synced, with the files in them by number and name.
    fn folders(&self) -> BTreeMap<PathBuf, Vec<(String, String)>> {
        let mut folders = BTreeMap::new();
        let entries = fs::read_dir(&self.folder).unwrap_or_else(|error| panic!("{error}"));
        for entry in entries.flatten() {
            if !entry.file_name().to_string_lossy().starts_with("folder-") {
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|error| panic!("{error}"));
            let mut lines = text.lines();
            let path = PathBuf::from(lines.next().unwrap_or_default());
            let names = lines.filter_map(|line| line.split_once(' '));
            let names = names.map(|(number, name)| (number.to_owned(), name.to_owned()));
            folders.insert(path, names.collect());
        }
        folders
    }
}

fn make_folder(path: &Path) {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn write(path: &Path, content: &[u8]) {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(content));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
