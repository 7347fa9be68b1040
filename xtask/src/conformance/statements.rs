//! The statements of the protocol documents: `docs/conformance/*.txt`.
//!
//! The first line of a file has the letter and the title of a document, `## ` begins a section, and
//! every other line that is not indented is a statement: its number and the quoted text. An indented
//! line below it is its marker.

use std::fs;
use std::path::Path;

/// One protocol document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
}

#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) statements: Vec<Statement>,
}

#[derive(Debug)]
pub(super) struct Statement {
    /// Such as `H-12` or `A-5-3`; never given to another statement.
    pub(super) number: String,
    pub(super) quote: String,
    pub(super) marker: Option<Marker>,
}

/// Why a statement needs no test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// A row of `docs/deviations.md` says what is done instead.
    Deviation,
    NotTestable(String),
    /// Not proven yet, or not in every case.
    Open(String),
}

impl Document {
    pub(super) fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.sections.iter().flat_map(|section| &section.statements)
    }
}

/// The documents in a folder, in the order of their file names.
pub(super) fn read(folder: &Path) -> Result<Vec<Document>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        parse(&name, &text)
    };
    files.iter().map(read).collect()
}

pub(super) fn parse(name: &str, text: &str) -> Result<Document, String> {
    let mut lines = text.lines().zip(1..);
    let head = lines.next().and_then(|(head, _)| head.split_once(' '));
    let (letter, title) = head.ok_or_else(|| format!("{name}:1: no letter and title"))?;
    let mut document = Document {
        title: title.to_owned(),
        sections: Vec::new(),
    };
    let mut numbers = Vec::new();
    for (line, at) in lines {
        let wrong = |what: &str| format!("{name}:{at}: {what}: {line}");
        if line.is_empty() {
            continue;
        }
        if let Some(title) = line.strip_prefix("## ") {
            document.sections.push(Section {
                title: title.to_owned(),
                statements: Vec::new(),
            });
            continue;
        }
        let section = document.sections.last_mut();
        let section = section.ok_or_else(|| wrong("no section"))?;
        if line.starts_with(' ') {
            let statement = section.statements.last_mut();
            let statement = statement.ok_or_else(|| wrong("no statement"))?;
            let marker = marker(line.trim()).ok_or_else(|| wrong("unknown marker"))?;
            if statement.marker.replace(marker).is_some() {
                return Err(wrong("second marker"));
            }
            continue;
        }
        let (number, quote) = line.split_once(' ').ok_or_else(|| wrong("no quote"))?;
        if !is_number(number) || number.split('-').next() != Some(letter) {
            return Err(wrong("no number"));
        }
        if numbers.contains(&number) {
            return Err(wrong("number is used twice"));
        }
        numbers.push(number);
        section.statements.push(Statement {
            number: number.to_owned(),
            quote: quote.to_owned(),
            marker: None,
        });
    }
    Ok(document)
}

fn marker(text: &str) -> Option<Marker> {
    let (kind, reason) = text.split_once(": ").unwrap_or((text, ""));
    match (kind, reason) {
        ("deviation", "") => Some(Marker::Deviation),
        (_, "") => None,
        ("not testable", reason) => Some(Marker::NotTestable(reason.to_owned())),
        ("open", reason) => Some(Marker::Open(reason.to_owned())),
        _ => None,
    }
}

/// Whether a word is the number of a statement: a capital letter and one or two figures.
pub(super) fn is_number(word: &str) -> bool {
    let mut parts = word.split('-');
    let letter = parts.next().unwrap_or_default();
    let figures: Vec<&str> = parts.collect();
    let is_figure =
        |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    letter.len() == 1
        && letter.bytes().all(|byte| byte.is_ascii_uppercase())
        && matches!(figures.len(), 1 | 2)
        && figures.iter().all(is_figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_file_name_their_line() {
        for (text, problem) in [
            ("", "x:1: no letter and title"),
            ("X Example\nX-1 a", "x:2: no section"),
            ("X Example\n## One\n  deviation", "x:3: no statement"),
            ("X Example\n## One\nY-1 a", "x:3: no number"),
            (
                "X Example\n## One\nX-1 a\nX-1 b",
                "x:4: number is used twice",
            ),
            ("X Example\n## One\nX-1 a\n  open", "x:4: unknown marker"),
            (
                "X Example\n## One\nX-1 a\n  deviation\n  open: b",
                "x:5: second marker",
            ),
        ] {
            let error = parse("x", text).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn numbers_are_a_letter_and_figures() {
        assert!(["H-1", "A-10-12"].iter().all(|word| is_number(word)));
        let others = ["H", "H-", "h-1", "SHA-256", "A-1-2-3", "A-x"];
        assert!(!others.iter().any(|word| is_number(word)));
    }
}
