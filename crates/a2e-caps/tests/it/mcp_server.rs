//! A host as an MCP server: what a client asks becomes requests of an A2E session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2e_caps::mcp::server::{MAX_READ, Session, serve};
use a2e_caps::tool::{Output, Tool};
use a2e_caps::tools::Settings;
use a2e_runtime::config::Policy;
use a2e_runtime::{AgentConfig, Handler, Host, Policies};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::Notify;

use crate::support::{constant, defined, fake, plugin};

/// An MCP client that writes its messages by hand.
pub(crate) struct Mcp {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    last: u64,
    /// What came that was no answer.
    pub(crate) heard: Vec<Value>,
}

impl Mcp {
    /// A client of this host, before any message.
    pub(crate) async fn connect(host: &Host) -> Self {
        let config = AgentConfig {
            wanted: Session::wanted().map(Into::into).into(),
            ..AgentConfig::default()
        };
        let source = a2e_runtime::Source::Own;
        let client = host.connect(config, source, Handler::none()).await.unwrap();
        let session = Session::of(client);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        tokio::spawn(async move { serve(session, read, write).await });
        let (read, write) = tokio::io::split(ours);
        Self {
            lines: BufReader::new(read).lines(),
            write,
            last: 0,
            heard: Vec::new(),
        }
    }

    /// The same, after the handshake of the older eras.
    pub(crate) async fn begun(host: &Host) -> Self {
        Self::begun_with(host, json!({})).await
    }

    /// The same with a client that can do this.
    pub(crate) async fn begun_with(host: &Host, capabilities: Value) -> Self {
        let mut mcp = Self::connect(host).await;
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "0"}});
        let answer = mcp.ask("initialize", hello).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "frith");
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        mcp.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        mcp
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.write.write_all(line.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.say(&request).await;
        self.last
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.ask("tools/call", params).await
    }
}

fn host(tools: Vec<Arc<dyn Tool>>) -> Host {
    host_under(tools, Policies::default())
}

fn host_under(tools: Vec<Arc<dyn Tool>>, policies: Policies) -> Host {
    let tools = plugin(tools, Settings::default());
    Host::builder().plugin(tools).policies(policies).build()
}

#[tokio::test]
async fn tools_are_listed_with_their_schemas_and_called() {
    let tool = constant(defined("look"), json!({"seen": 7}));
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    let listed = mcp.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&Some("look")) && names.contains(&Some("tool_search")));
    // Capabilities that the host does not have are not shown.
    assert!(!names.contains(&Some("memory_store")));
    assert!(
        tools
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object")
    );

    let called = mcp.call("look", json!({})).await;
    assert_eq!(called["result"]["isError"], false);
    assert_eq!(called["result"]["structuredContent"], json!({"seen": 7}));
    assert_eq!(called["result"]["content"][0]["text"], r#"{"seen":7}"#);

    let found = mcp.call("tool_search", json!({"query": "look"})).await;
    let found = &found["result"]["structuredContent"]["tools"];
    assert_eq!(found[0]["name"], "look");
}

#[tokio::test]
async fn what_is_wrong_is_told_where_a_model_reads_it() {
    let tool = fake(defined("fail"), |_| async {
        Err(a2e_caps::tool::ToolFailure::new("the disk is full"))
    });
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    let failed = mcp.call("fail", json!({})).await;
    assert_eq!(failed["result"]["isError"], true);
    let text = failed["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the disk is full"), "{text}");
    let unknown = mcp.call("nothing", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let wrong = mcp.call("tool_search", json!({})).await;
    assert_eq!(wrong["error"]["code"], -32602);
    let none = mcp.ask("prompts/get", json!({"name": "x"})).await;
    assert_eq!(none["error"]["code"], -32602);
    let none = mcp
        .ask("resources/read", json!({"uri": "frith://artifact/00"}))
        .await;
    assert_eq!(none["error"]["code"], -32002);
}

