//! Every benchmark runs, in the profile of the tests; how fast, only `cargo xtask bench` says.

use std::process::Command;

#[test]
fn wire_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_wire"))
        .arg("--smoke")
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let rows = text
        .unwrap_or_default()
        .lines()
        .filter(|line| line.contains('x'))
        .count();
    assert!(rows >= 7, "{rows} rows");
}
