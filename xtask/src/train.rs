//! `cargo xtask train`: release programs that know what they mostly do.
//!
//! They are built to count what they do, put to work for some minutes, and built again with those counts
//! (LLVM's profile-guided optimization): what is done often is inlined, laid out and kept together, and
//! what is done once lies elsewhere. Most of what a small message costs is to fetch code, so that is worth
//! more than any change of it (docs/decisions.md has the figures).

mod practice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{capture, cargo, show, workspace};
use crate::tools::debian;

/// Built together and alike both times: what was counted is found again by names that depend on that.
const PROGRAMS: &str = "build --quiet --locked --release --package frith --package benches \
    --no-default-features --bin frith --bin a2a --bin a2a_client --bin a2e --bin a2e_client --bin bridge \
    --bin env --bin env_client --bin limit";

/// What the product has unless it is told otherwise.
const FEATURES: &str = "--features frith/embed,frith/mcp,frith/wasm";

/// Which features the product is to have.
#[derive(Debug, Clone, Copy)]
enum Features {
    Default,
    /// For who has less time: these take longer to build than all the rest.
    None,
}

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let features = match words {
        [] => Features::Default,
        ["--no-default-features"] => Features::None,
        _ => return Err("usage: cargo xtask train [--no-default-features]".to_owned()),
    };
    let programs = train(features)?;
    println!("the trained programs are in {}", programs.display());
    Ok(())
}

/// The folder with trained programs, which are made if there are none.
pub(crate) fn programs() -> Result<PathBuf, String> {
    let trained = folder("trained")?;
    match trained.join("frith").exists() {
        true => Ok(trained),
        false => train(Features::Default),
    }
}

fn train(features: Features) -> Result<PathBuf, String> {
    let merge = profdata()?;
    let root = workspace().join("target/train");
    let counts = root.join("counts");
    let profile = root.join("profile");
    println!("building programs that count what they do");
    build(
        "train",
        features,
        &format!("-Cprofile-generate={}", counts.display()),
    )?;
    let _ = fs::remove_dir_all(&counts);
    practice::all(&folder("train")?, &counts)?;
    // A command that was killed has written half of its counts; the others are good.
    let merged = capture(
        Command::new(merge)
            .args(["merge", "--failure-mode=all", "-o"])
            .arg(&profile)
            .arg(&counts),
    );
    if !merged.success {
        return Err(format!(
            "the counts cannot be put together: {}",
            merged.text
        ));
    }
    println!("building them for what they did");
    // Cargo sees the name of the profile and not what is in it.
    let _ = fs::remove_dir_all(workspace().join("target/trained"));
    build(
        "trained",
        features,
        &format!("-Cprofile-use={}", profile.display()),
    )?;
    folder("trained")
}

/// Builds all programs into a folder of their own. The target is named, so that flags are for the programs
/// alone and not for what builds them.
fn build(name: &str, features: Features, flags: &str) -> Result<(), String> {
    let mut command = cargo(PROGRAMS);
    if let Features::Default = features {
        command.args(FEATURES.split(' '));
    }
    command.args(["--target", &rustc("host")?, "--target-dir"]);
    command.arg(workspace().join("target").join(name));
    show(command.env("RUSTFLAGS", flags))
}

/// Where the programs of a build lie.
fn folder(name: &str) -> Result<PathBuf, String> {
    let target = workspace().join("target").join(name);
    Ok(target.join(rustc("host")?).join("release"))
}

/// What the compiler says of itself.
fn rustc(what: &str) -> Result<String, String> {
    let said = capture(Command::new("rustc").arg("-vV")).text;
    let mut lines = said.lines();
    let found = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    let found = found.map(ToOwned::to_owned);
    found.ok_or_else(|| format!("`rustc -vV` does not say its {what}: {said}"))
}

/// What puts counts together; it must be of the compiler's LLVM.
fn profdata() -> Result<PathBuf, String> {
    let version = rustc("LLVM version")?;
    let major = version.split('.').next().unwrap_or_default();
    let program = PathBuf::from(format!("/usr/bin/llvm-profdata-{major}"));
    if !Path::exists(&program) {
        debian(&format!("llvm-{major}"))?;
    }
    Ok(program)
}
