//! `cargo xtask bench tools`: the built-in tools beside programs of the distribution.

use std::process::Command;

use super::single;
use crate::step::capture;
use crate::tools::debian;

/// Debian packages of what is measured beside ours, and the program in each.
const PACKAGES: &[(&str, &str)] = &[("bubblewrap", "bwrap"), ("ripgrep", "rg")];

pub(crate) fn run() -> Result<(), String> {
    for (package, program) in PACKAGES {
        if !capture(Command::new(program).arg("--version")).success {
            debian(package)?;
        }
    }
    single("tools")
}
