//! The README and other documents, done: every console block, in order, as somebody does it who reads it
//! for the first time.
//!
//! Each becomes one script for bash. What is shown there after a command must come out of it, but for what
//! differs each time: keys, hashes, ports.

use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// A document.
#[derive(Clone, Copy)]
struct Document {
    name: &'static str,
    text: &'static str,
    /// It has at least so many commands: it was read, not something else.
    commands: usize,
}

macro_rules! document {
    ($name:literal, $commands:literal) => {
        Document {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $name)),
            commands: $commands,
        }
    };
}

/// A comment that marks the next block as one that is not done here.
const ELSEWHERE: &str = "<!-- done elsewhere: ";

/// What builds: this runs inside of it.
const BUILDS: [&str; 2] = ["cargo build", "cargo xtask"];

/// Functions of the script. A call that is held is waited for until it says so.
const PRELUDE: &str = r#"
set -Eeuo pipefail
trap 'echo "line $STEP: failed" >&2' ERR
PROCESSES=()
stop() {
  for process in "${PROCESSES[@]}"; do kill "$process" 2>/dev/null || true; gone "$process"; done
}
gone() { tail --pid="$1" -f /dev/null; }
trap stop EXIT
ROOM=$(mktemp -d -p "$BASE")
export HOME=$ROOM/home XDG_DATA_HOME=$ROOM/home/.local/share
mkdir -p "$XDG_DATA_HOME" "$ROOM/work"
cd "$ROOM/work"
heard() {
  while IFS= read -r LINE <&"$1"; do
    if [[ $LINE == *"$2"* ]]; then return 0; fi
  done
  return 1
}
"#;

enum Part {
    /// A file and what is in it.
    File(String, String),
    Step(Step),
}

struct Step {
    /// Its line in the document.
    line: usize,
    command: String,
    /// The lines that the shell asks for after that, such as those of a file.
    more: Vec<&'static str>,
    /// What is shown after it.
    shown: Vec<&'static str>,
}

fn parts(document: Document) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = document
        .text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let mut is_elsewhere = false;
    while let Some((_, line)) = lines.next() {
        is_elsewhere |= line.starts_with(ELSEWHERE);
        let is_console = line == "```console";
        if !is_console && line != "```yaml" {
            continue;
        }
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| *line != "```")
            .collect();
        match (is_elsewhere, is_console) {
            (true, _) => is_elsewhere = false,
            (false, true) => parts.extend(steps(&block).into_iter().map(Part::Step)),
            (false, false) => parts.extend(file(&block)),
        }
    }
    parts
}

/// A file whose name its first line says; others only show how something is written.
fn file(block: &[(usize, &str)]) -> Option<Part> {
    let (_, first) = block.first()?;
    let (name, _) = first.strip_prefix("# ")?.split_once(".yaml,")?;
    let text = block.iter().map(|(_, line)| format!("{line}\n")).collect();
    Some(Part::File(format!("{name}.yaml"), text))
}

