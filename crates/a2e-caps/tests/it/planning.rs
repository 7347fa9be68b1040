//! Plans, as other A2E clients see them (a2e-behaviour, section 4, planning; a2e-conflicts, rows 184
//! to 189).

use a2e_caps::Placement;
use a2e_caps::planning::{
    MAX_ASSIGNEE, MAX_COLUMN, MAX_COLUMNS, MAX_DEPS, MAX_DESCRIPTION, MAX_METADATA,
    MAX_PLAN_DESCRIPTION, MAX_PLAN_NAME, MAX_TITLE, Planning, Sharing,
};
use a2e_runtime::Host;
use serde_json::{Value, json};
use store::Store;

use crate::vault::{Named, store};
use crate::wire::Agent;

fn host(store: &Store, sharing: Sharing) -> Host {
    let planning = Planning::new(store.clone(), sharing, Placement::named("planning"));
    let builder = Host::builder().plugin(planning);
    builder.authenticator(Named).build()
}

async fn agent(host: &Host, name: &str) -> Agent {
    Agent::connect_as(host, name, &["planning"]).await
}

async fn on_own_plans() -> Agent {
    agent(&host(&store(), Sharing::Own), "ada").await
}

async fn create(agent: &mut Agent, name: &str) -> String {
    let made = agent
        .ask(json!({"type": "planning/plan/create", "name": name}))
        .await;
    assert_eq!(made["success"], true, "{made}");
    made["plan_id"].as_str().unwrap().to_owned()
}

async fn add(agent: &mut Agent, plan: &str, title: &str, more: Value) -> Value {
    let mut request = json!({"type": "planning/task/add", "plan_id": plan, "title": title});
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    agent.ask(request).await
}

async fn add_id(agent: &mut Agent, plan: &str, title: &str, more: Value) -> String {
    let added = add(agent, plan, title, more).await;
    assert_eq!(added["success"], true, "{added}");
    added["task_id"].as_str().unwrap().to_owned()
}

async fn update(agent: &mut Agent, plan: &str, task: &str, more: Value) -> Value {
    let mut request = json!({"type": "planning/task/update", "plan_id": plan, "task_id": task});
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    agent.ask(request).await
}

async fn board(agent: &mut Agent, plan: &str) -> Value {
    let asked = json!({"type": "planning/plan/board", "plan_id": plan});
    let boards = agent.ask(asked).await;
    assert_eq!(boards["type"], "planning/plan/board/resp");
    boards["boards"].clone()
}

