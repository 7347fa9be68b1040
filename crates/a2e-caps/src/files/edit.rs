//! `edit_file`.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use a2e_runtime::nearest;
use base::{Class, Limits};
use serde::Deserialize;
use serde_json::json;

use super::replace::{Parents, Refusal, Stamp, replace};
use super::roots::{Place, short};
use super::{Roots, cancelled};
use crate::tool::{Call, Definition, DefinitionError, Output, ToolFailure};

#[derive(Deserialize)]
struct Asked {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

/// The largest file that is edited, before and after, in bytes.
pub const MAX_EDITED: usize = 16 * 1024 * 1024;

/// Bytes of files that are being edited, before and after.
pub(super) const EDITING: Limits = Limits {
    total: 256 * 1024 * 1024,
    per_holder: 4 * MAX_EDITED,
    reserved: 0,
};

/// How often a file is read again that somebody else changed meanwhile.
const ATTEMPTS: usize = 64;

// So much is looked at to find what a text was probably meant to be.
const MAX_CANDIDATES: usize = 3;
const MAX_COMPARED: usize = 2000;
const MAX_COMPARED_LINE: usize = 160;

pub(super) fn definition() -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": ["path", "old_text", "new_text"],
        "properties": {
            "path": {"type": "string", "description": "The file to change"},
            "old_text": {"type": "string", "minLength": 1,
                "description": "What is there now, to the letter, white space included"},
            "new_text": {"type": "string", "description": "What is to be there instead"},
            "replace_all": {"type": "boolean",
                "description": "Change every place; without it there must be exactly one"},
        },
    });
    let text = "Changes a part of a file: old_text becomes new_text";
    Ok(Definition::own("edit_file", text, &schema)?.tags(["file", "write"]))
}

pub(super) fn run(roots: &Roots, call: &Call) -> Result<Output, ToolFailure> {
    let asked: Asked = call.arguments.read()?;
    let place = roots.locate(&asked.path)?;
    place.is_writable()?;
    let mut left = ATTEMPTS;
    let edited = loop {
        if call.over.is_cancelled() {
            return Err(cancelled());
        }
        left = left.saturating_sub(1);
        match attempt(roots, &place, &asked, &call.caller.agent) {
            // An edit of another agent came first: this one is of what is there now.
            Err(Refusal::Changed(_)) if left > 0 => {}
            Ok(edited) => break edited,
            Err(Refusal::Changed(failure) | Refusal::Failed(failure)) => return Err(failure),
        }
    };
    Output::new(&json!({
        "path": place.shown,
        "replacements": edited.count,
        "line": edited.line,
        "bytes": edited.text.len(),
    }))
}

/// Edits the file as it is now. Nothing is locked meanwhile but for the moment of the rename.
fn attempt(
    roots: &Roots,
    place: &Place<'_>,
    asked: &Asked,
    agent: &Arc<str>,
) -> Result<Edited, Refusal> {
    // It stays open, so that no other file can get its number before it is replaced.
    let (file, stat) = place.file()?;
    let shown = short(&place.shown);
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    let bytes = most_in_memory(size.min(MAX_EDITED), asked);
    let charge = roots.editing.charge(Arc::clone(agent), Class::Known, bytes);
    let _charge = charge.map_err(|_| {
        let text = "as much is being edited as may be at once; wait for edits to end and try again";
        ToolFailure::busy("edit_limit", text)
    })?;
    let text = read(&file, shown)?;
    let edited =
        edit(&text, asked).map_err(|text| ToolFailure::new(format!("`{shown}` {text}")))?;
    drop(text);
    let stamp = Some(Stamp::of(&stat));
    replace(roots, place, edited.text.as_bytes(), Parents::Must, stamp)?;
    Ok(edited)
}

/// Bytes that an edit has in memory at most: the file as it is, and as it will be.
fn most_in_memory(size: usize, asked: &Asked) -> usize {
    let places = match asked.replace_all {
        true => size.checked_div(asked.old_text.len()).unwrap_or(size),
        false => 1,
    };
    let added = places.saturating_mul(asked.new_text.len());
    size.saturating_add(size.saturating_add(added).min(MAX_EDITED))
}

fn read(file: &File, shown: &str) -> Result<String, ToolFailure> {
    let most = u64::try_from(MAX_EDITED).unwrap_or(u64::MAX);
    let mut text = String::new();
    let read = file.take(most.saturating_add(1)).read_to_string(&mut text);
    if text.len() > MAX_EDITED {
        let text = format!("`{shown}` has more than {MAX_EDITED} bytes, too many to edit");
        return Err(ToolFailure::new(text));
    }
    read.map_err(
        |error| match error.kind() == std::io::ErrorKind::InvalidData {
            true => ToolFailure::new(format!(
                "`{shown}` is not text in UTF-8 and cannot be edited"
            )),
            false => ToolFailure::new(format!("`{shown}`: {error}")),
        },
    )?;
    Ok(text)
}

#[derive(Debug, PartialEq, Eq)]
struct Edited {
    text: String,
    count: usize,
    /// Where the first change is.
    line: usize,
}

