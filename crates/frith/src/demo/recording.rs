//! A recording of what is shown: asciicast, version 2.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use serde_json::json;

use crate::screen::WIDTH;

/// Lines of the terminal that plays it.
const HEIGHT: usize = 40;

/// A header, and a line for each text with the seconds before it.
#[derive(Debug)]
pub(super) struct Recording {
    file: File,
    start: Instant,
}

impl Recording {
    pub(super) fn start(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let mut recording = Self {
            file,
            start: Instant::now(),
        };
        recording.line(&json!({
            "version": 2, "width": WIDTH, "height": HEIGHT, "timestamp": now.as_secs(), "title": "frith demo",
        }))?;
        Ok(recording)
    }

    pub(super) fn add(&mut self, text: &str) -> Result<()> {
        let seconds = self.start.elapsed().as_secs_f64();
        self.line(&json!([seconds, "o", text.replace('\n', "\r\n")]))
    }

    fn line(&mut self, value: &serde_json::Value) -> Result<()> {
        writeln!(self.file, "{value}").context("cannot write the recording")
    }
}
