//! `cargo xtask bench a2e`: a host end to end, beside bare limits and MCP.

use super::{build_peers, of_whole, python};
use crate::step::{show, workspace};

/// The Python MCP SDK that is measured.
const PYTHON_MCP: &str = "mcp==2.3.0";

pub(crate) fn run() -> Result<(), String> {
    let mut command = of_whole("a2e", &["limit"])?;
    build_peers()?;
    let root = workspace();
    let out = root.join("target/bench");
    let peers = root.join("benches/peers");
    command.arg("--peers").arg(peers.join("target/release"));
    match python::with(&out.join("python"), &[PYTHON_MCP]) {
        Ok(python) => {
            command.arg("--python").arg(python);
            command.arg(peers.join("mcp_stdio.py"));
        }
        Err(reason) => println!("without the Python MCP SDK: {reason}"),
    }
    show(&mut command)
}
