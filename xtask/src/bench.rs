//! `cargo xtask bench`: release builds, side by side in one run.

mod a2e;
mod wire;

use std::process::Command;

use crate::step::{cargo, show, workspace};

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => {
            wire::run()?;
            identity()?;
            a2e::run()
        }
        ["wire"] => wire::run(),
        ["identity"] => identity(),
        ["a2e"] => a2e::run(),
        _ => Err("usage: cargo xtask bench [wire | identity | a2e]".into()),
    }
}

fn identity() -> Result<(), String> {
    show(&mut cargo(
        "build --quiet --locked --release --package benches --bin identity",
    ))?;
    show(&mut Command::new(
        workspace().join("target/release/identity"),
    ))
}
