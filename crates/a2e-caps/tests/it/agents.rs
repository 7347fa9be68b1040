//! Sub-agents, as other A2E clients see them (a2e-behaviour, section 4, subagents; a2e-conflicts, rows
//! 176 to 183).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2e_caps::Placement;
use a2e_caps::agents::{Agents, Forest, Limits, MAX_CONFIG, MAX_INBOX, MAX_MESSAGE, Shop};
use a2e_caps::memory::{Memory, Settings as MemorySettings};
use a2e_caps::model::{ModelSettings, Models};
use a2e_caps::shares::{Kind, Shares};
use a2e_caps::tool::{Catalogue, Source, Tool};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_caps::workplace::Workplace;
use a2e_runtime::{Host, HostBuilder};
use a2e_wire::{Capability, Tag};
use serde_json::{Value, json};

use crate::model_double::{Double, says, wants};
use crate::support::{Gate, constant, counting, defined};
use crate::vault::{Named, store};
use crate::wire::Agent;

pub(crate) const LIMITS: Limits = Limits {
    depth: 3,
    agents: 10,
    steps: 100,
    tokens: 1000,
    timeout: Duration::from_secs(60),
};

/// A host whose agents may have agents.
pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) forest: Arc<Forest>,
}

impl Bench {
    pub(crate) fn new(models: Arc<Models>, limits: Limits) -> Self {
        Self::with(models, limits, Vec::new())
    }

    pub(crate) fn with(models: Arc<Models>, limits: Limits, more: Vec<Arc<dyn Tool>>) -> Self {
        Self::replacing(Arc::default(), models, limits, more)
    }

    /// A host that another configuration made in place of one that showed its sub-agents here.
    fn replacing(
        forest: Arc<Forest>,
        models: Arc<Models>,
        limits: Limits,
        more: Vec<Arc<dyn Tool>>,
    ) -> Self {
        let host = Self::builder(&forest, models, limits, more).build();
        Self { host, forest }
    }

    fn builder(
        forest: &Arc<Forest>,
        models: Arc<Models>,
        limits: Limits,
        more: Vec<Arc<dyn Tool>>,
    ) -> HostBuilder {
        // This process starts none, and need not be told how.
        sandbox::enter_if_asked();
        let catalogue = Arc::new(Catalogue::default());
        let mut tools = vec![constant(defined("grep"), json!({"found": 1}))];
        tools.extend(more);
        assert_eq!(catalogue.set(Source::BuiltIn, tools), []);
        let tools = Tools::new(catalogue, ToolSettings::default()).unwrap();
        let shop = Arc::new(Shop {
            models,
            commands: BTreeMap::new(),
            workplace: Arc::new(Workplace {
                launcher: sandbox::Launcher::none().unwrap(),
                profile: sandbox::Profile::default(),
                folder: std::env::temp_dir(),
                commands: Shares::new(Kind::Commands, 8),
            }),
        });
        let placement = Placement::named("agents");
        let agents = Agents::new(shop, limits, Arc::clone(forest), placement);
        let memory = Memory::new(store(), MemorySettings::default());
        let builder = Host::builder().plugin(tools).plugin(memory);
        builder.plugin(agents).authenticator(Named)
    }

    pub(crate) async fn agent(&self) -> Agent {
        self.agent_named("ada").await
    }

    pub(crate) async fn agent_named(&self, name: &str) -> Agent {
        Agent::connect_as(&self.host, name, &["multi_agent", "tools", "memory"]).await
    }
}

