//! The client of the official Rust MCP SDK under load; see `benches::client`.
//!
//! usage: mcp_client URL

use benches::client::obey;
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: mcp_client URL")?;
    let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await?;
    let call = || async {
        let mut arguments = serde_json::Map::new();
        arguments.insert("text".into(), "grey fox".into());
        let request = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = client
            .call_tool(request)
            .await
            .map_err(|error| error.to_string())?;
        match result.is_error {
            Some(true) => Err("the tool failed".to_owned()),
            _ => Ok(()),
        }
    };
    Ok(obey(call).await?)
}
