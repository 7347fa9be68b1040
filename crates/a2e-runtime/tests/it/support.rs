//! Hosts behind each kind of connection, and clients that connect to them.

mod late;

use std::sync::Arc;

use a2e_runtime::demo::Demo;
use a2e_runtime::{
    Address, AgentConfig, Client, ClientError, Connector, Dial, Guard, Host, HostBuilder,
    HttpServer, Link, RawLink, Roots, Secret, Source, Tls, TokenStore, bind_unix, serve_http,
    serve_tcp, serve_unix,
};
use a2e_wire::messages::tool::ToolCallRequest;
use a2e_wire::{Message, Object};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) use late::Late;

pub(crate) const TOKEN: &str = "open sesame";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Memory,
    /// A pipe that holds seven bytes, so that every message comes in pieces.
    Narrow,
    /// A stream that takes whatever is written, and has sent it a turn later.
    Late,
    Tcp,
    Tls,
    Unix,
    Http,
    Https,
    WebSocket,
}

pub(crate) const TRANSPORTS: [Transport; 9] = [
    Transport::Memory,
    Transport::Narrow,
    Transport::Late,
    Transport::Tcp,
    Transport::Tls,
    Transport::Unix,
    Transport::Http,
    Transport::Https,
    Transport::WebSocket,
];

/// A host that listens; more than one connection can be made.
pub(crate) struct Place {
    dial: Arc<dyn Dial>,
    /// The socket's folder, for as long as it is used.
    _folder: tempfile::TempDir,
}

pub(crate) fn demo() -> HostBuilder {
    let token = Secret::new(TOKEN);
    Host::builder()
        .plugin(Demo::default())
        .authenticator(TokenStore::in_memory(&token).unwrap())
}

impl Transport {
    /// Lets a host listen.
    pub(crate) async fn place(self, host: &Host) -> Place {
        let host = host.clone();
        let folder = tempfile::tempdir().unwrap();
        let size = if self == Self::Narrow { 7 } else { 64 * 1024 };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let server = || HttpServer::new(host.clone(), Guard::default());
        let address = match self {
            Self::Memory | Self::Narrow | Self::Late => {
                let is_late = self == Self::Late;
                let dial = move || -> a2e_runtime::BoxFuture<'static, std::io::Result<Link>> {
                    let (ours, theirs) = tokio::io::duplex(size);
                    let host = host.clone();
                    tokio::spawn(async move {
                        match is_late {
                            true => host.serve(Late::new(theirs), Source::Own).await,
                            false => host.serve(theirs, Source::Own).await,
                        }
                    });
                    Box::pin(async { Ok(Link::new(ours)) })
                };
                return Place {
                    dial: Arc::new(dial),
                    _folder: folder,
                };
            }
            Self::Tcp => {
                tokio::spawn(serve_tcp(host, listener, None));
                format!("tcp:{at}").parse().unwrap()
            }
            Self::Unix => {
                let path = folder.path().join("host.sock");
                tokio::spawn(serve_unix(host, bind_unix(&path).unwrap()));
                format!("unix:{}", path.display()).parse().unwrap()
            }
            Self::Http | Self::WebSocket => {
                tokio::spawn(serve_http(server(), listener, None));
                let scheme = if self == Self::Http { "http" } else { "ws" };
                format!("{scheme}://{at}").parse().unwrap()
            }
            Self::Tls | Self::Https => {
                let (tls, roots) = certificate(folder.path());
                let text = if self == Self::Tls {
                    tokio::spawn(serve_tcp(host, listener, Some(tls)));
                    format!("tls:{at}")
                } else {
                    tokio::spawn(serve_http(server(), listener, Some(tls)));
                    format!("https://{at}")
                };
                text.parse::<Address>().unwrap().trusting(roots)
            }
        };
        Place {
            dial: Arc::new(address),
            _folder: folder,
        }
    }

    /// A client that has shaken hands for tools.
    pub(crate) async fn client(self, host: &Host) -> Client {
        let place = self.place(host).await;
        place.client(TOKEN, &["tools"]).await.unwrap()
    }
}

impl Place {
    pub(crate) async fn client(&self, token: &str, wanted: &[&str]) -> Result<Client, ClientError> {
        let dial = Arc::clone(&self.dial);
        let connector = Connector::new(move || Arc::clone(&dial).dial());
        let config = AgentConfig {
            auth_token: token.into(),
            wanted: wanted.iter().map(|name| (*name).into()).collect(),
            ..AgentConfig::default()
        };
        connector.agent(config).reconnect(None).connect().await
    }

    /// A connection that speaks raw lines.
    pub(crate) async fn wire(&self) -> Wire {
        self.try_wire().await.unwrap()
    }

    pub(crate) async fn try_wire(&self) -> std::io::Result<Wire> {
        let link = Arc::clone(&self.dial).dial().await?;
        Ok(Wire(RawLink::new(link)))
    }
}

/// A client that speaks raw lines.
pub(crate) struct Wire(pub(crate) RawLink);

impl Wire {
    /// One that has shaken hands for tools.
    pub(crate) async fn connected(transport: Transport, host: &Host) -> Self {
        let mut wire = transport.place(host).await.wire().await;
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        wire
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.0.push(line.as_bytes());
    }

    /// The next message; nothing at the end.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        let line = self.0.next().await.unwrap()?;
        Some(serde_json::from_slice(&line).unwrap())
    }

    /// Whether the connection has ended in good order: over HTTP, where a stream that ends is opened
    /// again, by saying that there is no such session.
    pub(crate) async fn is_over(&mut self) -> bool {
        match self.0.next().await {
            Ok(line) => line.is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.ask_line(&message.to_string()).await
    }

    pub(crate) async fn ask_line(&mut self, line: &str) -> Value {
        self.say(line);
        self.hear().await.unwrap()
    }
}

pub(crate) fn handshake() -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": TOKEN})
}

/// A certificate for this machine, and the trust in it.
pub(crate) fn certificate(folder: &std::path::Path) -> (Tls, Roots) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let roots = Roots::from_pem(made.cert.pem().as_bytes()).unwrap();
    (Tls::from_files(certificate, key).unwrap(), roots)
}

pub(crate) fn call(tool: &'static str, arguments: &'static str) -> ToolCallRequest<'static> {
    ToolCallRequest {
        tool_name: tool.into(),
        arguments: Object::parse(arguments).unwrap(),
        ..ToolCallRequest::new()
    }
}

/// What a tool gave back, as JSON.
pub(crate) fn data(message: &Message<'_>) -> String {
    let a2e_wire::Body::ToolCallResponse(response) = &message.body else {
        panic!("{message:?}");
    };
    assert!(response.data.success);
    response.data.data.as_ref().unwrap().to_string()
}
