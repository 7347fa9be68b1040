//! Where a host is.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::UnixStream;

use super::child::ChildLink;
use super::http::HttpLink;
use super::link::Link;
use super::net::{Endpoint, Security};
use super::reconnect::Dial;
use super::ws::connect_ws;
use crate::link::Local;
use crate::plugin::BoxFuture;

pub use super::net::Roots;

/// Where a host is and how to speak to it, as users write it:
///
/// | | |
/// |---|---|
/// | `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT` | NDJSON over a socket |
/// | `unix:PATH` | NDJSON over a Unix socket |
/// | `cmd:PROGRAM ARGUMENTS` | starts a host (words are split at spaces); NDJSON on its standard input and output |
/// | `http://ADDRESS:PORT`, `https://…` | HTTP with server-sent events |
/// | `ws://ADDRESS:PORT`, `wss://…` | WebSocket, at `/ws` unless a path is given |
#[derive(Debug, Clone)]
pub struct Address {
    text: String,
    kind: Kind,
    roots: Roots,
}

#[derive(Debug, Clone)]
enum Kind {
    Socket(Endpoint),
    Unix(PathBuf),
    Command(Vec<String>),
    /// With the path before `/session`, which may be empty.
    Http(Endpoint, String),
    Ws(Endpoint, String),
}

/// Why a text is no address of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It starts with nothing we know.
    #[error(
        "`{0}` is no host; say tcp:ADDRESS:PORT, tls:ADDRESS:PORT, unix:PATH, cmd:PROGRAM, http://ADDRESS:PORT or ws://ADDRESS:PORT"
    )]
    Scheme(String),
    /// What stands behind the scheme cannot be used.
    #[error("`{0}` cannot be used: {1}")]
    Rest(String, &'static str),
}

impl Address {
    /// A host that is started for this: a program and its arguments, whatever is in them.
    ///
    /// # Errors
    /// If there is no program.
    pub fn command(words: Vec<String>) -> Result<Self, AddressError> {
        let text = format!("cmd:{}", words.join(" "));
        if words.first().is_none_or(String::is_empty) {
            return Err(AddressError::Rest(text, "`cmd:` needs a program"));
        }
        Ok(Self {
            text,
            kind: Kind::Command(words),
            roots: Roots::System,
        })
    }

    /// Whether it is a program that is started for each connection.
    pub(crate) const fn is_command(&self) -> bool {
        matches!(self.kind, Kind::Command(_))
    }

    /// The machine and port, socket or program, however it is spoken to.
    pub(crate) fn place(&self) -> String {
        match &self.kind {
            Kind::Socket(endpoint) | Kind::Http(endpoint, _) | Kind::Ws(endpoint, _) => {
                format!("{}:{}", endpoint.host, endpoint.port)
            }
            Kind::Unix(_) | Kind::Command(_) => self.text.clone(),
        }
    }

    /// The same address, trusting these authorities instead of the system's.
    #[must_use]
    pub fn trusting(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |why| AddressError::Rest(text.into(), why);
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(AddressError::Scheme(text.into()));
        };
        let kind = match scheme {
            "tcp" => Kind::Socket(socket(rest, Security::None).map_err(wrong)?),
            "tls" => Kind::Socket(socket(rest, Security::Tls).map_err(wrong)?),
            "unix" if rest.is_empty() => return Err(wrong("say unix:PATH")),
            "unix" => Kind::Unix(rest.into()),
            "cmd" => {
                let words: Vec<String> = rest.split_whitespace().map(Into::into).collect();
                if words.is_empty() {
                    return Err(wrong("`cmd:` needs a program"));
                }
                Kind::Command(words)
            }
            "http" | "https" | "ws" | "wss" => {
                let security = match scheme {
                    "https" | "wss" => Security::Tls,
                    _ => Security::None,
                };
                let (endpoint, path) = url(rest, security).map_err(wrong)?;
                match scheme {
                    "http" | "https" => Kind::Http(endpoint, path.trim_end_matches('/').into()),
                    _ if path.trim_end_matches('/').is_empty() => Kind::Ws(endpoint, "/ws".into()),
                    _ => Kind::Ws(endpoint, path.into()),
                }
            }
            _ => return Err(AddressError::Scheme(text.into())),
        };
        Ok(Self {
            text: text.into(),
            kind,
            roots: Roots::System,
        })
    }
}

