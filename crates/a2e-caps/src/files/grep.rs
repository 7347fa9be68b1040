//! `grep`.

mod sink;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};

use super::glob::Pattern;
use super::roots::{Place, READ};
use super::walk::{Visitor, Which, walk};
use super::{Roots, cancelled};
use crate::expressions;
use crate::tool::{Call, Definition, DefinitionError, Output, ToolFailure};
use sink::{Found, Room, Sink};

#[derive(Deserialize)]
struct Asked {
    pattern: String,
    #[serde(default)]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    mode: Kind,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    limit: Option<usize>,
    #[serde(default)]
    all: bool,
}

/// What is told of a file that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

/// How many matching lines, or files, are told at most.
pub const MAX_MATCHES: usize = 1000;

const USUAL: usize = 100;

const MAX_CONTEXT: usize = 20;

/// The largest size of the output in bytes, the paths included.
pub const MAX_TOLD_BYTES: usize = 512 * 1024;

/// Bytes that a thread has of a file at once. A line with what goes with it that does not fit is
/// skipped, with the rest of its file.
pub const MAX_SEARCHED_LINE: usize = 1024 * 1024;

/// Files that are named of those that were not searched to their end.
const MAX_SKIPPED: usize = 20;

pub(super) fn definition() -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string", "description": "A regular expression, as of ripgrep"},
            "path": {"type": "string",
                "description": "The folder or file to search; the root unless given"},
            "glob": {"type": "string", "description": "Only files with such paths, as `*.rs`"},
            "mode": {"type": "string", "enum": ["content", "files_with_matches", "count"],
                "description": "Matching lines (unless given), only files, or how many lines of each"},
            "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT,
                "description": "How many lines before and after each match"},
            "ignore_case": {"type": "boolean", "description": "Take upper and lower case as one"},
            "literal": {"type": "boolean", "description": "The pattern is plain text"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES,
                "description": "How many lines or files at most; 100 unless given"},
            "all": {"type": "boolean",
                "description": "Hidden files too, and those that .gitignore leaves out"},
        },
    });
    let text = "Searches the text of files for a regular expression";
    let definition = Definition::own("grep", text, &schema)?;
    Ok(definition.read_only().volatile().tags(["file", "search"]))
}

pub(super) fn run(roots: &Roots, call: &Call) -> Result<Output, ToolFailure> {
    let asked: Asked = call.arguments.read()?;
    let place = roots.locate(&asked.path)?;
    let search = Search::new(&asked)?;
    match place
        .root
        .resolve(&place.path, OFlags::RDONLY | OFlags::DIRECTORY)
    {
        Err(Errno::NOTDIR) => {
            let (file, _) = place.file()?;
            let mut grep = search.grep();
            let _ = grep.search(&file, Path::new(""));
        }
        _ => {
            let which = if asked.all { Which::All } else { Which::Usual };
            walk(&place, which, &call.over, || search.grep())?;
        }
    }
    if call.over.is_cancelled() {
        return Err(cancelled());
    }
    search.output(&place)
}

/// One search in many files.
struct Search {
    matcher: RegexMatcher,
    searcher: SearcherBuilder,
    pattern: Option<Pattern>,
    kind: Kind,
    limit: usize,
    /// Lines, or files, so far.
    count: AtomicUsize,
    /// Bytes so far.
    bytes: AtomicUsize,
    truncated: AtomicBool,
    found: Mutex<BTreeMap<PathBuf, Found>>,
    /// How many files have lines that are too long, and some of them.
    skipped: Mutex<(usize, BTreeSet<PathBuf>)>,
}

/// What one thread has of it.
struct Grep<'s> {
    search: &'s Search,
    matcher: RegexMatcher,
    searcher: Searcher,
}

