//! MCP servers that are tried before they are in a configuration: `frith init`, `frith mcp add`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::frith_in;
use crate::mcp_servers::{agent, call, python_module, wake};
use crate::node::Node;

/// A server that keeps notes in the folder it is told, which it looks at when it starts.
const NOTES: &str = r#"
import json, os, sys

folder = sys.argv[1]
os.listdir(folder)
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if id is None:
        continue
    answer = {"jsonrpc": "2.0", "id": id}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        path = os.path.join(folder, "note")
        with open(path, "a") as note:
            note.write("x")
        answer["result"] = {"content": [{"type": "text", "text": open(path).read()}]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"#;

/// A folder with a server and what it works on, apart from the configuration.
fn notes(folder: &Path) -> (PathBuf, PathBuf) {
    let (script, docs) = (folder.join("server/notes.py"), folder.join("docs"));
    std::fs::create_dir_all(script.parent().unwrap()).unwrap();
    std::fs::create_dir_all(&docs).unwrap();
    std::fs::write(&script, NOTES).unwrap();
    (script, docs)
}

/// What `init` has written, for a node of a test: none may take the port that all nodes have in mind.
fn written(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("frith.yaml")).unwrap();
    text.replace("# a2a: {listen", "# a2a: {at")
}

fn init(folder: &Path, more: &[&str]) -> (i32, String, String) {
    let words: Vec<&str> = ["init", "--data", "data"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    frith_in(folder, &words, "")
}

/// Without an edit: what a folder has is tried, gets what it needs, and answers calls. What does not work
/// is told with its own words, and where it stands.
#[test]
fn found_servers_work_after_init_and_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (script, docs) = notes(&folder);
    let time = python_module("mcp_server_time", &json!({}));
    let time = time["command"].as_array().unwrap();
    let servers = json!({"mcpServers": {
        "notes": {"command": "python3", "args": [script, "./docs"]},
        "sorry": {"command": "sh", "args": ["-c", "echo 'sorry, no key' >&2; exit 3"]},
        "time": {"command": time[0], "args": time[1..]},
    }});
    let file = folder.join(".mcp.json");
    std::fs::write(&file, servers.to_string()).unwrap();
    let (status, out, error) = init(&folder, &["--yes"]);
    assert_eq!(status, 0, "{error}");
    for part in [
        "notes works: 1 tool; it may read ",
        "sorry does not work: it exited with code 3 before it answered\n      sorry, no key\n",
        "time works: 2 tools",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    // All that was asked for was shown.
    assert!(
        error.contains(&format!("let it change {}", docs.display())),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), servers.to_string());
    let text = written(&folder);
    let line = text
        .lines()
        .position(|line| line == "#     sorry:")
        .unwrap()
        + 1;
    assert!(
        out.contains(&format!("frith.yaml:{line}, in comments")),
        "{out}"
    );

    let node = Node::start(&folder, &text);
    let mut wire = agent(&node);
    for name in ["notes", "time"] {
        wake(&mut wire, name, name);
    }
    for (id, kept) in [("1", "x"), ("2", "xx")] {
        let noted = call(&mut wire, id, "notes__write", &json!({}));
        assert_eq!(noted["data"]["data"]["text"], kept, "{noted}");
    }
    assert!(docs.join("note").exists());
    // A program that is started anew, as another user where root runs the node, goes on.
    let data = node.data().to_str().unwrap().to_owned();
    let (status, _, error) = frith_in(&folder, &["mcp", "restart", "notes", "--data", &data], "");
    assert_eq!(status, 0, "{error}");
    let noted = call(&mut wire, "3", "notes__write", &json!({}));
    assert_eq!(noted["data"]["data"]["text"], "xxx", "{noted}");
}