impl Dial for Address {
    fn dial(self: Arc<Self>) -> BoxFuture<'static, io::Result<Link>> {
        Box::pin(async move {
            match &self.kind {
                Kind::Socket(endpoint) => Ok(Link::new(endpoint.connect(&self.roots).await?)),
                Kind::Unix(path) => Ok(Link::new(Local::new(UnixStream::connect(path).await?)?)),
                Kind::Command(words) => Ok(Link(Box::new(ChildLink::start(words)?))),
                Kind::Http(endpoint, path) => {
                    let link = HttpLink::connect(endpoint, path, &self.roots).await?;
                    Ok(Link(Box::new(link)))
                }
                Kind::Ws(endpoint, path) => connect_ws(endpoint, path, &self.roots).await,
            }
        })
    }

    /// A host that was started for this connection ends with it.
    fn can_redial(&self) -> bool {
        !self.is_command()
    }
}

/// `ADDRESS:PORT`.
fn socket(text: &str, security: Security) -> Result<Endpoint, &'static str> {
    authority(text, None, security)
}

/// `//ADDRESS[:PORT][/PATH]`.
fn url(text: &str, security: Security) -> Result<(Endpoint, &str), &'static str> {
    let rest = text
        .strip_prefix("//")
        .ok_or("two slashes follow the scheme")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if path.contains(['?', '#', ' ', '\r', '\n']) {
        return Err("the path cannot have `?`, `#` or spaces");
    }
    let port = match security {
        Security::None => 80,
        Security::Tls => 443,
    };
    Ok((authority(host, Some(port), security)?, path))
}

fn authority(
    text: &str,
    default: Option<u16>,
    security: Security,
) -> Result<Endpoint, &'static str> {
    if text.contains('@') {
        return Err("a credential does not belong in the address; pass it as the token");
    }
    // An IPv6 address stands in brackets, so that its colons are not the port's.
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None => return Err("a colon and the port follow the brackets"),
        },
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address stands in brackets, such as [::1]:8765");
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match (port, default) {
        (Some(port), _) => port
            .parse()
            .map_err(|_| "the port is a number up to 65535")?,
        (None, Some(port)) => port,
        (None, None) => return Err("a port is missing; say ADDRESS:PORT"),
    };
    let plain = |character: char| character.is_ascii_graphic() && !"/\\%".contains(character);
    if host.is_empty() || !host.chars().all(plain) {
        return Err("the address is missing or has characters that no address has");
    }
    Ok(Endpoint {
        host: host.into(),
        port,
        security,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Kind, AddressError> {
        text.parse::<Address>().map(|address| address.kind)
    }

    #[test]
    fn what_users_write() {
        for (text, expected) in [
            ("tcp:127.0.0.1:80", "Socket(127.0.0.1:80 None)"),
            ("tls:example.org:1", "Socket(example.org:1 Tls)"),
            ("tcp:[::1]:80", "Socket(::1:80 None)"),
            ("http://localhost:8765", "Http(localhost:8765 None, \"\")"),
            ("http://localhost:8765/", "Http(localhost:8765 None, \"\")"),
            ("https://h/base/", "Http(h:443 Tls, \"/base\")"),
            ("ws://[::1]", "Ws(::1:80 None, \"/ws\")"),
            ("wss://h/other", "Ws(h:443 Tls, \"/other\")"),
            ("unix:/tmp/a:b", "Unix(\"/tmp/a:b\")"),
            ("cmd:frith  stdio", "Command([\"frith\", \"stdio\"])"),
        ] {
            assert_eq!(format!("{:?}", parse(text).unwrap()), expected);
        }
    }

    #[test]
    fn what_helps_when_it_is_wrong() {
        for (text, hint) in [
            ("localhost", "say tcp:ADDRESS:PORT"),
            ("localhost:80", "say tcp:ADDRESS:PORT"),
            ("ftp://x", "say tcp:ADDRESS:PORT"),
            ("tcp:localhost", "a port is missing"),
            ("tcp:localhost:99999", "the port is a number"),
            ("tcp::80", "the address is missing"),
            ("tcp:::1", "stands in brackets"),
            ("tcp:fe80::1:80", "stands in brackets"),
            ("http://::1/", "stands in brackets"),
            ("http://[::1", "stands in brackets"),
            ("http://[::1]8765/", "a colon and the port"),
            ("http:localhost", "two slashes"),
            ("http://me:secret@host", "pass it as the token"),
            ("http://host/a?b", "the path cannot have"),
            ("http://a b", "no address has"),
            ("ws://", "the address is missing"),
            ("cmd: ", "needs a program"),
            ("unix:", "say unix:PATH"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
