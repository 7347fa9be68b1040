//! An echo agent and a caller on the Rust SDK of Google's A2A protocol, as its documents show it.
//!
//! usage: a2a_sdk serve FOLDER
//!        a2a_sdk call http/1.1|h2 ADDRESS FOLDER
//!
//! The server prints where it listens; the client obeys, see `benches::client`. The certificate is
//! that of the folder.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use a2a::{A2AError, Message, Part, Role, SendMessageResponse, StreamResponse};
use a2a_client::client::SendMessageExt;
use a2a_client::jsonrpc::JsonRpcTransport;
use a2a_client::{A2AClient, BoxStream};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore};
use axum::serve::Listener;
use benches::client::obey;
use futures_util::{StreamExt, stream};
use peers::tls;

const TEXT: &str = "grey fox";
const USAGE: &str = "usage: a2a_sdk serve FOLDER | a2a_sdk call http/1.1|h2 ADDRESS FOLDER";

struct Echo;

impl AgentExecutor for Echo {
    fn execute(
        &self,
        context: ExecutorContext,
    ) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        let text = context.message.as_ref().and_then(Message::text);
        let text = text.unwrap_or_default().to_owned();
        let answer = Message::new(Role::Agent, vec![Part::text(text)]);
        stream::once(async { Ok(StreamResponse::Message(answer)) }).boxed()
    }

    fn cancel(&self, _: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        stream::empty().boxed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", folder] => {
            let listener = tls::Listener::bind(Path::new(folder)).await?;
            println!("{}", listener.local_addr()?);
            let handler = DefaultRequestHandler::new(Echo, InMemoryTaskStore::new());
            axum::serve(
                listener,
                a2a_server::jsonrpc::jsonrpc_router(Arc::new(handler)),
            )
            .await?;
        }
        ["call", protocol, address, folder] => {
            let pem = tls::certificate(Path::new(folder))?;
            let root = reqwest::Certificate::from_pem(&pem)?;
            let builder = reqwest::Client::builder().tls_certs_only([root]);
            let builder = match *protocol {
                "http/1.1" => builder.http1_only(),
                "h2" => builder.http2_prior_knowledge(),
                _ => return Err(USAGE.into()),
            };
            let transport = JsonRpcTransport::new(builder.build()?, format!("https://{address}/"));
            let client = A2AClient::new(transport);
            let call = || async {
                match client.send_text(TEXT).await {
                    Ok(SendMessageResponse::Message(answer)) if answer.text() == Some(TEXT) => {
                        Ok(())
                    }
                    Ok(other) => Err(format!("{other:?}")),
                    Err(error) => Err(error.to_string()),
                }
            };
            obey(call).await?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