/// Ends a session, and waits until its sub-agents are gone.
async fn leave(bench: &Bench, mut agent: Agent) {
    let listed = agent.ask(json!({"type": "multi_agent/list"})).await;
    let listed = listed["subagents"].as_array().unwrap().iter();
    let ids: Vec<String> = listed
        .map(|it| it["subagent_id"].as_str().unwrap().to_owned())
        .collect();
    agent
        .say(json!({"type": "shutdown", "reason": "done"}))
        .await;
    drop(agent);
    while ids.iter().any(|id| bench.forest.find(id).is_some()) {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn spawn(agent: &mut Agent, more: Value) -> String {
    let mut request = json!({"type": "multi_agent/spawn", "name": "helper"});
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    let made = agent.ask(request).await;
    assert_eq!(made["type"], "multi_agent/spawn/resp");
    let id = made["subagent_id"].as_str().unwrap();
    let expected = if id.is_empty() { "FAILED" } else { "READY" };
    assert_eq!(made["status"], expected);
    id.to_owned()
}

pub(crate) async fn delegate(agent: &mut Agent, id: &str) -> Value {
    let request = json!({"type": "multi_agent/delegate", "subagent_id": id, "task_name": "t",
        "instruction": "Find otters", "success_criteria": ["two"]});
    agent.ask(request).await
}

pub(crate) async fn rest(agent: &mut Agent, id: &str) -> Value {
    agent
        .ask(json!({"type": "multi_agent/await", "subagent_id": id}))
        .await
}

/// What a sub-agent ends with.
pub(crate) async fn outcome(agent: &mut Agent, more: Value) -> Value {
    let id = spawn(agent, more).await;
    assert_eq!(delegate(agent, &id).await["accepted"], true);
    rest(agent, &id).await
}

/// A model that never answers.
async fn silent() -> (tokio::net::TcpListener, Arc<Models>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let web = a2e_caps::http::Client::new(a2e_caps::http::Settings::default());
    let web = a2e_caps::http::Web::new(web, &[format!("127.0.0.1:{port}")]).unwrap();
    let settings = ModelSettings {
        url: format!("http://127.0.0.1:{port}"),
        model: "small".into(),
        key: None,
        timeout: Duration::from_secs(3600),
        max_answer_tokens: 10,
        max_tokens: 1000,
        allow_override: false,
    };
    let model = a2e_caps::model::Model::new(settings, &web).unwrap();
    (
        listener,
        Arc::new(Models::new([("default".to_owned(), model)])),
    )
}

/// Proves H-20, N-17.
#[tokio::test]
async fn a_model_does_a_task_with_the_tools_it_was_given() {
    let calls = [("grep", "{}"), ("danger", "{}")];
    let double = Double::start(vec![wants(&calls, 10), says(&["two otters"], 20)]).await;
    let (danger, count) = counting(defined("danger"));
    let models = double.models(double.settings());
    let bench = Bench::with(models, LIMITS, vec![danger]);
    let mut agent = bench.agent().await;
    let id = spawn(
        &mut agent,
        json!({"role": "finder", "metadata": {"tools": ["grep"]}}),
    )
    .await;
    assert!(id.starts_with("sub_") && id.len() == 12, "{id}");
    // Without a task, how it is.
    assert_eq!(rest(&mut agent, &id).await["status"], "READY");
    let begun = delegate(&mut agent, &id).await;
    assert_eq!(
        (&begun["accepted"], &begun["status"]),
        (&json!(true), &json!("RUNNING"))
    );
    let ended = rest(&mut agent, &id).await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("COMPLETED"), &Value::Null)
    );
    assert_eq!(ended["result"]["text"], "two otters");
    assert_eq!(ended["result"]["tokens"], 30);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let asked = double.asked();
    let system = asked[0].1["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("finder"), "{system}");
    let user = asked[0].1["messages"][1]["content"].as_str().unwrap();
    assert_eq!(user, "Find otters\nIt is done when: two");
    let told = asked[1].1["messages"].as_array().unwrap();
    assert_eq!(told[3]["content"], "{\"found\":1}");
    assert!(
        told[4]["content"]
            .as_str()
            .unwrap()
            .contains("no such tool")
    );
    // Row 183: a task is given once.
    let again = delegate(&mut agent, &id).await;
    assert_eq!(
        (&again["accepted"], &again["status"]),
        (&json!(false), &json!("COMPLETED"))
    );
    let list = agent.ask(json!({"type": "multi_agent/list"})).await;
    assert_eq!(list["subagents"][0]["subagent_id"], json!(id));
    assert_eq!(list["subagents"][0]["status"], "COMPLETED");
    let ended = json!({"type": "multi_agent/terminate", "subagent_id": id});
    let ended = agent.ask(ended).await;
    assert_eq!(
        (&ended["success"], &ended["subagent_id"]),
        (&json!(true), &json!(id))
    );
    assert_eq!(rest(&mut agent, &id).await["status"], "TERMINATED");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn the_older_vocabulary_is_answered_in_kind_and_has_events() {
    let double = Double::start(vec![says(&["yes"], 5)]).await;
    let bench = Bench::new(double.models(double.settings()), LIMITS);
    let mut agent = bench.agent().await;
    let config = json!({"name": "a", "model": "default", "capabilities": ["grep"]});
    agent
        .say(json!({"type": "SUBAGENT_SPAWN_REQ", "agent": config}))
        .await;
    let event = agent.hear().await;
    assert_eq!(
        (&event["type"], &event["event"]),
        (&json!("SUBAGENT_EVENT"), &json!("spawned"))
    );
    let made = agent.hear().await;
    assert_eq!(
        (&made["type"], &made["status"]),
        (&json!("SUBAGENT_SPAWN_RESP"), &json!("READY"))
    );
    let id = made["subagent_id"].clone();
    let message = json!({"type": "SUBAGENT_MESSAGE_REQ", "from_subagent_id": "x",
        "to_subagent_id": id, "message": {"type": "note", "content": {"say": "hurry"}}});
    agent.say(message).await;
    assert_eq!(agent.hear().await["event"], "message_received");
    assert_eq!(agent.hear().await["delivered"], true);
    let task = json!({"name": "t", "instruction": "Is it so?"});
    agent
        .say(json!({"type": "SUBAGENT_DELEGATE_REQ", "subagent_id": id, "task": task}))
        .await;
    let mut heard = Vec::new();
    // The task may have ended before its beginning is answered.
    for _ in 0..4 {
        let message = agent.hear().await;
        heard.push(match message["type"].as_str().unwrap() {
            "SUBAGENT_EVENT" => format!("{} {}", message["event"], message["content"]["status"]),
            kind => format!("{kind} {} {}", message["accepted"], message["status"]),
        });
    }
    heard.sort();
    let expected = [
        "\"delegated\" null",
        "\"status_changed\" \"COMPLETED\"",
        "\"status_changed\" \"RUNNING\"",
        "SUBAGENT_DELEGATE_RESP true \"RUNNING\"",
    ];
    assert_eq!(heard, expected);
    let ended = agent
        .ask(json!({"type": "SUBAGENT_AWAIT_REQ", "subagent_id": id}))
        .await;
    assert_eq!(
        (&ended["type"], &ended["status"]),
        (&json!("SUBAGENT_AWAIT_RESP"), &json!("COMPLETED"))
    );
    let user = double.asked()[0].1["messages"][1]["content"].to_string();
    assert!(user.contains("hurry"), "{user}");
    let list = agent.ask(json!({"type": "SUBAGENT_LIST_REQ"})).await;
    assert_eq!(
        list["subagents"][0]["config"]["capabilities"],
        json!(["grep"])
    );
    assert_eq!(list["subagents"][0]["parent_agent_id"], "ada");
    agent
        // Who is named twice has one vote, and is in memory once.
        .say(json!({"type": "SUBAGENT_MERGE_REQ", "subagent_ids": [id, id], "strategy": "voting"}))
        .await;
    assert_eq!(agent.hear().await["event"], "merged");
    let merged = agent.hear().await;
    assert_eq!(
        merged["merged_result"],
        json!({"strategy": "voting", "winner": "yes", "votes": 1, "total": 1})
    );
    agent
        .say(json!({"type": "SUBAGENT_TERMINATE_REQ", "subagent_id": id}))
        .await;
    assert_eq!(agent.hear().await["event"], "terminated");
    let ended = agent.hear().await;
    assert_eq!(
        (&ended["type"], &ended["success"], &ended["subagent_id"]),
        (&json!("SUBAGENT_TERMINATE_RESP"), &json!(true), &id)
    );
    // Row 182: nobody there.
    let ended = agent
        .ask(json!({"type": "SUBAGENT_AWAIT_REQ", "subagent_id": "sub_none"}))
        .await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("FAILED"), &json!("Unknown subagent"))
    );
    let unknown = delegate(&mut agent, "sub_none").await;
    assert_eq!(
        (&unknown["accepted"], &unknown["status"]),
        (&json!(false), &json!("FAILED"))
    );
}