impl Search {
    fn new(asked: &Asked) -> Result<Self, ToolFailure> {
        let matcher = expressions::regex(&asked.pattern, |builder| {
            builder
                .case_insensitive(asked.ignore_case)
                .fixed_strings(asked.literal)
                .multi_line(true);
        });
        let matcher = matcher.map_err(|why| {
            let text = "set literal if it is plain text";
            ToolFailure::new(format!("`pattern` cannot be used: {why}; {text}"))
        })?;
        let has_lines = asked.mode == Kind::Content;
        let context = if has_lines { asked.context } else { 0 };
        let mut searcher = SearcherBuilder::new();
        searcher
            .binary_detection(BinaryDetection::quit(0))
            .line_number(has_lines)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_SEARCHED_LINE));
        Ok(Self {
            matcher,
            searcher,
            pattern: asked.glob.as_deref().map(Pattern::new).transpose()?,
            kind: asked.mode,
            limit: asked.limit.unwrap_or(USUAL),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            truncated: AtomicBool::new(false),
            found: Mutex::default(),
            skipped: Mutex::default(),
        })
    }

    fn grep(&self) -> Grep<'_> {
        Grep {
            search: self,
            matcher: self.matcher.clone(),
            searcher: self.searcher.build(),
        }
    }

    /// Whether there is room for one more, or for more of one, of that many bytes.
    fn admit(&self, more: Room) -> bool {
        let (is_one_more, bytes) = match more {
            Room::One(bytes) => (true, bytes),
            Room::Context(bytes) => (false, bytes),
        };
        let used = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_room = used.saturating_add(bytes) <= MAX_TOLD_BYTES
            && (!is_one_more || self.count.fetch_add(1, Ordering::Relaxed) < self.limit);
        if !is_room {
            self.truncated.store(true, Ordering::Relaxed);
        }
        is_room
    }

    /// Notes a file that was not searched to its end.
    fn skip(&self, path: &Path) {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, some) = &mut *skipped;
        *count = count.saturating_add(1);
        some.insert(path.to_owned());
        if some.len() > MAX_SKIPPED {
            some.pop_last();
        }
    }

    fn output(self, place: &Place<'_>) -> Result<Output, ToolFailure> {
        let truncated = self.truncated.load(Ordering::Relaxed);
        let skipped = self.skipped.into_inner();
        let (skipped_count, skipped) = skipped.unwrap_or_else(PoisonError::into_inner);
        let found = self
            .found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let files = found.len();
        let shown = |path: &Path| match path.as_os_str().is_empty() {
            true => place.shown.clone(),
            false => place.show(path),
        };
        let (name, list): (_, Vec<Value>) = match self.kind {
            Kind::Content => {
                let lines = found.into_iter().flat_map(|(path, found)| {
                    let path = shown(&path);
                    let lines = found.lines.into_iter();
                    lines.map(move |line| line.told(&path))
                });
                ("matches", lines.collect())
            }
            Kind::FilesWithMatches => {
                let paths = found.keys().map(|path| shown(path).into());
                ("files", paths.collect())
            }
            Kind::Count => {
                let counts = found.iter();
                let told = |(path, found): (&PathBuf, &Found)| json!({"path": shown(path), "count": found.count});
                ("counts", counts.map(told).collect())
            }
        };
        let mut data = json!({(name): list, "file_count": files, "truncated": truncated});
        if skipped_count == 0 {
            return Ok(Output::new(&data)?.truncated(truncated));
        }
        let skipped: Vec<String> = skipped.iter().map(|path| shown(path)).collect();
        let summary = format!(
            "{skipped_count} files have a line that is longer than {MAX_SEARCHED_LINE} bytes, and \
             were searched up to it"
        );
        if let Some(members) = data.as_object_mut() {
            let long_lines = json!({"count": skipped_count, "paths": skipped});
            members.insert("long_lines".into(), long_lines);
        }
        let mut output = Output::new(&data)?.truncated(true);
        output.summary = Some(summary);
        Ok(output)
    }
}

impl Visitor for Grep<'_> {
    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &Path) -> ControlFlow<()> {
        let pattern = self.search.pattern.as_ref();
        if pattern.is_some_and(|pattern| !pattern.has(path)) {
            return ControlFlow::Continue(());
        }
        let flags = READ | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What is gone, or nobody may read, is not searched.
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(file) => self.search(&file.into(), path),
            Err(_) => ControlFlow::Continue(()),
        }
    }
}

impl Grep<'_> {
    fn search(&mut self, file: &File, path: &Path) -> ControlFlow<()> {
        let size = path.as_os_str().len();
        let mut sink = Sink::new(self.search.kind, size, |more| self.search.admit(more));
        // A file that cannot be read to its end has matched as far as it was read.
        let searched = self.searcher.search_file(&self.matcher, file, &mut sink);
        if searched.is_err_and(|error| is_too_long(&error)) {
            self.search.skip(path);
        }
        let (found, is_full) = sink.finish();
        if let Some(found) = found {
            let mut all = self
                .search
                .found
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.insert(path.to_owned(), found);
        }
        match is_full {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether a line did not fit into the memory that a search may have. The searcher says so in words.
fn is_too_long(error: &std::io::Error) -> bool {
    error.to_string().contains("allocation limit")
}
