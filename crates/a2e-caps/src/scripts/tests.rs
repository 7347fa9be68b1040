use std::os::unix::fs::symlink;

use super::*;

const HEADER: &str = "#!/bin/sh\n# ---\n# description: A script of a test\n# ---\n";

fn found(folder: &Path) -> Result<Vec<Found>, ScriptError> {
    read(folder, &folder.join(".copies"), Runner::Same)
}

fn put(folder: &Path, name: &str, content: &str, mode: u32) {
    let file = folder.join(name);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

fn problem(folder: &Path) -> String {
    found(folder).map(drop).unwrap_err().to_string()
}

#[test]
fn executable_files_are_tools() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "b.sh", HEADER, 0o755);
    put(folder.path(), "a.py", HEADER, 0o755);
    put(folder.path(), "README.md", "no", 0o644);
    put(folder.path(), ".hidden", "no", 0o755);
    fs::create_dir(folder.path().join("inner")).unwrap();
    symlink("nowhere", folder.path().join("gone")).unwrap();
    let made = found(folder.path()).unwrap();
    let names: Vec<&str> = made.iter().map(|it| it.definition.name()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(made[0].definition.description(), "A script of a test");
}

/// Whatever changes in a file changes the hash of its definition, which is what is pinned.
#[test]
fn a_definition_is_that_of_one_content() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |content: &str| {
        put(folder.path(), "a", content, 0o755);
        found(folder.path()).unwrap()[0].definition.hash()
    };
    let before = hash(HEADER);
    assert_eq!(hash(HEADER), before);
    assert_ne!(hash(&format!("{HEADER}rm -rf .\n")), before);
}

/// Whoever replaces the file after it was looked at gets nothing run that was not hashed.
#[test]
fn what_runs_is_what_was_hashed() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.sh", HEADER, 0o755);
    let made = found(folder.path()).unwrap();
    let script = &made[0];
    put(folder.path(), "a.sh", &format!("{HEADER}rm -rf .\n"), 0o755);
    let copy = fs::read(&script.copy).unwrap();
    assert_eq!(copy, HEADER.as_bytes());
    assert_eq!(Digest::of(&copy), script.hash);
    assert_eq!(script.copy.file_name().unwrap(), "a.sh");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&script.copy), 0o755);
    assert_eq!(mode(&folder.path().join(".copies")), 0o700);
    // Another content is another copy; what runs by now is not touched.
    let changed = found(folder.path()).unwrap();
    assert_ne!(changed[0].copy, script.copy);
    assert_eq!(fs::read(&script.copy).unwrap(), HEADER.as_bytes());
}

#[test]
fn what_is_no_script_is_told() {
    let folder = tempfile::tempdir().unwrap();
    assert!(problem(&folder.path().join("none")).contains("`scripts`"));
    put(folder.path(), "a", "#!/bin/sh\necho\n", 0o755);
    let told = problem(folder.path());
    assert!(told.contains("no header") && told.contains("/a:"), "{told}");
    fs::remove_file(folder.path().join("a")).unwrap();
    put(folder.path(), "a b", HEADER, 0o755);
    assert!(problem(folder.path()).contains("name of a tool"));
    fs::remove_file(folder.path().join("a b")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "real", HEADER, 0o755);
    symlink(outside.path().join("real"), folder.path().join("link")).unwrap();
    assert!(problem(folder.path()).contains("symbolic link"));
    fs::remove_file(folder.path().join("link")).unwrap();
    // Whoever has no rights must be able to run it.
    put(folder.path(), "own", HEADER, 0o700);
    assert!(found(folder.path()).is_ok());
    let told = read(folder.path(), &folder.path().join(".copies"), Runner::Other)
        .unwrap_err()
        .to_string();
    assert!(told.contains("chmod 755"), "{told}");
}

#[test]
fn scripts_have_a_size_and_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let of = |size: usize| {
        let filling = "#".repeat(size - HEADER.len());
        put(folder.path(), "large", &format!("{HEADER}{filling}"), 0o755);
        found(folder.path())
    };
    assert!(of(MAX_SCRIPT).is_ok());
    assert!(of(MAX_SCRIPT + 1).is_err());
    fs::remove_file(folder.path().join("large")).unwrap();
    for at in 0..MAX_SCRIPTS {
        put(folder.path(), &format!("s{at}"), HEADER, 0o755);
    }
    assert_eq!(found(folder.path()).unwrap().len(), MAX_SCRIPTS);
    put(folder.path(), "more", HEADER, 0o755);
    assert!(matches!(found(folder.path()), Err(ScriptError::TooMany(_))));
}

#[tokio::test]
async fn a_file_that_has_changed_is_not_the_one() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a", HEADER, 0o755);
    let script = found(folder.path()).unwrap().remove(0);
    script.check().await.unwrap();
    put(folder.path(), "a", &format!("{HEADER}x"), 0o755);
    let failure = script.check().await.unwrap_err();
    assert!(failure.is_denied() && failure.to_string().contains("has changed"));
    fs::remove_file(folder.path().join("a")).unwrap();
    script.check().await.unwrap_err();
}
