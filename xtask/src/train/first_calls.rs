//! Which functions of the standard library a node calls that starts and stops.
//!
//! They come compiled, so nothing counts them and the linker leaves them where they are: a node at rest had a
//! neighbourhood of 64 KiB in memory for each few of them. gdb notices each when it is first called.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{llvm, practice};
use crate::step::capture;
use crate::tools::debian;

const SCRIPT: &str = include_str!("first_calls.py");
const GDB: &str = "/usr/bin/gdb";

/// Writes their names to a file, in the order in which they were called. The file is there when all are in it.
pub(super) fn write(program: &Path, folder: &Path, called: &Path) -> Result<(), String> {
    if !Path::exists(Path::new(GDB)) {
        debian("gdb")?;
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let [script, functions, noticed] =
        ["script.py", "functions", "noticed"].map(|name| folder.join(name));
    fs::write(&script, SCRIPT).map_err(failed)?;
    let of_std = of_std()?;
    let all = symbols(&[program])?;
    let lines = all.iter().filter_map(|(address, name)| {
        let address = address.as_ref().filter(|_| of_std.contains(name))?;
        Some(format!("{address} {name}\n"))
    });
    fs::write(&functions, lines.collect::<String>()).map_err(failed)?;
    let mut gdb = Command::new(GDB);
    gdb.args(["-batch", "-nx", "-x"]).arg(&script).arg("--args");
    gdb.env("FUNCTIONS", &functions).env("CALLED", &noticed);
    // What it counts beside this is of no use.
    gdb.env("LLVM_PROFILE_FILE", "/dev/null");
    practice::start(gdb.arg(program), &folder.join("data"))?;
    if fs::metadata(&noticed).map_err(failed)?.len() == 0 {
        return Err("gdb noticed no call of the standard library".to_owned());
    }
    fs::rename(&noticed, called).map_err(failed)?;
    fs::remove_dir_all(folder).map_err(failed)
}

/// The names of all its functions.
fn of_std() -> Result<BTreeSet<String>, String> {
    let said = capture(Command::new("rustc").args(["--print", "target-libdir"])).text;
    // What it warns of comes behind it.
    let libraries = said.lines().next().unwrap_or_default();
    let failed = |error: std::io::Error| format!("{libraries}: {error}");
    let files = fs::read_dir(libraries).map_err(failed)?;
    let files: Vec<_> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|it| it == "rlib"))
        .collect();
    let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let all = symbols(&files)?;
    Ok(all.into_iter().map(|(_, name)| name).collect())
}

/// The functions of programs and libraries, each with its address.
fn symbols(files: &[&Path]) -> Result<Vec<(Option<String>, String)>, String> {
    let mut nm = Command::new(llvm("llvm", "llvm-nm")?);
    nm.args(["--defined-only", "--quiet", "--format=posix"]);
    let output = nm.args(files).output();
    let output = output.map_err(|error| format!("{nm:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let symbols = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let is_function = matches!(kind, "t" | "T" | "w" | "W");
        is_function.then(|| (words.next().map(ToOwned::to_owned), name.to_owned()))
    });
    let symbols: Vec<_> = symbols.collect();
    match symbols.is_empty() {
        true => Err(format!("{nm:?} found no functions")),
        false => Ok(symbols),
    }
}
