//! `cargo xtask bench bridge`: a call through both protocols beside the sum of its parts.

use std::process::Command;

use crate::step::{show, workspace};
use crate::train;

pub(crate) fn run() -> Result<(), String> {
    let mut command = Command::new(train::programs()?.join("bridge"));
    show(command.arg("--out").arg(workspace().join("target/bench")))
}
