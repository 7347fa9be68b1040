//! `cargo xtask bench env`: environments end to end, beside Gymnasium and OpenEnv.

use std::process::Command;

use super::python;
use crate::step::{show, workspace};
use crate::train;

/// What is measured beside ours.
const PYTHON: [&str; 2] = ["gymnasium==1.4.0", "openenv-core==0.3.0"];

pub(crate) fn run() -> Result<(), String> {
    let programs = train::programs()?;
    let root = workspace();
    let out = root.join("target/bench");
    let mut command = Command::new(programs.join("env"));
    command.arg("--out").arg(&out);
    match python::with(&out.join("python-env"), &PYTHON) {
        Ok(python) => {
            command.arg("--python").arg(python);
            command.arg(root.join("benches/peers/env_python.py"));
        }
        Err(reason) => println!("without Gymnasium and OpenEnv: {reason}"),
    }
    show(&mut command)
}
