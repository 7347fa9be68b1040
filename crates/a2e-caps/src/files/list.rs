//! `list_dir`.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};

use super::roots::{Place, stat_in};
use super::{Roots, cancelled};
use crate::tool::{Call, Definition, DefinitionError, Output, ToolFailure};

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    path: String,
    depth: Option<usize>,
    limit: Option<usize>,
}

/// How many entries are listed at most.
pub const MAX_LISTED: usize = 2000;

const USUAL: usize = 500;

const MAX_DEPTH: usize = 10;

pub(super) fn definition() -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "path": {"type": "string", "description": "The folder; the root unless given"},
            "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH,
                "description": "How many levels; 1 unless given"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED,
                "description": "How many entries at most; 500 unless given"},
        },
    });
    let text = "Lists a folder by name: files with their sizes, folders, and links with where they \
                lead";
    let definition = Definition::own("list_dir", text, &schema)?;
    Ok(definition.read_only().volatile().tags(["file", "read"]))
}

pub(super) fn run(roots: &Roots, call: &Call) -> Result<Output, ToolFailure> {
    let asked: Asked = call.arguments.read()?;
    let place = roots.locate(&asked.path)?;
    let mut listing = Listing {
        place: &place,
        entries: Vec::new(),
        limit: asked.limit.unwrap_or(USUAL),
        truncated: false,
        call,
    };
    let folder = place.folder()?;
    listing.add(&folder, Path::new(""), asked.depth.unwrap_or(1))?;
    let Listing {
        entries, truncated, ..
    } = listing;
    let data = json!({"path": place.shown, "entries": entries, "truncated": truncated});
    Ok(Output::new(&data)?.truncated(truncated))
}

struct Listing<'l> {
    place: &'l Place<'l>,
    entries: Vec<Value>,
    limit: usize,
    truncated: bool,
    call: &'l Call,
}

impl Listing<'_> {
    /// Adds what is in a folder, in order, each folder followed by what is in it.
    fn add(&mut self, folder: &OwnedFd, inside: &Path, depth: usize) -> Result<(), ToolFailure> {
        let failed = |errno| self.place.explain(errno);
        // Of a folder with very many, only those are in memory that are listed, and one more.
        let room = self.limit.saturating_sub(self.entries.len());
        let mut found = BTreeSet::new();
        for entry in Dir::read_from(folder).map_err(failed)? {
            if self.call.over.is_cancelled() {
                return Err(cancelled());
            }
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if ![c".", c".."].contains(&name) {
                found.insert(name.to_owned());
            }
            if found.len() > room.saturating_add(1) {
                found.pop_last();
            }
        }
        for name in found {
            if self.entries.len() >= self.limit {
                self.truncated = true;
                break;
            }
            // What is gone meanwhile is not listed.
            let Ok(stat) = stat_in(folder, name.as_c_str()) else {
                continue;
            };
            let path = inside.join(OsStr::from_bytes(name.to_bytes()));
            let kind = FileType::from_raw_mode(stat.st_mode);
            self.entries
                .push(entry(&path, kind, stat.st_size, folder, &name));
            if kind == FileType::Directory && depth > 1 {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(folder, name.as_c_str(), flags, Mode::empty());
                if let Ok(inner) = inner {
                    self.add(&inner, &path, depth.saturating_sub(1))?;
                }
            }
        }
        Ok(())
    }
}

fn entry(path: &Path, kind: FileType, size: i64, folder: &OwnedFd, name: &CStr) -> Value {
    let path = path.to_string_lossy();
    match kind {
        FileType::RegularFile => json!({"path": path, "type": "file", "size": size}),
        FileType::Directory => json!({"path": path, "type": "directory"}),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new());
            let target = target.map(|target| target.to_string_lossy().into_owned());
            json!({"path": path, "type": "symlink", "target": target.unwrap_or_default()})
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => json!({"path": path, "type": "other"}),
    }
}
