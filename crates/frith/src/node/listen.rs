//! Where the node listens, and where it says it is.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use a2e_runtime::config::{Config, UnixSocket};
use a2e_runtime::{DataDir, Host, HttpServer, Tls, bind_unix, serve_http, serve_tcp, serve_unix};
use anyhow::{Context, Result};
use serde_json::json;
use tokio::net::TcpListener;

/// Where the node is.
pub(super) struct Endpoints {
    pub(super) http: SocketAddr,
    pub(super) tcp: Option<SocketAddr>,
    pub(super) unix: Option<PathBuf>,
    pub(super) is_secure: bool,
    pub(super) did: String,
    pub(super) a2a: Option<String>,
}

/// Starts all listeners.
pub(super) async fn listen(
    config: &Config,
    data: &DataDir,
    host: &Host,
    http: &HttpServer,
    tls: Option<&Tls>,
) -> Result<Endpoints> {
    let server = &config.server;
    let bind = async |key: &str, address: SocketAddr| {
        let listener = TcpListener::bind(address).await;
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let hint = match listener.as_ref().is_err_and(is_taken) && key == "server.listen" {
            true => {
                "; another program has that port, `--listen 127.0.0.1:0` takes any that is free"
            }
            false => "",
        };
        listener.with_context(|| format!("cannot listen on {address} (`{key}` says so){hint}"))
    };
    let web = bind("server.listen", server.listen).await?;
    let mut endpoints = Endpoints {
        http: web.local_addr()?,
        tcp: None,
        unix: None,
        is_secure: tls.is_some(),
        did: String::new(),
        a2a: None,
    };
    tokio::spawn(serve_http(http.clone(), web, tls.cloned()));
    if let Some(address) = server.tcp {
        let listener = bind("server.tcp", address).await?;
        endpoints.tcp = Some(listener.local_addr()?);
        tokio::spawn(serve_tcp(host.clone(), listener, tls.cloned()));
    }
    let path = match &server.unix {
        UnixSocket::Off => return Ok(endpoints),
        UnixSocket::InDataDir => data.a2e_socket(),
        UnixSocket::At(path) => path.clone(),
    };
    let listener = bind_unix(&path);
    let listener = listener.with_context(|| format!("cannot listen on {}", path.display()))?;
    tokio::spawn(serve_unix(host.clone(), listener));
    endpoints.unix = Some(path);
    Ok(endpoints)
}

impl Endpoints {
    pub(super) fn http(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.http)
    }

    pub(super) fn ws(&self) -> String {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        format!("{scheme}://{}/ws", self.http)
    }

    /// Where MCP clients come in, if this program has that part.
    pub(super) fn mcp(&self) -> Option<String> {
        cfg!(feature = "mcp").then(|| format!("{}/mcp", self.http()))
    }

    pub(super) fn tcp(&self) -> Option<String> {
        let scheme = if self.is_secure { "tls" } else { "tcp" };
        self.tcp.map(|address| format!("{scheme}:{address}"))
    }

    pub(super) fn unix(&self) -> Option<String> {
        let path = self.unix.as_ref()?;
        // Who reads it may be in another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(format!("unix:{}", path.display()))
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        json!({
            "pid": std::process::id(),
            "did": self.did,
            "http": self.http(),
            "ws": self.ws(),
            "mcp": self.mcp(),
            "tcp": self.tcp(),
            "unix": self.unix(),
            "a2a": self.a2a,
        })
    }
}

/// Whoever is on the way can read what goes over the network without TLS, tokens first of all.
pub(super) fn warn_of_plain_text(config: &Config) {
    let server = &config.server;
    let addresses = [
        ("server.listen", Some(server.listen)),
        ("server.tcp", server.tcp),
    ];
    for (key, address) in addresses {
        let public = address.filter(|address| !address.ip().to_canonical().is_loopback());
        if let (Some(address), None) = (public, &server.tls) {
            tracing::warn!(
                "`{key}` is {address}: tokens and messages go over the network for everyone to read; \
                 set `server.tls`, or listen on 127.0.0.1"
            );
        }
    }
}
