//! What a build without all features says about a part that it leaves out.

use std::fs;

use crate::frith_in;

const HOW: &str = "this build leaves out (`cargo build --release --features full` has it)";

/// Checks a configuration, which names a part that is not built in.
fn refused(configuration: &str, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("frith.yaml"), configuration).unwrap();
    fs::write(folder.path().join("echo.wasm"), "").unwrap();
    let data = folder.path().join("data");
    let arguments = [
        "stdio",
        "--config",
        "frith.yaml",
        "--data",
        data.to_str().unwrap(),
    ];
    let (status, _, error) = frith_in(folder.path(), &arguments, "");
    assert_eq!(status, 1, "{error}");
    let line = error.replace('\n', " ");
    assert!(line.contains(what) && line.contains(HOW), "{error}");
}

#[cfg(not(feature = "wasm"))]
#[test]
fn configured_component_names_the_build_that_has_it() {
    refused(
        "plugins: [{name: tools, type: tools, components: [{name: echo, path: echo.wasm}]}]\n",
        "the tool `echo` is a WebAssembly component",
    );
}

#[cfg(not(feature = "embed"))]
#[test]
fn configured_model_folder_names_the_build_that_reads_it() {
    refused(
        "plugins: [{name: memory, type: memory, embedder: {folder: model}}]\n",
        "`memory.embedder` names the folder",
    );
}

#[cfg(not(feature = "mcp"))]
#[test]
fn mcp_command_names_the_build_that_has_it() {
    let (status, _, error) = crate::frith(&["mcp", "login", "--any", "server"], "");
    assert_eq!(status, 1, "{error}");
    assert!(
        error.contains("`frith mcp`") && error.contains(HOW),
        "{error}"
    );
}
