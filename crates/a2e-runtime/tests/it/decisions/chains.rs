//! Calls inside a call.

use serde_json::json;

use super::with;
use crate::support::{Transport, handshake};

/// Would run chains; and whether each node as a request of its own.
struct Chains(bool);

impl a2e_runtime::Plugin for Chains {
    fn name(&self) -> &str {
        "chains"
    }

    fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
        Some(a2e_wire::Capability::Chains)
    }

    fn serves(&self) -> a2e_runtime::Serves {
        a2e_runtime::Serves::Tags(vec![a2e_wire::Tag::ChainRequest])
    }

    fn asks_for_nodes(&self) -> bool {
        self.0
    }

    fn handle(
        &self,
        _: Box<a2e_wire::Message<'static>>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        let answer = a2e_wire::messages::chain::ChainResponse::new();
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::answer(answer))))
    }
}

/// Calls inside a call are decided about as well, and the strictest decision counts.
#[tokio::test]
async fn a_chain_calls_nothing_that_its_agent_may_not_call() {
    let rules = json!({"rules": [
        {"id": "no-echo", "capability": "tools", "name": "echo", "action": "deny"},
        {"id": "no-big", "capability": "tools", "name": "clock", "when": "n > `5`", "action": "deny"},
    ]});
    let host = with(&rules).plugin(Chains(false)).build();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["agent_caps"] = json!(["tools", "chains"]);
    assert_eq!(agent.ask(&hello).await["ok"], true);
    for (index, (node, rule)) in [
        (json!({"kind": "tool", "name": "echo"}), Some("no-echo")),
        (json!({"kind": "skill", "name": "echo"}), None),
        (
            json!({"kind": "tool", "name": "clock", "input": {"n": 6}}),
            Some("no-big"),
        ),
        (
            json!({"kind": "tool", "name": "clock", "input": {"n": 5}}),
            None,
        ),
        // What it will be called with is not known yet.
        (
            json!({"kind": "tool", "name": "clock", "input_map": {"n": "$.n"}}),
            Some("no-big"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut node = node;
        node["node_id"] = json!("a");
        let chain = json!({"type": "chain/req", "id": format!("c{index}"), "chain_id": "c",
            "entry_node": "a", "nodes": [node], "streaming": false});
        let answer = agent.ask(&chain).await;
        assert_eq!(answer["detail"]["rule"].as_str(), rule, "{answer}");
    }
}

/// What comes as a request of its own is held when it comes, and refused before only if that is certain.
#[tokio::test]
async fn calls_that_are_asked_about_one_by_one_are_only_refused_early() {
    let rules = json!({"rules": [
        {"id": "no-echo", "capability": "tools", "name": "echo", "action": "deny"},
        {"id": "no-big", "capability": "tools", "name": "clock", "when": "n > `5`", "action": "deny"},
        {"id": "ask", "capability": "tools", "name": "write", "action": "require_approval"},
    ]});
    let host = with(&rules).plugin(Chains(true)).build();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["agent_caps"] = json!(["tools", "chains"]);
    assert_eq!(agent.ask(&hello).await["ok"], true);
    for (index, (name, member, rule)) in [
        ("echo", "input", Some("no-echo")),
        ("echo", "input_map", Some("no-echo")),
        ("clock", "input", Some("no-big")),
        ("clock", "input_map", None),
        ("write", "input", None),
    ]
    .into_iter()
    .enumerate()
    {
        let node = json!({"node_id": "a", "kind": "tool", "name": name, member: {"n": 6}});
        let chain = json!({"type": "chain/req", "id": format!("c{index}"), "chain_id": "c",
            "entry_node": "a", "nodes": [node], "streaming": false});
        let answer = agent.ask(&chain).await;
        assert_eq!(answer["detail"]["rule"].as_str(), rule, "{answer}");
    }
}
