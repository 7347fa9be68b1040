//! Toolkits, as other A2E clients see them (a2e-behaviour, section 4, toolkits).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::files::{Access, Roots};
use a2e_caps::http::Client;
use a2e_caps::tool::{Catalogue, Source, Tool};
use a2e_caps::toolkits::{Filesystem, Http, Info, Sqlite, SqliteLimits, Toolkit, Toolkits};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_runtime::Host;
use serde_json::{Value, json};
use store::{AgentId, Store, Vault};
use tempfile::TempDir;

use crate::support::{constant, defined, fake};
use crate::vault::{Named, store, vault};
use crate::wire::Agent;

const BOTH: [&str; 2] = ["tools", "toolkits"];

/// A host with toolkits, and the common tool `common`.
pub(crate) async fn host(toolkits: Vec<Arc<dyn Toolkit>>, store: &Store) -> Host {
    let catalogue = Arc::new(Catalogue::default());
    catalogue.set(Source::BuiltIn, vec![constant(defined("common"), json!(1))]);
    let tools = Tools::new(Arc::clone(&catalogue), ToolSettings::default()).unwrap();
    let vault = vault(store).await;
    let toolkits = Toolkits::new(catalogue, vault, toolkits, Placement::named("toolkits"));
    Host::builder()
        .plugin(tools)
        .plugin(toolkits)
        .authenticator(Named)
        .build()
}

pub(crate) async fn agent(host: &Host, name: &str) -> Agent {
    Agent::connect_as(host, name, &BOTH).await
}

pub(crate) async fn configure(agent: &mut Agent, toolkit: &str, config: Value) -> Value {
    let request = json!({"type": "toolkit/configure/req", "session_id": "",
        "toolkit_name": toolkit, "config": config});
    agent.ask(request).await
}

/// The result of a call that succeeds.
pub(crate) async fn call(agent: &mut Agent, tool: &str, arguments: Value) -> Value {
    let request = json!({"type": "tool/call/req", "tool_name": tool, "arguments": arguments});
    let response = agent.ask(request).await;
    assert_eq!(response["data"]["success"], true, "{response}");
    response["data"].clone()
}

/// The error of one that does not.
pub(crate) async fn refused(agent: &mut Agent, tool: &str, arguments: Value) -> Value {
    let request = json!({"type": "tool/call/req", "tool_name": tool, "arguments": arguments});
    let response = agent.ask(request).await;
    assert_eq!(response["type"], "error", "{response}");
    response
}

/// The tools of toolkits that an agent has, by name and toolkit.
pub(crate) async fn bundled(agent: &mut Agent) -> Vec<(String, String)> {
    let list = agent.ask(json!({"type": "tool/list/req"})).await;
    let tools = list["tools"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let tools = tools.filter_map(|tool| Some((text(&tool["name"])?, text(&tool["toolkit"])?)));
    tools.collect()
}

async fn listed(agent: &mut Agent, kind: &str, tags: &[&str]) -> Vec<Value> {
    let request = json!({"type": "toolkit/list/req", "filter_kind": kind, "filter_tags": tags});
    let list = agent.ask(request).await;
    assert_eq!(list["type"], "toolkit/list/resp");
    list["toolkits"].as_array().unwrap().clone()
}

fn names(list: &[Value]) -> Vec<&str> {
    list.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// A workspace with `docs/a.txt` and `src/`.
pub(crate) fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("docs/a.txt"), "hello\n").unwrap();
    folder
}

pub(crate) fn roots(folder: &Path) -> Arc<Roots> {
    Roots::one(folder, Access::ReadWrite).unwrap()
}

pub(crate) fn filesystem(folder: &Path) -> Arc<dyn Toolkit> {
    Arc::new(Filesystem::new(roots(folder)))
}

/// A toolkit with a key, whose tool does not say it.
struct Keyed {
    info: Info,
    tool: &'static str,
}

