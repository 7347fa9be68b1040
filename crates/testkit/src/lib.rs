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

/// Python with the packages of `conformance/requirements.txt`.
///
/// # Panics
/// If they are not installed.
#[must_use]
pub fn python() -> PathBuf {
    let python = workspace().join("target/python/bin/python");
    let hint = "run `cargo xtask test` once: it installs the Python packages of the tests";
    assert!(python.exists(), "{hint}");
    python
}

/// Runs a fuzz target over its corpus.
///
/// # Panics
/// If there is no corpus, or the target panics: then with the name of the file.
pub fn replay(target: &str, run: fn(&[u8])) {
    let folder = workspace().join("fuzz/corpus").join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry
            .map(|entry| entry.path())
            .unwrap_or_else(|error| panic!("{error}"));
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if std::panic::catch_unwind(|| run(&bytes)).is_err() {
            panic!("{target} fails on {}", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
