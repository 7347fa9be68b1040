//! `cargo xtask bench tools`: the built-in tools beside programs of the distribution.

use std::process::Command;

use super::single;
use crate::step::{capture, show};

pub(crate) fn run() -> Result<(), String> {
    ensure("rg", "ripgrep")?;
    single("tools")
}

/// Installs a package of Debian unless its program is there.
fn ensure(program: &str, package: &str) -> Result<(), String> {
    if capture(Command::new(program).arg("--version")).success {
        return Ok(());
    }
    println!("installing {package}");
    show(Command::new("apt-get").args(["install", "--yes", "--quiet", package]))
}