fn keyed(tool: &'static str) -> Arc<dyn Toolkit> {
    let schema = json!({"type": "object", "required": ["key", "region"], "properties": {
        "key": {"type": "string", "minLength": 4, "writeOnly": true},
        "region": {"enum": ["eu", "us"]}}});
    let info = Info {
        category: "cloud".into(),
        tags: vec!["Storage".into(), "cloud".into()],
        ..Info::new("keyed", &schema, &[tool]).unwrap()
    };
    Arc::new(Keyed { info, tool })
}

impl Toolkit for Keyed {
    fn info(&self) -> &Info {
        &self.info
    }

    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String> {
        let key = config["key"].as_str().unwrap().to_owned();
        if key == "wrong-key" {
            return Err("`key` is not one".into());
        }
        // A read-only tool whose result depends on the configuration.
        let tool = fake(defined(self.tool).read_only(), move |_| {
            let output = a2e_caps::tool::Output::new(&json!({ "length": key.len() }));
            async move { output }
        });
        Ok(vec![tool])
    }
}

/// Proves H-13, N-10.
#[tokio::test]
async fn a_list_has_every_field_with_its_type() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let list = ada
        .ask(json!({"type": "toolkit/list/req", "filter_kind": "", "filter_tags": []}))
        .await;
    assert_eq!(
        (&list["type"], &list["req_id"]),
        (&json!("toolkit/list/resp"), &json!("R"))
    );
    let schema = list["toolkits"][0]["schema"].clone();
    assert_eq!(schema["required"], json!(["key", "region"]));
    assert_eq!(
        list["toolkits"],
        json!([{"name": "keyed", "alias": "", "description": "", "category": "cloud",
            "tags": ["Storage", "cloud"], "icon_svg": null, "schema": schema,
            "tools": ["keyed_get"], "configured": false, "version": "1.0.0"}])
    );
    let response = configure(
        &mut ada,
        "keyed",
        json!({"key": "hunter22", "region": "eu"}),
    )
    .await;
    assert_eq!(response["type"], "toolkit/configure/resp");
    assert_eq!(response["toolkit_name"], "keyed");
    assert_eq!(
        (&response["status"], &response["message"]),
        (&json!("ok"), &Value::Null)
    );
    assert_eq!(response["error"], "");
    assert_eq!(response["toolkit"]["configured"], true);
    let list = listed(&mut ada, "", &[]).await;
    assert_eq!(list, [response["toolkit"].clone()]);
    let tools = bundled(&mut ada).await;
    assert_eq!(tools, [("keyed_get".into(), "keyed".into())]);
}

#[tokio::test]
async fn filters_by_kind_and_all_tags() {
    let folder = workspace();
    let host = host(
        vec![keyed("keyed_get"), filesystem(folder.path())],
        &store(),
    )
    .await;
    let mut ada = agent(&host, "ada").await;
    for (kind, tags, expected) in [
        ("", &[][..], &["keyed", "filesystem"][..]),
        ("CLOUD", &[], &["keyed"]),
        ("", &["storage", "Cloud"], &["keyed"]),
        ("", &["storage", "file"], &[]),
        ("files", &["file"], &["filesystem"]),
        ("files", &["cloud"], &[]),
        ("nothing", &[], &[]),
    ] {
        assert_eq!(
            names(&listed(&mut ada, kind, tags).await),
            expected,
            "{kind} {tags:?}"
        );
    }
}