#[tokio::test]
async fn an_agent_has_so_many_in_all_its_sessions_and_so_deep() {
    let limits = Limits {
        agents: 4,
        ..LIMITS
    };
    let bench = Bench::new(Arc::default(), limits);
    let mut agent = bench.agent().await;
    let mut parent = String::new();
    for depth in 1..=4 {
        let id = spawn(
            &mut agent,
            json!({"metadata": {"parent_agent_id":
            if parent.is_empty() { Value::Null } else { json!(parent) }}}),
        )
        .await;
        assert_eq!(id.is_empty(), depth > limits.depth, "{depth}");
        parent = id;
    }
    let last = spawn(&mut agent, json!({})).await;
    assert!(!last.is_empty());
    assert!(spawn(&mut agent, json!({})).await.is_empty());
    assert!(
        spawn(
            &mut agent,
            json!({"metadata": {"parent_agent_id": "sub_none"}})
        )
        .await
        .is_empty()
    );
    // Another session of the agent has no more, another agent has its own.
    let mut second = bench.agent().await;
    second.ids = "B";
    assert!(spawn(&mut second, json!({})).await.is_empty());
    let mut bob = bench.agent_named("bob").await;
    assert!(!spawn(&mut bob, json!({})).await.is_empty());
    assert_eq!(bench.forest.list().len(), 5);
    // One that has ended makes room in every session.
    let ended = json!({"type": "multi_agent/terminate", "subagent_id": last});
    assert_eq!(agent.ask(ended).await["success"], true);
    assert!(!spawn(&mut second, json!({})).await.is_empty());
    assert!(spawn(&mut agent, json!({})).await.is_empty());
    // So does the end of a session.
    leave(&bench, agent).await;
    for _ in 0..3 {
        assert!(!spawn(&mut second, json!({})).await.is_empty());
    }
    assert!(spawn(&mut second, json!({})).await.is_empty());
}

