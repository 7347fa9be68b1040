//! The report, and the rows of `docs/deviations.md` that it refers to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::proofs::Proofs;
use super::statements::{Document, Marker, Statement, is_number};

const HEAD: &str = "\
# Conformance

Each statement of the five protocol documents, and the tests that prove it.
A statement without a test is a deviation ([deviations.md](deviations.md)), cannot be tested, or is open:
not done yet, or not in every case.

This file is written by `cargo xtask conformance`; do not edit it.
The statements stand in `docs/conformance/`; a test names the statements that it proves in a comment line
such as `/// Proves H-12, N-3.` (`# Proves H-12.` in Python).
";

/// What is done instead, by the number of the statement.
pub(super) type Deviations = BTreeMap<String, String>;

/// The rows of tables whose first cell lists statements.
pub(super) fn deviations(text: &str) -> Deviations {
    let mut deviations = Deviations::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", first, _, instead, _, ..] = cells.as_slice() else {
            continue;
        };
        let numbers: Vec<&str> = first.split(", ").collect();
        if numbers.iter().all(|number| is_number(number)) {
            let named = |number: &&str| ((*number).to_owned(), (*instead).to_owned());
            deviations.extend(numbers.iter().map(named));
        }
    }
    deviations
}

pub(super) fn render(documents: &[Document], proofs: &Proofs, deviations: &Deviations) -> String {
    let mut text = format!("{HEAD}\n{}\n", counts(documents, proofs));
    for document in documents {
        let _ = writeln!(text, "\n## {}", document.title);
        for section in &document.sections {
            let _ = writeln!(text, "\n### {}\n", section.title);
            for statement in &section.statements {
                entry(&mut text, statement, proofs, deviations);
            }
        }
    }
    text
}

fn entry(text: &mut String, statement: &Statement, proofs: &Proofs, deviations: &Deviations) {
    let Statement {
        number,
        quote,
        marker,
    } = statement;
    let _ = writeln!(text, "- **{number}** {}", shown(quote));
    let instead = deviations.get(number).map(String::as_str);
    let _ = match marker {
        None => Ok(()),
        Some(Marker::Deviation) => {
            writeln!(text, "  - deviation: {}", instead.unwrap_or_default())
        }
        Some(Marker::NotTestable(reason)) => writeln!(text, "  - not testable: {reason}"),
        Some(Marker::Open(reason)) => writeln!(text, "  - **open**: {reason}"),
    };
    for test in proofs.tests.get(number).into_iter().flatten() {
        let (file, name) = test.split_once(": ").unwrap_or((test, ""));
        let _ = writeln!(text, "  - `{file}` `{name}`");
    }
}

/// A quote as Markdown: prose as it is, anything with a sign that means something as code.
fn shown(quote: &str) -> String {
    match quote.contains(['|', '<', '{', '[', '*', '_', '=', '\\']) {
        true => format!("`{quote}`"),
        false => format!("“{quote}”"),
    }
}

fn counts(documents: &[Document], proofs: &Proofs) -> String {
    let count = |of: fn(&Option<Marker>) -> bool| {
        let statements = documents.iter().flat_map(Document::statements);
        statements.filter(|statement| of(&statement.marker)).count()
    };
    let statements = || documents.iter().flat_map(Document::statements);
    let proven = statements().filter(|statement| proofs.tests.contains_key(&statement.number));
    format!(
        "{} statements: {} with tests, {} deviations, {} not testable, {} open.",
        count(|_| true),
        proven.count(),
        count(|marker| *marker == Some(Marker::Deviation)),
        count(|marker| matches!(marker, Some(Marker::NotTestable(_)))),
        count(|marker| matches!(marker, Some(Marker::Open(_)))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_deviations_begin_with_their_statements() {
        let text = "| statement | § | the node | why |\n|---|---|---|---|\n\
                    | X-1, X-2 | 4 | otherwise | a reason |\n| 4 | b | c | d |\n";
        let rows = deviations(text);
        assert_eq!(rows.keys().collect::<Vec<_>>(), ["X-1", "X-2"]);
        assert_eq!(rows["X-2"], "otherwise");
    }
}
