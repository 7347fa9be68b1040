//! Fetches over TLS: one request on a connection of its own, to an address that was looked at.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Answer, Document, WebUrl};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};
use tokio_util::task::AbortOnDropHandle;

use super::fetch::{Fetcher, Fetching};
use super::guard::Guard;
use crate::tls::{ClientTls, tls_error};

/// A connection being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// Connects to addresses.
pub trait Dial: Send + Sync + 'static {
    /// Connects to exactly this address.
    fn connect(&self, address: SocketAddr) -> Connecting<'_>;
}

/// TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        Box::pin(TcpStream::connect(address))
    }
}

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a whole fetch may take.
const WHOLE: Duration = Duration::from_secs(5);
/// Bytes of a response's head.
const HEAD: usize = 16 * 1024;

/// Fetches over HTTP/1.1 and TLS. It follows no redirects and has no cookies, no proxies and no
/// credentials but the one for GitHub's API.
pub struct Web {
    guard: Guard,
    dial: Arc<dyn Dial>,
    tls: Arc<ClientConfig>,
    github_token: Option<HeaderValue>,
}

impl Web {
    /// Fetches from where the guard allows, over the network.
    #[must_use]
    pub fn over(guard: Guard, tls: &ClientTls) -> Self {
        Self::new(guard, Tcp, &tls.http1)
    }

    /// Fetches from where the guard allows. The TLS configuration must be for TLS 1.3 alone.
    #[must_use]
    pub fn new(guard: Guard, dial: impl Dial, tls: &ClientConfig) -> Self {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            guard,
            dial: Arc::new(dial),
            tls: Arc::new(tls),
            github_token: None,
        }
    }

    /// The same with a token for GitHub's API, which goes nowhere else.
    #[must_use]
    pub fn with_github_token(mut self, token: &str) -> Self {
        let value = HeaderValue::try_from(format!("Bearer {token}")).ok();
        self.github_token = value.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    async fn get(&self, url: &str, what: Document) -> Answer {
        let Ok(url) = WebUrl::parse(url) else {
            return Answer::Refused;
        };
        if !url.is_https() {
            return Answer::Refused;
        }
        let answer = timeout(WHOLE, self.exchange(&url, what)).await;
        answer.unwrap_or(Answer::Unreachable)
    }

    async fn exchange(&self, url: &WebUrl, what: Document) -> Answer {
        let Ok(address) = self.guard.address(url).await else {
            return Answer::Refused;
        };
        let Ok(Ok(stream)) = timeout(CONNECT, self.dial.connect(address)).await else {
            return Answer::Unreachable;
        };
        let Ok(name) = ServerName::try_from(url.name().to_owned()) else {
            return Answer::Refused;
        };
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let stream = match connector.connect(name, stream).await {
            Ok(stream) => stream,
            Err(error) => {
                let is_untrusted = matches!(
                    tls_error(&error),
                    Some(rustls::Error::InvalidCertificate(_))
                );
                return match is_untrusted {
                    true => Answer::Untrusted,
                    false => Answer::Refused,
                };
            }
        };
        let Ok((response, _connection)) = self.send(stream, url, what).await else {
            return Answer::Unreachable;
        };
        read(response, what).await
    }

    /// Sends the request; the connection goes on until it is dropped.
    async fn send(
        &self,
        stream: TlsStream<TcpStream>,
        url: &WebUrl,
        what: Document,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), hyper::Error> {
        let connecting = http1::Builder::new()
            .max_header_size(HEAD)
            .max_buf_size(HEAD)
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = connecting.await?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            // Whoever waits for the answer sees it fail.
            let _ = connection.await;
        }));
        let mut request = Request::new(Empty::<Bytes>::new());
        let path = match url.path().is_empty() {
            true => "/",
            false => url.path(),
        };
        *request.uri_mut() = path.parse().unwrap_or_default();
        *request.headers_mut() = self.headers(url, what);
        Ok((sender.send_request(request).await?, connection))
    }

    fn headers(&self, url: &WebUrl, what: Document) -> HeaderMap {
        let authority = url.origin();
        let authority = authority.trim_start_matches("https://");
        let mut headers = HeaderMap::new();
        if let Ok(host) = HeaderValue::try_from(authority) {
            headers.insert(header::HOST, host);
        }
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(header::ACCEPT, "application/json");
        set(header::ACCEPT_ENCODING, "identity");
        set(header::CONNECTION, "close");
        // GitHub's API refuses requests without a name.
        set(header::USER_AGENT, "frith");
        if let (Document::Ownership, Some(token)) = (what, &self.github_token) {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        headers
    }
}

impl Fetcher for Web {
    fn fetch<'a>(&'a self, url: &'a str, what: Document) -> Fetching<'a> {
        Box::pin(self.get(url, what))
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Web").field(&self.guard).finish()
    }
}

async fn read(response: Response<Incoming>, what: Document) -> Answer {
    let (head, mut incoming) = response.into_parts();
    if head.status.is_redirection() {
        return Answer::Redirect;
    }
    if head.status != StatusCode::OK {
        return Answer::Status(head.status.as_u16());
    }
    if !is_json(&head.headers, what) {
        return Answer::Refused;
    }
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let Ok(frame) = frame else {
            return Answer::Unreachable;
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > what.limit().saturating_sub(body.len()) {
            return Answer::Refused;
        }
        body.extend_from_slice(&data);
    }
    Answer::Body(body)
}

/// Whether a body is JSON as it stands, not packed in any way.
fn is_json(headers: &HeaderMap, what: Document) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = headers.get(header::CONTENT_ENCODING).is_none()
        || text(header::CONTENT_ENCODING) == Some("identity");
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let is_json = kind == "application/json"
        || (kind.starts_with("application/") && kind.ends_with("+json"))
        || (kind == "text/plain" && what.may_be_plain_text());
    is_plain && is_json
}
