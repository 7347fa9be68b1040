//! `cargo xtask bench a2e`: a host end to end, beside bare limits and MCP.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{capture, cargo, show, workspace};

/// The Python MCP SDK that is measured.
const PYTHON_MCP: &str = "mcp==2.3.0";

pub(crate) fn run() -> Result<(), String> {
    // One by one: built together, the product would have the features that the benchmarks ask for.
    for what in [
        "--package frith",
        "--package benches",
        "--manifest-path benches/peers/Cargo.toml",
    ] {
        show(&mut cargo(&format!(
            "build --quiet --locked --release {what}"
        )))?;
    }
    let root = workspace();
    let out = root.join("target/bench");
    let peers = root.join("benches/peers");
    let mut command = Command::new(root.join("target/release/a2e"));
    command.arg("--out").arg(&out);
    command.arg("--peers").arg(peers.join("target/release"));
    match python(&out.join("python")) {
        Ok(python) => {
            command.arg("--python").arg(python);
            command.arg(peers.join("mcp_stdio.py"));
        }
        Err(reason) => println!("without the Python MCP SDK: {reason}"),
    }
    show(&mut command)
}

/// A Python with the MCP SDK, in an environment of its own.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let done = |command: &mut Command| match capture(command) {
        output if output.success => Ok(()),
        output => Err(output.text),
    };
    if !python.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    done(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON_MCP]))?;
    Ok(python)
}
