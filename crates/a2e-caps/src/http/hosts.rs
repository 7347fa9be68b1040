//! The hosts that requests may go to, each with the headers that are for it alone.

use hyper::header::HeaderMap;
use hyper::http::uri::Authority;

use super::Reach;
use super::target::{Security, Target, host_and_port};
use crate::tool::ToolFailure;

/// Hosts that requests may go to.
#[derive(Debug)]
pub(crate) struct Hosts(pub(crate) Vec<Host>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Host {
    name: String,
    /// The usual one unless it is named.
    port: Option<u16>,
    headers: HeaderMap,
}

impl Host {
    /// A host by its name, with or without a port.
    pub(crate) fn parse(host: &str, headers: HeaderMap) -> Result<Self, String> {
        let bad = || "it must be the name of a host, with a port or without".to_owned();
        let authority: Authority = host.parse().map_err(|_| bad())?;
        let (name, port) = host_and_port(&authority).ok_or_else(bad)?;
        Ok(Self {
            name,
            port,
            headers,
        })
    }

    fn is(&self, target: &Target) -> bool {
        let usual = match target.security {
            Security::None => 80,
            Security::Tls => 443,
        };
        self.name == target.host && self.port.unwrap_or(usual) == target.port
    }
}

impl Hosts {
    /// Hosts by their names, with or without ports, and without headers.
    ///
    /// # Errors
    /// What is no host, and what it must be.
    pub(super) fn named(names: &[String]) -> Result<Self, String> {
        let host = |name: &String| {
            let host = Host::parse(name, HeaderMap::new());
            host.map_err(|problem| format!("`{name}`: {problem}"))
        };
        names.iter().map(host).collect::<Result<_, _>>().map(Self)
    }

    /// Whether this is one of them.
    pub(super) fn has(&self, target: &Target) -> bool {
        self.0.iter().any(|host| host.is(target))
    }

    /// The headers that a request has there; a failure if none may go there.
    pub(super) fn headers(&self, target: &Target, reach: Reach) -> Result<&HeaderMap, ToolFailure> {
        let Some(host) = self.0.iter().find(|host| host.is(target)) else {
            let text = format!(
                "`{}`, port {}, is not among the hosts that the toolkit is configured for",
                target.host, target.port
            );
            return Err(ToolFailure::denied("host_not_allowed", text));
        };
        // Who listens on the way must not read them. On this machine nobody does.
        let is_open = target.security == Security::None && reach == Reach::Public;
        if is_open && !host.headers.is_empty() {
            let text = format!("`{}` is configured with headers: use https", target.host);
            return Err(ToolFailure::denied("not_encrypted", text));
        }
        Ok(&host.headers)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn hosts() -> Hosts {
        let mut secret = HeaderMap::new();
        secret.insert("x-key", HeaderValue::from_static("k"));
        let host = |name: &str, headers| Host::parse(name, headers).unwrap();
        Hosts(vec![
            host("Api.example.com", secret),
            host("plain.example.com:8080", HeaderMap::new()),
        ])
    }

    #[test]
    fn only_these_with_their_ports() {
        let hosts = hosts();
        for (url, count) in [
            ("https://api.example.com/x", Some(1)),
            ("https://API.EXAMPLE.COM:443/x", Some(1)),
            ("http://plain.example.com:8080/", Some(0)),
            ("https://plain.example.com:8080/", Some(0)),
            // Its headers would be readable.
            ("http://api.example.com/x", None),
            ("https://api.example.com:8443/x", None),
            ("https://plain.example.com/", None),
            ("https://sub.api.example.com/", None),
            ("https://api.example.com.evil.net/", None),
            ("https://evil.net/api.example.com", None),
        ] {
            let target = Target::parse(url).unwrap();
            let found = hosts.headers(&target, Reach::Public);
            assert_eq!(found.ok().map(HeaderMap::len), count, "{url}");
        }
    }

    #[test]
    fn what_is_no_host() {
        for bad in [
            "",
            "a/b",
            "https://a",
            "u@a",
            "u@a:80",
            "a:",
            "a:99999",
            "a:x",
            "a b",
        ] {
            assert!(Host::parse(bad, HeaderMap::new()).is_err(), "{bad}");
        }
        assert!(Host::parse("[::1]:80", HeaderMap::new()).is_ok());
    }
}