/// A folder's servers are somebody else's programs: nothing is started that nobody has agreed to. A later
/// `init` tries what is left, keeps what stands in the configuration, and a node that runs has it at once.
#[test]
fn nothing_is_started_without_a_word_and_a_running_node_gets_what_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (script, docs) = notes(&folder);
    let started = docs.join("started");
    let touch = format!("touch {}", started.display());
    let servers = json!({"mcpServers": {
        "notes": {"command": "python3", "args": [script, docs]},
        "touches": {"command": "sh", "args": ["-c", touch]},
    }});
    std::fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
    let (status, out, error) = init(&folder, &[]);
    assert_eq!(status, 0, "{error}");
    assert!(
        out.contains("notes was not started, since nobody said that it may be"),
        "{out}"
    );
    assert!(!started.exists());
    let text = written(&folder);
    assert!(text.contains("\n#     notes:\n"), "{text}");
    assert!(text.contains("\n#     touches:\n"), "{text}");
    std::fs::remove_file(folder.join(".mcp.json")).unwrap();
    let notes = json!({"mcpServers": {"notes": servers["mcpServers"]["notes"]}});
    std::fs::create_dir(folder.join(".vscode")).unwrap();
    let file = json!({"servers": notes["mcpServers"]}).to_string();
    std::fs::write(folder.join(".vscode/mcp.json"), format!("// mine\n{file}")).unwrap();

    let node = Node::start(&folder, &format!("{text}# the end is mine\n"));
    let (status, out, error) = init(&folder, &["--yes"]);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("notes works: 1 tool"), "{out}");
    assert!(error.contains("the node that runs has read "), "{error}");
    let text = std::fs::read_to_string(folder.join("frith.yaml")).unwrap();
    assert!(text.contains("# the end is mine\n"), "{text}");
    assert!(text.contains("\n    notes:\n"), "{text}");
    assert!(!text.contains("#     notes:"), "{text}");
    let mut wire = agent(&node);
    wake(&mut wire, "w", "notes");
    let noted = call(&mut wire, "1", "notes__write", &json!({}));
    assert_eq!(noted["data"]["data"]["text"], "x", "{noted}");

    let remove = ["mcp", "remove", "notes", "--data", "data"];
    let (status, out, error) = frith_in(&folder, &remove, "");
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("removed notes from "), "{out}");
    let gone = call(&mut wire, "2", "notes__write", &json!({}));
    assert_eq!(gone["code"], "unknown_tool", "{gone}");
    let text = std::fs::read_to_string(folder.join("frith.yaml")).unwrap();
    assert!(text.contains("# the end is mine\n"), "{text}");
}

