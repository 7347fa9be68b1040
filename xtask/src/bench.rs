//! `cargo xtask bench`: release builds, side by side in one run.

mod a2a;
mod a2e;
mod bridge;
mod chain;
mod env;
mod python;
mod tools;
mod wire;

use std::process::Command;

use crate::step::{cargo, show, workspace};
use crate::train;

/// What whole programs are measured by.
const CLIENTS: [&str; 3] = ["a2a_client", "a2e_client", "env_client"];

/// Which build of whole programs is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Build {
    /// That of `cargo xtask train`.
    Trained,
    /// That of `cargo build --release`.
    Plain,
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let kind = Build::Trained;
    match arguments {
        [] => all(kind),
        ["wire"] => wire::run(),
        [name @ ("identity" | "policy" | "audit" | "store" | "memory" | "learn" | "mcp")] => single(name),
        ["tools"] => tools::run(),
        ["chain"] => chain::run(),
        ["a2e"] => a2e::run(kind),
        ["env"] => env::run(kind),
        ["a2a"] => a2a::run(kind),
        ["a2a-load"] => a2a::load(),
        ["bridge"] => bridge::run(kind),
        _ => Err(
            "usage: cargo xtask bench [wire | identity | policy | audit | store | memory | learn | mcp | tools | chain | env | a2e | a2a | a2a-load | bridge]"
                .into(),
        ),
    }
}

/// Every suite but the load, one after another.
pub(crate) fn all(kind: Build) -> Result<(), String> {
    wire::run()?;
    single("identity")?;
    single("policy")?;
    single("audit")?;
    single("store")?;
    single("memory")?;
    single("learn")?;
    single("mcp")?;
    tools::run()?;
    chain::run()?;
    a2e::run(kind)?;
    env::run(kind)?;
    a2a::run(kind)?;
    bridge::run(kind)
}

/// A suite that is one program.
fn single(name: &str) -> Result<(), String> {
    programs(&[name])?;
    show(&mut program(name))
}

/// Builds programs of the benchmarks, with what they measure: MCP and WebAssembly take longer to build
/// than all the rest.
pub(crate) fn programs(names: &[&str]) -> Result<(), String> {
    let mut command = cargo("build --quiet --locked --release --package benches");
    command.arg("--no-default-features");
    for name in names {
        command.args(["--bin", name]);
        match *name {
            "mcp" => command.args(["--features", "mcp"]),
            "tools" => command.args(["--features", "wasm"]),
            _ => &mut command,
        };
    }
    show(&mut command)
}

/// What suites of whole programs need: the product, and programs of the benchmarks.
fn build(names: &[&str]) -> Result<(), String> {
    // One by one: built together, the product would have the features that the benchmarks ask for.
    show(&mut cargo(
        "build --quiet --locked --release --package frith",
    ))?;
    programs(names)
}

/// One that was built.
pub(crate) fn program(name: &str) -> Command {
    Command::new(workspace().join("target/release").join(name))
}

/// A benchmark of whole programs, with bare limits and reports where they belong.
fn of_whole(name: &str, bare: &[&str], kind: Build) -> Result<Command, String> {
    let names = [&[name], bare].concat();
    let mut command = program(name);
    match kind {
        Build::Trained => {
            let trained = train::programs()?;
            programs(&names)?;
            command.arg("--own").arg(trained);
        }
        // The clients are programs of the benchmarks.
        Build::Plain => build(&[names.as_slice(), &CLIENTS].concat())?,
    }
    command.arg("--out").arg(workspace().join("target/bench"));
    Ok(command)
}

/// What is measured beside ours.
fn build_peers() -> Result<(), String> {
    show(&mut cargo(
        "build --quiet --locked --release --manifest-path benches/peers/Cargo.toml",
    ))
}