/// Tasks of three sessions, each of which takes a step by a tool: the last is one too many.
#[tokio::test]
async fn sessions_of_an_agent_have_one_account_for_an_hour_after_the_last() {
    let peer = || constant(defined("ask_bob"), json!({"answer": "two"}));
    let limits = Limits { steps: 2, ..LIMITS };
    let bench = Bench::with(Arc::default(), limits, vec![peer()]);
    let given = json!({"model": "tool:ask_bob", "metadata": {"tools": ["ask_bob"]}});
    let (mut first, mut second) = (bench.agent().await, bench.agent().await);
    second.ids = "B";
    for agent in [&mut first, &mut second] {
        let ended = outcome(agent, given.clone()).await;
        assert_eq!(ended["result"], json!({"answer": "two"}), "{ended}");
    }
    let is_refused = |ended: &Value| {
        let error = ended["error"].as_str();
        error.is_some_and(|error| error.contains("may take 2 steps"))
    };
    for agent in [&mut first, &mut second] {
        let ended = outcome(agent, given.clone()).await;
        assert!(is_refused(&ended), "{ended}");
    }
    let mut bob = bench.agent_named("bob").await;
    let ended = outcome(&mut bob, given.clone()).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");

    // Another configuration gives new limits, not a new account.
    for (steps, is_enough) in [(4, false), (6, true)] {
        let limits = Limits { steps, ..LIMITS };
        let forest = Arc::clone(&bench.forest);
        let next = Bench::replacing(forest, Arc::default(), limits, vec![peer()]);
        let mut agent = next.agent().await;
        agent.ids = if is_enough { "D" } else { "C" };
        let ended = outcome(&mut agent, given.clone()).await;
        assert_eq!(ended["status"] == "COMPLETED", is_enough, "{ended}");
        leave(&next, agent).await;
    }

    leave(&bench, first).await;
    leave(&bench, second).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3599)).await;
    let mut third = bench.agent().await;
    let ended = outcome(&mut third, given.clone()).await;
    assert!(is_refused(&ended), "after a reconnect: {ended}");
    leave(&bench, third).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    let mut fourth = bench.agent().await;
    let ended = outcome(&mut fourth, given.clone()).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
}

