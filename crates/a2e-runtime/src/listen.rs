//! Listeners: each takes connections and gives them to a host, until it is dropped.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use base::LogLimit;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::auth::Source;
use crate::connections::{ConnectionSlot, Connections};
use crate::host::Host;
use crate::http::{Connection, HttpServer};
use crate::link::Local;
use crate::newcomers::Newcomer;
use crate::tls::Tls;

/// Time for a peer to shake hands for TLS.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// The system refused a connection (no more descriptors): how long to wait first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is spoken, for peers that speak HTTP without TLS.
const HTTP: &str = "This port speaks A2E over TLS. Use https:// or wss://.\n";
const NDJSON: &str = "This port speaks A2E as NDJSON over TLS, not HTTP.\n";

type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Connections that cannot be accepted, and those that are closed.
static REFUSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));
static CLOSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));

/// Serves NDJSON over TCP. It does not end by itself.
pub async fn serve_tcp(host: Host, listener: TcpListener, tls: Option<Tls>) {
    loop {
        let accepted = accept(host.connections(), || accept_tcp(&listener));
        let (stream, source, slot) = accepted.await;
        let (host, tls) = (host.clone(), tls.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            match tls {
                // Boxed, so that a connection without TLS does not take the space of one with it.
                Some(tls) => Box::pin(serve_secure(host, stream, tls, (source, slot))).await,
                None => host.serve_accepted(stream, source, Some(slot)).await,
            }
        });
    }
}

async fn serve_secure(
    host: Host,
    stream: TcpStream,
    tls: Tls,
    (source, slot): (Source, Arc<ConnectionSlot>),
) -> io::Result<()> {
    // Shaking hands for TLS counts as what it is on the way to.
    let Some(newcomer) = host.newcomer(source) else {
        return Ok(());
    };
    let secured = slot.serve(secure(&tls, stream, NDJSON)).await;
    drop(newcomer);
    match secured.transpose()?.flatten() {
        Some(stream) => host.serve_accepted(stream, source, Some(slot)).await,
        None => Ok(()),
    }
}

/// Serves NDJSON over a Unix socket. It does not end by itself.
pub async fn serve_unix(host: Host, listener: UnixListener) {
    loop {
        let accepted = accept(host.connections(), || accept_unix(&listener));
        let (stream, source, slot) = accepted.await;
        let host = host.clone();
        tokio::spawn(async move {
            let stream = Local::new(stream)?;
            host.serve_accepted(stream, source, Some(slot)).await
        });
    }
}

/// Serves HTTP. It does not end by itself.
pub async fn serve_http(server: HttpServer, listener: TcpListener, tls: Option<Tls>) {
    loop {
        let accepted = accept(server.connections(), || accept_tcp(&listener));
        let (stream, source, slot) = accepted.await;
        let newcomer = server.newcomer(source);
        if newcomer.is_none() && tls.is_some() {
            // To say so would take a handshake for TLS, which is more than it is worth.
            continue;
        }
        let (server, tls) = (server.clone(), tls.clone());
        tokio::spawn(async move {
            let counted = (newcomer, Arc::downgrade(&slot));
            let served = slot.serve(serve_one(&server, stream, tls, counted));
            if let Some(Err(error)) = served.await {
                tracing::debug!(%error, "an HTTP connection broke");
            }
        });
    }
}

/// Listens on a Unix socket that only this user can open. What a process that is gone left there is
/// replaced.
///
/// # Errors
/// If somebody else listens there, or the path cannot be used.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            let text = format!("another process listens on {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        // A file of another kind refuses too, and is nothing to be removed.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether there is no descriptor left for one more file or socket.
pub(crate) fn is_too_many(error: &io::Error) -> bool {
    let error = rustix::io::Errno::from_io_error(error);
    matches!(
        error,
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    )
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

async fn serve_one(
    server: &HttpServer,
    stream: TcpStream,
    tls: Option<Tls>,
    counted: (Option<Newcomer>, Weak<ConnectionSlot>),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let connection = Connection {
        peer: stream.peer_addr()?,
        local: stream.local_addr()?,
    };
    match tls {
        // Boxed, so that a connection without TLS does not take the space of one with it.
        Some(tls) => {
            if let Some(stream) = Box::pin(secure(&tls, stream, HTTP)).await? {
                Box::pin(server.serve_accepted(stream, connection, counted)).await?;
            }
        }
        None => server.serve_accepted(stream, connection, counted).await?,
    }
    Ok(())
}

/// Shakes hands for TLS; with a peer that speaks HTTP without it, nothing comes of that but an answer.
async fn secure(tls: &Tls, stream: TcpStream, text: &str) -> io::Result<Option<TlsStream>> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let accepted = async {
        match net::is_plain_http(&stream).await? {
            true => Ok(Err(stream)),
            false => tls.accept(stream).await.map(Ok),
        }
    };
    let accepted = tokio::time::timeout(TLS_HANDSHAKE, accepted);
    match accepted.await.map_err(late)?? {
        Ok(stream) => Ok(Some(stream)),
        Err(plain) => {
            net::refuse_plain_http(plain, text, net::DiscardLimits::default()).await;
            Ok(None)
        }
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, Source)> {
    let (stream, peer) = listener.accept().await?;
    Ok((stream, Source::Address(peer.ip())))
}

async fn accept_unix(listener: &UnixListener) -> io::Result<(UnixStream, Source)> {
    let (stream, _) = listener.accept().await?;
    let source = Source::User(stream.peer_cred()?.uid());
    Ok((stream, source))
}

/// The next connection with its slot, however often the system has none to give.
async fn accept<T, F: Future<Output = io::Result<(T, Source)>>>(
    connections: &Connections,
    mut next: impl FnMut() -> F,
) -> (T, Source, Arc<ConnectionSlot>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (connection, source) = match next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(more) = REFUSED.admit(Instant::now()) {
                    tracing::warn!(%error, "cannot accept a connection{more}");
                }
                if is_too_many(&error) {
                    connections.evict_silent();
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                continue;
            }
        };
        if let Some(slot) = connections.admit(source) {
            return (connection, source, slot);
        }
        if let Some(more) = CLOSED.admit(Instant::now()) {
            tracing::warn!(%source, "closed a connection: there are as many as may be{more}");
        }
    }
}
