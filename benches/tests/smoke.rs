//! Every benchmark runs, in the profile of the tests; how fast, only `cargo xtask bench` says.

use std::process::Command;

fn rows(program: &str) -> usize {
    let output = Command::new(program).arg("--smoke").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .filter(|line| line.contains('x'))
        .count()
}

#[test]
fn wire_runs() {
    let rows = rows(env!("CARGO_BIN_EXE_wire"));
    assert!(rows >= 7, "{rows} rows");
}

#[test]
fn identity_runs() {
    let rows = rows(env!("CARGO_BIN_EXE_identity"));
    assert!(rows >= 9, "{rows} rows");
}
