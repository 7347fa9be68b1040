//! A sub-agent of A's agent that is another agent: B, by its DID.

use super::*;

const OFFER: &str = "plugins: [{name: tools, type: tools}]
intents:
  demo.think:
    command: [sh, -c, 'echo thought about $0', '{instruction}']
    parameters: {instruction: {type: string}}
    required: [instruction]
  demo.ponder:
    command: [sh, -c, 'touch begun; while ! test -e go; do sleep 0.05; done', '{instruction}']
    parameters: {instruction: {type: string}}
";

struct Family {
    wire: Wire,
    count: usize,
}

impl Family {
    fn of(node: &Node) -> Self {
        let mut wire = node.wire();
        let hello = json!({"type": "handshake/req", "id": "h", "auth_token": node.token,
            "agent_caps": ["tools", "multi_agent"]});
        assert_eq!(wire.ask(&hello)["ok"], true);
        Self { wire, count: 0 }
    }

    fn ask(&mut self, mut request: Value) -> Value {
        self.count += 1;
        request["id"] = json!(format!("r{}", self.count));
        self.wire.ask(&request)
    }

    /// A sub-agent that is this agent, with a task.
    fn begin(&mut self, did: &str, intent: &str, tools: &[&str]) -> String {
        let spawn = json!({"type": "multi_agent/spawn", "name": "b", "model": did,
            "metadata": {"intent": intent, "tools": tools}});
        let id = self.ask(spawn)["subagent_id"].as_str().unwrap().to_owned();
        let task = json!({"type": "multi_agent/delegate", "subagent_id": id, "task_name": "t",
            "instruction": "otters"});
        assert_eq!(self.ask(task)["accepted"], true);
        id
    }

    fn rest(&mut self, id: &str) -> Value {
        self.ask(json!({"type": "multi_agent/await", "subagent_id": id}))
    }
}

fn pair() -> Pair {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let b = Node::start(folders[1].path(), OFFER);
    let (did, url) = (b.at("did"), b.at("a2a"));
    let parameters = "parameters: {instruction: {type: string}}";
    let config = format!(
        "plugins: [{{name: tools, type: tools}}, {{name: agents, type: multi_agent}}]
peers:
  beta:
    did: {did}
    url: {url}
    intents:
      demo.think: {{description: Thinks, {parameters}}}
      demo.ponder: {{description: Ponders, tool: ponder, {parameters}}}
"
    );
    let a = Node::start(folders[0].path(), &config);
    Pair { a, b, folders }
}

fn calls(node: &Node) -> Vec<Value> {
    let all = records(&node.data()).into_iter();
    all.filter(|it| it["message_type"] == "tool/call/req")
        .collect()
}

#[test]
fn another_node_does_a_task() {
    let pair = pair();
    let did = pair.b.at("did").to_owned();
    let mut family = Family::of(&pair.a);
    let id = family.begin(&did, "demo.think", &["peer:beta:demo.think"]);
    let ended = family.rest(&id);
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    assert_eq!(
        ended["result"]["stdout"], "thought about otters\n",
        "{ended}"
    );
    // B did it for A, whose DID it has on record; A has it under its own agent.
    let [here, there] = [&pair.a, &pair.b].map(calls);
    assert_eq!(there[0]["agent"], pair.a.at("did"), "{there:?}");
    assert_eq!(here[0]["name"], "peer:beta:demo.think", "{here:?}");
    assert_eq!(here[0]["response_status"], "success", "{here:?}");
    // What a sub-agent was not given it does not ask for.
    let id = family.begin(&did, "demo.ponder", &[]);
    let ended = family.rest(&id);
    assert_eq!(ended["status"], "FAILED", "{ended}");
    assert_eq!(calls(&pair.b).len(), 1);
    intact(&[&pair.a, &pair.b]);
}

#[test]
fn a_terminated_sub_agent_ends_on_the_other_node() {
    let pair = pair();
    let did = pair.b.at("did").to_owned();
    let mut family = Family::of(&pair.a);
    let id = family.begin(&did, "demo.ponder", &["ponder"]);
    let begun = pair.b.data().join("workspace/begun");
    while !begun.exists() {
        std::thread::yield_now();
    }
    let ended = family.ask(json!({"type": "multi_agent/terminate", "subagent_id": id}));
    assert_eq!(ended["success"], true, "{ended}");
    assert_eq!(family.rest(&id)["status"], "TERMINATED");
    let there = loop {
        if let Some(call) = calls(&pair.b).pop() {
            break call;
        }
    };
    assert_eq!(there["response_status"], "cancelled", "{there}");
    intact(&[&pair.a, &pair.b]);
}
