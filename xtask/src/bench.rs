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

use crate::step::{RELEASE, cargo, show, workspace};

/// What whole programs are measured by.
const CLIENTS: [&str; 3] = ["a2a_client", "a2e_client", "env_client"];

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => all(),
        ["wire"] => wire::run(),
        [name @ ("identity" | "policy" | "audit" | "store" | "memory" | "learn" | "mcp")] => single(name),
        ["tools"] => tools::run(),
        ["chain"] => chain::run(),
        ["a2e"] => a2e::run(),
        ["env"] => env::run(),
        ["a2a"] => a2a::run(),
        ["a2a-load"] => a2a::load(),
        ["bridge"] => bridge::run(),
        _ => Err(
            "usage: cargo xtask bench [wire | identity | policy | audit | store | memory | learn | mcp | tools | chain | env | a2e | a2a | a2a-load | bridge]"
                .into(),
        ),
    }
}

/// Every suite but the load, one after another.
fn all() -> Result<(), String> {
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
    a2e::run()?;
    env::run()?;
    a2a::run()?;
    bridge::run()
}

/// A suite that is one program.
fn single(name: &str) -> Result<(), String> {
    programs(&[name])?;
    show(&mut program(name))
}

/// Builds programs of the benchmarks, with what they measure: MCP and WebAssembly take longer to build
/// than all the rest.
fn programs(names: &[&str]) -> Result<(), String> {
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
    show(&mut cargo(RELEASE))?;
    programs(names)
}

/// One that was built.
fn program(name: &str) -> Command {
    Command::new(workspace().join("target/release").join(name))
}

/// A benchmark of whole programs, with bare limits and reports where they belong.
fn of_whole(name: &str, bare: &[&str]) -> Result<Command, String> {
    build(&[&[name], bare, &CLIENTS].concat())?;
    let mut command = program(name);
    command.arg("--out").arg(workspace().join("target/bench"));
    Ok(command)
}

/// What is measured beside ours.
fn build_peers() -> Result<(), String> {
    show(&mut cargo(
        "build --quiet --locked --release --manifest-path benches/peers/Cargo.toml",
    ))
}
