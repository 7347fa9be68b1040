//! Listeners: each takes connections and gives them to a host, until it is dropped.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;

use crate::auth::Source;
use crate::host::Host;
use crate::http::{Connection, HttpServer};
use crate::link::Local;
use crate::newcomers::Newcomer;
use crate::tls::Tls;

/// Time for a peer to shake hands for TLS.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// After the system refused a connection (no more descriptors) others may end meanwhile.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// HTTP connections beyond those of sessions: requests, health checks, pages.
const MORE_CONNECTIONS: usize = 1024;

/// Serves NDJSON over TCP. It does not end by itself.
pub async fn serve_tcp(host: Host, listener: TcpListener, tls: Option<Tls>) {
    loop {
        let (stream, peer) = accept(|| listener.accept()).await;
        let (host, tls) = (host.clone(), tls.clone());
        let source = Source::Address(peer.ip());
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            match tls {
                // Boxed, so that a connection without TLS does not take the space of one with it.
                Some(tls) => Box::pin(serve_secure(host, stream, tls, source)).await,
                None => host.serve(stream, source).await,
            }
        });
    }
}

async fn serve_secure(host: Host, stream: TcpStream, tls: Tls, source: Source) -> io::Result<()> {
    // Shaking hands for TLS counts as what it is on the way to.
    let Some(newcomer) = host.newcomer(source) else {
        return Ok(());
    };
    let stream = secure(&tls, stream).await?;
    drop(newcomer);
    host.serve(stream, source).await
}

/// Serves NDJSON over a Unix socket. It does not end by itself.
pub async fn serve_unix(host: Host, listener: UnixListener) {
    loop {
        let (stream, _) = accept(|| listener.accept()).await;
        let host = host.clone();
        tokio::spawn(async move {
            let source = Source::User(stream.peer_cred()?.uid());
            host.serve(Local::new(stream)?, source).await
        });
    }
}

/// Serves HTTP. It does not end by itself.
pub async fn serve_http(server: HttpServer, listener: TcpListener, tls: Option<Tls>) {
    let most = server.max_sessions().saturating_add(MORE_CONNECTIONS);
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    loop {
        let (stream, peer) = accept(|| listener.accept()).await;
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "too many HTTP connections; closed one");
            continue;
        };
        let newcomer = server.newcomer(peer);
        if newcomer.is_none() && tls.is_some() {
            // To say so would take a handshake for TLS, which is more than it is worth.
            continue;
        }
        let (server, tls) = (server.clone(), tls.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = serve_one(&server, stream, tls, newcomer).await {
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
    newcomer: Option<Newcomer>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let connection = Connection {
        peer: stream.peer_addr()?,
        local: stream.local_addr()?,
    };
    match tls {
        Some(tls) => {
            let stream = secure(&tls, stream).await?;
            server.serve_newcomer(stream, connection, newcomer).await?;
        }
        None => server.serve_newcomer(stream, connection, newcomer).await?,
    }
    Ok(())
}

async fn secure(
    tls: &Tls,
    stream: TcpStream,
) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let accepted = tokio::time::timeout(TLS_HANDSHAKE, tls.accept(stream));
    accepted.await.map_err(late)?
}

/// The next connection, however often the system has none to give.
async fn accept<T, F: Future<Output = io::Result<T>>>(mut next: impl FnMut() -> F) -> T {
    loop {
        match next().await {
            Ok(connection) => return connection,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}
