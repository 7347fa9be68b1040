//! `frith skill`: the skills of a node from the command line.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::frith;
use crate::node::Node;

fn put(folder: &Path, path: &str, text: &str) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

const GREET: &str = "---\nname: greet\ndescription: Greets somebody\ntags: [social]\n---\n\
    Say hello to {args}, as in words.md.\n";

#[test]
fn skills_are_listed_shown_and_run_from_the_command_line() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), "{host_id: skills}");
    // Where a node looks that is told nothing, whenever somebody asks.
    put(folder.path(), "data/skills/greet/SKILL.md", GREET);
    put(folder.path(), "data/skills/greet/words.md", "Hello");
    put(folder.path(), "data/skills/broken/SKILL.md", "nothing");
    let data = node.data();
    let data = data.to_str().unwrap();
    let skill =
        |arguments: &[&str]| frith(&[&["skill"], arguments, &["--data", data]].concat(), "");
    let (status, out, error) = skill(&["list"]);
    assert_eq!(status, 0, "{error}");
    assert!(
        out.contains("greet                    Greets somebody"),
        "{out}"
    );
    assert!(
        out.contains("broken                   BLOCKED: it must begin"),
        "{out}"
    );
    let (_, out, _) = skill(&["list", "social"]);
    assert!(out.contains("greet") && !out.contains("broken"), "{out}");
    let (_, out, _) = skill(&["show", "greet"]);
    for part in [
        "what       Greets somebody",
        "files      words.md",
        "Say hello to {args}",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    let (status, out, events) = skill(&["run", "greet", "Ada", "--events"]);
    assert_eq!(
        (status, out.trim()),
        (0, "Say hello to Ada, as in words.md.")
    );
    assert!(events.contains("llm.skipped"), "{events}");
    let (status, out, _) = skill(&["run", "greet", "{\"args\": \"Bob\"}", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &told["success"]), (0, &Value::Bool(true)));
    let (status, _, error) = skill(&["run", "gret"]);
    assert_eq!(status, 1);
    assert!(error.contains("did you mean `greet`?"), "{error}");
    // A changed one waits for the operator, who approves of it as of any tool.
    put(folder.path(), "data/skills/greet/words.md", "Other words");
    let (status, _, error) = skill(&["run", "greet"]);
    assert_eq!(status, 1);
    assert!(error.contains("frith tools pending"), "{error}");
    let (_, out, _) = frith(&["tools", "pending", "--json", "--data", data], "");
    let pending: Value = serde_json::from_str(&out).unwrap();
    let tool = &pending[0]["tool"];
    assert_eq!(tool["pin"], "skills/greet");
    let wish = format!("skills/greet@{}", tool["offered"].as_str().unwrap());
    let (status, _, error) = frith(&["tools", "approve", &wish, "--data", data], "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(skill(&["run", "greet", "Ada"]).0, 0);
    drop(node);
}

/// A text is the one input that a skill needs, whatever that is called.
#[test]
fn a_text_is_the_input_of_a_skill_that_names_its_own() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), "{host_id: skills}");
    let head = "---\nname: find\ndescription: Finds\ninputs:\n  topic: string What to find\n  \
        depth: integer? How deep\n---\n";
    let text = format!("{head}Find {{topic}}.\n");
    put(folder.path(), "data/skills/find/SKILL.md", &text);
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, out, error) = frith(&["skill", "run", "find", "a cat", "--data", data], "");
    assert_eq!((status, out.trim()), (0, "Find a cat."), "{error}");
    let (_, out, _) = frith(&["skill", "show", "find", "--data", data], "");
    for part in [
        "inputs     topic (string, required) What to find\n",
        "           depth (integer) How deep\n",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}

#[test]
fn skills_of_a_folder_are_checked_without_a_node() {
    let folder = tempdir().unwrap();
    put(folder.path(), "greet/SKILL.md", GREET);
    let path = folder.path().to_str().unwrap();
    let (status, out, error) = frith(&["skill", "check", path], "");
    assert_eq!(
        (status, out.trim()),
        (0, "greet/SKILL.md: `greet` is good"),
        "{error}"
    );
    put(
        folder.path(),
        "other/SKILL.md",
        "---\nname: no\ndescription: d\n---\n",
    );
    let (status, out, _) = frith(&["skill", "check", path], "");
    assert_eq!(status, 1);
    assert!(
        out.contains("other/SKILL.md: `name` must be that of its folder"),
        "{out}"
    );
    let one = folder.path().join("greet");
    assert_eq!(frith(&["skill", "check", one.to_str().unwrap()], "").0, 0);
}

#[test]
fn agents_must_not_write_where_skills_are() {
    let folder = tempdir().unwrap();
    fs::create_dir_all(folder.path().join("work/skills")).unwrap();
    let config = "workspace: work\nplugins: [{name: s, type: skills, folders: [work/skills]}]\n";
    fs::write(folder.path().join("frith.yaml"), config).unwrap();
    let (config, data) = (folder.path().join("frith.yaml"), folder.path().join("data"));
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    let (status, _, error) = frith(&["stdio", "--config", config, "--data", data], "");
    assert_eq!(status, 1);
    assert!(error.contains("agents could rewrite skills"), "{error}");
}

/// It has its arguments, what goes with it, the workspace, and nothing else.
#[test]
fn a_script_of_a_skill_runs_in_the_sandbox() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), "{host_id: skills}");
    put(
        folder.path(),
        "data/skills/count/skill.md",
        "---\nname: count\nrun: bin/count.sh\noutputs: {words: integer}\n---\nCounts {args}.\n",
    );
    let source = folder.path().join("data/skills/count/hint");
    let script = format!(
        "#!/bin/sh\nhere=$(dirname \"$0\")\ncat \"$here/../hint\" >&2\n\
         echo x 2>/dev/null > \"$here/new\" && exit 4\n\
         cat {} 2>/dev/null && exit 5\n\
         echo made > by-skill\n\
         input=$(cat)\ncase \"$input\" in *fail*) echo no luck >&2; exit 3;; esac\n\
         printf '{{\"words\": %d}}' $(echo \"$input\" | wc -w)\n",
        source.display()
    );
    put(folder.path(), "data/skills/count/bin/count.sh", &script);
    put(folder.path(), "data/skills/count/hint", "counting");
    let data = node.data();
    let data = data.to_str().unwrap();
    let skill =
        |arguments: &[&str]| frith(&[&["skill"], arguments, &["--data", data]].concat(), "");
    let (_, out, _) = skill(&["show", "count"]);
    assert!(out.contains("runs       bin/count.sh"), "{out}");
    let (status, out, events) = skill(&["run", "count", "one two three", "--events", "--json"]);
    assert_eq!(status, 0, "{out} {events}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["data"]["words"], 3, "{told}");
    assert!(events.contains("counting"), "{events}");
    let made = fs::read_to_string(node.data().join("workspace/by-skill")).unwrap();
    assert_eq!(made, "made\n");
    let (status, _, error) = skill(&["run", "count", "fail"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("exit code 3") && error.contains("no luck"),
        "{error}"
    );
    // A changed script is another skill, and the operator has not seen it.
    let other = script.replace("made", "other");
    put(folder.path(), "data/skills/count/bin/count.sh", &other);
    let (status, _, error) = skill(&["run", "count", "one"]);
    assert_eq!(status, 1);
    assert!(error.contains("frith tools pending"), "{error}");
    drop(node);
}