#[tokio::test]
async fn runaways_are_stopped() {
    let again = || wants(&[("grep", "{}")], 10);
    let double = Double::start(vec![again()]).await;
    let models = double.models(double.settings());
    let tools = json!({"tools": ["grep"]});
    let bench = Bench::new(Arc::clone(&models), LIMITS);
    let mut agent = bench.agent().await;
    let ended = outcome(&mut agent, json!({"max_steps": 3, "metadata": tools})).await;
    assert_eq!(ended["status"], "FAILED");
    assert!(
        ended["error"].as_str().unwrap().contains("3 turns"),
        "{ended}"
    );
    // All sessions of an agent together: the second one finds nothing left.
    let bench = Bench::new(
        models,
        Limits {
            tokens: 45,
            ..LIMITS
        },
    );
    let (mut first, mut second) = (bench.agent().await, bench.agent().await);
    second.ids = "B";
    for (agent, text) in [(&mut first, "3 turns"), (&mut second, "45 tokens")] {
        let ended = outcome(agent, json!({"max_steps": 3, "metadata": tools})).await;
        assert!(ended["error"].as_str().unwrap().contains(text), "{ended}");
    }
    let limits = Limits {
        timeout: Duration::from_millis(50),
        ..LIMITS
    };
    let (_listener, models) = silent().await;
    let bench = Bench::new(models, limits);
    let ended = outcome(&mut bench.agent().await, json!({})).await;
    assert!(
        ended["error"].as_str().unwrap().starts_with("timeout"),
        "{ended}"
    );
}

/// A tree of three, of which each is at work.
async fn three(agent: &mut Agent) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..3 {
        let parent = ids.last().map_or(Value::Null, |id| json!(id));
        let id = spawn(agent, json!({"metadata": {"parent_agent_id": parent}})).await;
        assert_eq!(delegate(agent, &id).await["status"], "RUNNING");
        ids.push(id);
    }
    ids
}

#[tokio::test]
async fn an_end_reaches_all_below() {
    let (_listener, models) = silent().await;
    let bench = Bench::new(models, LIMITS);
    let mut agent = bench.agent().await;
    let ids = three(&mut agent).await;
    let cancel = |id: &str| json!({"type": "SUBAGENT_CANCEL_REQ", "subagent_id": id});
    let cancelled = agent.ask(cancel(&ids[1])).await;
    assert_eq!(
        (&cancelled["type"], &cancelled["success"]),
        (&json!("SUBAGENT_CANCEL_RESP"), &json!(true))
    );
    assert_eq!(cancelled["subagent_id"], ids[1]);
    // It has been, and there is none of that id.
    assert_eq!(agent.ask(cancel(&ids[1])).await["success"], false);
    assert_eq!(agent.ask(cancel("sub_none")).await["success"], false);
    for id in &ids[1..] {
        assert_eq!(rest(&mut agent, id).await["status"], "CANCELLED");
    }
    assert_eq!(bench.forest.find(&ids[0]).unwrap().status, "RUNNING");
    assert_eq!(bench.forest.cancel(&ids[0]), Some(1));
    assert_eq!(rest(&mut agent, &ids[0]).await["status"], "CANCELLED");
    assert_eq!(bench.forest.cancel("sub_none"), None);
    let ids = three(&mut agent).await;
    let ended = json!({"type": "multi_agent/terminate", "subagent_id": ids[0]});
    assert_eq!(agent.ask(ended).await["success"], true);
    for id in &ids {
        assert_eq!(rest(&mut agent, id).await["status"], "TERMINATED");
    }
}

