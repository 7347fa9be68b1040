//! HTTP with server-sent events (`a2e-behaviour.md` §1): `POST /send` on one connection, `GET /stream`
//! on another.
//!
//! Messages must arrive in their order, and waiting for each answer would cost a round trip a
//! message; so the requests go out one behind the other on one connection (HTTP/1.1 pipelining).

mod events;
mod sender;

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use a2e_wire::Raw;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::events::EventStream;
use self::sender::Sender;
use super::http1::{self, Head};
use super::link::{Lines, Output, Transport};
use super::net::{Endpoint, Roots, Stream};

/// A session of HTTP's; its id is a secret.
pub(super) struct HttpLink {
    sender: Sender,
    events: EventStream,
}

/// How to reach the routes of a host.
#[derive(Clone)]
struct Site {
    endpoint: Endpoint,
    /// What stands before each route's path.
    path: String,
    roots: Roots,
    /// The session's id, once there is one.
    session: String,
}

#[derive(serde::Deserialize)]
struct NewSession {
    session_id: String,
}

/// The longest body of a response that is not a stream.
const LONGEST_BODY: usize = 64 * 1024;

/// How long the host may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(30);

impl HttpLink {
    /// Opens a session and its stream.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        path: &str,
        roots: &Roots,
    ) -> io::Result<Self> {
        let mut site = Site {
            endpoint: endpoint.clone(),
            path: path.to_owned(),
            roots: roots.clone(),
            session: String::new(),
        };
        let (mut stream, head, mut body) = site
            .ask("POST", "/session", "content-length: 0\r\n")
            .await?;
        read_body(&mut stream, head, &mut body).await?;
        if head.status != 200 {
            return Err(refused(head.status, &body));
        }
        let text = String::from_utf8_lossy(&body);
        let id = Raw::parse(&text, a2e_wire::Limits::default())
            .ok()
            .and_then(|raw| raw.deserialize::<NewSession>().ok())
            .map(|session| session.session_id);
        let plain = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
        site.session = id
            .filter(plain)
            .ok_or_else(|| io::Error::other("the host opened no session; is it an A2E host?"))?;
        let events = EventStream::open(site.clone()).await?;
        let stream = (!head.last).then_some(stream);
        Ok(Self {
            sender: Sender::new(site, stream),
            events,
        })
    }
}

impl Site {
    /// Connects, within the time that the host may take to begin an answer.
    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let connected = tokio::time::timeout(ANSWER, self.endpoint.connect(&self.roots)).await;
        connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// The start of a request, up to its headers.
    fn request(&self, method: &str, route: &str) -> String {
        let authority = self.endpoint.authority();
        let mut head = format!(
            "{method} {}{route} HTTP/1.1\r\nhost: {authority}\r\n",
            self.path
        );
        if !self.session.is_empty() {
            head += &format!("x-session-id: {}\r\n", self.session);
        }
        head
    }

    /// Asks on a new connection; returns it with the answer's head and what came behind that.
    async fn ask(
        &self,
        method: &str,
        route: &str,
        headers: &str,
    ) -> io::Result<(Box<dyn Stream>, Head, Vec<u8>)> {
        let ask = async {
            let mut stream = self.endpoint.connect(&self.roots).await?;
            let request = format!("{}{headers}\r\n", self.request(method, route));
            stream.write_all(request.as_bytes()).await?;
            stream.flush().await?;
            let mut bytes = Vec::new();
            loop {
                if let Some((head, length)) = http1::head(&bytes)? {
                    bytes.drain(..length);
                    return Ok((stream, head, bytes));
                }
                if stream.read_buf(&mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        tokio::time::timeout(ANSWER, ask)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// Reads the rest of a body; `bytes` has its beginning as it came, and then all of it.
async fn read_body(
    stream: &mut Box<dyn Stream>,
    mut head: Head,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let mut found = Vec::new();
    loop {
        while !head.body.is_done() {
            let (used, data) = head.body.take(bytes)?;
            found.extend_from_slice(data);
            if used == 0 {
                break;
            }
            bytes.drain(..used);
        }
        if found.len() > LONGEST_BODY {
            return Err(io::Error::other("the host's answer is too long"));
        }
        if head.body.is_done() || stream.read_buf(bytes).await? == 0 {
            *bytes = found;
            return Ok(());
        }
    }
}

/// What a status other than success means.
fn refused(status: u16, body: &[u8]) -> io::Error {
    let body: String = String::from_utf8_lossy(body).chars().take(200).collect();
    match status {
        404 => io::Error::new(
            io::ErrorKind::NotFound,
            format!("the host does not know the session or the route: {body}"),
        ),
        _ => io::Error::other(format!(
            "the host answered with HTTP status {status}: {body}"
        )),
    }
}

impl Transport for HttpLink {
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<()>> {
        self.sender.poll_send(context, output)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        self.events.poll_read(context, lines)
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sender.poll_answered(context)
    }
}
