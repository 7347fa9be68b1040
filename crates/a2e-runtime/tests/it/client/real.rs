//! The client against the host of this crate, over every address, with connections that are cut.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, CallOptions, Client, Connector, Guard, Handler, Host, HttpServer, Limits,
    Reconnect, serve_http, serve_tcp,
};
use a2e_wire::Body;
use a2e_wire::messages::base::Ping;
use a2e_wire::messages::tool::ToolCallRequest;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::{TOKEN, call, data, demo};

/// Stands between a client and a host, and cuts all connections when told to.
struct Proxy {
    address: SocketAddr,
    cut: Arc<Mutex<CancellationToken>>,
}

impl Proxy {
    async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let current = Arc::clone(&cut);
        tokio::spawn(async move {
            loop {
                let (mut ours, _) = listener.accept().await.unwrap();
                let cut = current.lock().unwrap().clone();
                tokio::spawn(async move {
                    let mut theirs = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                        () = cut.cancelled() => {}
                    }
                });
            }
        });
        Self { address, cut }
    }

    fn cut(cut: &Mutex<CancellationToken>) {
        let mut current = cut.lock().unwrap();
        current.cancel();
        *current = CancellationToken::new();
    }
}

/// A host that listens for NDJSON and for HTTP.
async fn host() -> (SocketAddr, SocketAddr, HttpServer) {
    let limits = Limits {
        max_queue: 200,
        ..Limits::default()
    };
    let host: Host = demo().limits(limits).build();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = (tcp.local_addr().unwrap(), http.local_addr().unwrap());
    tokio::spawn(serve_tcp(host.clone(), tcp, None));
    let server = HttpServer::new(host, Guard::default());
    tokio::spawn(serve_http(server.clone(), http, None));
    (addresses.0, addresses.1, server)
}

async fn client(address: &str) -> Client {
    let config = AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    let policy = Reconnect {
        first: Duration::from_millis(1),
        ..Reconnect::default()
    };
    let address: Address = address.parse().unwrap();
    let connector = Connector::new(address).agent(config);
    connector.reconnect(Some(policy)).connect().await.unwrap()
}

#[tokio::test]
async fn every_address() {
    let (tcp, http, _) = host().await;
    for address in [
        format!("tcp:{tcp}"),
        format!("http://{http}"),
        format!("ws://{http}"),
    ] {
        let client = client(&address).await;
        let calls =
            (0..100).map(|_| client.rpc(call("echo", r#"{"x":1}"#), CallOptions::default()));
        for outcome in futures_util::future::join_all(calls).await {
            assert_eq!(data(&outcome.unwrap()), r#"{"x":1}"#, "{address}");
        }
        client.disconnect(Duration::from_secs(1)).await;
    }
}

/// Connections are cut in the middle of a stream of events: each comes once, in its order, and so
/// does the response.
#[tokio::test]
async fn a_stream_goes_on_over_cut_connections() {
    let (tcp, http, server) = host().await;
    for (scheme, to) in [("tcp:", tcp), ("http://", http), ("ws://", http)] {
        let proxy = Proxy::start(to).await;
        server.set_guard(Guard {
            names: vec![proxy.address.to_string()],
            origins: Vec::new(),
        });
        let client = client(&format!("{scheme}{}", proxy.address)).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sink, cut) = (Arc::clone(&seen), Arc::clone(&proxy.cut));
        let options = CallOptions {
            event_callback: Handler::new(move |event| {
                let Body::ToolEvent(event) = event.body else {
                    panic!()
                };
                sink.lock().unwrap().push(event.seq);
                if event.seq % 100 == 50 {
                    Proxy::cut(&cut);
                }
            }),
            ..CallOptions::default()
        };
        let request = ToolCallRequest {
            streaming: true,
            ..call("stream", r#"{"count":300}"#)
        };
        let response = client.rpc(request, options).await.unwrap();
        assert_eq!(data(&response), r#"{"counted":300}"#, "{scheme}");
        let expected: Vec<i64> = (0..300).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "{scheme}");
        client
            .rpc(Ping::new(), CallOptions::default())
            .await
            .unwrap();
    }
}
