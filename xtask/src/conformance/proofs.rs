//! The tests that name statements.
//!
//! A comment line `Proves H-12, N-3 to N-7.` of its own stands above a test: `///` or `//` in Rust,
//! `#` in Python, `//` in JavaScript. In Rust the test is the next function, which must be one that
//! runs in `cargo xtask test`, or the next name in a list that a macro makes tests of.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::statements::is_number;

/// Folders with tests.
const FOLDERS: [&str; 4] = ["conformance", "crates", "integrations", "xtask"];
/// How far below its comment the name of a test may stand.
const REACH: usize = 12;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// The tests of each statement, each with its file.
    pub(super) tests: BTreeMap<String, Vec<String>>,
    pub(super) problems: Vec<String>,
}

pub(super) fn find(workspace: &Path) -> Result<Proofs, String> {
    let mut proofs = Proofs::default();
    for folder in FOLDERS {
        walk(workspace, &workspace.join(folder), &mut proofs)?;
    }
    for tests in proofs.tests.values_mut() {
        tests.sort();
        tests.dedup();
    }
    Ok(proofs)
}

fn walk(workspace: &Path, folder: &Path, proofs: &mut Proofs) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        let name = entry.file_name();
        if kind.is_dir() && name != "target" && name != "node_modules" {
            walk(workspace, &path, proofs)?;
        }
        let extension = path.extension().unwrap_or_default();
        if kind.is_file() && ["rs", "py", "mjs"].iter().any(|known| *known == extension) {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let short = path.strip_prefix(workspace).unwrap_or(&path);
            scan(&short.display().to_string(), &text, proofs);
        }
    }
    Ok(())
}

/// Adds what one file proves.
fn scan(file: &str, text: &str, proofs: &mut Proofs) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(list) = claim(line) else { continue };
        let at = format!("{file}:{}", index + 1);
        let below = lines.get(index + 1..).unwrap_or_default();
        match (numbers(list), test_below(file, below)) {
            (Some(numbers), Ok(test)) => {
                for number in numbers {
                    let tests = proofs.tests.entry(number).or_default();
                    tests.push(format!("{file}: {test}"));
                }
            }
            (None, _) => proofs
                .problems
                .push(format!("{at}: not a list of numbers: {list}")),
            (_, Err(problem)) => proofs.problems.push(format!("{at}: {problem}")),
        }
    }
}

/// What a comment line claims to prove.
fn claim(line: &str) -> Option<&str> {
    let comment = ["///", "//", "#"]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))?;
    let list = comment.trim().strip_prefix("Proves ")?;
    let first = list.split([',', '.', ' ']).next().unwrap_or_default();
    is_number(first).then_some(list)
}

/// The numbers of `H-12, N-3 to N-5.`
fn numbers(list: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for item in list.strip_suffix('.')?.split(", ") {
        let Some((first, last)) = item.split_once(" to ") else {
            numbers.push(item.to_owned());
            continue;
        };
        let (section, from) = first.rsplit_once('-')?;
        let (same, to) = last.rsplit_once('-')?;
        if section != same {
            return None;
        }
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        numbers.extend((from..=to).map(|figure| format!("{section}-{figure}")));
    }
    let is_list = !numbers.is_empty() && numbers.iter().all(|number| is_number(number));
    is_list.then_some(numbers)
}

/// The name of the test in the lines below a comment.
fn test_below(file: &str, lines: &[&str]) -> Result<String, String> {
    let mut is_test = !file.ends_with(".rs");
    for line in lines.iter().take(REACH) {
        if line.starts_with("#[ignore") {
            return Err("an ignored test proves nothing".to_owned());
        }
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some(name) = function_name(line) {
            return match is_test {
                true => Ok(name.to_owned()),
                false => Err(format!("`{name}` is no test")),
            };
        }
        let is_name = |name: &str| {
            name.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        };
        let listed = line.trim_end_matches(',');
        if file.ends_with(".rs") && !listed.is_empty() && is_name(listed) {
            return Ok(listed.to_owned());
        }
    }
    Err("no test below".to_owned())
}

/// The name in a line that begins a function.
fn function_name(line: &str) -> Option<&str> {
    let words = ["pub ", "export ", "async "];
    let line = words
        .iter()
        .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    let keywords = ["fn ", "def ", "function "];
    let rest = keywords
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> (Vec<String>, Vec<String>) {
        let mut proofs = Proofs::default();
        scan(file, text, &mut proofs);
        let tests = proofs.tests.into_iter();
        let tests = tests.map(|(number, tests)| format!("{number} {}", tests.join(" ")));
        (tests.collect(), proofs.problems)
    }

    #[test]
    fn tests_name_what_they_prove() {
        let rust = "/// It is so.\n/// Proves X-1, X-3 to X-4.\n#[test]\nfn it_is() {}";
        let (tests, problems) = found("a.rs", rust);
        assert_eq!(
            tests,
            ["X-1 a.rs: it_is", "X-3 a.rs: it_is", "X-4 a.rs: it_is"]
        );
        assert_eq!(problems.len(), 0);
        let list = "contract! {\n    // Proves X-1.\n    of_a_list,\n}";
        assert_eq!(found("a.rs", list).0, ["X-1 a.rs: of_a_list"]);
        let python = "# Proves X-2-1.\ndef test_it(client):";
        assert_eq!(found("a.py", python).0, ["X-2-1 a.py: test_it"]);
        let prose = "/// Proves who it is.\nfn proves() {}";
        assert_eq!(found("a.rs", prose), (vec![], vec![]));
    }

    #[test]
    fn claims_without_a_test_are_problems() {
        for (text, problem) in [
            (
                "/// Proves X-1.\nfn helper() {}",
                "a.rs:1: `helper` is no test",
            ),
            (
                "/// Proves X-1.\n#[test]\n#[ignore = \"long\"]\nfn it_is() {}",
                "ignored",
            ),
            (
                "/// Proves X-1 and X-2.\n#[test]\nfn it_is() {}",
                "not a list of numbers",
            ),
            (
                "/// Proves X-1\n#[test]\nfn it_is() {}",
                "not a list of numbers",
            ),
            (
                "/// Proves X-1-1 to X-2-2.\n#[test]\nfn it_is() {}",
                "not a list of numbers",
            ),
            ("/// Proves X-1.\n", "no test below"),
        ] {
            let (tests, problems) = found("a.rs", text);
            assert_eq!(tests.len(), 0, "{text}");
            assert!(problems[0].contains(problem), "{problems:?}");
        }
    }
}
