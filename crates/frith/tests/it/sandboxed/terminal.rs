//! The environment `terminal`: a shell in the sandbox, seen as a screen.

use serde_json::{Value, json};

use crate::node::{Node, Wire};

const CONFIG: &str = "plugins: [{name: env, type: env}]\n";

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["env"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn reset(wire: &mut Wire, id: &str, options: &Value) -> Value {
    wire.ask(
        &json!({"type": "env/reset/req", "id": id, "env_name": "terminal", "options": options}),
    )
}

fn step(wire: &mut Wire, id: &str, episode: &Value, action: &Value) -> Value {
    wire.ask(&json!({"type": "env/step/req", "id": id, "episode_id": episode, "action": action}))
}

#[test]
fn commands_and_keys_change_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let options = json!({"rows": 10, "cols": 40, "setup": "rm -f solved; echo there > found.txt",
        "check": "test -f solved"});
    let first = reset(&mut wire, "1", &options);
    let episode = &first["obs"]["episode_id"];
    assert_eq!(first["obs"]["state"]["screen"], "$", "{first}");
    let ran = step(
        &mut wire,
        "2",
        episode,
        &json!({"command": "cat found.txt; tput cols"}),
    );
    let state = &ran["obs"]["state"];
    let screen = state["screen"].as_str().unwrap();
    assert!(
        screen.starts_with("$ cat found.txt; tput cols\nthere\n"),
        "{screen}"
    );
    assert!(screen.ends_with("\n$"), "{screen}");
    assert_eq!(
        (&ran["obs"]["reward"], &ran["obs"]["done"]),
        (&json!(0.0), &json!(false))
    );
    let failed = step(
        &mut wire,
        "3",
        episode,
        &json!({"command": "sh -c 'exit 3'"}),
    );
    assert_eq!(failed["obs"]["state"]["exit_code"], 3, "{failed}");
    // A program that takes the keys, and Ctrl-C that ends it.
    step(
        &mut wire,
        "4",
        episode,
        &json!({"command": "clear; cat", "wait_seconds": 0.2}),
    );
    let typed = step(&mut wire, "5", episode, &json!({"action": "hello\n"}));
    assert_eq!(typed["obs"]["state"]["screen"], "hello\nhello", "{typed}");
    step(
        &mut wire,
        "6",
        episode,
        &json!({"type": "keys", "payload": {"keys": "\u{3}"}}),
    );
    let solved = step(&mut wire, "7", episode, &json!({"command": "touch solved"}));
    assert_eq!(
        (&solved["obs"]["reward"], &solved["obs"]["done"]),
        (&json!(1.0), &json!(true))
    );
    let render =
        json!({"type": "env/render/req", "id": "8", "episode_id": episode, "mode": "text"});
    let shown = wire.ask(&render);
    assert!(
        shown["render"].as_str().unwrap().contains("touch solved"),
        "{shown}"
    );
}

/// What a program draws is where a person would see it, and what was there before it comes back.
#[test]
fn programs_draw_as_on_other_terminals() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let program = r"printf '\033[?1049h\033[Hits own screen\033[?1049l'
printf '東\033[3G<\n\033(0lqk\033(B-\033[2b\n'
printf '\033]0;a title that does not end\n'";
    let setup = format!("cat > draw.sh <<'END'\n{program}\nEND");
    let first = reset(&mut wire, "1", &json!({"setup": setup}));
    let episode = &first["obs"]["episode_id"];
    let drawn = step(
        &mut wire,
        "2",
        episode,
        &json!({"command": "sh draw.sh", "wait_seconds": 60}),
    );
    assert_eq!(
        drawn["obs"]["state"]["screen"], "$ sh draw.sh\n東<\n┌─┐---\n$",
        "{drawn}"
    );
}

#[test]
fn a_shell_that_ends_ends_the_episode() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let first = reset(&mut wire, "1", &json!({}));
    let episode = &first["obs"]["episode_id"];
    let ended = step(&mut wire, "2", episode, &json!({"command": "exit"}));
    assert_eq!(
        (&ended["obs"]["done"], &ended["obs"]["state"]["exited"]),
        (&json!(true), &json!(1))
    );
    let closed = wire.ask(&json!({"type": "env/close/req", "id": "3", "episode_id": episode}));
    assert_eq!(closed["closed"], true);
    for (id, options) in [
        ("4", json!({"rows": 0})),
        ("5", json!({"cols": 401})),
        ("6", json!({"cwd": "../.."})),
    ] {
        let refused = reset(&mut wire, id, &options);
        assert_eq!(refused["code"], "schema_violation", "{refused}");
    }
    let refused = reset(&mut wire, "7", &json!({"setup": "false"}));
    assert_eq!(refused["code"], "runtime_error", "{refused}");
    assert_eq!(
        reset(&mut wire, "8", &json!({"rows": 200, "cols": 400}))["type"],
        "env/reset/resp"
    );
}

/// Two commands that wait for each other end only if both run at once.
#[test]
fn a_batch_runs_in_parallel() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let one = reset(&mut wire, "1", &json!({"setup": "rm -f pipe; mkfifo pipe"}));
    let two = reset(&mut wire, "2", &json!({}));
    let ids = [&one["obs"]["episode_id"], &two["obs"]["episode_id"]];
    let batch = wire.ask(&json!({"type": "env/batch_step/req", "id": "3", "episode_ids": ids,
        "actions": [{"command": "cat pipe", "wait_seconds": 60}, {"command": "echo met > pipe", "wait_seconds": 60}]}));
    let screens: Vec<_> = batch["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["obs"]["state"]["screen"])
        .collect();
    assert_eq!(
        screens,
        ["$ cat pipe\nmet\n$", "$ echo met > pipe\n$"],
        "{batch}"
    );
}

/// The answer to a request; pushes come in between.
fn answer(wire: &mut Wire, request: &Value) -> Value {
    wire.say(request);
    loop {
        let heard = wire.hear().unwrap();
        if heard["req_id"] == request["id"] {
            return heard;
        }
    }
}

/// What comes between steps is pushed to who wants it.
#[test]
fn changes_between_steps_are_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let options = json!({"push": true, "setup": "rm -f go; mkfifo go"});
    let first = reset(&mut wire, "1", &options);
    let episode = &first["obs"]["episode_id"];
    let listen = json!({"type": "env/step/req", "id": "2", "episode_id": episode,
        "action": {"command": "cat go &"}});
    assert_eq!(answer(&mut wire, &listen)["type"], "env/step/resp");
    let begin = json!({"type": "env/reset/req", "id": "3", "env_name": "terminal"});
    let other = answer(&mut wire, &begin)["obs"]["episode_id"].clone();
    wire.say(
        &json!({"type": "env/step/req", "id": "4", "episode_id": other,
        "action": {"command": "echo knock > go"}}),
    );
    loop {
        let heard = wire.hear().unwrap();
        let pushed = heard["type"] == "env/state_push" && heard["episode_id"] == *episode;
        if pushed && heard["delta"]["screen"].as_str().unwrap().contains("knock") {
            assert_eq!(heard["event_type"], "Observation");
            break;
        }
    }
}
