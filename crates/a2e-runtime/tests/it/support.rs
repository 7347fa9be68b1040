//! Hosts behind each kind of stream, and clients that connect to them.

use a2e_runtime::demo::Demo;
use a2e_runtime::{
    AgentConfig, Client, ClientError, Handler, Host, HostBuilder, Secret, Source, TokenStore,
};
use a2e_wire::messages::tool::ToolCallRequest;
use a2e_wire::{Message, Object};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub(crate) const TOKEN: &str = "open sesame";

/// A stream of any kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Transport {
    Memory,
    /// A pipe that holds seven bytes, so that every message comes in pieces.
    Narrow,
    Tcp,
    Unix,
}

pub(crate) const TRANSPORTS: [Transport; 4] = [
    Transport::Memory,
    Transport::Narrow,
    Transport::Tcp,
    Transport::Unix,
];

pub(crate) fn demo() -> HostBuilder {
    let tokens = TokenStore::in_memory(&Secret::new(TOKEN)).unwrap();
    Host::builder()
        .plugin(Demo::default())
        .authenticator(tokens)
}

impl Transport {
    /// A connection to the host.
    pub(crate) async fn connect(self, host: &Host) -> Box<dyn Stream> {
        let host = host.clone();
        match self {
            Self::Memory | Self::Narrow => {
                let size = if matches!(self, Self::Narrow) {
                    7
                } else {
                    64 * 1024
                };
                let (ours, theirs) = tokio::io::duplex(size);
                tokio::spawn(async move { host.serve(theirs, Source::Own).await });
                Box::new(ours)
            }
            Self::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tokio::spawn(async move {
                    host.serve(listener.accept().await.unwrap().0, Source::Own)
                        .await
                });
                Box::new(TcpStream::connect(address).await.unwrap())
            }
            Self::Unix => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("host.sock");
                let listener = UnixListener::bind(&path).unwrap();
                tokio::spawn(async move {
                    host.serve(listener.accept().await.unwrap().0, Source::Own)
                        .await
                });
                Box::new(UnixStream::connect(&path).await.unwrap())
            }
        }
    }

    pub(crate) async fn client(self, host: &Host) -> Client {
        let stream = self.connect(host).await;
        client(stream, TOKEN, &["tools"]).await.unwrap()
    }
}

pub(crate) async fn client(
    stream: Box<dyn Stream>,
    token: &str,
    wanted: &[&str],
) -> Result<Client, ClientError> {
    let config = AgentConfig {
        auth_token: token.into(),
        wanted: wanted.iter().map(|name| (*name).into()).collect(),
        ..AgentConfig::default()
    };
    Client::connect(stream, config, Handler::none()).await
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
