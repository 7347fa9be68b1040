//! JSON to a server: one request over a connection of its own.

use std::io;

use a2a_net::tls::{ClientTls, Roots};
use anyhow::Result;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HeaderMap;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A server that takes JSON.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    url: Uri,
    /// For `https://`.
    tls: Option<ClientTls>,
}

impl Destination {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let url: Uri = url.parse()?;
        let tls = url.scheme_str() == Some("https");
        let tls = tls.then(|| ClientTls::new(Roots::system())).transpose()?;
        Ok(Self { url, tls })
    }

    /// Sends a value; an answer that says that it was not taken is an error.
    pub(crate) async fn post(&self, headers: HeaderMap, value: &Value) -> io::Result<()> {
        let host = self.url.host().unwrap_or_default();
        let usual = match self.tls {
            Some(_) => 443,
            None => 80,
        };
        // An address of version 6 stands in brackets.
        let machine = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_u16().unwrap_or(usual);
        let stream = TcpStream::connect((machine, port)).await?;
        match &self.tls {
            Some(tls) => {
                self.send(tls.over(host, stream).await?, headers, value)
                    .await
            }
            None => self.send(stream, headers, value).await,
        }
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        headers: HeaderMap,
        value: &Value,
    ) -> io::Result<()> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let authority = self.url.authority().map_or("", |it| it.as_str());
        let path = self.url.path_and_query().map_or("/", |it| it.as_str());
        let mut request = Request::post(path)
            .header("host", authority)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(value.to_string())))
            .map_err(io::Error::other)?;
        request.headers_mut().extend(headers);
        // Until the answer is there somebody has to read and write.
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer.map_err(io::Error::other)?,
            ended = connection => {
                ended.map_err(io::Error::other)?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("it answered {}", answer.status()))),
        }
    }
}
