//! `read_file` beside a bare read, and `grep` beside ripgrep on the same tree.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use a2e_caps::files::{Access, Roots};
use a2e_caps::tool::{Call, Caller, Output, Progress, Tool};
use a2e_wire::Raw;
use benches::{Contestant, Effort, compare};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Files of a folder of the tree.
const IN_FOLDER: usize = 50;
/// One file in so many matches.
const MATCHING: usize = 500;
const PATTERN: &str = "needle_[0-9]+";

pub(crate) fn report(effort: Effort, files: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    plant(folder.path(), files)?;
    let tools = a2e_caps::files::tools(Roots::one(folder.path(), Access::ReadOnly)?)?;
    let find = |name: &str| tools.iter().find(|tool| tool.definition().name() == name);
    let (read, grep) = (
        find("read_file").ok_or("read_file")?,
        find("grep").ok_or("grep")?,
    );
    let runtime = Runtime::new()?;
    println!("{:44} {:>12} {:>12} {:>7}", "", "bare", "tool", "ratio");
    reading(&runtime, read, folder.path(), effort)?;
    searching(&runtime, grep, folder.path(), effort, files)
}

/// Source-like files of one to eight KiB, as many in a folder as people keep.
fn plant(folder: &Path, files: usize) -> std::io::Result<()> {
    for number in 0..files {
        let inside = folder.join(format!("{}/{}", number / 2500, number / IN_FOLDER % 50));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(&inside)?;
        }
        let line = format!("let value_{number} = compute(\"{number}\", &context)?;\n");
        let mut text = line.repeat(20 + number % 120);
        if number % MATCHING == 0 {
            text += &format!("needle_{number}\n");
        }
        fs::write(inside.join(format!("file_{number}.rs")), text)?;
    }
    fs::write(folder.join(".gitignore"), "/target\n*.log\n")?;
    fs::write(folder.join("four_kib.txt"), "0123456789abcde\n".repeat(256))
}

fn reading(
    runtime: &Runtime,
    tool: &Arc<dyn Tool>,
    folder: &Path,
    effort: Effort,
) -> Result<(), Box<dyn Error>> {
    let arguments = json!({"path": "four_kib.txt"});
    called(runtime, tool, &arguments)?;
    let path = folder.join("four_kib.txt");
    let times = compare(
        &mut [
            Contestant::new("std::fs::read", || fs::read(&path)),
            Contestant::new("read_file", || called(runtime, tool, &arguments).is_ok()),
        ],
        effort,
    );
    row("read_file, 4 KiB, beside std::fs::read", &times);
    Ok(())
}

fn searching(
    runtime: &Runtime,
    tool: &Arc<dyn Tool>,
    folder: &Path,
    effort: Effort,
    files: usize,
) -> Result<(), Box<dyn Error>> {
    let asked =
        |mode: &str, pattern: &str| json!({"pattern": pattern, "mode": mode, "limit": 1000});
    let found = called(runtime, tool, &asked("files_with_matches", PATTERN))?;
    let found: Value = found.data.deserialize()?;
    let expected = files.div_ceil(MATCHING);
    if found["file_count"] != expected {
        return Err(format!("grep found {found} instead of {expected} files").into());
    }
    let cases = [
        ("lines", "content", &["-n"][..], PATTERN),
        ("files", "files_with_matches", &["-l"][..], PATTERN),
        ("nothing", "content", &["-n"][..], "[a-z]+_not_there$"),
    ];
    for (name, mode, options, pattern) in cases {
        let arguments = asked(mode, pattern);
        let ours = || called(runtime, tool, &arguments).is_ok();
        let name = format!("grep {files} files for {name}, beside ripgrep");
        if !has_ripgrep() {
            let times = compare(&mut [Contestant::new("grep", ours)], effort);
            row(
                &name,
                &[f64::NAN, times.first().copied().unwrap_or_default()],
            );
            continue;
        }
        let times = compare(
            &mut [
                Contestant::new("rg", || ripgrep(folder, options, pattern)),
                Contestant::new("grep", ours),
            ],
            effort,
        );
        row(&name, &times);
    }
    Ok(())
}

/// Calls a tool once.
pub(crate) fn called(
    runtime: &Runtime,
    tool: &Arc<dyn Tool>,
    arguments: &Value,
) -> Result<Output, Box<dyn Error>> {
    let arguments = tool
        .definition()
        .input_schema()
        .arguments(Raw::from_serialize(arguments)?)
        .map_err(|violations| format!("{violations:?}"))?;
    let call = Call {
        arguments,
        caller: Caller {
            agent: "bench".into(),
            session: "bench".into(),
        },
        progress: Progress::default(),
        over: CancellationToken::new(),
    };
    Ok(runtime.block_on(tool.call(call))?)
}

fn ripgrep(folder: &Path, options: &[&str], pattern: &str) -> usize {
    let run = Command::new("rg")
        .args(["--no-config", "--color=never"])
        .args(options)
        .arg(pattern)
        .arg(folder)
        .stderr(Stdio::null())
        .output();
    run.map_or(0, |output| output.stdout.len())
}

fn has_ripgrep() -> bool {
    let run = Command::new("rg")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

fn row(name: &str, times: &[f64]) {
    if let [bare, tool] = times {
        println!(
            "{name:44} {:>9.1} µs {:>9.1} µs {:>6.2}x",
            bare * 1e6,
            tool * 1e6,
            tool / bare
        );
    }
}
