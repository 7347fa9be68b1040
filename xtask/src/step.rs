//! Running a command as a step: quiet when it succeeds, with all its output when it fails.

use std::process::Command;
use std::time::Instant;

/// Builds what is released, packed and measured.
pub(crate) const RELEASE: &str = "build --quiet --locked --release --package frith --features full";

/// What the steps came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    /// The names of failed steps, each with the command that runs it alone.
    to_rerun: Vec<String>,
}

/// The outcome of one command.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) success: bool,
    /// Standard output and standard error.
    pub(crate) text: String,
}

impl Tally {
    /// Runs a command and prints one line; a failure prints the command's output too. A step that
    /// runs tests counts as many, any other as one.
    pub(crate) fn step(&mut self, name: &str, command: &mut Command) {
        let start = Instant::now();
        let output = capture(command);
        let seconds = start.elapsed().as_secs_f64();
        let (passed, failed) = match tests_in(&output.text) {
            Some((passed, failed)) => (passed, failed),
            None => (usize::from(output.success), usize::from(!output.success)),
        };
        self.passed += passed;
        // A run that fails without naming a failed test has failed all the same.
        self.failed += if output.success {
            failed
        } else {
            failed.max(1)
        };
        if !output.success {
            println!("---- {name}: {}\n{}", shown(command), output.text);
            self.to_rerun.push(format!("{name}: {}", shown(command)));
        }
        let verdict = if output.success { "ok    " } else { "FAILED" };
        println!("{verdict} {name:30} {seconds:7.1} s");
    }

    /// Counts a check that is no command.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<(), String>) {
        let verdict = match outcome {
            Ok(()) => {
                self.passed += 1;
                "ok    "
            }
            Err(why) => {
                self.failed += 1;
                println!("---- {name}: {why}");
                "FAILED"
            }
        };
        println!("{verdict} {name}");
    }

    /// Prints the closing line; an error if anything failed.
    pub(crate) fn close(&self) -> Result<(), String> {
        for step in &self.to_rerun {
            println!("to run again: {step}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 => Ok(()),
            failed => Err(format!("{failed} failed")),
        }
    }
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| match word.to_string_lossy() {
            plain if !plain.contains([' ', '(', ')']) => plain.into_owned(),
            other => format!("'{other}'"),
        })
        .collect();
    words.join(" ")
}

/// `cargo` with these words, in the workspace this was built from.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(words.split_whitespace())
        .current_dir(workspace())
        .env("CARGO_TERM_COLOR", "never");
    command
}

pub(crate) fn workspace() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a command to its end.
pub(crate) fn capture(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => Output {
            success: output.status.success(),
            text: [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .concat(),
        },
        Err(error) => Output {
            success: false,
            text: format!("{command:?}: {error}"),
        },
    }
}

/// Runs a command with its output to the terminal.
pub(crate) fn show(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Tests passed and failed: from nextest's closing line, which sums up the lines of each test that
/// failed, or else from those of rustdoc's tests.
fn tests_in(text: &str) -> Option<(usize, usize)> {
    let closing = |start: &str| -> Vec<&str> {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| line.starts_with(start)).collect()
    };
    let mut lines = closing("Summary [");
    if lines.is_empty() {
        lines = closing("test result:");
    }
    let sum = |word| lines.iter().map(|line| number_before(line, word)).sum();
    (!lines.is_empty()).then(|| (sum("passed"), sum("failed")))
}

fn number_before(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line
        .split([' ', ',', ';'])
        .filter(|part| !part.is_empty())
        .collect();
    words
        .array_windows()
        .find(|[_, second]| *second == word)
        .and_then(|[first, _]| first.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_closing_lines() {
        let nextest = "    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
             ────────────\n     Summary [   0.869s] 78 tests run: 77 passed, 1 failed, 0 skipped";
        assert_eq!(tests_in(nextest), Some((77, 1)));
        let doctests =
            "test result: ok. 3 passed; 0 failed; 0 ignored\n\ntest result: ok. 1 passed; 0 failed";
        assert_eq!(tests_in(doctests), Some((4, 0)));
        assert_eq!(tests_in("Finished"), None);
    }
}
