//! Programs that the gates need beside the toolchain: from the registry and from Debian.

use std::process::Command;

use crate::step::{capture, cargo, show};

/// A cargo subcommand and the version the gates were written for.
#[derive(Debug)]
pub(crate) struct Tool {
    subcommand: &'static str,
    package: &'static str,
    version: &'static str,
}

pub(crate) const NEXTEST: Tool = Tool {
    subcommand: "nextest",
    package: "cargo-nextest",
    version: "0.9.143",
};

pub(crate) const DENY: Tool = Tool {
    subcommand: "deny",
    package: "cargo-deny",
    version: "0.20.2",
};

pub(crate) const FUZZ: Tool = Tool {
    subcommand: "fuzz",
    package: "cargo-fuzz",
    version: "0.13.2",
};

pub(crate) const HACK: Tool = Tool {
    subcommand: "hack",
    package: "cargo-hack",
    version: "0.6.46",
};

impl Tool {
    /// Installs the tool unless some version of it is there.
    pub(crate) fn ensure(&self) -> Result<(), String> {
        let Self {
            subcommand,
            package,
            version,
        } = self;
        if capture(&mut cargo(&format!("{subcommand} --version"))).success {
            return Ok(());
        }
        println!("installing {package} {version}");
        show(&mut cargo(&format!(
            "install --quiet --locked --version {version} {package}"
        )))
    }
}

/// Installs a Debian package, unless the program that it brings is there; `option` is one with which
/// that does nothing.
pub(crate) fn ensure_debian(program: &str, option: &str, package: &str) -> Result<(), String> {
    match capture(Command::new(program).arg(option)).success {
        true => Ok(()),
        false => debian(package),
    }
}

/// Installs a Debian package.
pub(crate) fn debian(package: &str) -> Result<(), String> {
    println!("installing the Debian package {package}");
    show(Command::new("apt-get").args(["update", "-qq"]))?;
    show(Command::new("apt-get").args(["install", "-qq", "-y", package]))
}
