//! `glob`.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use globset::GlobSet;
use serde::Deserialize;
use serde_json::json;

use super::walk::{Visitor, Which, walk};
use super::{Roots, cancelled};
use crate::expressions;
use crate::tool::{Call, Definition, DefinitionError, Output, ToolFailure};

#[derive(Deserialize)]
struct Asked {
    pattern: String,
    #[serde(default)]
    path: String,
    limit: Option<usize>,
    #[serde(default)]
    all: bool,
}

/// A pattern for paths. Without a `/` it is for names.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    matcher: GlobSet,
    is_name: bool,
}

/// How many files are told at most, and how many are looked for to tell the first of them.
const MAX_TOLD: usize = 1000;
const MAX_FOUND: usize = 100_000;

const USUAL: usize = 200;

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, ToolFailure> {
        let matcher = expressions::glob(text);
        Ok(Self {
            matcher: matcher.map_err(|why| ToolFailure::new(format!("not a pattern: {why}")))?,
            is_name: !text.contains('/'),
        })
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        match (self.is_name, path.file_name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

pub(super) fn definition() -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string",
                "description": "Such as `*.rs` or `src/**/test_*.py`; without `/` it is for names"},
            "path": {"type": "string", "description": "The folder to look in; the root unless given"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_TOLD,
                "description": "How many files at most; 200 unless given"},
            "all": {"type": "boolean",
                "description": "Hidden files too, and those that .gitignore leaves out"},
        },
    });
    let text = "Finds files by a pattern for their paths";
    let definition = Definition::own("glob", text, &schema)?;
    Ok(definition.read_only().volatile().tags(["file", "search"]))
}

pub(super) fn run(roots: &Roots, call: &Call) -> Result<Output, ToolFailure> {
    let asked: Asked = call.arguments.read()?;
    let place = roots.locate(&asked.path)?;
    let pattern = Pattern::new(&asked.pattern)?;
    let which = if asked.all { Which::All } else { Which::Usual };
    let limit = asked.limit.unwrap_or(USUAL);
    let found = Found::new(limit, MAX_FOUND);
    walk(&place, which, &call.over, || Finder {
        pattern: &pattern,
        found: &found,
    })?;
    if call.over.is_cancelled() {
        return Err(cancelled());
    }
    let (found, count, has_more) = found.finish();
    let paths: Vec<String> = found
        .iter()
        .map(|path| place.show(Path::new(path)))
        .collect();
    let truncated = has_more || count > limit;
    let data = json!({"paths": paths, "count": count, "truncated": truncated});
    let mut output = Output::new(&data)?.truncated(truncated);
    output.summary = has_more.then(|| {
        format!("more than {count} files fit, and these need not be the first; narrow the search")
    });
    Ok(output)
}

struct Finder<'f> {
    pattern: &'f Pattern,
    found: &'f Found,
}

/// What all threads have found, up to a limit.
struct Found {
    /// The first of them in their order, and how many there are in all.
    first: Mutex<(BTreeSet<PathBuf>, usize)>,
    told: usize,
    limit: usize,
    has_more: AtomicBool,
}

impl Found {
    const fn new(told: usize, limit: usize) -> Self {
        Self {
            first: Mutex::new((BTreeSet::new(), 0)),
            told,
            limit,
            has_more: AtomicBool::new(false),
        }
    }

    fn add(&self, path: &Path) -> ControlFlow<()> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let (paths, count) = &mut *first;
        if *count >= self.limit {
            self.has_more.store(true, Ordering::Relaxed);
            return ControlFlow::Break(());
        }
        *count = count.saturating_add(1);
        paths.insert(path.to_owned());
        if paths.len() > self.told {
            paths.pop_last();
        }
        ControlFlow::Continue(())
    }

    /// The first paths, how many there are, and whether there are more than that.
    fn finish(self) -> (BTreeSet<PathBuf>, usize, bool) {
        let first = self.first.into_inner();
        let (paths, count) = first.unwrap_or_else(PoisonError::into_inner);
        (paths, count, self.has_more.into_inner())
    }
}

impl Visitor for Finder<'_> {
    fn file(&mut self, _: BorrowedFd<'_>, _: &CStr, path: &Path) -> ControlFlow<()> {
        match self.pattern.has(path) {
            true => self.found.add(path),
            false => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_and_past_it() {
        let found = Found::new(2, MAX_FOUND);
        for number in 0..MAX_FOUND {
            let path = number.to_string();
            assert_eq!(found.add(Path::new(&path)), ControlFlow::Continue(()));
        }
        assert!(!found.has_more.load(Ordering::Relaxed));
        assert_eq!(found.add(Path::new("one more")), ControlFlow::Break(()));
        let (paths, count, has_more) = found.finish();
        assert_eq!((count, has_more), (MAX_FOUND, true));
        assert!(
            paths.iter().eq([Path::new("0"), Path::new("1")]),
            "{paths:?}"
        );
    }
}
