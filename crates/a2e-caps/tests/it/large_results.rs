//! Results that are too large to send.

use a2e_caps::tools::Settings;
use a2e_runtime::{Calling, Client, Host, Limits};
use a2e_wire::{Capability, Tag};
use serde_json::{Value, json};

use crate::support::{Gate, call, client, constant, defined, host, host_with, plugin, refused};
use crate::wire::Agent;

fn long() -> String {
    (0..20_000)
        .map(|number| format!("line {number} é\n"))
        .collect()
}

async fn result(client: &Client, name: &str) -> (Value, bool) {
    let result = client
        .tools()
        .call(name, &json!({}), Calling::default())
        .await;
    let result = result.unwrap();
    let data = result.data.unwrap().deserialize().unwrap();
    (data, result.truncated.unwrap())
}

#[tokio::test]
async fn an_artifact_can_be_paged_and_searched() {
    let ran = json!({"exit_code": 0, "stdout": long(), "stderr": ""});
    let client = client(&host(vec![constant(defined("run"), ran)])).await;
    let (data, truncated) = result(&client, "run").await;
    assert!(truncated && data.to_string().len() <= Settings::default().inline_limit);
    let shown = data["stdout"].as_str().unwrap();
    assert!(shown.starts_with("line 0 é\n") && shown.ends_with("line 19999 é\n"));
    let id = data["artifacts"]["stdout"]["id"].as_str().unwrap();
    let (mut all, mut next) = (String::new(), json!(0));
    while !next.is_null() {
        let piece = call(&client, "artifact_read", json!({"id": id, "offset": next})).await;
        all += piece["content"].as_str().unwrap();
        next = piece["next_offset"].clone();
    }
    assert_eq!(all, long());
    let found = json!({"id": id, "pattern": "line 1234[0-9] "});
    let found = call(&client, "artifact_search", found).await;
    let matches = found["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 10);
    let from = &matches[3]["offset"];
    let piece = call(
        &client,
        "artifact_read",
        json!({"id": id, "offset": from, "limit": 10}),
    )
    .await;
    assert_eq!(piece["content"], "line 12343");
    for nonsense in [json!({"id": "x"}), json!({"id": id.replace('a', "b")})] {
        if nonsense["id"] != id {
            let error = refused(&client, "artifact_read", nonsense).await;
            assert!(
                error.message.contains("no such artifact"),
                "{}",
                error.message
            );
        }
    }
    let pattern = json!({"id": id, "pattern": "("});
    assert!(
        refused(&client, "artifact_search", pattern)
            .await
            .message
            .contains("pattern")
    );
}

#[tokio::test]
async fn the_limit_is_a_setting() {
    // With its quotes, so many bytes of JSON.
    let of = |bytes: usize| json!("x".repeat(bytes - 2));
    let settings = Settings {
        inline_limit: 1000,
        ..Settings::default()
    };
    let tools = vec![
        constant(defined("at"), of(1000)),
        constant(defined("past"), of(1001)),
    ];
    let host = host_with(plugin(tools, settings), Limits::default());
    let client = client(&host).await;
    assert_eq!(result(&client, "at").await, (of(1000), false));
    let (data, truncated) = result(&client, "past").await;
    assert!(truncated && data["artifact"]["bytes"] == 999, "{data}");
}

#[tokio::test]
async fn artifacts_end_with_their_session() {
    let tools = || vec![constant(defined("run"), json!(long()))];
    let host = host(tools());
    let (one, two) = (client(&host).await, client(&host).await);
    let (data, _) = result(&one, "run").await;
    let id = data["artifact"]["id"].clone();
    // Both sessions are the same agent's.
    call(&two, "artifact_read", json!({"id": id})).await;
    one.disconnect(std::time::Duration::ZERO).await;
    let gone = || async {
        let tools = two.tools();
        let asked = json!({"id": id});
        tools
            .call("artifact_read", &asked, Calling::default())
            .await
            .is_err()
    };
    // The host clears up a moment after it has said goodbye.
    for _ in 0..10_000 {
        if gone().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the artifact is still there");
}

#[tokio::test]
async fn what_is_cut_is_made_anew_each_time() {
    let definition = defined("run").read_only();
    let client = client(&host(vec![constant(definition, json!(long()))])).await;
    let (one, _) = result(&client, "run").await;
    let (two, _) = result(&client, "run").await;
    assert_ne!(one["artifact"]["id"], two["artifact"]["id"]);
}

/// A tool runs when another handshake begins a new session: nothing of its result is kept.
#[tokio::test]
async fn results_of_a_session_that_has_ended_are_not_kept() {
    let gate = Gate::new(Capability::Tools, Tag::ToolCallRequest);
    let tools = vec![constant(defined("run"), json!(long()))];
    let host = Host::builder()
        .plugin(plugin(tools, Settings::default()))
        .plugin(gate.clone())
        .build();
    let mut agent = Agent::connect_as(&host, "", &["tools"]).await;
    let run = json!({"type": "tool/call/req", "tool_name": "run", "streaming": false});
    agent.say(run.clone()).await;
    gate.reached().await;
    let hello = json!({"type": "handshake/req", "agent_caps": ["tools"], "auth_token": ""});
    assert_eq!(agent.ask(hello).await["ok"], true);
    gate.open();
    let late = agent.hear().await;
    let data = &late["data"]["data"];
    assert_eq!(data["artifact"]["id"], Value::Null, "{late}");
    assert_eq!(data["hint"], "it was not kept; ask for less");
    gate.open();
    let id = agent.ask(run).await["data"]["data"]["artifact"]["id"].clone();
    gate.open();
    let read = json!({"type": "tool/call/req", "tool_name": "artifact_read",
        "arguments": {"id": id}, "streaming": false});
    assert_eq!(agent.ask(read).await["data"]["success"], true);
}