#[tokio::test]
async fn sub_agents_end_with_their_session() {
    let (_listener, models) = silent().await;
    let bench = Bench::new(models, LIMITS);
    let mut agent = bench.agent().await;
    three(&mut agent).await;
    agent
        .say(json!({"type": "shutdown", "reason": "done"}))
        .await;
    drop(agent);
    let at_work = || {
        let all = bench.forest.list();
        all.iter().filter(|it| it.status == "RUNNING").count()
    };
    while at_work() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tool_does_a_task_if_it_was_given() {
    let peer = constant(defined("ask_bob"), json!({"answer": "two"}));
    let bench = Bench::with(Arc::default(), LIMITS, vec![peer]);
    let mut agent = bench.agent().await;
    let given = json!({"model": "tool:ask_bob", "metadata": {"tools": ["ask_bob"]}});
    let ended = outcome(&mut agent, given).await;
    assert_eq!(ended["result"], json!({"answer": "two"}));
    let ended = outcome(&mut agent, json!({"model": "tool:ask_bob"})).await;
    assert!(
        ended["error"].as_str().unwrap().contains("not been given"),
        "{ended}"
    );
    let ended = outcome(&mut agent, json!({"model": "other"})).await;
    assert!(
        ended["error"]
            .as_str()
            .unwrap()
            .contains("no model `other`"),
        "{ended}"
    );
}

/// Another agent is known by its DID; how it is asked is the business of its tool.
#[tokio::test]
async fn another_agent_does_a_task_if_it_can_be_told_for_what() {
    const DID: &str = "did:web:bob.example";
    let tagged = |name: &str, tags: &[&str]| {
        let tags = tags.iter().map(|tag| (*tag).to_owned());
        constant(defined(name).tags(tags), json!({ "answer": name }))
    };
    let tools = vec![
        tagged("add", &["peer", DID, "bob.add"]),
        tagged("think", &["peer", DID, "bob.think"]),
        tagged("only", &["peer", "did:web:eve.example", "eve.only"]),
        tagged("other", &[DID]),
    ];
    let bench = Bench::with(Arc::default(), LIMITS, tools);
    let mut agent = bench.agent().await;
    let asked = |did: &str, intent: Value| json!({"model": did, "metadata": {"tool_scope": "shared", "intent": intent}});
    let ended = outcome(&mut agent, asked(DID, json!("bob.think"))).await;
    assert_eq!(ended["result"], json!({"answer": "think"}), "{ended}");
    let ended = outcome(&mut agent, asked("did:web:eve.example", Value::Null)).await;
    assert_eq!(ended["result"], json!({"answer": "only"}), "{ended}");
    for (did, intent, why) in [
        (DID, Value::Null, "one of add, think"),
        (DID, json!("eve.only"), "with the intent `eve.only`"),
        ("did:web:nobody.example", Value::Null, "in `peers`"),
    ] {
        let ended = outcome(&mut agent, asked(did, intent)).await;
        assert!(ended["error"].as_str().unwrap().contains(why), "{ended}");
    }
    let ended = outcome(&mut agent, json!({"model": "did:web:eve.example"})).await;
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("not been given the tool `only`"), "{ended}");
}

#[tokio::test]
async fn messages_wait_up_to_a_number_and_a_size() {
    let bench = Bench::new(Arc::default(), LIMITS);
    let mut agent = bench.agent().await;
    let id = spawn(&mut agent, json!({})).await;
    let message = |content: &str| {
        json!({"type": "SUBAGENT_MESSAGE_REQ", "from_subagent_id": "x", "to_subagent_id": id,
            "message": {"type": "", "content": content}})
    };
    let around = json!({"from": "x", "type": "", "content": ""})
        .to_string()
        .len();
    let most = "x".repeat(MAX_MESSAGE - around);
    assert_eq!(
        agent.ask(message(&format!("{most}x"))).await["delivered"],
        false
    );
    assert_eq!(agent.ask(message(&most)).await["delivered"], true);
    for number in 1..=MAX_INBOX {
        let delivered = agent.ask(message("x")).await["delivered"].clone();
        assert_eq!(delivered, number < MAX_INBOX, "{number}");
    }
}

