//! One request and its answer, on a connection of its own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Roots;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::AbortOnDropHandle;

use super::places::Places;
use super::target::{Security, Target};
use super::{MAX_HEAD, MAX_RESPONSE_HEADERS, Reach};
use crate::shares::{Kind, Shares};
use crate::tool::ToolFailure;

/// How requests are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which addresses may be reached.
    pub reach: Reach,
    /// Whose certificates are trusted.
    pub roots: Roots,
    /// How long a request may take, from the first look for an address to the last byte.
    pub time: Duration,
    /// Bytes of a body that are read; the rest is left out.
    pub body_bytes: usize,
    /// Requests that are made to one host at once; others wait. There are never more than
    /// [`MAX_AT_ONCE`](super::MAX_AT_ONCE) in all.
    pub per_host: usize,
    /// Requests that one agent may have under way; more are refused.
    pub per_agent: usize,
}

/// Makes requests. It follows no redirects and has no cookies, no proxies and no credentials.
pub struct Client {
    pub(super) settings: Settings,
    tls: OnceCell<Arc<ClientConfig>>,
    places: Places,
    shares: Arc<Shares>,
}

/// A request that may be made.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) target: Target,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) time: Option<Duration>,
    /// Which addresses it may reach.
    pub(crate) reach: Reach,
    /// Bytes of the answer's body that are read.
    pub(crate) body_bytes: usize,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether there was more of the body.
    pub(crate) is_cut: bool,
}

impl Answer {
    /// The same, of which so many bytes are shown.
    pub(super) fn beyond(self, most: usize) -> Self {
        Self {
            is_cut: self.is_cut || self.body.len() > most,
            ..self
        }
    }
}

/// What came back so far.
pub(crate) struct Opened {
    pub(crate) head: hyper::http::response::Parts,
    pub(crate) body: Incoming,
    /// Dropping it ends the connection.
    pub(crate) connection: AbortOnDropHandle<()>,
}

/// How long one address may take to be connected to.
const CONNECT: Duration = Duration::from_secs(3);

impl Default for Settings {
    fn default() -> Self {
        Self {
            reach: Reach::Public,
            roots: Roots::System,
            time: Duration::from_secs(30),
            body_bytes: 4 << 20,
            per_host: 6,
            per_agent: 8,
        }
    }
}

impl Client {
    /// A client that makes requests so.
    #[must_use]
    pub fn new(settings: Settings) -> Arc<Self> {
        let places = Places::new(settings.per_host);
        let shares = Shares::new(Kind::Fetches, settings.per_agent);
        Arc::new(Self {
            settings,
            tls: OnceCell::new(),
            places,
            shares,
        })
    }

    /// Which addresses it may reach.
    pub(crate) const fn reach(&self) -> Reach {
        self.settings.reach
    }

