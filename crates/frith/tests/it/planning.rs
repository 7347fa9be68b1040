//! `frith plan`: a board that a person can read, of plans that outlive the node.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::frith;
use crate::node::Node;

/// A node as one has it that is told nothing.
const CONFIG: &str = "{host_id: plans}";

#[test]
fn plans_are_made_and_read_from_the_command_line() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let data = node.data();
    let data = data.to_str().unwrap();
    let plan = |arguments: &[&str]| {
        let all = [&["plan"], arguments, &["--data", data]].concat();
        frith(&all, "")
    };
    let good = |arguments: &[&str]| {
        let (status, out, error) = plan(arguments);
        assert_eq!(status, 0, "{arguments:?}: {error}");
        out
    };
    assert!(good(&["list"]).contains("`frith plan create NAME` makes one"));
    let id = good(&["create", "House", "--columns", "todo,doing,done"]);
    let first = good(&["add", "House", "Buy paint"]);
    let (first, id) = (first.trim(), id.trim());
    let (_, second, note) = plan(&[
        "add",
        id,
        "Paint",
        "--after",
        "Buy paint",
        "--assignee",
        "ada",
    ]);
    assert_eq!(note.trim(), format!("it is blocked by {first}"));
    let board = good(&["board", "House"]);
    for part in [
        "House  ",
        "todo (2)",
        "doing (0)",
        "Buy paint",
        "@ada (blocked)",
    ] {
        assert!(board.contains(part), "{part} is not in\n{board}");
    }
    assert_eq!(
        good(&["move", id, &first[..6], "done"]),
        "`Buy paint` is in done\n"
    );
    assert!(!good(&["board"]).contains("blocked"));
    let shown = good(&["show", "House", first]);
    assert!(shown.contains("status       todo → done"), "{shown}");
    let listed = good(&["show", id, "--json"]);
    let tasks: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(tasks[0]["task_id"], json!(second.trim()));
    assert_eq!(tasks[1]["status"], "done");
    let (status, _, error) = plan(&["board", "Boat"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("there is no plan `Boat`; `frith plan list` shows all"),
        "{error}"
    );
    let (status, _, error) = plan(&["move", id, "nothing", "done"]);
    assert_eq!(status, 1);
    assert!(error.contains("there is no task `nothing`"), "{error}");
    // A column is not made by a slip of the finger.
    for wrong in [
        ["move", id, first, "dune"].as_slice(),
        &["add", id, "Wait", "--column", "dune"],
    ] {
        let (status, _, error) = plan(wrong);
        assert_eq!(status, 1);
        let said = "`House` has no column `dune`; did you mean `done`? --new-column makes one";
        assert!(error.contains(said), "{error}");
    }
    good(&["move", id, first, "later", "--new-column"]);
    assert!(good(&["board", id]).contains("later (1)"));
    // They are there after the node was killed.
    node.crash();
    let node = Node::start(folder.path(), CONFIG);
    assert!(good(&["list"]).contains("2 tasks    House"));
    assert_eq!(good(&["remove", "House"]), "removed `House`\n");
    assert!(good(&["board"]).contains("there are no plans"));
    drop(node);
}