/// The one decision point stands before MCP as before everybody else (`design.md` §2).
#[tokio::test]
async fn rules_hold_for_mcp_clients() {
    let rules = json!({"rules": [{"id": "no-look", "name": "look", "action": "deny"}]});
    let text = rules.to_string();
    let rules = canonical::Value::parse(text.as_bytes()).unwrap();
    let policy = Policy {
        common: rules.deserialize_into().unwrap(),
        agents: Vec::new(),
    };
    let policies = Policies::compile(&policy).unwrap();
    let tool = constant(defined("look"), json!(1));
    let mut mcp = Mcp::begun(&host_under(vec![tool], policies)).await;
    let denied = mcp.call("look", json!({})).await;
    assert_eq!(denied["result"]["isError"], true);
    let error = &denied["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "tool_denied");
    assert_eq!(error["detail"]["rule"], "no-look");
}

#[tokio::test]
async fn events_become_progress_that_grows() {
    let tool = fake(defined("work").streaming(), |call| async move {
        call.progress.status("beginning").await;
        for percent in [10, 10, 60] {
            call.progress.progress(percent, "on the way").await;
        }
        Output::new(&json!("done"))
    });
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    let params = json!({"name": "work", "_meta": {"progressToken": "p"}});
    let answer = mcp.ask("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let told: Vec<_> = mcp
        .heard
        .iter()
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| &message["params"])
        .collect();
    let numbers: Vec<_> = told
        .iter()
        .map(|told| told["progress"].as_f64().unwrap())
        .collect();
    assert_eq!(numbers, [1.0, 10.0, 60.0]);
    assert_eq!(told[0]["message"], "beginning");
    assert_eq!(told[1]["total"], 100.0);
    // Nobody who did not ask is told.
    mcp.heard.clear();
    mcp.call("work", json!({})).await;
    assert!(mcp.heard.is_empty());
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>, Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

#[tokio::test]
async fn a_cancelled_call_stops_for_real() {
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let tool = fake(defined("wait"), {
        let (started, stopped, is_stopped) = (
            Arc::clone(&started),
            Arc::clone(&stopped),
            Arc::clone(&is_stopped),
        );
        move |_| {
            let dropped = Dropped(Arc::clone(&is_stopped), Arc::clone(&stopped));
            let started = Arc::clone(&started);
            async move {
                let _dropped = dropped;
                started.notify_one();
                std::future::pending().await
            }
        }
    });
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    let id = mcp.send("tools/call", json!({"name": "wait"})).await;
    started.notified().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "enough"}});
    mcp.say(&cancel).await;
    stopped.notified().await;
    assert!(is_stopped.load(Ordering::SeqCst));
    // The session goes on.
    let listed = mcp.ask("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array());
}

#[tokio::test]
async fn large_results_are_resources() {
    let text: String = (0..20_000)
        .map(|number| format!("line {number}\n"))
        .collect();
    let tool = constant(defined("long"), json!(text));
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    let called = mcp.call("long", json!({})).await;
    let content = called["result"]["content"].as_array().unwrap();
    let link = content
        .iter()
        .find(|block| block["type"] == "resource_link")
        .unwrap();
    let listed = mcp.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], link["uri"]);
    let read = mcp.ask("resources/read", json!({"uri": link["uri"]})).await;
    assert_eq!(read["result"]["contents"][0]["text"], text);
    let templates = mcp.ask("resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(*template, "frith://artifact/{id}");
}

/// The text of a resource is counted as it is sent; the tool reads on from where it ends.
#[tokio::test]
async fn a_resource_ends_with_where_to_read_on() {
    let text = "\u{1}".repeat(MAX_READ / 2);
    let tool = constant(defined("long"), json!(text));
    let mut mcp = Mcp::begun(&host(vec![tool])).await;
    mcp.call("long", json!({})).await;
    let listed = mcp.ask("resources/list", json!({})).await;
    let uri = &listed["result"]["resources"][0]["uri"];
    let read = mcp.ask("resources/read", json!({"uri": uri})).await;
    let shown = read["result"]["contents"][0]["text"].as_str().unwrap();
    let (shown, hint) = shown.split_once('\n').unwrap();
    let length = json!(shown).to_string().len() - 2;
    assert!(length <= MAX_READ && length > MAX_READ * 9 / 10, "{length}");
    let offset = hint.split(' ').find_map(|word| word.parse::<usize>().ok());
    assert_eq!(offset, Some(shown.len()), "{hint}");
    let id = uri.as_str().unwrap().rsplit('/').next().unwrap();
    let rest = mcp
        .call("artifact_read", json!({"id": id, "offset": offset}))
        .await;
    let rest = &rest["result"]["structuredContent"];
    assert_eq!(rest["offset"], shown.len(), "{rest}");
    assert_eq!(rest["bytes"], text.len());
}

/// A request of the newer era stands for itself, without `initialize`.
#[tokio::test]
async fn requests_of_the_newer_era_need_no_handshake() {
    let tool = constant(defined("look"), json!({"seen": 7}));
    let mut mcp = Mcp::connect(&host(vec![tool])).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let found = mcp.ask("server/discover", json!({"_meta": meta})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let params = json!({"name": "look", "arguments": {}, "_meta": meta});
    let called = mcp.ask("tools/call", params).await;
    assert_eq!(called["result"]["structuredContent"], json!({"seen": 7}));
    assert_eq!(called["result"]["resultType"], "complete");
}
