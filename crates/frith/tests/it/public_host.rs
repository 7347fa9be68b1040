//! Commands on a host that does what the public A2E host does: keys of memories are objects, and of the
//! verbs of environments it knows the first four.

use serde_json::{Value, json};

use crate::frith;

const HOST: &str = r#"
import json, sys, time, pathlib

kept = pathlib.Path(sys.argv[1])
memory = json.loads(kept.read_text()) if kept.exists() else []
count = 0

def say(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)

def refuse(id, code):
    say(type="error", req_id=id, code=code, message=f"bad {kind}", retryable=False, detail={}, capability_name="")

def seen(step):
    return {"episode_id": "E", "step_num": step, "state": {"count": count}, "done": False, "truncated": False,
        "reward": 0.0, "created_at": time.time(), "metadata": {}}

for line in sys.stdin:
    m = json.loads(line)
    kind, id = m["type"], m["id"]
    keys = m.get("keys", []) + [entry["key"] for entry in m.get("entries", [])]
    if kind == "handshake/req":
        caps = [{"capability": c, "enabled": c in ("env", "memory"), "metadata": {"name": "sample_" + c}} for c in m["agent_caps"]]
        say(type="handshake/resp", req_id=id, session_id="S", accepted_caps=caps, max_parallel=4, ok=True, reason="")
    elif not all(isinstance(key, dict) for key in keys):
        refuse(id, "parse_error")
    elif kind == "memory/init/req":
        say(type="memory/init/resp", req_id=id, memory_id="M", namespace="default", success=True)
    elif kind == "memory/store/req":
        memory += m["entries"]
        say(type="memory/store/resp", req_id=id, stored=keys, errors=[])
    elif kind == "memory/retrieve/req":
        found = [entry for entry in memory if entry["key"] in keys]
        say(type="memory/retrieve/resp", req_id=id, entries=found, total=len(found))
    elif kind == "memory/forget/req":
        left = [entry for entry in memory if entry["key"] not in keys]
        say(type="memory/forget/resp", req_id=id, deleted=len(memory) - len(left))
        memory = left
    elif kind == "env/reset/req":
        say(type="env/reset/resp", req_id=id, obs=seen(0))
    elif kind == "env/step/req":
        count += m["action"].get("type") == "inc"
        say(type="env/step/resp", req_id=id, obs=seen(1))
    elif kind == "env/close/req":
        say(type="env/close/resp", closed=True)
    elif kind == "shutdown":
        break
    else:
        refuse(id, "invalid_message")
kept.write_text(json.dumps(memory))
"#;

/// The address of such a host, whose memory outlives it.
fn host(folder: &std::path::Path) -> String {
    let script = folder.join("host.py");
    std::fs::write(&script, HOST).unwrap();
    let kept = folder.join("memory.json");
    format!("cmd:python3 {} {}", script.display(), kept.display())
}

#[test]
fn memory_is_kept_under_keys_that_are_objects() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let memory = |arguments: &[&str]| {
        let (status, out, error) =
            frith(&[&["memory"], arguments, &["--host", &host]].concat(), "");
        assert_eq!(status, 0, "{arguments:?}: {error}");
        out
    };
    memory(&["put", "pet", "Rex"]);
    memory(&["put", r#"{"user": 1}"#, "tea"]);
    let entry: Value = serde_json::from_str(&memory(&["get", "pet", "--json"])).unwrap();
    assert_eq!(entry["content"], "Rex", "{entry}");
    let entry: Value = serde_json::from_str(&memory(&["get", r#"{"user": 1}"#, "--json"])).unwrap();
    assert_eq!(entry["content"], "tea", "{entry}");
    assert_eq!(memory(&["forget", "pet"]), "forgot 1\n");
    let (status, _, error) = frith(&["memory", "get", "pet", "--host", &host], "");
    assert_eq!(status, 1);
    assert!(error.contains("nothing has the key pet"), "{error}");
}

#[test]
fn environments_are_played_that_describe_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let at = ["--host", host.as_str()];
    let (status, out, error) = frith(&[&["env", "list", "--json"], &at[..]].concat(), "");
    assert_eq!(status, 0, "{error}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed[0]["name"], "sample_env", "{out}");
    assert!(error.contains("does not list its environments"), "{error}");
    let play = [&["env", "play", "sample_env"], &at[..]].concat();
    let (status, out, error) = frith(&play, "{\"type\": \"inc\"}\n\n");
    assert_eq!(status, 0, "{error}");
    assert!(error.contains("each is a JSON object"), "{error}");
    assert!(
        error.contains("the environment suggests nothing"),
        "{error}"
    );
    // What it cannot draw is the state.
    assert_eq!(
        out,
        "{\"count\":0}\nstep 0  reward 0  in all 0\n{\"count\":1}\nstep 1  reward 0  in all 0\n"
    );
    let (_, out, _) = frith(&[&play[..], &["--json"]].concat(), "{\"type\": \"inc\"}\n");
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], json!({"count": 1}));
}
