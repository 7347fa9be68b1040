//! `cargo xtask bench wire`: the wire, by time and by instructions.

use std::process::Command;

use super::programs;
use crate::step::{capture, show, workspace};

pub(crate) fn run() -> Result<(), String> {
    programs(&["wire"])?;
    let program = workspace().join("target/release/wire");
    show(&mut Command::new(&program))?;
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
fn instructions(program: &std::path::Path, case: &str, side: &str) -> Result<f64, String> {
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