    /// Makes a request for an agent. It ends with this future.
    pub(crate) async fn ask(&self, agent: &Arc<str>, ask: Ask) -> Result<Answer, ToolFailure> {
        let _share = self.shares.take(agent)?;
        let most = self.settings.time;
        let time = ask.time.map_or(most, |asked| asked.min(most));
        let host = ask.target.host.clone();
        match timeout(time, self.exchange(ask)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ToolFailure::new(format!(
                "`{host}` took longer than {} s",
                time.as_secs_f32()
            ))),
        }
    }

    async fn exchange(&self, ask: Ask) -> Result<Answer, ToolFailure> {
        let _place = self.places.take(&ask.target.host).await;
        let (most, host) = (ask.body_bytes, ask.target.host.clone());
        let (response, connection) = self.begin(ask).await?;
        let answer = read(response, most).await;
        drop(connection);
        answer.map_err(|error| failed(&host, &error))
    }

    /// Makes a request whose answer may go on and on. Whoever makes it says how long that may be.
    pub(crate) async fn open(&self, ask: Ask) -> Result<Opened, ToolFailure> {
        let (response, connection) = self.begin(ask).await?;
        let (head, body) = response.into_parts();
        Ok(Opened {
            head,
            body,
            connection,
        })
    }

    /// Makes a request; gives what comes first of its answer.
    async fn begin(
        &self,
        ask: Ask,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), ToolFailure> {
        let stream = self.connect(&ask.target, ask.reach).await?;
        let security = ask.target.security;
        let host = ask.target.host.clone();
        let failed = |error: &dyn fmt::Display| failed(&host, error);
        let response = match security {
            Security::None => send(stream, ask).await,
            Security::Tls => {
                let connector = TlsConnector::from(self.tls().await?);
                let name = ServerName::try_from(host.clone()).map_err(|error| failed(&error))?;
                let stream = connector.connect(name, stream).await;
                send(stream.map_err(|error| failed(&error))?, ask).await
            }
        };
        response.map_err(|error| failed(&error))
    }

    /// A connection to exactly an address that was found to be one that may be reached.
    async fn connect(&self, target: &Target, reach: Reach) -> Result<TcpStream, ToolFailure> {
        let host = &target.host;
        let found = tokio::net::lookup_host((host.as_str(), target.port)).await;
        let found: Vec<_> = found
            .map_err(|_| ToolFailure::new(format!("`{host}` has no address")))?
            .collect();
        if !reach.allows_all(found.iter().map(std::net::SocketAddr::ip)) {
            let text = format!("`{host}` leads to an address that is not public");
            return Err(ToolFailure::denied("address_not_public", text));
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in found {
            match timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        let text = format!("`{host}` cannot be connected to: {}", last.kind());
        Err(ToolFailure::new(text))
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, ToolFailure> {
        let make = || async {
            let roots = trusted(&self.settings.roots).await?;
            let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(|error| ToolFailure::new(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Arc::new(config))
        };
        self.tls.get_or_try_init(make).await.cloned()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.settings).finish()
    }
}

fn failed(host: &str, error: &dyn fmt::Display) -> ToolFailure {
    ToolFailure::new(format!("the request to `{host}` failed: {error}"))
}

/// Reads a body, as far as that goes.
async fn read(response: Response<Incoming>, most: usize) -> Result<Answer, hyper::Error> {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut is_cut) = (Vec::new(), false);
    while let Some(frame) = incoming.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let room = most.saturating_sub(body.len());
        body.extend_from_slice(data.get(..room).unwrap_or(&data));
        if data.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
        is_cut,
    })
}

/// Sends a request; the connection goes on until it is dropped.
async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ask: Ask,
) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), hyper::Error> {
    let connecting = http1::Builder::new()
        .max_headers(MAX_RESPONSE_HEADERS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = connecting.await?;
    let connection = tokio::spawn(async move {
        // Whoever waits for the answer sees it fail.
        let _ = connection.await;
    });
    let connection = AbortOnDropHandle::new(connection);
    // A method with a body says that it is empty (RFC 9110, section 8.6); some servers refuse it else.
    let is_empty =
        ask.body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(&ask.method);
    let mut request = Request::new(Full::new(Bytes::from(ask.body)));
    *request.method_mut() = ask.method;
    *request.uri_mut() = ask.target.path.into();
    *request.headers_mut() = ask.headers;
    let mut set = |name, value| request.headers_mut().insert(name, value);
    if is_empty {
        set(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    set(header::HOST, ask.target.authority);
    let identity = HeaderValue::from_static("identity");
    set(header::ACCEPT_ENCODING, identity);
    set(header::CONNECTION, HeaderValue::from_static("close"));
    Ok((sender.send_request(request).await?, connection))
}

async fn trusted(roots: &Roots) -> Result<Arc<RootCertStore>, ToolFailure> {
    match roots {
        Roots::Only(roots) => Ok(Arc::clone(roots)),
        Roots::System => {
            let load = || Ok(rustls_native_certs::load_native_certs().certs);
            let certificates = crate::tool::blocking(load).await?;
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates);
            match roots.is_empty() {
                true => Err(ToolFailure::new("this system has no trusted certificates")),
                false => Ok(Arc::new(roots)),
            }
        }
    }
}
