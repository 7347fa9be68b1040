//! `frith run` on hosts that are not ours, by itself and behind a node that has mounted them.

use std::path::Path;

use serde_json::json;

use crate::frith;
use crate::node::Node;

/// A host that does what the first word of a command names.
const HOST: &str = r#"
import json, sys, time

def line(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    return json.dumps({**base, **message}) + "\n"

def say(*lines):
    sys.stdout.write("".join(lines))
    sys.stdout.flush()

def spawn(id, way, fire):
    answer = line(type="proc/spawn/resp", req_id=id, proc_id="P", ok=True, pid=1, error="")
    def event(data, process="P", stream="stdout", req_id=id):
        return line(type="proc/read/event", req_id=req_id, kind="status", proc_id=process, stream_type=stream, data=data)
    def out(text, **more):
        return event({"text": text}, **more)
    end = event({"code": 3}, stream="stderr")
    ways = {
        "usual": [answer, out("a\n"), out("b\n"), end],
        "before": [out("a\n"), answer, out("b\n"), end],
        "all-before": [out("a\n"), out("b\n"), end, answer],
        "overtaken": [answer, out("a\n"), end, out("b\n")],
        "unnamed": [out("a\n", req_id=""), answer, out("b\n", req_id=""), event({"code": 3}, req_id="")],
        "others": [
            event({"code": 9}, process="Q", req_id=""), answer, out("a\n"), out("x\n", process="Q", req_id=""),
            event({"code": 9}, process="Q", req_id=""), out("b\n"), end,
        ],
        "killed": [answer, out("a\n"), out("b\n"), event({}, stream="killed")],
        "lost": [answer, out("a\n"), out("b\n")],
        "flood": [answer, *(out(f"line {number} {'x' * 100}\n") for number in range(20000)), end],
    }
    if fire == "one by one":
        for one in ways[way]:
            say(one)
            time.sleep(0.005)
    else:
        say(*ways[way])
    return way != "lost"

for text in sys.stdin:
    m = json.loads(text)
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [{"capability": c, "enabled": c == "proc", "metadata": {}} for c in m["agent_caps"]]
        say(line(type="handshake/resp", req_id=id, session_id="S" * 32, accepted_caps=caps, max_parallel=4, ok=True, reason=""))
    elif kind == "proc/spawn/req":
        if not spawn(id, *m["cmd"]):
            break
    elif kind == "proc/status/req":
        say(line(type="proc/status/resp", req_id=id, proc_id="P", status="completed", error=""))
    elif kind == "shutdown":
        break
"#;

/// What each way gives: exit code and output. A process that was killed has a code as after SIGKILL.
const WAYS: [(&str, i32); 7] = [
    ("usual", 3),
    ("before", 3),
    ("all-before", 3),
    ("overtaken", 3),
    ("unnamed", 3),
    ("others", 3),
    ("killed", 137),
];

fn run(host: &[&str], way: &str, fire: &str) -> (i32, String, String) {
    let command = ["--no-stdin", "--", way, fire];
    frith(&[&["run"], host, &command].concat(), "")
}

fn all_ways(host: &[&str]) {
    for (way, code) in WAYS {
        // In one piece the client reads it at once.
        for fire in ["at once", "one by one"] {
            let (status, out, error) = run(host, way, fire);
            // What follows the exit is passed on by itself, so it keeps no place among the rest.
            let mut lines: Vec<&str> = out.split_inclusive('\n').collect();
            if way == "overtaken" {
                lines.sort_unstable();
            }
            assert_eq!(
                (status, lines.concat().as_str()),
                (code, "a\nb\n"),
                "{way}, {fire}: {error}"
            );
        }
    }
    let (status, out, error) = run(host, "flood", "at once");
    assert_eq!(status, 3, "{error}");
    assert_eq!(out.lines().count(), 20_000);
    let is_in_order = |(number, line): (usize, &str)| line.starts_with(&format!("line {number} "));
    assert!(out.lines().enumerate().all(is_in_order));
}

fn script(folder: &Path) -> String {
    let script = folder.join("host.py");
    std::fs::write(&script, HOST).unwrap();
    script.to_str().unwrap().to_owned()
}

#[test]
fn output_arrives_whenever_a_foreign_host_sends_it() {
    let folder = tempfile::tempdir().unwrap();
    let host = format!("cmd:python3 {}", script(folder.path()));
    all_ways(&["--host", &host]);
    let (status, out, error) = run(&["--host", &host], "lost", "at once");
    assert_eq!((status, out.as_str()), (1, "a\nb\n"), "{error}");
    assert!(error.contains("nothing more is heard"), "{error}");
}

#[test]
fn output_arrives_through_a_node_that_has_mounted_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path());
    let config = json!({"plugins": [
        {"name": "foreign", "type": "remote_plugin", "command": ["python3", script]},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let data = node.data();
    let at = ["--data", data.to_str().unwrap()];
    all_ways(&at);
    // Its processes end with a host that is lost.
    let (status, out, error) = run(&at, "lost", "at once");
    assert_eq!((status, out.as_str()), (137, "a\nb\n"), "{error}");
}
