//! What is wrong with a configuration, and where.

use std::path::PathBuf;

use super::tree::Location;

/// All that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if it is about one.
    pub file: Option<PathBuf>,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, if it is in one place.
    pub at: Option<Location>,
    /// What is wrong and what is allowed.
    pub text: String,
}

impl ConfigError {
    pub(super) fn of(text: String) -> Self {
        Self {
            file: None,
            problems: vec![Problem { at: None, text }],
        }
    }

    pub(super) fn add(&mut self, text: String) {
        self.problems.push(Problem { at: None, text });
    }
}

impl std::error::Error for ConfigError {}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            f.write_str(newline)?;
            if let Some(file) = &self.file {
                write!(f, "{}:", file.display())?;
            }
            match (problem.at, &self.file) {
                (Some(at), _) => write!(f, "{}:{}: {}", at.line, at.column, problem.text)?,
                (None, Some(_)) => write!(f, " {}", problem.text)?,
                (None, None) => f.write_str(&problem.text)?,
            }
        }
        Ok(())
    }
}
