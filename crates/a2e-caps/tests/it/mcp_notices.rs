//! What MCP clients are told and asked without having asked: changed lists, logs, completions.

use std::sync::Arc;
use std::time::Duration;

use a2e_caps::tool::{Catalogue, Output, Source, ToolFailure};
use a2e_caps::tools::{Settings, Tools};
use a2e_runtime::Host;
use a2e_wire::messages::mcp::{McpPromptMessage, McpSampleRequest};
use a2e_wire::{Body, Object};
use serde_json::{Value, json};

use crate::mcp_client::{loopback, servers};
use crate::mcp_server::Mcp;
use crate::support::{constant, defined, fake};

/// A host with the capabilities `tools` and `mcp`.
fn host(catalogue: &Arc<Catalogue>) -> Host {
    let tools = Tools::new(Arc::clone(catalogue), Settings::default()).unwrap();
    Host::builder()
        .plugin(tools)
        .plugin(servers(catalogue, loopback()))
        .build()
}

fn set(catalogue: &Catalogue, names: &[&str]) {
    let tools = names.iter().map(|name| constant(defined(name), json!(1)));
    catalogue.set(Source::BuiltIn, tools.collect());
}

/// The next notification of a method.
async fn told(mcp: &mut Mcp, method: &str) -> Value {
    loop {
        let message = mcp.hear().await;
        if message["method"] == method {
            return message["params"].clone();
        }
    }
}

async fn names(mcp: &mut Mcp) -> Vec<String> {
    let listed = mcp.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn clients_of_the_older_eras_hear_that_tools_have_changed() {
    let catalogue = Arc::new(Catalogue::default());
    set(&catalogue, &["one"]);
    let mut mcp = Mcp::begun(&host(&catalogue)).await;
    assert!(names(&mut mcp).await.contains(&"one".to_owned()));
    // The same tools are no change, and nobody hears of them: the next notice is of the others.
    set(&catalogue, &["one"]);
    set(&catalogue, &["two"]);
    told(&mut mcp, "notifications/tools/list_changed").await;
    assert!(names(&mut mcp).await.contains(&"two".to_owned()));
    assert!(mcp.heard.is_empty(), "{:?}", mcp.heard);
}

#[tokio::test]
async fn clients_of_the_newer_era_hear_what_they_listen_to() {
    let catalogue = Arc::new(Catalogue::default());
    set(&catalogue, &["one"]);
    let mut mcp = Mcp::connect(&host(&catalogue)).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let id = mcp.send("subscriptions/listen", params).await;
    told(&mut mcp, "notifications/subscriptions/acknowledged").await;
    // The host is asked to tell of changes after that; what it answers here comes later.
    let listed = mcp.ask("tools/list", json!({"_meta": meta})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    set(&catalogue, &["two"]);
    let heard = told(&mut mcp, "notifications/tools/list_changed").await;
    let subscription = &heard["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*subscription, id, "{heard}");
}

#[tokio::test]
async fn what_tools_log_is_told_to_those_who_want_it() {
    let catalogue = Arc::new(Catalogue::default());
    let tool = fake(defined("work").streaming(), |call| async move {
        call.progress.log("debug", "quiet").await;
        call.progress.log("warning", "loud").await;
        Output::new(&json!("done"))
    });
    catalogue.set(Source::BuiltIn, vec![tool]);
    let mut mcp = Mcp::begun(&host(&catalogue)).await;
    mcp.call("work", json!({})).await;
    assert!(mcp.heard.is_empty(), "{:?}", mcp.heard);
    let set = mcp.ask("logging/setLevel", json!({"level": "info"})).await;
    assert_eq!(set["result"], json!({}), "{set}");
    mcp.call("work", json!({})).await;
    let told: Vec<_> = mcp.heard.iter().map(|told| &told["params"]).collect();
    assert_eq!(
        told,
        [&json!({"level": "warning", "logger": "work", "data": "loud"})]
    );
}

#[tokio::test]
async fn a_large_result_is_a_resource_more() {
    let catalogue = Arc::new(Catalogue::default());
    let text = "a line of many\n".repeat(20_000);
    catalogue.set(
        Source::BuiltIn,
        vec![constant(defined("long"), json!(text))],
    );
    let mut mcp = Mcp::begun(&host(&catalogue)).await;
    mcp.call("long", json!({})).await;
    if mcp.heard.is_empty() {
        told(&mut mcp, "notifications/resources/list_changed").await;
    } else {
        assert_eq!(
            mcp.heard[0]["method"],
            "notifications/resources/list_changed"
        );
    }
}

/// A tool that asks the model of whoever calls it.
fn asking(catalogue: &Catalogue) {
    let tool = fake(defined("ask"), |call| async move {
        let content = Object::from_serialize(&json!({"type": "text", "text": "Say something"}));
        let request = McpSampleRequest {
            server_id: "there".into(),
            messages: vec![McpPromptMessage {
                role: "user".into(),
                content: content.unwrap(),
            }],
            max_tokens: 10,
            ..McpSampleRequest::new()
        };
        let session = call.progress.session().unwrap();
        let answer = session.ask(request, Duration::from_secs(60)).await;
        match answer.map(|answer| answer.body) {
            Ok(Body::McpSampleResponse(answer)) if answer.error.is_empty() => {
                let content: Value = answer.content.raw().deserialize().unwrap();
                Output::new(&json!({"said": content["text"], "model": &*answer.model}))
            }
            other => Err(ToolFailure::new(format!("no completion: {other:?}"))),
        }
    });
    catalogue.set(Source::BuiltIn, vec![tool]);
}

#[tokio::test]
async fn a_clients_model_completes_for_servers_behind_the_host() {
    let catalogue = Arc::new(Catalogue::default());
    asking(&catalogue);
    let mut mcp = Mcp::begun_with(&host(&catalogue), json!({"sampling": {}})).await;
    let id = mcp.send("tools/call", json!({"name": "ask"})).await;
    let asked = mcp.hear().await;
    assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
    let params = &asked["params"];
    assert_eq!(params["maxTokens"], 10);
    assert_eq!(params["messages"][0]["content"]["text"], "Say something");
    let result = json!({"role": "assistant", "content": {"type": "text", "text": "something"},
        "model": "m", "stopReason": "endTurn"});
    mcp.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
        .await;
    let answer = mcp.answer(id).await;
    let structured = &answer["result"]["structuredContent"];
    assert_eq!(*structured, json!({"said": "something", "model": "m"}));
}

#[tokio::test]
async fn a_client_without_a_model_is_not_asked() {
    let catalogue = Arc::new(Catalogue::default());
    asking(&catalogue);
    let mut mcp = Mcp::begun(&host(&catalogue)).await;
    let answer = mcp.call("ask", json!({})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(mcp.heard.is_empty(), "{:?}", mcp.heard);
}