fn edit(text: &str, asked: &Asked) -> Result<Edited, String> {
    let mut old = Cow::Borrowed(&*asked.old_text);
    let mut new = Cow::Borrowed(&*asked.new_text);
    if old == new {
        return Err("is not changed: old_text and new_text are the same".into());
    }
    let mut count = text.matches(&*old).count();
    if count == 0 && text.contains("\r\n") && old.contains('\n') && !old.contains('\r') {
        // Who reads a file does not see which of the two ends of line it has.
        old = old.replace('\n', "\r\n").into();
        new = new.replace('\n', "\r\n").into();
        count = text.matches(&*old).count();
    }
    let first = text.find(&*old);
    let line = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        before.matches('\n').count().saturating_add(1)
    };
    match (count, first) {
        (0, _) | (_, None) => Err(not_found(text, &asked.old_text)),
        (2.., _) if !asked.replace_all => {
            let lines: Vec<String> = text
                .match_indices(&*old)
                .take(5)
                .map(|(at, _)| line(at).to_string())
                .collect();
            Err(format!(
                "has old_text {count} times (lines {}…); give more of the text around the one you \
                 mean, or set replace_all",
                lines.join(", ")
            ))
        }
        (count, Some(at)) => {
            check_size(text.len(), count, old.len(), new.len())?;
            Ok(Edited {
                text: text.replace(&*old, &new),
                count,
                line: line(at),
            })
        }
    }
}

/// Refuses a result that is too large, before there is any of it.
fn check_size(length: usize, count: usize, old: usize, new: usize) -> Result<(), String> {
    let kept = count
        .checked_mul(old)
        .and_then(|replaced| length.checked_sub(replaced));
    let size = kept
        .zip(count.checked_mul(new))
        .and_then(|(kept, added)| kept.checked_add(added));
    match size {
        Some(size) if size <= MAX_EDITED => Ok(()),
        _ => Err(format!(
            "is not changed: {count} replacements would make it larger than {MAX_EDITED} bytes; \
             replace less at once"
        )),
    }
}

/// Where something similar is.
fn not_found(text: &str, old: &str) -> String {
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty());
    let wanted = wanted.unwrap_or_default();
    let numbered = || text.lines().enumerate();
    let mut near: Vec<(usize, &str)> = numbered()
        .filter(|(_, line)| !wanted.is_empty() && line.trim() == wanted)
        .take(MAX_CANDIDATES)
        .collect();
    if near.is_empty() {
        let comparable = |line: &str| (1..=MAX_COMPARED_LINE).contains(&line.len());
        let lines = numbered().take(MAX_COMPARED);
        let lines: Vec<_> = lines.filter(|(_, line)| comparable(line.trim())).collect();
        let similar = comparable(wanted)
            .then(|| nearest(wanted, lines.iter().map(|(_, line)| line.trim())))
            .flatten();
        near.extend(
            lines
                .into_iter()
                .find(|(_, line)| Some(line.trim()) == similar),
        );
    }
    let near: Vec<String> = near
        .into_iter()
        .map(|(index, line)| format!("line {}: `{}`", index.saturating_add(1), short(line)))
        .collect();
    match near.is_empty() {
        true => "does not have old_text; read it again first".into(),
        false => format!(
            "does not have old_text, but something similar: {}; compare white space and read it \
             again first",
            near.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_an_edit_is_known_before_the_file_is_read() {
        let one = |size| most_in_memory(size, &asked("ab", "xyz", false));
        assert_eq!((one(0), one(100)), (3, 203));
        let all = |size| most_in_memory(size, &asked("ab", "xyz", true));
        assert_eq!((all(100), all(MAX_EDITED)), (350, 2 * MAX_EDITED));
    }

    fn asked(old: &str, new: &str, replace_all: bool) -> Asked {
        Asked {
            path: String::new(),
            old_text: old.into(),
            new_text: new.into(),
            replace_all,
        }
    }

    #[test]
    fn one_place_is_changed() {
        let edited = edit("a\nb\nc\n", &asked("b\n", "B\n", false)).unwrap();
        assert_eq!(
            (&*edited.text, edited.count, edited.line),
            ("a\nB\nc\n", 1, 2)
        );
    }

    #[test]
    fn several_places_must_be_meant() {
        let error = edit("x\nx\ny x", &asked("x", "z", false)).unwrap_err();
        assert!(error.contains("3 times (lines 1, 2, 3"), "{error}");
        let edited = edit("x\nx\ny x", &asked("x", "z", true)).unwrap();
        assert_eq!((&*edited.text, edited.count), ("z\nz\ny z", 3));
    }

    #[test]
    fn near_places_are_told() {
        let text = "fn main() {\n    let value = 1;\n}\n";
        let indented = edit(text, &asked("let value = 1;\nmore", "", false)).unwrap_err();
        assert!(indented.contains("line 2"), "{indented}");
        let mistyped = edit(text, &asked("let valeu = 1;", "", false)).unwrap_err();
        assert!(mistyped.contains("line 2"), "{mistyped}");
        let nothing = edit(text, &asked("something else entirely", "", false)).unwrap_err();
        assert!(nothing.contains("read it again"), "{nothing}");
    }

    #[test]
    fn ends_of_lines_stay_what_they_are() {
        let edited = edit("a\r\nb\r\nc\r\n", &asked("a\nb\n", "x\ny\n", false)).unwrap();
        assert_eq!(edited.text, "x\r\ny\r\nc\r\n");
    }

    #[test]
    fn the_size_is_known_before_there_is_any_of_it() {
        assert_eq!(check_size(10, 2, 5, MAX_EDITED / 2), Ok(()));
        for (length, count, old, new) in [
            (11, 2, 5, MAX_EDITED / 2),
            (MAX_EDITED, MAX_EDITED, 1, usize::MAX),
            (0, usize::MAX, 2, 0),
            (usize::MAX, 1, 1, MAX_EDITED),
        ] {
            let error = check_size(length, count, old, new).unwrap_err();
            assert!(error.contains("larger than 16777216 bytes"), "{error}");
        }
    }

    #[test]
    fn nothing_to_change_is_an_error() {
        assert!(edit("a", &asked("a", "a", false)).is_err());
    }
}