/// One that has ended, however it did, reads no messages: a message is not delivered, and the answer says so.
#[tokio::test]
async fn messages_to_finished_sub_agents_are_not_delivered() {
    let double = Double::start(vec![says(&["yes"], 5)]).await;
    let bench = Bench::new(double.models(double.settings()), LIMITS);
    let mut agent = bench.agent().await;
    let message = |id: &str| {
        json!({"type": "SUBAGENT_MESSAGE_REQ", "from_subagent_id": "x", "to_subagent_id": id,
            "message": {"type": "note", "content": "hurry"}})
    };
    let done = spawn(&mut agent, json!({})).await;
    assert_eq!(agent.ask(message(&done)).await["delivered"], true);
    delegate(&mut agent, &done).await;
    assert_eq!(rest(&mut agent, &done).await["status"], "COMPLETED");
    let cancelled = spawn(&mut agent, json!({})).await;
    agent
        .ask(json!({"type": "SUBAGENT_CANCEL_REQ", "subagent_id": cancelled}))
        .await;
    for id in [&done, &cancelled] {
        let answer = agent.ask(message(id)).await;
        assert_eq!(
            (&answer["type"], &answer["delivered"]),
            (&json!("SUBAGENT_MESSAGE_RESP"), &json!(false)),
            "{id}"
        );
    }
}

/// What a sub-agent is asked to be is kept for lists.
#[tokio::test]
async fn what_a_sub_agent_is_to_be_has_a_limit() {
    let bench = Bench::new(Arc::default(), LIMITS);
    let mut agent = bench.agent().await;
    let spawn = |prompt: usize| {
        json!({"type": "multi_agent/spawn", "name": "n".repeat(300), "role": "",
            "metadata": {"system_prompt": "x".repeat(prompt)}})
    };
    let refused = agent.ask(spawn(MAX_CONFIG)).await;
    assert_eq!(refused["code"], "schema_violation", "{refused}");
    let message = refused["message"].as_str().unwrap();
    let (_, rest) = message.split_once(" has ").unwrap();
    let size: usize = rest.split(' ').next().unwrap().parse().unwrap();
    let most = 2 * MAX_CONFIG - size;
    assert_eq!(agent.ask(spawn(most + 1)).await["code"], "schema_violation");
    assert_ne!(agent.ask(spawn(most)).await["subagent_id"], "");
    let listed = agent.ask(json!({"type": "multi_agent/list"})).await;
    let name = format!("{}…", "n".repeat(256));
    assert_eq!(listed["subagents"][0]["name"], json!(name));
}

/// A request for a sub-agent is under way when another handshake begins a new session: the session that
/// has asked gets none, and the agent's share of sub-agents stays free.
#[tokio::test]
async fn session_that_ended_gets_no_sub_agent() {
    let gate = Gate::new(Capability::MultiAgent, Tag::MultiAgentSpawnRequest);
    let forest = Arc::<Forest>::default();
    let host = Bench::builder(&forest, Arc::default(), LIMITS, Vec::new());
    let host = host.plugin(gate.clone()).build();
    let mut agent = Agent::connect_as(&host, "ada", &["multi_agent", "tools"]).await;
    agent
        .say(json!({"type": "multi_agent/spawn", "name": "late"}))
        .await;
    gate.reached().await;
    let hello = json!({"type": "handshake/req", "agent_caps": ["multi_agent", "tools"],
        "auth_token": "ada"});
    assert_eq!(agent.ask(hello).await["ok"], true);
    gate.open();
    let made = agent.hear().await;
    assert_eq!(
        (&made["type"], &made["status"], &made["subagent_id"]),
        (
            &json!("multi_agent/spawn/resp"),
            &json!("FAILED"),
            &json!("")
        ),
        "{made}"
    );
    assert!(forest.list().is_empty());
    // The new session has its own.
    gate.open();
    assert_ne!(spawn(&mut agent, json!({})).await, "");
}
