//! `cargo xtask bench env`: environments end to end, beside Gymnasium and OpenEnv.

use super::{of_whole, python};
use crate::step::{show, workspace};

/// What is measured beside ours.
const PYTHON: [&str; 2] = ["gymnasium==1.4.0", "openenv-core==0.3.0"];

pub(crate) fn run() -> Result<(), String> {
    let mut command = of_whole("env", &[])?;
    let root = workspace();
    let out = root.join("target/bench");
    match python::with(&out.join("python-env"), &PYTHON) {
        Ok(python) => {
            command.arg("--python").arg(python);
            command.arg(root.join("benches/peers/env_python.py"));
        }
        Err(reason) => println!("without Gymnasium and OpenEnv: {reason}"),
    }
    show(&mut command)
}
