//! `read_file`.

use std::io::{BufRead, BufReader, IoSliceMut, Read, Seek, SeekFrom};
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::io::ReadWriteFlags;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::roots::{READ, short};
use super::{Roots, cancelled};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure, blocking};

/// The tool. A small file that is in memory already is read at once, without another thread.
pub(super) struct ReadFile {
    definition: Definition,
    roots: Arc<Roots>,
}

#[derive(Debug, Clone, Deserialize)]
struct Asked {
    path: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Text,
    Base64,
}

/// How many bytes are given at most. As JSON they stay below what becomes an artifact, unless most
/// of them need escapes.
pub const MAX_READ_BYTES: usize = 24_000;

/// How many lines are given at most.
pub const MAX_READ_LINES: u64 = 2000;

/// Longer lines are cut, in bytes.
pub const MAX_LINE_BYTES: usize = 2000;

/// A file of up to so many bytes is tried without another thread.
const SMALL: usize = 64 * 1024;

/// A zero byte among the first so many makes a file binary.
const PROBED: usize = 8 * 1024;

/// Lines between two looks at whether anybody still waits.
const PATIENCE: u64 = 10_000;

impl ReadFile {
    pub(super) fn new(roots: Arc<Roots>) -> Result<Self, DefinitionError> {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "The file to read"},
                "offset": {"type": "integer", "minimum": 0,
                    "description": "The line to begin at, from 1; with base64 the byte, from 0"},
                "limit": {"type": "integer", "minimum": 1,
                    "description": "How many lines at most (2000); with base64 bytes (24000)"},
                "encoding": {"type": "string", "enum": ["text", "base64"],
                    "description": "base64 for files that are not text"},
            },
        });
        let text = "Reads a file: up to 2000 lines or 24000 bytes at a time; next_offset says where \
                    to go on";
        let definition = Definition::own("read_file", text, &schema)?;
        Ok(Self {
            definition: definition.read_only().volatile().tags(["file", "read"]),
            roots,
        })
    }
}

impl Tool for ReadFile {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let asked: Asked = call.arguments.read()?;
            if let Some(bytes) = at_once(&self.roots, &asked.path) {
                let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let shown = self.roots.locate(&asked.path)?.shown;
                return read(bytes.as_slice(), size, &shown, &asked, &call.over);
            }
            let roots = Arc::clone(&self.roots);
            blocking(move || from_disk(&roots, &asked, &call.over)).await
        })
    }
}

/// The bytes of a small file if the kernel has them in memory: this never waits for a disk.
fn at_once(roots: &Roots, path: &str) -> Option<Vec<u8>> {
    let place = roots.locate(path).ok()?;
    let file = place.root.resolve_cached(&place.path, READ).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    place.is_regular(&stat).ok()?;
    let size = usize::try_from(stat.st_size)
        .ok()
        .filter(|size| *size <= SMALL)?;
    // One byte more, to see that this was the end.
    let mut bytes = vec![0; size.saturating_add(1)];
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let read = rustix::io::preadv2(&file, into, 0, ReadWriteFlags::NOWAIT).ok()?;
    if read != size {
        return None;
    }
    bytes.truncate(size);
    Some(bytes)
}

fn from_disk(
    roots: &Roots,
    asked: &Asked,
    over: &CancellationToken,
) -> Result<Output, ToolFailure> {
    let place = roots.locate(&asked.path)?;
    let (mut file, stat) = place.file()?;
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    if asked.encoding == Encoding::Base64 {
        let failed = |error| failed(&place.shown, &error);
        file.seek(SeekFrom::Start(asked.offset)).map_err(failed)?;
        return bytes_of(file, asked, size, &place.shown);
    }
    read(
        BufReader::with_capacity(SMALL, file),
        size,
        &place.shown,
        asked,
        over,
    )
}