/// `--yes` gives a server of somebody else's file nothing that its program asks for, sends no variable to
/// its address, and keeps no address that has not answered.
#[test]
fn yes_agrees_to_what_is_known_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (_, docs) = notes(&folder);
    let wants = format!(
        "echo 'ENOENT: no such file, open {}' >&2; exit 3",
        docs.display()
    );
    let servers = json!({"mcpServers": {
        "asks": {"command": "sh", "args": ["-c", wants]},
        "net": {"command": "sh", "args": ["-c", "echo getaddrinfo >&2; exit 4"]},
        "sends": {"url": "https://a.example/mcp", "headers": {"X-Key": "${PATH}", "X-Id": "1"}},
        "spills": {"url": "https://a.example/mcp", "headers": {"X-Key": "Bearer ${PATH}"}},
        "gone": {"url": "http://127.0.0.1:9/mcp"},
    }});
    std::fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
    let (status, out, error) = init(&folder, &["--yes"]);
    assert_eq!(status, 0, "{error}");
    let reads = format!("readable: [\"{}\"]", docs.display());
    for part in [
        &format!("    nobody let it read {}\n", docs.display()),
        &format!("    to let it, write below asks: `{reads}`"),
        "    to let it, write below net: `network: \"all\"`",
        "  sends was not started",
        "write it as `${PATH}` alone",
        "  gone does not work: ",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    for part in [
        "connect to a.example and send X-Id, X-Key (${PATH}): no, `--yes` does not cover it",
        "connect to 127.0.0.1: yes",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let text = written(&folder);
    for name in ["asks", "net", "sends", "gone"] {
        assert!(
            text.contains(&format!("\n#     {name}:\n")),
            "{name} in {text}"
        );
    }
    assert!(!text.contains("spills"), "{text}");
    assert!(!text.contains("network:"), "{text}");
}

/// The same for a server that is named on the command line; nothing is written of one that does not work,
/// nor granted that would cover the data directory.
#[test]
fn a_server_is_added_if_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (script, docs) = notes(&folder);
    let (status, _, error) = init(&folder, &[]);
    assert_eq!(status, 0, "{error}");
    let file = folder.join("frith.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let add = |words: &[&str]| {
        let add = ["mcp", "add", "--data", "data"];
        let words: Vec<&str> = add.iter().chain(words).copied().collect();
        frith_in(&folder, &words, "")
    };
    let script = script.to_str().unwrap();
    let (status, _, error) = add(&["notes", "--", "python3", script, "docs"]);
    assert_eq!(status, 1);
    assert!(error.contains("--yes"), "{error}");
    let (status, out, error) = add(&["bad", "--yes", "--", "sh", "-c", "echo no >&2; exit 1"]);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("bad does not work: it exited with code 1"),
        "{out}"
    );
    assert!(error.contains("frith.yaml is as it was"), "{error}");
    let data = folder.join("data/token");
    let (_, out, error) = add(&[
        "data",
        "--yes",
        "--",
        "python3",
        script,
        data.to_str().unwrap(),
    ]);
    assert!(
        error.contains("it has to do with the data directory"),
        "{error}"
    );
    assert!(out.contains("data does not work"), "{out}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);

    let (status, out, error) = add(&[
        "notes", "--yes", "--json", "--", "python3", script, "./docs",
    ]);
    assert_eq!(status, 0, "{error}");
    let added: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(added["server"]["state"], "works");
    assert_eq!(added["server"]["entry"]["writable"], json!([docs]));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(&before), "{text}");
    let (status, out, _) = frith_in(&folder, &["config", "check"], "");
    assert_eq!(status, 0, "{out}");
    let (status, _, error) = add(&["notes", "--yes", "--", "python3", script, "docs"]);
    assert_eq!(status, 1);
    assert!(error.contains("has a server `notes`"), "{error}");
}

/// A server that others wrote: its name, its command line, and a call that reads something.
struct Real {
    name: &'static str,
    line: String,
    tool: &'static str,
    arguments: Value,
    /// What the answer has in it.
    answer: &'static str,
}

fn repository(folder: &Path) -> PathBuf {
    let repository = folder.join("repository");
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(&repository)
        .status();
    assert!(made.unwrap().success());
    repository
}

fn git(line: &str, folder: &Path) -> Real {
    let repository = repository(folder);
    Real {
        name: "git",
        line: format!("{line} --repository {}", repository.display()),
        tool: "git_status",
        arguments: json!({"repo_path": repository}),
        answer: "No commits yet",
    }
}

fn everything() -> Real {
    Real {
        name: "everything",
        line: "npx -y @modelcontextprotocol/server-everything".to_owned(),
        tool: "echo",
        arguments: json!({"message": "hi"}),
        answer: "Echo: hi",
    }
}

fn time(line: String) -> Real {
    Real {
        name: "time",
        line,
        tool: "get_current_time",
        arguments: json!({"timezone": "UTC"}),
        answer: "UTC",
    }
}

/// `init --yes`, then a node with what that has written, then a call of each.
fn all_work(folder: &Path, all: &[Real], path: Option<&Path>) {
    let entry = |real: &Real| {
        let words: Vec<&str> = real.line.split(' ').collect();
        (
            real.name.to_owned(),
            json!({"command": words[0], "args": words[1..]}),
        )
    };
    let servers: serde_json::Map<String, Value> = all.iter().map(entry).collect();
    let text = json!({"mcpServers": servers}).to_string();
    std::fs::write(folder.join(".mcp.json"), text).unwrap();
    let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_frith"));
    program
        .args(["init", "--yes", "--data", "data"])
        .current_dir(folder);
    if let Some(path) = path {
        let others = std::env::var("PATH").unwrap();
        program.env("PATH", format!("{}:{others}", path.display()));
    }
    let output = program.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    for real in all {
        let works = format!("  {} works: ", real.name);
        assert!(out.contains(&works), "{works}\n{out}\n{error}");
    }
    let text = written(folder);
    let node = Node::start(folder, &text);
    let mut wire = agent(&node);
    for real in all {
        wake(&mut wire, real.name, real.name);
        let tool = format!("{}__{}", real.name, real.tool);
        let answer = call(&mut wire, &tool, &tool, &real.arguments);
        assert!(
            answer.to_string().contains(real.answer),
            "{tool}: {answer}\n{text}"
        );
    }
}

