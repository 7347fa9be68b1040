//! What tests of several crates share: the vectors, and the corpora of the fuzz targets.
//!
//! It is never a dependency of the product; `tests/layering.rs` sees to that.
#![expect(
    clippy::panic,
    reason = "only tests use this crate, and a test without its data must fail loudly"
)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The top folder of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of `vectors/`, parsed.
///
/// # Panics
/// If there is no such file or it is not JSON.
#[must_use]
pub fn vectors(name: &str) -> Value {
    let path = workspace().join("vectors").join(name);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The corpus of a fuzz target: file names and contents, in a stable order.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = workspace().join("fuzz/corpus").join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, fs::read(entry.path()).ok()?))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}
