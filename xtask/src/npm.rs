//! Packages of Node that the tests build components with.

use std::process::Command;

use crate::step::{show, workspace};
use crate::tools::ensure_debian;

/// Installs `conformance/package-lock.json` into `target/npm`, unless it is there.
pub(crate) fn ensure() -> Result<(), String> {
    for (program, package) in [("node", "nodejs"), ("npm", "npm")] {
        ensure_debian(program, "--version", package)?;
    }
    let text = |error: std::io::Error| error.to_string();
    let (from, folder) = (
        workspace().join("conformance"),
        workspace().join("target/npm"),
    );
    let wanted = std::fs::read_to_string(from.join("package-lock.json")).map_err(text)?;
    let stamp = folder.join("installed-lock.json");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing Node packages into {}", folder.display());
    std::fs::create_dir_all(&folder).map_err(text)?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(from.join(name), folder.join(name)).map_err(text)?;
    }
    let mut install = Command::new("npm");
    // `npm ci` refuses a lock without the packages of other systems, which a mirror need not have.
    install.args(["install", "--silent", "--no-audit", "--no-fund"]);
    show(install.current_dir(&folder))?;
    std::fs::write(&stamp, wanted).map_err(text)
}