/// Conflicts 62 to 64: problems are answers, which name the keys and echo no values.
#[tokio::test]
async fn problems_are_told_by_the_names_of_keys() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    for (toolkit, config, expected) in [
        ("", json!({}), &["toolkit_name", "keyed", "config"][..]),
        ("keyd", json!({}), &["keyd", "keyed"]),
        ("nothing", json!({}), &["nothing", "toolkit/list"]),
        ("keyed", json!({}), &["key", "region"]),
        ("keyed", json!({"key": "hunter22"}), &["region"]),
        (
            "keyed",
            json!({"key": "hunter22", "region": "hunter22"}),
            &["`region`", "eu", "us"],
        ),
        (
            "keyed",
            json!({"key": ["hunter22"], "region": "eu"}),
            &["`key`"],
        ),
        ("keyed", json!({"key": "abc", "region": "eu"}), &["`key`"]),
        (
            "keyed",
            json!({"key": "wrong-key", "region": "eu"}),
            &["`key` is not one"],
        ),
    ] {
        let response = configure(&mut ada, toolkit, config.clone()).await;
        assert_eq!(response["type"], "toolkit/configure/resp");
        assert_eq!(response["status"], "error", "{config}");
        let message = response["message"].as_str().unwrap();
        assert_eq!(response["error"], message);
        for part in expected {
            assert!(message.contains(part), "{part} in {message}");
        }
        let all = response.to_string();
        assert!(
            !all.contains("hunter22") && !all.contains("wrong-key"),
            "{all}"
        );
        assert_ne!(response["toolkit"]["configured"], true);
    }
    assert_eq!(bundled(&mut ada).await, []);
}

/// What the Python client sends, by the names it has for it.
#[tokio::test]
async fn other_names_of_the_fields_are_taken() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let request = json!({"type": "toolkit/configure/req", "name": "keyed",
        "schema": {"key": "hunter22", "region": "eu"}});
    assert_eq!(ada.ask(request).await["status"], "ok");
}

/// Secrets belong to the agent that gave them: in all its sessions, and to nobody else.
#[tokio::test]
async fn each_agent_has_its_own() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let mut again = agent(&host, "ada").await;
    again.ids = "S";
    let mut bob = agent(&host, "bob").await;
    assert_eq!(bundled(&mut again).await, []);
    configure(
        &mut ada,
        "keyed",
        json!({"key": "hunter22", "region": "eu"}),
    )
    .await;
    for agent in [&mut ada, &mut again] {
        assert_eq!(bundled(agent).await.len(), 1);
        assert_eq!(
            call(agent, "keyed_get", json!({})).await["data"]["length"],
            8
        );
        assert_eq!(call(agent, "common", json!({})).await["data"], 1);
    }
    assert_eq!(bundled(&mut bob).await, []);
    assert_eq!(listed(&mut bob, "", &[]).await[0]["configured"], false);
    let error = refused(&mut bob, "keyed_get", json!({})).await;
    assert_eq!(error["code"], "unknown_tool");
    configure(&mut bob, "keyed", json!({"key": "four", "region": "us"})).await;
    assert_eq!(
        call(&mut bob, "keyed_get", json!({})).await["data"]["length"],
        4
    );
    assert_eq!(
        call(&mut ada, "keyed_get", json!({})).await["data"]["length"],
        8
    );
}

/// The same call gives what the new configuration makes of it, though its tool is one whose results
/// are given again.
#[tokio::test]
async fn configuring_again_replaces() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    for (key, length) in [("hunter22", 8), ("four", 4)] {
        configure(&mut ada, "keyed", json!({"key": key, "region": "eu"})).await;
        assert_eq!(bundled(&mut ada).await.len(), 1);
        assert_eq!(
            call(&mut ada, "keyed_get", json!({})).await["data"]["length"],
            length
        );
    }
    // One that does not do leaves things as they are.
    configure(&mut ada, "keyed", json!({"key": "x"})).await;
    assert_eq!(
        call(&mut ada, "keyed_get", json!({})).await["data"]["length"],
        4
    );
}

