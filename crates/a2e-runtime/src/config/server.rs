//! The section `server`: where a node listens.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::read::Field;
use super::sections::{Reader, set, set_some};

/// Where a node listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// HTTP, server-sent events and WebSocket.
    pub listen: SocketAddr,
    /// NDJSON over TCP.
    pub tcp: Option<SocketAddr>,
    /// NDJSON over a Unix socket.
    pub unix: UnixSocket,
    /// Names by which the node may be addressed over HTTP, beside its own addresses.
    pub names: Vec<String>,
    /// Web pages that may speak to the node.
    pub origins: Vec<String>,
    /// The certificate, for TLS on all but the Unix socket.
    pub tls: Option<Tls>,
    /// Whether agents without a token are let in; only if nobody else can reach the node.
    pub allow_unauthenticated: bool,
}

/// The Unix socket of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixSocket {
    /// None.
    Off,
    /// `a2e.sock` in the data directory.
    InDataDir,
    /// At this path.
    At(PathBuf),
}

/// The files of a certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those between it and a root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8765)),
            tcp: None,
            unix: UnixSocket::InDataDir,
            names: Vec::new(),
            origins: Vec::new(),
            tls: None,
            allow_unauthenticated: false,
        }
    }
}

impl Reader<'_> {
    pub(super) fn server(&self, field: &Field<'_>) -> Option<Server> {
        let mut server = Server::default();
        let mut section = field.section()?;
        set(&mut server.listen, section.field("listen"), address);
        set_some(&mut server.tcp, section.field("tcp"), address);
        set(&mut server.unix, section.field("unix"), |it| self.unix(it));
        set(&mut server.names, section.field("names"), |it| it.words());
        set(&mut server.origins, section.field("origins"), |it| {
            it.words()
        });
        set_some(&mut server.tls, section.field("tls"), |it| self.tls(it));
        set(
            &mut server.allow_unauthenticated,
            section.field("allow_unauthenticated"),
            |it| it.boolean(),
        );
        section.finish();
        Some(server)
    }

    fn unix(&self, field: &Field<'_>) -> Option<UnixSocket> {
        match field.is_text() {
            true => self.path(field).map(UnixSocket::At),
            false if field.boolean()? => Some(UnixSocket::InDataDir),
            false => Some(UnixSocket::Off),
        }
    }

    fn tls(&self, field: &Field<'_>) -> Option<Tls> {
        let mut section = field.section()?;
        let certificate = section.required("certificate", field.at());
        let key = section.required("key", field.at());
        section.finish();
        Some(Tls {
            certificate: self.path(&certificate?)?,
            key: self.path(&key?)?,
        })
    }
}

/// `ADDRESS:PORT`; `localhost` is one address, so that nobody listens where he did not look.
pub(super) fn address(field: &Field<'_>) -> Option<SocketAddr> {
    match listen_address(field.text()?) {
        Ok(address) => Some(address),
        Err(text) => field.wrong(&text),
    }
}

/// Reads `ADDRESS:PORT`, where to listen. `localhost` is one address, so that nobody listens where he
/// did not look; other names are not looked up.
///
/// # Errors
/// What it must be, and what was probably meant.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let port = text.strip_prefix(':').unwrap_or(text);
    let meant = match text {
        _ if port.parse::<u16>().is_ok() => format!("; did you mean 127.0.0.1:{port}?"),
        address if address.parse::<std::net::IpAddr>().is_ok() => match address.contains(':') {
            true => format!("; did you mean [{address}]:8765?"),
            false => format!("; did you mean {address}:8765?"),
        },
        _ => String::new(),
    };
    let must = "must be ADDRESS:PORT, such as 127.0.0.1:8765 or [::1]:8765";
    numeric.parse().map_err(|_| format!("{must}{meant}"))
}
