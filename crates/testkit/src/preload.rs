//! Libraries that are put between a process and its C library.

use std::path::Path;
use std::process::Command;

/// Compiles the library of this name into a folder.
///
/// # Panics
/// If there is no C compiler, which the build of SQLite needs as well.
pub(crate) fn compile(name: &str, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{name}.c"));
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]);
    compile.arg(folder.join(format!("{name}.so"))).arg(source);
    let status = compile.args(["-ldl", "-lpthread"]).status();
    assert!(status.is_ok_and(|it| it.success()), "{compile:?} fails");
}
