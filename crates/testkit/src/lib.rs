//! What tests of several crates share: the vectors, the corpora of the fuzz targets, and a Python
//! with foreign libraries.
//!
//! It is never a dependency of the product; `tests/layering.rs` sees to that.
#![expect(
    clippy::panic,
    reason = "only tests use this crate, and a test without its data must fail loudly"
)]

mod faults;
mod power;
mod preload;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

pub use faults::{DiskCall, DiskFaults, Fault};
pub use power::PowerRecord;

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

/// The catalogue of A2E with our own messages: `vectors/a2e/a2e-wire.json` and `frith-wire.json` as one.
///
/// # Panics
/// If they cannot be read, or both have the same message.
#[must_use]
pub fn a2e_catalogue() -> Value {
    let mut all = vectors("a2e/a2e-wire.json");
    let ours = vectors("a2e/frith-wire.json");
    let known: Vec<Value> = all["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    for message in ours["messages"].as_array().into_iter().flatten() {
        let is_known = known.iter().any(|it| it["type"] == message["type"]);
        assert!(!is_known, "{message} is in both");
        all["messages"]
            .as_array_mut()
            .into_iter()
            .for_each(|it| it.push(message.clone()));
    }
    for section in ["structs", "enums"] {
        for (name, object) in ours[section].as_object().into_iter().flatten() {
            all[section][name] = object.clone();
        }
    }
    for (name, namespace) in ours["namespaces"].as_object().into_iter().flatten() {
        let known = &mut all["namespaces"][name];
        let count = known["messages"].as_u64().unwrap_or_default();
        if known.is_null() {
            *known = namespace.clone();
        }
        known["messages"] = (count + namespace["messages"].as_u64().unwrap_or_default()).into();
    }
    all
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

/// A program of the Node packages of `conformance/package.json`.
///
/// # Panics
/// If they are not installed.
#[must_use]
pub fn npm(program: &str) -> PathBuf {
    let path = workspace()
        .join("target/npm/node_modules/.bin")
        .join(program);
    let hint = "run `cargo xtask test` once: it installs the Node packages of the tests";
    assert!(path.exists(), "{hint}");
    path
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

/// A script of `conformance/` that answers questions: one JSON object a line, both ways.
#[derive(Debug)]
pub struct Foreign {
    process: Child,
}

impl Foreign {
    /// Starts it with the Python of [`python`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(script: &str, arguments: &[&str]) -> Self {
        let process = Command::new(python())
            .arg(workspace().join("conformance").join(script))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{script}: {error}"));
        Self { process }
    }

    /// Asks and waits for the answer.
    ///
    /// # Panics
    /// If there is none.
    pub fn ask(&mut self, question: &Value) -> Value {
        let (Some(input), Some(output)) = (&mut self.process.stdin, &mut self.process.stdout)
        else {
            panic!("the script has no input and output");
        };
        let mut line = String::new();
        // One byte at a time: nothing may stay in a buffer that is dropped here.
        writeln!(input, "{question}")
            .and_then(|()| BufReader::with_capacity(1, output).read_line(&mut line))
            .unwrap_or_else(|error| panic!("{question}: {error}"));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{question}: {error}: {line}"))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
