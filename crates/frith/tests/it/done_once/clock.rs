//! Clocks that are wrong.

use std::fs;
use std::path::{Path, PathBuf};

/// By how much the clock of a process is off, such as `-1d`; nothing if it is right.
#[derive(Debug, Default, Clone)]
pub(super) struct Clock(Option<(PathBuf, PathBuf)>);

impl Clock {
    pub(super) fn off_by(offset: &str) -> Self {
        Self(Some((library(), PathBuf::from(offset))))
    }

    /// What the process needs in its environment. Time spans stay as they are.
    pub(super) fn variables(&self) -> Vec<(&'static str, &Path)> {
        let Some((library, offset)) = &self.0 else {
            return Vec::new();
        };
        vec![
            ("LD_PRELOAD", library),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", Path::new("1")),
        ]
    }
}

/// What `faketime` puts between a process and its C library.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap();
    let mut libraries = folders.map(|it| it.unwrap().path().join("faketime/libfaketime.so.1"));
    let found = libraries.find(|library| library.exists());
    found.unwrap_or_else(|| panic!("run `cargo xtask test` once: it installs `faketime`"))
}
