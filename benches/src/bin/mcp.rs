//! What a call of an MCP tool costs through a host, beside a call of the same server with rmcp alone.
//! Everything runs on one CPU.
//!
//! usage: mcp [--smoke]
//!
//! It starts itself as the server (`mcp serve`). The host is in this process, with its agent.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2e_caps::Placement;
use a2e_caps::http::{Client as HttpClient, Settings as HttpSettings, Web};
use a2e_caps::mcp::client::{Fleet, Ground, Mcp};
use a2e_caps::shares::{Kind, Shares};
use a2e_caps::tool::{Catalogue, Pinning};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_caps::workplace::Workplace;
use a2e_runtime::config::{McpCommand, McpPlace, McpServer};
use a2e_runtime::definitions::Definitions;
use a2e_runtime::{AgentConfig, Calling, Client, ClientError, Handler, Host, Limits, Source};
use a2e_wire::messages::mcp::McpPromptListRequest;
use benches::median;
use benches::pin::Cpus;
use futures_util::future::try_join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleClient, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use store::{Memory, Store};

/// As in `frith`, for both sides of the comparison.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// What a host in the caller's process may add to a call, in per cent.
const AT_MOST: f64 = 30.0;

/// Calls at once, where there are several.
const FLIGHT: usize = 64;

/// How often everybody has a turn, and how many calls one has.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    calls: usize,
}

/// A server whose tool gives its text back.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = JsonObject::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), json!({"text": {"type": "string"}}));
        let tool = Tool::new("echo", "Gives its text back", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(Value::as_str);
        let text = ContentBlock::text(text.unwrap_or_default());
        Ok(CallToolResult::success(vec![text]).into())
    }
}

fn main() {
    // The host starts the server as it starts every program.
    sandbox::enter_if_asked();
    if let Err(error) = run() {
        println!("{error}");
    }
}

fn run() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let effort = match words.as_slice() {
        ["serve"] => return block_on(serve()),
        [] => Effort {
            rounds: 41,
            calls: 256,
        },
        ["--smoke"] => Effort {
            rounds: 1,
            calls: 4,
        },
        _ => return Err("usage: mcp [--smoke]".into()),
    };
    // What is started from here runs there too.
    Cpus::of_this_process()?.be_server()?;
    block_on(report(effort))
}

fn block_on(work: impl Future<Output = Fallible<()>>) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // Reading standard input blocks a thread; do not wait for it.
    runtime.shutdown_background();
    done
}

async fn serve() -> Fallible<()> {
    let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout());
    Echo.serve(transport).await?.waiting().await?;
    Ok(())
}

async fn report(effort: Effort) -> Fallible<()> {
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let direct = direct(&program).await?;
    let inside = inside(&program, folder.path()).await?;
    println!(
        "microseconds for each call, everything on one CPU, {} rounds",
        effort.rounds
    );
    println!(
        "  {:16} {:>9} {:>9} {:>9} {:>9}",
        "", "rmcp", "frith", "adds", "at most"
    );
    for (name, flight) in [("one at a time", 1), ("64 in flight", FLIGHT)] {
        let (mut rmcp, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            rmcp.push(time(effort.calls, flight, || ask_rmcp(&direct)).await?);
            ours.push(time(effort.calls, flight, || ask_host(&inside)).await?);
        }
        let (rmcp, ours) = (median(rmcp), median(ours));
        let adds = (ours / rmcp - 1.0) * 100.0;
        println!("  {name:16} {rmcp:>9.1} {ours:>9.1} {adds:>7.0} % {AT_MOST:>7.0} %");
    }
    inside.disconnect(Duration::from_secs(1)).await;
    direct.cancel().await?;
    Ok(())
}

/// Microseconds of a call, of so many with so many under way.
async fn time<F, E>(calls: usize, flight: usize, ask: impl Fn() -> F) -> Fallible<f64>
where
    F: Future<Output = Result<(), E>>,
    E: std::error::Error + 'static,
{
    let groups = calls.div_ceil(flight);
    let start = Instant::now();
    for _ in 0..groups {
        try_join_all((0..flight).map(|_| ask())).await?;
    }
    let made = groups.saturating_mul(flight);
    let made = made as f64;
    Ok(start.elapsed().as_secs_f64() * 1e6 / made)
}

/// The server with rmcp alone, begun as the host begins with it.
async fn direct(program: &Path) -> Fallible<RunningService<RoleClient, ()>> {
    let mut child = tokio::process::Command::new(program)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the server has no input or no output".into());
    };
    let transport = AsyncRwTransport::new_client(stdout, stdin);
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    Ok(().serve_with_lifecycle(transport, lifecycle).await?)
}

async fn ask_rmcp(server: &RunningService<RoleClient, ()>) -> Result<(), rmcp::ServiceError> {
    let mut arguments = JsonObject::new();
    arguments.insert("text".into(), "hi".into());
    let params = CallToolRequestParams::new("echo").with_arguments(arguments);
    server.peer().call_tool(params).await.map(drop)
}

async fn ask_host(client: &Client) -> Result<(), ClientError> {
    let tools = client.tools();
    let arguments = json!({"text": "hi"});
    let called = tools.call("s__echo", &arguments, Calling::default());
    called.await.map(drop)
}

/// A host with the server behind it.
fn host(program: &Path, folder: &Path) -> Fallible<Host> {
    let workplace = Arc::new(Workplace {
        launcher: sandbox::Launcher::none()?,
        profile: sandbox::Profile::default(),
        folder: folder.to_owned(),
        commands: Shares::new(Kind::Commands, 4),
    });
    let web = Web::new(HttpClient::new(HttpSettings::default()), &[])?;
    let catalogue = Arc::new(Catalogue::default());
    let pinning = Pinning::new(Definitions::new(&Store::new(Memory::new(
        store::Limits::default(),
    )))?);
    let ground = Ground::new(workplace, web, Arc::clone(&catalogue), pinning);
    let fleet = Fleet::new(ground);
    let words = vec![program.display().to_string(), "serve".to_owned()];
    let place = McpPlace::Command(McpCommand::new(words));
    fleet.configure(&[McpServer::new("s".to_owned(), place)], None);
    let tools = Tools::new(catalogue, ToolSettings::default())?;
    let mcp = Mcp::new(fleet, Placement::named("mcp"));
    // As many calls at once as the other side makes.
    let limits = Limits {
        max_parallel: FLIGHT,
        ..Limits::default()
    };
    Ok(Host::builder()
        .limits(limits)
        .plugin(tools)
        .plugin(mcp)
        .build())
}

fn agent() -> AgentConfig {
    AgentConfig {
        wanted: vec!["tools".into(), "mcp".into()],
        ..AgentConfig::default()
    }
}

/// The same server behind a host in this process.
async fn inside(program: &Path, folder: &Path) -> Fallible<Client> {
    let host = host(program, folder)?;
    let client = host.connect(agent(), Source::Own, Handler::none()).await?;
    wait_for_server(&client).await?;
    Ok(client)
}

/// Asking for its prompts waits for a server.
async fn wait_for_server(client: &Client) -> Fallible<()> {
    let request = McpPromptListRequest {
        server_id: "s".into(),
        ..McpPromptListRequest::new()
    };
    client.request(request).await?;
    Ok(())
}
