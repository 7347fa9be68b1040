//! `cargo xtask bench bridge`: a call through both protocols beside the sum of its parts.

use std::process::Command;

use super::build;
use crate::step::{show, workspace};

pub(crate) fn run() -> Result<(), String> {
    build(&["bridge", "a2a_client"])?;
    let target = workspace().join("target");
    let mut command = Command::new(target.join("release/bridge"));
    show(command.arg("--out").arg(target.join("bench")))
}
