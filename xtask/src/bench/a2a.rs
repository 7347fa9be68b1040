//! `cargo xtask bench a2a`: two nodes end to end, beside bare limits and Google's protocol; and
//! `a2a-load`: one node under the load of many.

use super::{build, build_peers, of_whole, program, python};
use crate::step::{show, workspace};

/// The Python SDK of Google's A2A protocol that is measured, with what its server runs on.
const PYTHON_A2A: [&str; 2] = ["a2a-sdk[http-server]==1.3.0", "uvicorn==0.54.0"];

pub(crate) fn run() -> Result<(), String> {
    let mut command = of_whole("a2a", &[])?;
    build_peers()?;
    let root = workspace();
    let out = root.join("target/bench");
    let peers = root.join("benches/peers");
    command.arg("--peers").arg(peers.join("target/release"));
    match python::with(&out.join("python-a2a"), &PYTHON_A2A) {
        Ok(python) => {
            command.arg("--python").arg(python).arg(peers);
        }
        Err(reason) => println!("without the Python SDK: {reason}"),
    }
    show(&mut command)
}

/// A minute of 2,000 sessions, with hostile messages among theirs.
pub(crate) fn load() -> Result<(), String> {
    build(&["a2a_load"])?;
    show(&mut program("a2a_load"))
}
