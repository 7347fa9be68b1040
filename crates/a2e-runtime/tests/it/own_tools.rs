//! The example of docs/plugins.md, over both of its ways in.

use a2e_runtime::{Limited, Secret, TokenStore};
use serde_json::json;

use crate::support::{TOKEN, Transport, handshake};

#[expect(dead_code, reason = "its own `main` is for a process of its own")]
#[path = "../../examples/own_tools.rs"]
mod example;

#[tokio::test]
async fn greets() {
    let tokens = TokenStore::in_memory(&Secret::new(TOKEN)).unwrap();
    let closed = example::host().authenticator(Limited::new(tokens));
    for (transport, host) in [
        (Transport::Memory, example::host()),
        (Transport::Tcp, closed),
    ] {
        let mut wire = transport.place(&host.build()).await.wire().await;
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        let list = wire.ask(&json!({"type": "tool/list/req", "id": "l"})).await;
        assert_eq!(list["tools"][0]["input_parameters"][0]["name"], "name");
        let call = |tool: &str, arguments| json!({"type": "tool/call/req", "id": tool, "tool_name": tool, "arguments": arguments});
        let answer = wire.ask(&call("greet", json!({"name": "Ada"}))).await;
        assert_eq!(answer["data"]["data"], json!({"text": "Hello, Ada!"}));
        let answer = wire.ask(&call("none", json!({}))).await;
        assert_eq!(answer["code"], "unknown_tool");
    }
}