/// Servers that the tests have installed, as a folder names them.
#[test]
fn real_servers_work_without_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let target = testkit::workspace().join("target").canonicalize().unwrap();
    std::os::unix::fs::symlink(target.join("npm/node_modules"), folder.join("node_modules"))
        .unwrap();
    let programs = target.join("python/bin");
    let python = |name: &str| programs.join(name).display().to_string();
    let all = [
        everything(),
        time(python("mcp-server-time")),
        git(&python("mcp-server-git"), &folder),
    ];
    all_work(&folder, &all, None);
}

/// Servers from the registries, each downloaded in the sandbox.
#[test]
#[ignore = "downloads; `cargo xtask full` runs it"]
fn servers_of_the_registries_work_without_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let tools = folder.join("tools");
    let run = |program: &Path, words: &[&str]| {
        let done = std::process::Command::new(program).args(words).status();
        assert!(done.unwrap().success(), "{}", program.display());
    };
    run(
        Path::new("python3"),
        &["-m", "venv", tools.to_str().unwrap()],
    );
    run(
        &tools.join("bin/pip"),
        &["install", "--quiet", "uv==0.13.8"],
    );
    let docs = folder.join("docs");
    std::fs::create_dir(&docs).unwrap();
    std::fs::write(docs.join("read.me"), "").unwrap();
    let page = Page::serve();
    let real = |name, line: &str, tool, arguments, answer| Real {
        name,
        line: line.to_owned(),
        tool,
        arguments,
        answer,
    };
    let (listed, database) = (json!({"path": docs}), docs.join("test.db"));
    let thought = json!({"thought": "t", "nextThoughtNeeded": false, "thoughtNumber": 1,
        "totalThoughts": 1});
    let files = format!(
        "npx -y @modelcontextprotocol/server-filesystem {}",
        docs.display()
    );
    let sqlite = format!(
        "uvx --with mcp<2 mcp-server-sqlite --db-path {}",
        database.display()
    );
    let all = [
        everything(),
        time("uvx mcp-server-time".to_owned()),
        git("uvx mcp-server-git", &folder),
        real("filesystem", &files, "list_directory", listed, "read.me"),
        real(
            "memory",
            "npx -y @modelcontextprotocol/server-memory",
            "read_graph",
            json!({}),
            "entities",
        ),
        real(
            "thinking",
            "npx -y @modelcontextprotocol/server-sequential-thinking",
            "sequentialthinking",
            thought,
            "thoughtHistoryLength",
        ),
        real(
            "fetch",
            "uvx mcp-server-fetch",
            "fetch",
            json!({"url": page.address}),
            "a page of mine",
        ),
        real("sqlite", &sqlite, "list_tables", json!({}), "[]"),
        real(
            "sums",
            "uvx mcp-server-calculator",
            "calculate",
            json!({"expression": "6*7"}),
            "42",
        ),
        // Its browser is another download, which is its own.
        real(
            "playwright",
            "npx -y @playwright/mcp@latest --headless",
            "browser_tabs",
            json!({"action": "list"}),
            "npx playwright install",
        ),
    ];
    all_work(&folder, &all, Some(&tools.join("bin")));
}

/// A page on this machine.
struct Page {
    address: String,
}

impl Page {
    fn serve() -> Self {
        use std::io::{Read as _, Write as _};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/page", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                let (status, text) = match request[..read].starts_with(b"GET /page") {
                    true => ("200 OK", "<html><body><p>a page of mine</p></body></html>"),
                    false => ("404 Not Found", ""),
                };
                let length = text.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{text}"
                );
            }
        });
        Self { address }
    }
}