#[tokio::test]
async fn configurations_outlive_the_process_encrypted() {
    let kept = store();
    let first = host(vec![keyed("keyed_get")], &kept).await;
    let mut ada = agent(&first, "ada").await;
    configure(
        &mut ada,
        "keyed",
        json!({"key": "hunter22", "region": "eu"}),
    )
    .await;
    let second = host(vec![keyed("keyed_get")], &kept).await;
    // Whichever comes first: a call, a list of tools or one of toolkits.
    let mut ada = agent(&second, "ada").await;
    assert_eq!(
        call(&mut ada, "keyed_get", json!({})).await["data"]["length"],
        8
    );
    let third = host(vec![keyed("keyed_get")], &kept).await;
    assert_eq!(bundled(&mut agent(&third, "ada").await).await.len(), 1);
    let fourth = host(vec![keyed("keyed_get")], &kept).await;
    let mut ada = agent(&fourth, "ada").await;
    assert_eq!(listed(&mut ada, "", &[]).await[0]["configured"], true);
    assert_eq!(bundled(&mut agent(&fourth, "bob").await).await, []);
    let vault: Vault = vault(&kept).await;
    let secrets = vault.for_agent(&AgentId::new("ada").unwrap());
    assert_eq!(secrets.names().await.unwrap(), ["toolkit/keyed"]);
}

/// A configuration that no longer does is as if it were not there.
#[tokio::test]
async fn what_was_kept_is_checked_again() {
    let (folder, kept) = (workspace(), store());
    let first = host(vec![filesystem(folder.path())], &kept).await;
    let config = json!({"roots": {"docs": {"path": "docs"}}});
    configure(&mut agent(&first, "ada").await, "filesystem", config).await;
    fs::remove_dir_all(folder.path().join("docs")).unwrap();
    let second = host(vec![filesystem(folder.path())], &kept).await;
    let mut ada = agent(&second, "ada").await;
    assert_eq!(bundled(&mut ada).await, []);
    assert_eq!(listed(&mut ada, "", &[]).await[0]["configured"], false);
}

#[tokio::test]
async fn names_that_are_taken_are_told() {
    let host = host(vec![keyed("common")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let response = configure(
        &mut ada,
        "keyed",
        json!({"key": "hunter22", "region": "eu"}),
    )
    .await;
    assert_eq!(response["status"], "ok");
    assert!(response["message"].as_str().unwrap().contains("`common`"));
    // Nothing of an agent stands before what everybody has.
    assert_eq!(call(&mut ada, "common", json!({})).await["data"], 1);
}

/// A secret has at most 64 KiB; what is larger is told, and changes nothing.
#[tokio::test]
async fn a_configuration_that_cannot_be_kept_is_not_used() {
    let host = host(vec![keyed("keyed_get")], &store()).await;
    let mut ada = agent(&host, "ada").await;
    for (size, status, tools) in [(70_000, "error", 0), (60_000, "ok", 1)] {
        let config = json!({"key": "k".repeat(size), "region": "eu"});
        let response = configure(&mut ada, "keyed", config).await;
        assert_eq!(response["status"], status);
        assert_eq!(bundled(&mut ada).await.len(), tools);
    }
}

/// What is listed before a toolkit is configured is what it has afterwards.
#[tokio::test]
async fn toolkits_have_the_tools_they_list() {
    let folder = workspace();
    fs::write(folder.path().join("x.db"), "").unwrap();
    let roots = roots(folder.path());
    let toolkits: Vec<(Arc<dyn Toolkit>, Value)> = vec![
        (
            filesystem(folder.path()),
            json!({"roots": {"r": {"path": ".", "access": "read_write"}}}),
        ),
        (
            Arc::new(Sqlite::new(roots, SqliteLimits::default())),
            json!({"file": "x.db", "access": "read_write"}),
        ),
        (
            Arc::new(Http::new(Client::new(a2e_caps::http::Settings::default()))),
            json!({"hosts": [{"host": "example.com"}]}),
        ),
    ];
    for (toolkit, config) in toolkits {
        let tools = toolkit.tools(&config).unwrap();
        let names: Vec<&str> = tools.iter().map(|it| it.definition().name()).collect();
        assert_eq!(names, toolkit.info().tools);
    }
}
