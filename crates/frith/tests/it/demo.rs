//! `frith demo`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const TITLES: [&str; 8] = [
    "\n1. Two nodes",
    "\n2. An agent finds",
    "\n3. What an agent runs",
    "\n4. An edit waits",
    "\n5. A chain of calls",
    "\n6. Two nodes prove",
    "\n7. The audit log",
    "\n8. Your turn",
];

/// The demo, with all its files in a directory of the test.
fn demo(temporary: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frith"));
    command.arg("demo").args(arguments);
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    command
}

fn done(temporary: &TempDir, arguments: &[&str]) -> String {
    let output = demo(temporary, arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {out}{error}");
    out
}

/// No file is left, and no process that works there.
fn is_clean(temporary: &TempDir) {
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let is_there = |process: &fs::DirEntry| {
        let folder = fs::read_link(process.path().join("cwd"));
        folder.is_ok_and(|folder| folder.starts_with(temporary.path()))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    assert_eq!(processes.filter(is_there).count(), 0);
}

#[test]
fn every_scene_does_what_it_shows() {
    let temporary = tempfile::tempdir().unwrap();
    let out = done(&temporary, &["--fast"]);
    let (shown, to_paste) = out.split_once(TITLES[7]).unwrap();
    let mut rest = shown;
    for title in &TITLES[..7] {
        let at = rest.find(title);
        assert!(at.is_some(), "{title}: {out}");
        rest = &rest[at.unwrap()..];
    }
    let longest = shown.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{out}");
    for line in [
        "- Friday",
        "+ Monday",
        "1 steps.txt",
        "the body was changed",
    ] {
        assert!(shown.contains(line), "{line}: {out}");
    }
    let node = env!("CARGO_BIN_EXE_frith").strip_suffix("/frith").unwrap();
    assert!(
        to_paste.contains(&format!("export PATH={node}:$PATH")),
        "{out}"
    );
    is_clean(&temporary);
}

#[test]
fn each_scene_runs_alone() {
    let temporary = tempfile::tempdir().unwrap();
    for (index, title) in TITLES.iter().enumerate() {
        let number = (index + 1).to_string();
        let out = done(&temporary, &["--fast", "--scene", &number]);
        assert!(out.starts_with(title), "{out}");
        let others = TITLES.iter().filter(|other| *other != title);
        assert!(others.clone().all(|other| !out.contains(other)), "{out}");
    }
    is_clean(&temporary);
}

#[test]
fn failed_step_fails_the_demo() {
    let temporary = tempfile::tempdir().unwrap();
    let programs = tempfile::tempdir().unwrap();
    for name in ["cat", "cp", "grep", "sh"] {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let program = found.iter().find(|it| it.exists()).unwrap();
        symlink(program, programs.path().join(name)).unwrap();
    }
    let mut command = demo(&temporary, &["--scene", "7", "--fast"]);
    let Output { status, stderr, .. } = command.env("PATH", programs.path()).output().unwrap();
    let error = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(
        error.contains("scene 7 did not do what it shows"),
        "{error}"
    );
    assert!(error.contains("sed -i"), "{error}");
    is_clean(&temporary);
}

#[test]
fn interrupted_demo_leaves_nothing() {
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = demo(&temporary, &["--scene", "5"]);
        let mut demo = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        assert!(lines.any(|line| line.contains("slow  starts")));
        let kill = Command::new("kill")
            .args([signal, &demo.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        assert_eq!(demo.wait().unwrap().code(), Some(status));
        is_clean(&temporary);
    }
}

#[test]
fn json_has_a_line_for_each_step() {
    let temporary = tempfile::tempdir().unwrap();
    let out = done(&temporary, &["--json", "--scene", "4"]);
    let steps: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(steps.len() > 3, "{out}");
    for step in &steps {
        assert_eq!(
            (&step["scene"], &step["ok"]),
            (&json!(4), &json!(true)),
            "{step}"
        );
    }
    let commands: Vec<&str> = steps
        .iter()
        .map(|step| step["command"].as_str().unwrap())
        .collect();
    assert!(
        commands.iter().any(|it| it.starts_with("frith approve ")),
        "{commands:?}"
    );
    let output = demo(&temporary, &["--json", "--record", "x"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    is_clean(&temporary);
}

#[test]
fn recording_has_all_that_is_shown() {
    let temporary = tempfile::tempdir().unwrap();
    let recordings = tempfile::tempdir().unwrap();
    let file = recordings.path().join("demo.cast");
    let out = done(
        &temporary,
        &["--fast", "--scene", "2", "--record", file.to_str().unwrap()],
    );
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(
        (&header["version"], &header["width"]),
        (&json!(2), &json!(80))
    );
    let (mut shown, mut before) = (String::new(), 0.0);
    for event in lines {
        let seconds = event[0].as_f64().unwrap();
        assert!(seconds >= before, "{text}");
        assert_eq!(event[1], "o");
        before = seconds;
        shown.push_str(event[2].as_str().unwrap());
    }
    assert_eq!(shown.replace("\r\n", "\n"), out);
    is_clean(&temporary);
}

#[test]
fn kept_nodes_run_on() {
    let temporary = tempfile::tempdir().unwrap();
    let out = done(&temporary, &["--json", "--scene", "1", "--keep"]);
    let kept: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let folder = Path::new(kept["directory"].as_str().unwrap());
    let node = folder.join("ada");
    let (status, _, error) = crate::frith(&["status", "--data", node.to_str().unwrap()], "");
    let processes = kept["processes"].as_array().unwrap();
    let ids: Vec<&str> = processes.iter().map(|it| it.as_str().unwrap()).collect();
    assert!(Command::new("kill").args(&ids).status().unwrap().success());
    for id in &ids {
        let mut gone = Command::new("tail");
        gone.args(["-f", "/dev/null", "--pid", id]);
        assert!(gone.status().unwrap().success());
    }
    assert_eq!((status, ids.len()), (0, 2), "{error}");
}