fn steps(block: &[(usize, &'static str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for &(line, text) in block {
        if let Some(command) = text.strip_prefix("$ ") {
            steps.push(Step {
                line,
                command: command.to_owned(),
                more: Vec::new(),
                shown: Vec::new(),
            });
        } else if let Some(more) = text.strip_prefix("> ") {
            steps.last_mut().unwrap().more.push(more); // a command comes first
        } else if !text.is_empty() {
            steps.last_mut().unwrap().shown.push(text);
        }
    }
    steps.retain(|step| !BUILDS.iter().any(|build| step.command.starts_with(build)));
    steps
}

/// A command without what is said about it, and whether it goes on beside the next ones.
fn words(command: &str) -> (&str, bool) {
    let command = command.split("   # ").next().unwrap_or_default();
    let command = command.split("  # ").next().unwrap_or_default().trim_end();
    match command.strip_suffix('&') {
        Some(command) if !command.ends_with('&') => (command.trim_end(), true),
        _ => (command, false),
    }
}

fn script(parts: &[Part]) -> String {
    let mut script = PRELUDE.to_owned();
    for part in parts {
        let step = match part {
            Part::File(name, text) => {
                writeln!(script, "cat > {name} <<'END'\n{text}END").unwrap();
                continue;
            }
            Part::Step(step) => step,
        };
        let (command, is_beside) = words(&step.command);
        let more: String = step.more.iter().map(|line| format!("\n{line}")).collect();
        writeln!(script, "STEP={}", step.line).unwrap();
        match is_beside {
            true if command.starts_with("frith up") => writeln!(
                script,
                "{command} > \"$BASE/node\" &\nNODE=$!\nPROCESSES+=($NODE)"
            ),
            true if command.starts_with("frith call") => writeln!(
                script,
                "exec {{OUT}}< <(exec {command} 2>&1)\nPROCESSES+=($!)\nheard $OUT 'frith approvals show '\nID=${{LINE##* }}"
            ),
            // It is told of each node: what comes next is done while the slow one runs.
            true if command.starts_with("frith chain run") => writeln!(
                script,
                "exec {{OUT}}< <(exec {command} 2>&1)\nPROCESSES+=($!)\nheard $OUT 'slow  starts'"
            ),
            true => writeln!(script, "{command} &\nPROCESSES+=($!)"),
            // Whoever has approved a call sees it end.
            false if command.starts_with("frith approve") => {
                writeln!(script, "{command}\ncat <&$OUT")
            }
            // What is shown may be how it fails.
            false if !step.shown.is_empty() => {
                writeln!(script, "{{ {command}\n}} > \"$BASE/{}\" 2>&1 || true", step.line)
            }
            false => writeln!(script, "{command}{more}"),
        }
        .unwrap();
    }
    script
}

/// The same for every key, hash and signature.
fn same_each_time(line: &str) -> String {
    let is_key = |word: &str| {
        word.len() == 43
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let word = |word: &str| match word {
        _ if word.starts_with("did:key:z") => "did:key:…".to_owned(),
        _ if word.starts_with("sha256:") => "sha256:…".to_owned(),
        _ if word.starts_with("sig-") => "sig-…".to_owned(),
        _ if is_key(word) => "…".to_owned(),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Ports that were free a moment ago, each another.
fn free_ports<const N: usize>() -> [String; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

#[test]
fn the_readme_works() {
    works(document!("README.md", 1));
}

#[test]
fn quick_start_of_an_mcp_user_works() {
    works(document!("docs/start/mcp.md", 10));
}

#[test]
fn quick_start_of_an_agent_developer_works() {
    works(document!("docs/start/agent.md", 9));
}

#[test]
fn quick_start_of_a_researcher_works() {
    works(document!("docs/start/rl.md", 6));
}

#[test]
fn quick_start_of_a_platform_works() {
    works(document!("docs/start/platform.md", 13));
}

#[test]
fn quick_start_of_two_organizations_works() {
    works(document!("docs/start/two.md", 12));
}

#[test]
fn the_examples_of_protocol_tools_work() {
    works(document!("docs/protocol-tools.md", 9));
}

#[test]
fn the_examples_of_chains_work() {
    works(document!("docs/chains.md", 13));
}

#[test]
fn the_examples_of_sub_agents_work() {
    works(document!("docs/multi-agent.md", 4));
}

#[test]
fn the_examples_of_the_bridge_work() {
    works(document!("docs/bridge.md", 10));
}

/// A newcomer reads no more before the first command, and every link leads somewhere.
#[test]
fn first_pages_are_short_and_their_links_lead_somewhere() {
    let root = testkit::workspace();
    let mut pages = vec![(root.join("README.md"), 120)];
    for entry in std::fs::read_dir(root.join("docs/start")).unwrap() {
        pages.push((entry.unwrap().path(), 60));
    }
    for (page, most) in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let lines = text.lines().count();
        assert!(lines <= most, "{}: {lines} lines", page.display());
        let mut targets: Vec<&str> = Vec::new();
        for (before, after) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')] {
            let starts = text.split(before).skip(1);
            targets.extend(
                starts
                    .filter_map(|rest| rest.split_once(after))
                    .map(|it| it.0),
            );
        }
        for target in targets.into_iter().filter(|it| !it.contains("://")) {
            let file = target.split('#').next().unwrap();
            let found = page.parent().unwrap().join(file);
            assert!(found.exists(), "{}: {target}", page.display());
        }
    }
}

fn works(document: Document) {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let parts = parts(document);
    let [http, a2a, other] = free_ports();
    let script = script(&parts)
        .replace("cargo run -- demo", "frith demo --fast")
        .replace(":8765", &format!(":{http}"))
        .replace(":8444", &format!(":{other}"))
        .replace("/tmp/", "$ROOM/")
        .replace(" ID", " $ID")
        .replace("%1", "$NODE");
    let program = Path::new(env!("CARGO_BIN_EXE_frith"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .env("PATH", path)
        .env("BASE", base)
        .env("FRITH__SERVER__LISTEN", format!("127.0.0.1:{http}"))
        .env("FRITH__A2A__LISTEN", format!("127.0.0.1:{a2a}"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = document.name;
    assert!(output.status.success(), "{name}: {error}\n{script}");
    let steps = parts.iter().filter_map(|part| match part {
        Part::Step(step) => Some(step),
        Part::File(..) => None,
    });
    let mut count = 0;
    for step in steps {
        count += 1;
        if step.shown.is_empty() {
            continue;
        }
        let came = std::fs::read_to_string(base.join(step.line.to_string())).unwrap();
        let came: Vec<String> = came
            .lines()
            .filter(|line| !line.is_empty())
            .map(same_each_time)
            .collect();
        let shown: Vec<String> = step.shown.iter().copied().map(same_each_time).collect();
        assert_eq!(came, shown, "{name}:{}: {}", step.line, step.command);
    }
    assert!(count >= document.commands, "{name}: {count}");
}
