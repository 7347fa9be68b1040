//! Environments from the command line, and beside those of Gymnasium.

use std::process::Command;

use serde_json::{Value, json};

use crate::node::Node;
use crate::terminal::AtTerminal;
use crate::{frith, frith_in};

/// Runs a part of `conformance/gymnasium_env.py` against a host with this configuration.
fn beside_gymnasium(what: &str, config: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frith.yaml");
    std::fs::write(&file, config).unwrap();
    let script = testkit::workspace().join("conformance/gymnasium_env.py");
    let output = Command::new(testkit::python())
        .arg(script)
        .args([what, env!("CARGO_BIN_EXE_frith"), "stdio", "--config"])
        .arg(&file)
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {text}");
}

const OURS: &str = "plugins: [{name: env, type: env}]\n";

fn with_gymnasium() -> String {
    let host = testkit::workspace().join("integrations/gymnasium/gymnasium_host.py");
    let names = [
        "CartPole-v1",
        "FrozenLake-v1",
        "Taxi-v4",
        "MountainCarContinuous-v0",
        "MountainCar-v0",
    ];
    let words = [json!(testkit::python()), json!(host)].into_iter();
    let words: Vec<Value> = words.chain(names.map(Value::from)).collect();
    let config = json!({"plugins": [
        {"name": "env", "type": "env"},
        {"name": "gymnasium", "type": "remote_plugin", "command": words, "capabilities": ["env"]},
    ]});
    config.to_string()
}

#[test]
fn spaces_are_schemas_and_back() {
    beside_gymnasium("spaces", OURS);
}

#[test]
fn cartpole_is_that_of_gymnasium() {
    beside_gymnasium("physics", OURS);
}

#[test]
fn the_checker_of_gymnasium_takes_ours() {
    beside_gymnasium("checker", OURS);
}

#[test]
fn states_of_texts_and_lists_are_spaces_too() {
    beside_gymnasium("others", OURS);
}

#[test]
fn pictures_can_be_read() {
    beside_gymnasium("pictures", OURS);
}

#[test]
fn environments_of_gymnasium_are_ours_too() {
    beside_gymnasium("mounted", &with_gymnasium());
}

#[test]
fn vectors_of_gymnasium_are_batches() {
    beside_gymnasium("vectors", &with_gymnasium());
}

#[test]
fn max_steps_replaces_the_limit_of_gymnasium() {
    beside_gymnasium("limits", &with_gymnasium());
}

#[test]
fn host_of_gymnasium_lists_within_a_limit_and_sends_json() {
    beside_gymnasium("host", OURS);
}

#[test]
fn environments_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (status, out, err) = frith_in(folder.path(), &["env", "list"], "");
    assert_eq!(status, 0, "{err}");
    for name in ["counter", "gridworld", "cartpole"] {
        assert!(out.lines().any(|line| line.starts_with(name)), "{out}");
    }
    let (_, out, _) = frith_in(folder.path(), &["env", "list", "--json"], "");
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all[0]["name"], "counter");
}

#[test]
fn a_game_is_played_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let options = r##"{"map": ["S.", "#G"]}"##;
    let play = ["env", "play", "gridworld", "--options", options];
    // A name, something that is no action, the suggestion, and no more is asked for.
    let (status, out, err) = frith_in(folder.path(), &play, "right\nfly\n\nup\n");
    assert_eq!(status, 0, "{err}");
    assert_eq!(
        out,
        "A.\n#G\nstep 0  reward 0  in all 0\n.A\n#G\nstep 1  reward -0.01  in all -0.01\n\
         ..\n#A\nstep 2  reward 1  in all 0.99\nover\n"
    );
    assert!(err.contains("an action is up, right, down, left"), "{err}");
    let (status, out, _) = frith_in(folder.path(), &["env", "play", "counter", "--json"], "1\n");
    assert_eq!(status, 0);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], json!({"count": 1}));
    let (status, _, err) = frith_in(folder.path(), &["env", "play", "nowhere"], "");
    assert_eq!(status, 1);
    assert!(err.contains("there is no environment `nowhere`"), "{err}");
}

/// Keys are actions, each frame is drawn anew, and the terminal is afterwards as it was.
#[test]
fn a_game_is_played_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let options = r##"{"map": ["S.", "#G"]}"##;
    let play = ["env", "play", "gridworld", "--options", options];
    let mut game = AtTerminal::start(folder.path(), 80, &play);
    let first = game.until("step 0  reward 0  in all 0");
    assert!(first.contains("\u{1b}[H\u{1b}[2JA.\r\n#G\r\n"), "{first}");
    assert!(!game.is_plain());
    game.press("\u{1b}[C");
    let right = game.until("step 1  reward -0.01");
    assert!(right.contains("\u{1b}[2J.A\r\n"), "{right}");
    game.press("x");
    game.until("an action is up, right, down, left");
    game.press("d");
    game.until("step 2  reward 1  in all 0.99\r\nover; R begins anew, q ends");
    game.press("R");
    game.until("step 0");
    // The way that is suggested leads to the end.
    game.press(" ");
    game.until("step 1");
    game.press(" ");
    game.until("over");
    game.press("q");
    assert!(game.ends_plain());
}

/// What a mounted host has is played as well, whether it can be drawn as text or not.
#[test]
fn games_of_gymnasium_are_played() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &with_gymnasium());
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, out, err) = frith(&["env", "list", "--data", data], "");
    assert_eq!(status, 0, "{err}");
    for name in ["counter", "FrozenLake-v1", "Taxi-v4"] {
        assert!(out.lines().any(|line| line.starts_with(name)), "{out}");
    }
    for (name, typed, shown) in [
        ("FrozenLake-v1", "1\n2\n", "FHFH"),
        ("Taxi-v4", "0\n1\n", "+---------+"),
        ("CartPole-v1", "0\n1\n", "{\"observation\": ["),
        (
            "MountainCarContinuous-v0",
            "[0.5]\n[-1]\n",
            "{\"observation\": [",
        ),
    ] {
        let play = ["env", "play", name, "--seed", "1", "--data", data];
        let (status, out, err) = frith(&play, typed);
        assert_eq!(status, 0, "{name}: {err}");
        assert!(
            out.contains(shown) && out.contains("step 1 "),
            "{name}: {out}"
        );
    }
}

/// Steps are experiences of whoever took them, if the configuration says so.
#[test]
fn a_game_can_be_learned_from() {
    let folder = tempfile::tempdir().unwrap();
    let config = "{host_id: plays, plugins: [{name: env, type: env, learn: true}, \
                  {name: learning, type: learning}]}";
    let node = Node::start(folder.path(), config);
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, _, err) = frith(&["env", "play", "counter", "--data", data], "inc\ninc\n");
    assert_eq!(status, 0, "{err}");
    let export = ["learn", "export", "--format", "reward", "--data", data];
    let (status, out, err) = frith(&export, "");
    assert_eq!(status, 0, "{err}");
    let steps: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let states: Vec<&Value> = steps.iter().map(|step| &step["state"]).collect();
    assert_eq!(states, [&json!({"count": 0}), &json!({"count": 1})]);
}

#[test]
fn nothing_is_learned_where_nobody_learns() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: env, type: env, learn: true}]\n";
    std::fs::write(folder.path().join("frith.yaml"), config).unwrap();
    let (status, _, err) = frith_in(folder.path(), &["stdio", "--config", "frith.yaml"], "");
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("needs a plugin of `type: learning`"), "{err}");
}
