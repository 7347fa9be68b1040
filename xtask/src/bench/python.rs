//! SDKs in Python that are measured beside ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::capture;

/// A Python with packages, in an environment of its own.
pub(super) fn with(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let done = |command: &mut Command| match capture(command) {
        output if output.success => Ok(()),
        output => Err(output.text),
    };
    if !python.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet"]);
    done(install.args(packages))?;
    Ok(python)
}
