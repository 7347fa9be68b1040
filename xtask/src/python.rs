//! Python with the packages that foreign clients in the tests need.

use std::process::Command;

use crate::step::{capture, show, workspace};
use crate::tools::{debian, ensure_debian};

/// Installs `conformance/requirements.txt` into `target/python`, unless it is there.
pub(crate) fn ensure() -> Result<(), String> {
    for (program, package) in [("curl", "curl"), ("python3", "python3")] {
        ensure_debian(program, "--version", package)?;
    }
    let wanted = workspace().join("conformance/requirements.txt");
    let wanted_text = std::fs::read_to_string(&wanted).map_err(|error| error.to_string())?;
    let folder = workspace().join("target/python");
    let stamp = folder.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted_text) {
        return Ok(());
    }
    println!("installing Python packages into {}", folder.display());
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    if !capture(&mut make).success {
        debian("python3-venv")?;
        show(&mut make)?;
    }
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
    show(install.arg(&wanted))?;
    std::fs::write(&stamp, wanted_text).map_err(|error| error.to_string())
}
