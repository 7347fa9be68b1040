//! `cargo xtask bench`: release builds, side by side in one run, then instruction counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{capture, cargo, show, workspace};

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => wire().and_then(|()| identity()),
        ["wire"] => wire(),
        ["identity"] => identity(),
        _ => Err("usage: cargo xtask bench [wire | identity]".into()),
    }
}

/// Builds a suite and runs it; returns the program.
fn suite(name: &str) -> Result<PathBuf, String> {
    show(&mut cargo(&format!(
        "build --quiet --locked --release --package benches --bin {name}"
    )))?;
    let program = workspace().join("target/release").join(name);
    show(&mut Command::new(&program))?;
    Ok(program)
}

fn identity() -> Result<(), String> {
    suite("identity").map(drop)
}

fn wire() -> Result<(), String> {
    let program = suite("wire")?;
    let cases = capture(Command::new(&program).arg("--cases"));
    println!("\ninstructions per run, counted by callgrind");
    println!(
        "{:34} {:>12} {:>12} {:>7}",
        "", "serde_json", "a2e-wire", "ratio"
    );
    for case in cases.text.lines() {
        let count = |side: &str| instructions(&program, case, side);
        let (theirs, ours) = (count("theirs")?, count("ours")?);
        println!("{case:34} {theirs:12.0} {ours:12.0} {:6.2}x", theirs / ours);
    }
    Ok(())
}

/// Instructions of one run: the difference between few and many runs, so that the start of the
/// program does not count.
fn instructions(program: &Path, case: &str, side: &str) -> Result<f64, String> {
    const FEW: u32 = 10;
    const MANY: u32 = 30;
    let count = |runs: u32| {
        let output = capture(
            Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(program)
                .args(["--count", case, side, &runs.to_string()]),
        );
        output
            .text
            .lines()
            .find_map(|line| line.split_once("Collected : "))
            .and_then(|(_, count)| count.trim().parse::<f64>().ok())
            .ok_or_else(|| format!("callgrind counted nothing:\n{}", output.text))
    };
    Ok((count(MANY)? - count(FEW)?) / f64::from(MANY - FEW))
}
