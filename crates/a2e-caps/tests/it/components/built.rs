//! Components in other languages, built once for each state of their source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use canonical::Digest;

/// `examples/tools/NAME.py` as a component.
pub(super) fn python(name: &str) -> PathBuf {
    let program = testkit::python().with_file_name("componentize-py");
    let wit = wit();
    built(name, "py", "requirements.txt", |folder, output| {
        let mut command = Command::new(&program);
        command.arg("-d").arg(&wit).args(["-w", "tool"]);
        command.args(["componentize", name, "-o"]).arg(output);
        command.current_dir(folder);
        command
    })
}

/// `examples/tools/NAME.js` as a component, without HTTP, which tools do not have.
pub(super) fn javascript(name: &str) -> PathBuf {
    let program = testkit::npm("componentize-js");
    let wit = wit();
    built(name, "js", "package-lock.json", |folder, output| {
        let mut command = Command::new(&program);
        command.arg(folder.join(name).with_extension("js"));
        command.arg("--wit").arg(&wit).args(["-n", "tool"]);
        command.args(["-d", "http", "-d", "fetch-event", "-o"]);
        command.arg(output);
        command
    })
}

fn wit() -> PathBuf {
    testkit::workspace().join("crates/sandbox/wit")
}

/// The component of a source, the world and the tools that build it: from `target/components` if it
/// is there.
fn built(
    name: &str,
    extension: &str,
    builder: &str,
    command: impl FnOnce(&Path, &Path) -> Command,
) -> PathBuf {
    let root = testkit::workspace();
    let source = root
        .join("examples/tools")
        .join(name)
        .with_extension(extension);
    let parts = [
        source.clone(),
        wit().join("tool.wit"),
        root.join("conformance").join(builder),
    ];
    let parts = parts.map(|path| Digest::of(&fs::read(path).unwrap()).to_string());
    let hash = Digest::of(parts.concat().as_bytes());
    let folder = root.join("target/components");
    fs::create_dir_all(&folder).unwrap();
    let stem: String = hash.as_bytes()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = folder.join(format!("{name}-{stem}.wasm"));
    if path.exists() {
        return path;
    }
    // Python writes beside its source; and a test that is stopped leaves nothing half done.
    let work = tempfile::tempdir_in(&folder).unwrap();
    fs::copy(&source, work.path().join(source.file_name().unwrap())).unwrap();
    let output = work.path().join("built.wasm");
    let done = command(work.path(), &output).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
    fs::rename(&output, &path).unwrap();
    path
}
