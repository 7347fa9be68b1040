//! An echo tool on the official Rust MCP SDK, as its documents show it.
//!
//! usage: mcp stdio | http
//!
//! Over HTTP it prints where it listens.

use axum::serve::ListenerExt;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};

#[derive(Debug, Clone)]
struct Echo;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    text: String,
}

#[tool_router]
impl Echo {
    #[tool(description = "Gives its text back")]
    async fn echo(&self, Parameters(Arguments { text }): Parameters<Arguments>) -> String {
        text
    }
}

#[tool_handler]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("stdio") => {
            Echo.serve(stdio()).await?.waiting().await?;
        }
        Some("http") => {
            let service: StreamableHttpService<Echo, LocalSessionManager> =
                StreamableHttpService::new(
                    || Ok(Echo),
                    Default::default(),
                    StreamableHttpServerConfig::default(),
                );
            let router = axum::Router::new().nest_service("/mcp", service);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            println!("{}", listener.local_addr()?);
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            axum::serve(listener, router).await?;
        }
        _ => return Err("usage: mcp stdio | http".into()),
    }
    Ok(())
}