/// Reads what is asked for from the beginning of a file.
fn read(
    mut file: impl BufRead,
    size: u64,
    shown: &str,
    asked: &Asked,
    over: &CancellationToken,
) -> Result<Output, ToolFailure> {
    if asked.encoding == Encoding::Base64 {
        let skip = &mut (&mut file).take(asked.offset);
        std::io::copy(skip, &mut std::io::sink()).map_err(|error| failed(shown, &error))?;
        return bytes_of(file, asked, size, shown);
    }
    let begin = file.fill_buf().map_err(|error| failed(shown, &error))?;
    if begin.iter().take(PROBED).any(|byte| *byte == 0) {
        let text = format!(
            "`{}` is not text; it has {size} bytes, which can be read with encoding `base64`",
            short(shown)
        );
        return Err(ToolFailure::new(text));
    }
    let lines = Lines::read(file, asked, over).map_err(|error| match over.is_cancelled() {
        true => cancelled(),
        false => failed(shown, &error),
    })?;
    let content = String::from_utf8_lossy(&lines.bytes);
    let mut data = json!({
        "path": shown,
        "content": content,
        "start_line": lines.first,
        "lines": lines.count,
        "bytes": size,
        "next_offset": lines.next,
    });
    if matches!(content, std::borrow::Cow::Owned(_)) {
        note(&mut data, "not_utf8", json!(true));
    }
    if lines.cut > 0 {
        note(&mut data, "cut_lines", json!(lines.cut));
    }
    let truncated = lines.next.is_some() || lines.cut > 0;
    Ok(Output::new(&data)?.truncated(truncated))
}

fn note(data: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = data {
        members.insert(name.to_owned(), value);
    }
}

/// Lines from the middle of a file.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    first: u64,
    count: u64,
    /// How many were too long.
    cut: u64,
    /// Where to go on, if this was not all.
    next: Option<u64>,
}

impl Lines {
    fn read(
        mut file: impl BufRead,
        asked: &Asked,
        over: &CancellationToken,
    ) -> Result<Self, std::io::Error> {
        let first = asked.offset.max(1);
        for skipped in 1..first {
            if skipped % PATIENCE == 0 && over.is_cancelled() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            if file.skip_until(b'\n')? == 0 {
                break;
            }
        }
        let limit = asked.limit.unwrap_or(MAX_READ_LINES).min(MAX_READ_LINES);
        let mut lines = Self {
            first,
            ..Self::default()
        };
        while lines.count < limit && !file.fill_buf()?.is_empty() {
            let most = MAX_READ_BYTES.saturating_sub(lines.bytes.len());
            if most < MAX_LINE_BYTES {
                break;
            }
            lines.take_line(&mut file)?;
        }
        if !file.fill_buf()?.is_empty() {
            lines.next = Some(first.saturating_add(lines.count));
        }
        Ok(lines)
    }

    fn take_line(&mut self, file: &mut impl BufRead) -> Result<(), std::io::Error> {
        let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        let read = file
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.bytes)?;
        self.count = self.count.saturating_add(1);
        if read == MAX_LINE_BYTES && self.bytes.last() != Some(&b'\n') {
            let left = file.skip_until(b'\n')?;
            // Nothing is lost of a line that was just long enough.
            if left > 1 {
                self.cut = self.cut.saturating_add(1);
                self.drop_partial_character();
            }
            if left > 0 {
                self.bytes.push(b'\n');
            }
        }
        Ok(())
    }

    /// A character that was cut in two is left out.
    fn drop_partial_character(&mut self) {
        let is_inside = |byte: &&u8| (**byte & 0b1100_0000) == 0b1000_0000;
        let inside = self.bytes.iter().rev().take_while(is_inside).count();
        let lead = self
            .bytes
            .iter()
            .rev()
            .nth(inside)
            .copied()
            .unwrap_or_default();
        let wanted = match lead {
            0xC0..=0xDF => 1,
            0xE0..=0xEF => 2,
            0xF0..=0xF7 => 3,
            _ => return,
        };
        if inside < wanted {
            let keep = self.bytes.len().saturating_sub(inside).saturating_sub(1);
            self.bytes.truncate(keep);
        }
    }
}

/// Bytes from where the file is, as base64.
fn bytes_of(file: impl Read, asked: &Asked, size: u64, shown: &str) -> Result<Output, ToolFailure> {
    // As base64, four bytes are three.
    let most = u64::try_from(MAX_READ_BYTES / 4 * 3).unwrap_or(u64::MAX);
    let limit = asked.limit.unwrap_or(most).min(most);
    let mut bytes = Vec::new();
    let mut file = file;
    let read = file.by_ref().take(limit).read_to_end(&mut bytes);
    let read = read.map_err(|error| failed(shown, &error))?;
    let mut more = [0];
    let has_more = file
        .read(&mut more)
        .map_err(|error| failed(shown, &error))?
        > 0;
    let next = asked
        .offset
        .saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    let output = Output::new(&json!({
        "path": shown,
        "encoding": "base64",
        "content": STANDARD.encode(&bytes),
        "offset": asked.offset,
        "bytes": size,
        "next_offset": has_more.then_some(next),
    }))?;
    Ok(output.truncated(has_more))
}

fn failed(shown: &str, error: &std::io::Error) -> ToolFailure {
    ToolFailure::new(format!("`{}`: {error}", short(shown)))
}
