//! `cargo xtask bench chain`: chains beside LangGraph.

use std::process::Command;

use super::{programs, python};
use crate::step::{show, workspace};

/// What is measured beside ours.
const LANGGRAPH: [&str; 2] = ["langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"];

pub(crate) fn run() -> Result<(), String> {
    programs(&["chain"])?;
    let out = workspace().join("target/bench");
    let mut command = Command::new(workspace().join("target/release/chain"));
    match python::with(&out.join("python-langgraph"), &LANGGRAPH) {
        Ok(python) => {
            let script = workspace().join("benches/peers/chain_langgraph.py");
            command.arg("--langgraph").arg(python).arg(script);
        }
        Err(reason) => println!("without LangGraph: {reason}"),
    }
    show(&mut command)
}
