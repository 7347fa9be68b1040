//! `cargo xtask conformance`: writes `docs/conformance.md`, which shows for each statement of the
//! protocol documents the tests that prove it, or why there is none.

mod proofs;
mod report;
mod statements;

use std::fs;
use std::path::Path;

use crate::step::workspace;
use proofs::Proofs;
use statements::{Document, Marker};

const REPORT: &str = "docs/conformance.md";
const STATEMENTS: &str = "docs/conformance";
const DEVIATIONS: &str = "docs/deviations.md";

pub(crate) fn run() -> Result<(), String> {
    let (text, problems) = generate(&workspace())?;
    let path = workspace().join(REPORT);
    fs::write(&path, &text).map_err(|error| format!("{REPORT}: {error}"))?;
    let counts = text.lines().find(|line| line.contains(" statements: "));
    println!("{REPORT}: {}", counts.unwrap_or_default());
    match problems.as_slice() {
        [] => Ok(()),
        _ => Err(problems.join("\n")),
    }
}

/// The text of the report, and what is wrong with the statements, their tests and deviations.
fn generate(workspace: &Path) -> Result<(String, Vec<String>), String> {
    let documents = statements::read(&workspace.join(STATEMENTS))?;
    let proofs = proofs::find(workspace)?;
    let deviations = fs::read_to_string(workspace.join(DEVIATIONS))
        .map_err(|error| format!("{DEVIATIONS}: {error}"))?;
    let deviations = report::deviations(&deviations);
    let problems = problems(&documents, &proofs, &deviations);
    Ok((report::render(&documents, &proofs, &deviations), problems))
}

fn problems(
    documents: &[Document],
    proofs: &Proofs,
    deviations: &report::Deviations,
) -> Vec<String> {
    let mut problems = proofs.problems.clone();
    let all = || documents.iter().flat_map(Document::statements);
    for statement in all() {
        let number = &statement.number;
        let is_proven = proofs.tests.contains_key(number);
        let has_row = deviations.contains_key(number);
        match &statement.marker {
            None if !is_proven => problems.push(format!(
                "{number} has no test: write `Proves {number}.` above one, or mark it in {STATEMENTS}"
            )),
            Some(Marker::Deviation) if !has_row => {
                problems.push(format!("{number} is a deviation without a row in {DEVIATIONS}"));
            }
            Some(Marker::NotTestable(_)) if is_proven => {
                problems.push(format!("{number} has a test, so it is testable"));
            }
            _ => {}
        }
        if has_row && statement.marker != Some(Marker::Deviation) {
            problems.push(format!(
                "{number} has a row in {DEVIATIONS} and no `deviation`"
            ));
        }
    }
    let known: Vec<&str> = all().map(|statement| statement.number.as_str()).collect();
    for (number, tests) in &proofs.tests {
        if !known.contains(&number.as_str()) {
            problems.push(format!("{number} of {} is no statement", tests.join(", ")));
        }
    }
    for number in deviations.keys() {
        if !known.contains(&number.as_str()) {
            problems.push(format!("{number} of {DEVIATIONS} is no statement"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance_report_is_current_and_accounts_for_every_statement() {
        let (text, problems) = generate(&workspace()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        let kept = fs::read_to_string(workspace().join(REPORT)).unwrap();
        assert!(
            kept == text,
            "{REPORT} is stale; run `cargo xtask conformance`"
        );
    }

    fn check(statements: &str, tests: &[&str], deviations: &str) -> Vec<String> {
        let document = statements::parse("x.txt", statements).unwrap();
        let mut proofs = Proofs::default();
        for number in tests {
            let named = proofs.tests.entry((*number).to_owned()).or_default();
            named.push("x.rs: x".to_owned());
        }
        problems(&[document], &proofs, &report::deviations(deviations))
    }

    #[test]
    fn statement_needs_a_test_or_a_marker() {
        let plain = "X Example\n\n## One\n\nX-1 It is so.\n";
        assert_eq!(check(plain, &["X-1"], "").len(), 0);
        assert!(check(plain, &[], "")[0].contains("X-1 has no test"));
        assert!(check(plain, &["X-1", "X-2"], "")[0].contains("X-2 of x.rs: x is no statement"));

        // What is proven in part stays open.
        let open = format!("{plain}  open: later\n");
        assert_eq!(check(&open, &[], "").len(), 0);
        assert_eq!(check(&open, &["X-1"], "").len(), 0);

        let not_testable = format!("{plain}  not testable: a goal\n");
        assert_eq!(check(&not_testable, &[], "").len(), 0);
        assert!(check(&not_testable, &["X-1"], "")[0].contains("is testable"));

        let deviation = format!("{plain}  deviation\n");
        let row = "| X-1 | 2 | otherwise | for a reason |";
        assert_eq!(check(&deviation, &[], row).len(), 0);
        assert_eq!(check(&deviation, &["X-1"], row).len(), 0);
        assert!(check(&deviation, &[], "")[0].contains("without a row"));
        assert!(check(plain, &["X-1"], row)[0].contains("no `deviation`"));
        assert!(check(plain, &["X-1"], "| X-1, X-9 | 2 | a | b |")[1].contains("X-9"));
    }
}
