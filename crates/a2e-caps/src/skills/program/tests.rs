use super::super::front::Form;
use super::*;

fn put(folder: &Path, path: &str, text: &str) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// A skill of a folder.
fn skill(folder: &Path, run: &str) -> Skill {
    put(folder, "skill.md", &format!("---\nrun: {run}\n---\nx"));
    Skill::read(folder, &folder.join("skill.md"), Form::Plain)
}

#[test]
fn a_program_goes_with_its_skill() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder, "bin/run.sh", "#!/bin/sh\n");
    put(folder, "bin/it.wasm", "\0asm");
    put(folder, "notes.md", "text");
    let program = |run: &str| skill(folder, run).program;
    let script = Program::Script("bin/run.sh".into());
    assert_eq!(program("bin/run.sh"), Some(script.clone()));
    assert_eq!(program("./bin/run.sh"), Some(script));
    let component = Program::Component("bin/it.wasm".into());
    assert_eq!(program("bin/it.wasm"), Some(component));
    for (run, text) in [
        ("bin/other.sh", "must name a file"),
        ("/bin/sh", "must name a file"),
        ("../run.sh", "must name a file"),
        ("bin", "must name a file"),
        ("notes.md", "#!/usr/bin/env"),
    ] {
        let problem = skill(folder, run).blocked.unwrap();
        assert!(problem.contains(text), "{run}: {problem}");
    }
}

#[test]
fn what_runs_is_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let (from, copies) = (folder.path().join("s"), folder.path().join("copies"));
    put(&from, "bin/run.sh", "#!/bin/sh\n");
    put(&from, "a/b/words", "one");
    let read = skill(&from, "bin/run.sh");
    let kept = keep(&copies, &read).unwrap();
    assert_eq!(fs::read_to_string(kept.join("a/b/words")).unwrap(), "one");
    let mode = |path: &str| fs::metadata(kept.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("a/b"), mode("bin/run.sh")),
        (0o755, 0o755, 0o755)
    );
    // Once kept, it is what runs, whatever becomes of the folder.
    put(&from, "a/b/words", "two");
    assert_eq!(keep(&copies, &read).unwrap(), kept);
    // What was not kept in time is not kept half.
    fs::remove_dir_all(&kept).unwrap();
    let failure = keep(&copies, &read).unwrap_err();
    assert!(failure.to_string().contains("has changed"), "{failure}");
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 0);
    let other = keep(&copies, &skill(&from, "bin/run.sh")).unwrap();
    assert_ne!(other, kept);
}

#[test]
fn a_result_has_a_size_and_a_shape() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "run.sh", "#!/bin/sh\n");
    let plain = skill(folder.path(), "run.sh");
    let of = |size: usize| {
        let output = Output::new(&"x".repeat(size - 2)).unwrap();
        result(&plain, output).map_err(|failed| failed.code)
    };
    assert!(of(MAX_OUTPUT).is_ok());
    assert_eq!(of(MAX_OUTPUT + 1).unwrap_err(), "result_too_large");
    let shaped = skill(folder.path(), "run.sh\noutputs: {sum: integer All of it}");
    let of = |value: Value| result(&shaped, Output::new(&value).unwrap());
    assert_eq!(of(json!({"sum": 3})).unwrap(), json!({"sum": 3}));
    let failed = of(json!({"sum": "3"})).unwrap_err();
    assert_eq!(failed.code, "schema_violation");
    assert!(failed.message.contains("/sum"), "{}", failed.message);
}

/// The end of what it wrote says most.
#[test]
fn a_program_that_fails_says_why() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "run.sh", "#!/bin/sh\n");
    let skill = skill(folder.path(), "run.sh");
    let stderr = format!("{}last line\n", "é".repeat(MAX_SAID));
    let mut output = Output::new(&json!({"exit_code": 1, "stderr": stderr})).unwrap();
    output.error = Some("it ended with 1".to_owned());
    let failed = result(&skill, output).unwrap_err();
    assert_eq!(failed.code, "run_failed");
    assert!(
        failed.message.starts_with("it ended with 1: é"),
        "{}",
        failed.message
    );
    assert!(failed.message.ends_with("last line"));
    assert!(failed.message.len() <= MAX_SAID + 20);
}