/// The titles of a column of the only board.
async fn column(agent: &mut Agent, plan: &str, column: &str) -> Vec<String> {
    let boards = board(agent, plan).await;
    let tasks = boards[0]["tasks"][column].as_array().unwrap().iter();
    tasks
        .map(|it| it["title"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_plan_has_the_four_columns_or_its_own() {
    let mut agent = on_own_plans().await;
    let made = agent
        .ask(json!({"type": "planning/plan/create/req", "name": "one", "columns": []}))
        .await;
    assert_eq!(made["type"], "planning/plan/create/resp");
    assert_eq!(
        made["columns"],
        json!(["backlog", "todo", "in_progress", "done"])
    );
    let id = made["plan_id"].as_str().unwrap();
    assert!(
        id.len() == 12 && id.bytes().all(|it| it.is_ascii_hexdigit()),
        "{id}"
    );
    let own = json!({"type": "planning/plan/create", "name": "two", "columns": ["a", "z"],
        "description": "why"});
    let other = agent.ask(own).await["plan_id"].clone();
    let list = agent.ask(json!({"type": "planning/plan/list"})).await;
    assert_eq!(list["plans"][0]["plan_id"], made["plan_id"]);
    assert_eq!(list["plans"][1]["plan_id"], other);
    assert_eq!(list["plans"][1]["columns"], json!(["a", "z"]));
    assert_eq!(list["plans"][1]["description"], "why");
    assert_eq!(list["plans"][1]["tasks"], 0);
}

#[tokio::test]
async fn a_board_has_every_column_and_one_for_a_foreign_status() {
    let mut agent = on_own_plans().await;
    let plan = create(&mut agent, "p").await;
    let first = add_id(&mut agent, &plan, "first", json!({"assignee": "ada"})).await;
    add_id(&mut agent, &plan, "second", json!({"status": "done"})).await;
    add_id(&mut agent, &plan, "odd", json!({"status": "limbo"})).await;
    let boards = board(&mut agent, &plan).await;
    let columns = json!(["backlog", "todo", "in_progress", "done", "limbo"]);
    assert_eq!(boards[0]["columns"], columns);
    assert_eq!(
        (&boards[0]["plan_id"], &boards[0]["name"]),
        (&json!(plan), &json!("p"))
    );
    assert_eq!(boards[0]["tasks"]["todo"], json!([]));
    let task = json!({"task_id": first, "title": "first", "status": "backlog", "assignee": "ada",
        "blocked_by": [], "version": 1});
    assert_eq!(boards[0]["tasks"]["backlog"], json!([task]));
    create(&mut agent, "q").await;
    assert_eq!(board(&mut agent, "").await.as_array().unwrap().len(), 2);
    assert_eq!(board(&mut agent, "unknown").await, json!([]));
}

/// A plan with columns of its own has no `backlog`: a task without a status begins in its first one.
#[tokio::test]
async fn a_task_without_status_begins_in_the_first_column() {
    let mut agent = on_own_plans().await;
    let own = json!({"type": "planning/plan/create", "name": "own", "columns": ["new", "done"]});
    let plan = agent.ask(own).await["plan_id"].clone();
    let add = json!({"type": "planning/task/add", "plan_id": plan, "title": "t"});
    let added = agent.ask(add).await;
    assert_eq!(
        (&added["success"], &added["status"]),
        (&json!(true), &json!("new"))
    );
    let boards = board(&mut agent, plan.as_str().unwrap()).await;
    assert_eq!(boards[0]["columns"], json!(["new", "done"]));
}

#[tokio::test]
async fn tasks_are_listed_by_plan_and_status() {
    let mut agent = on_own_plans().await;
    let (one, two) = (create(&mut agent, "1").await, create(&mut agent, "2").await);
    for (plan, title, status) in [
        (&one, "a", "done"),
        (&one, "b", "todo"),
        (&two, "c", "done"),
    ] {
        add_id(&mut agent, plan, title, json!({"status": status})).await;
    }
    let mut titles = async |request: Value| -> Vec<String> {
        let list = agent.ask(request).await;
        let tasks = list["tasks"].as_array().unwrap().iter();
        tasks
            .map(|it| it["title"].as_str().unwrap().to_owned())
            .collect()
    };
    let list = |plan: &str, status: &str| json!({"type": "planning/task/list", "plan_id": plan, "status": status});
    // By column, not in the order they came.
    assert_eq!(titles(list(&one, "")).await, ["b", "a"]);
    assert_eq!(titles(list("", "done")).await, ["a", "c"]);
    assert_eq!(titles(list("", "")).await, ["b", "a", "c"]);
    assert_eq!(titles(list("unknown", "")).await, [""; 0]);
}

#[tokio::test]
async fn an_update_changes_what_is_not_empty() {
    let mut agent = on_own_plans().await;
    let plan = create(&mut agent, "p").await;
    let other = add_id(&mut agent, &plan, "other", json!({})).await;
    let more =
        json!({"assignee": "ada", "deps": [other], "description": "d", "metadata": {"k": 1}});
    let task = add_id(&mut agent, &plan, "t", more).await;
    let same = update(&mut agent, &plan, &task, json!({})).await;
    assert_eq!(
        (&same["success"], &same["task_id"]),
        (&json!(true), &json!(task))
    );
    assert_eq!(same["task"]["version"], 1);
    let moved = update(&mut agent, &plan, &task, json!({"status": "done"})).await;
    assert_eq!(moved["task"]["assignee"], "ada");
    assert_eq!(moved["task"]["deps"], json!([other]));
    let clear = json!({"clear": ["assignee", "deps"], "title": "new"});
    let cleared = update(&mut agent, &plan, &task, clear).await;
    assert_eq!(cleared["task"]["assignee"], "");
    assert_eq!(cleared["task"]["deps"], json!([]));
    assert_eq!(cleared["task"]["title"], "new");
    let asked = json!({"type": "planning/task/list", "plan_id": plan, "task_id": task});
    let full = agent.ask(asked).await["tasks"][0].clone();
    assert_eq!(
        (&full["description"], &full["metadata"]),
        (&json!("d"), &json!({"k": 1}))
    );
    let history = full["history"].as_array().unwrap();
    let fields: Vec<&Value> = history.iter().map(|change| &change["field"]).collect();
    assert_eq!(fields, ["added", "status", "title", "assignee", "deps"]);
    assert_eq!(
        (&history[1]["before"], &history[1]["after"]),
        (&json!("backlog"), &json!("done"))
    );
    assert_eq!(history[1]["by"], "ada");
    // What is not there.
    let unknown = update(&mut agent, &plan, "x", json!({"status": "done"})).await;
    assert_eq!(
        (&unknown["success"], &unknown["type"]),
        (&json!(false), &json!("planning/task/update/resp"))
    );
    assert!(
        unknown["error"].as_str().unwrap().contains("no such task"),
        "{unknown}"
    );
    let lost = add(&mut agent, "x", "t", json!({})).await;
    assert_eq!(
        (&lost["success"], &lost["error"]),
        (&json!(false), &json!("there is no such plan"))
    );
}

#[tokio::test]
async fn what_waits_for_others_says_so_and_nothing_waits_for_itself() {
    let mut agent = on_own_plans().await;
    let plan = create(&mut agent, "p").await;
    let first = add_id(&mut agent, &plan, "first", json!({})).await;
    let second = add(&mut agent, &plan, "second", json!({"deps": [first]})).await;
    assert_eq!(second["blocked_by"], json!([first]));
    let second = second["task_id"].as_str().unwrap().to_owned();
    let boards = board(&mut agent, &plan).await;
    assert_eq!(
        boards[0]["tasks"]["backlog"][1]["blocked_by"],
        json!([first])
    );
    // Nobody is stopped by it.
    let moved = update(&mut agent, &plan, &second, json!({"status": "in_progress"})).await;
    assert_eq!(moved["task"]["blocked_by"], json!([first]));
    update(&mut agent, &plan, &first, json!({"status": "done"})).await;
    let free = update(&mut agent, &plan, &second, json!({})).await;
    assert_eq!(free["task"]["blocked_by"], json!([]));
    let cycle = update(&mut agent, &plan, &first, json!({"deps": [second]})).await;
    assert_eq!(cycle["success"], false);
    let path = format!("{first} needs {second} needs {first}");
    assert!(cycle["error"].as_str().unwrap().ends_with(&path), "{cycle}");
    let unknown = add(&mut agent, &plan, "third", json!({"deps": ["nowhere"]})).await;
    assert!(
        unknown["error"].as_str().unwrap().contains("`nowhere`"),
        "{unknown}"
    );
    assert_eq!(column(&mut agent, &plan, "done").await, ["first"]);
}

#[tokio::test]
async fn of_two_agents_that_move_a_task_one_wins() {
    let host = host(&store(), Sharing::All);
    let (mut ada, mut bob) = (agent(&host, "ada").await, agent(&host, "bob").await);
    let plan = create(&mut ada, "p").await;
    let task = add_id(&mut ada, &plan, "t", json!({})).await;
    // Both have seen the first version.
    let go = |status: &str| json!({"status": status, "seen_version": 1});
    let (one, other) = tokio::join!(
        update(&mut ada, &plan, &task, go("todo")),
        update(&mut bob, &plan, &task, go("done"))
    );
    let (won, lost) = match one["success"] == true {
        true => (one, other),
        false => (other, one),
    };
    assert_eq!(
        (&won["success"], &lost["success"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(lost["task"], won["task"]);
    assert_eq!(lost["task"]["version"], 2);
    assert!(
        lost["error"].as_str().unwrap().contains("at version 2"),
        "{lost}"
    );
    // With what it is told now it can go on.
    let status = if won["task"]["status"] == "todo" {
        "done"
    } else {
        "todo"
    };
    let again = update(
        &mut bob,
        &plan,
        &task,
        json!({"status": status, "seen_version": 2}),
    )
    .await;
    assert_eq!(again["success"], true, "{again}");
}

#[tokio::test]
async fn the_order_within_a_column_is_kept() {
    let mut agent = on_own_plans().await;
    let plan = create(&mut agent, "p").await;
    let mut ids = Vec::new();
    for title in ["a", "b", "c"] {
        ids.push(add_id(&mut agent, &plan, title, json!({"status": "todo"})).await);
    }
    update(&mut agent, &plan, &ids[2], json!({"position": 0})).await;
    assert_eq!(column(&mut agent, &plan, "todo").await, ["c", "a", "b"]);
    update(&mut agent, &plan, &ids[0], json!({"position": 1_000_000})).await;
    assert_eq!(column(&mut agent, &plan, "todo").await, ["c", "b", "a"]);
    let wrong = update(&mut agent, &plan, &ids[0], json!({"position": -1})).await;
    assert_eq!(wrong["error"], "`position` counts from 0");
}

/// Every verb, tried by another agent and then by another session of the same one.
#[tokio::test]
async fn plans_are_an_agents_own_across_its_sessions() {
    let host = host(&store(), Sharing::Own);
    let mut ada = agent(&host, "ada").await;
    let plan = create(&mut ada, "p").await;
    let task = add_id(&mut ada, &plan, "t", json!({})).await;
    let mut bob = agent(&host, "bob").await;
    let list = bob.ask(json!({"type": "planning/plan/list"})).await;
    assert_eq!(list["plans"], json!([]));
    assert_eq!(board(&mut bob, &plan).await, json!([]));
    assert_eq!(add(&mut bob, &plan, "u", json!({})).await["success"], false);
    let moved = update(&mut bob, &plan, &task, json!({"status": "done"})).await;
    assert_eq!(
        (&moved["success"], &moved["task"]),
        (&json!(false), &Value::Null)
    );
    for more in [
        json!({}),
        json!({"plan_id": plan}),
        json!({"plan_id": plan, "task_id": task}),
    ] {
        let mut request = more;
        request["type"] = json!("planning/task/list");
        assert_eq!(bob.ask(request).await["tasks"], json!([]));
    }
    let remove = json!({"type": "planning/plan/remove", "plan_id": plan});
    assert_eq!(bob.ask(remove.clone()).await["success"], false);
    let mut later = agent(&host, "ada").await;
    later.ids = "S";
    assert_eq!(column(&mut later, &plan, "backlog").await, ["t"]);
    let removed = later.ask(remove.clone()).await;
    assert_eq!(removed["type"], "planning/plan/remove/resp");
    assert_eq!(
        (&removed["success"], &removed["error"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(later.ask(remove).await["success"], false);
    assert_eq!(board(&mut ada, "").await, json!([]));
}

/// Each limit, at it and one past it.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one limit after the other")]
async fn plans_and_tasks_have_limits() {
    let mut agent = on_own_plans().await;
    let text = |length: usize| json!("x".repeat(length));
    let columns = |count: usize| {
        (0..count)
            .map(|it| json!(it.to_string()))
            .collect::<Value>()
    };
    let plans = [
        ("name", text(MAX_PLAN_NAME), text(MAX_PLAN_NAME + 1)),
        (
            "description",
            text(MAX_PLAN_DESCRIPTION),
            text(MAX_PLAN_DESCRIPTION + 1),
        ),
        ("columns", columns(MAX_COLUMNS), columns(MAX_COLUMNS + 1)),
        (
            "columns",
            json!([text(MAX_COLUMN)]),
            json!([text(MAX_COLUMN + 1)]),
        ),
        ("columns", json!(["a", "b"]), json!(["a", "b", "a"])),
        ("columns", json!(["a"]), json!(["a\n"])),
        ("name", json!("a"), json!(" ")),
    ];
    for (field, good, bad) in plans {
        for (value, success) in [(good, true), (bad, false)] {
            let request = json!({"type": "planning/plan/create", "name": "p", field: value});
            let made = agent.ask(request).await;
            assert_eq!(made["success"], success, "{field}: {made}");
            let is_named = made["error"].as_str().is_some_and(|it| it.contains(field));
            assert_eq!(is_named, !success, "{made}");
        }
    }
    let plan = create(&mut agent, "p").await;
    let mut ids = Vec::new();
    for _ in 0..=MAX_DEPS {
        ids.push(json!(add_id(&mut agent, &plan, "t", json!({})).await));
    }
    // With its braces, name and quotes.
    let metadata = |length: usize| json!({"k": "x".repeat(length - 8)});
    let tasks = [
        ("title", text(MAX_TITLE), text(MAX_TITLE + 1)),
        ("status", text(MAX_COLUMN), text(MAX_COLUMN + 1)),
        ("assignee", text(MAX_ASSIGNEE), text(MAX_ASSIGNEE + 1)),
        (
            "description",
            text(MAX_DESCRIPTION),
            text(MAX_DESCRIPTION + 1),
        ),
        (
            "metadata",
            metadata(MAX_METADATA),
            metadata(MAX_METADATA + 1),
        ),
        ("deps", json!(ids[..MAX_DEPS]), json!(ids)),
        ("assignee", json!("a b"), json!("a\u{1b}")),
    ];
    for (field, good, bad) in tasks {
        for (value, success) in [(good, true), (bad, false)] {
            let added = add(&mut agent, &plan, "t", json!({field: value})).await;
            assert_eq!(added["success"], success, "{field}: {added}");
            let task = match added["task_id"].as_str().unwrap() {
                "" => ids[0].as_str().unwrap().to_owned(),
                id => id.to_owned(),
            };
            // `deps` of the first task may not name itself.
            if field == "deps" {
                continue;
            }
            let updated = update(&mut agent, &plan, &task, json!({field: value})).await;
            assert_eq!(updated["success"], success, "{field}: {updated}");
        }
    }
    let wrong = update(
        &mut agent,
        &plan,
        ids[0].as_str().unwrap(),
        json!({"clear": ["title"]}),
    );
    let wrong = wrong.await;
    assert!(
        wrong["error"]
            .as_str()
            .unwrap()
            .starts_with("`clear` may name"),
        "{wrong}"
    );
}
