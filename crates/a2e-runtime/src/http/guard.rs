//! Who may ask over HTTP at all: browsers are kept from asking in the name of other sites.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::Answer;
use super::detail;

/// Lets through requests to this host by a name it has, from pages that may ask.
///
/// A page of another site can make a browser ask a host on its user's machine. It cannot choose the
/// `Origin`, and if it points a name of its own at this machine, the `Host` is that name.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Names this host is asked by, beside the addresses it listens on; with or without a port.
    pub names: Vec<String>,
    /// Pages that may ask beside this host's own, as `https://name:port`.
    pub origins: Vec<String>,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    NoHost,
    Host,
    Origin,
}

impl Guard {
    /// Checks a request that arrived at an address of ours.
    pub(super) fn check(&self, headers: &HeaderMap, local: SocketAddr) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Refusal::NoHost);
        };
        let host = host.to_str().map_err(|_| Refusal::Host)?;
        if !self.is_ours(host, local) {
            return Err(Refusal::Host);
        }
        for origin in headers.get_all(header::ORIGIN) {
            let allowed = |known: &String| known.as_bytes() == origin.as_bytes();
            if !self.origins.iter().any(allowed) && !is_own(origin, host) {
                return Err(Refusal::Origin);
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &str, local: SocketAddr) -> bool {
        let port = format!(":{}", local.port());
        let (name, has_port) = match host.strip_suffix(&port) {
            Some(name) => (name, true),
            None => (host, false),
        };
        let is_known = |known: &String| {
            let with_port = known.eq_ignore_ascii_case(host);
            with_port || (known.eq_ignore_ascii_case(name) && has_port)
        };
        if self.names.iter().any(is_known) {
            return true;
        }
        // Without a port it is the default one.
        if !has_port && local.port() != 80 && local.port() != 443 {
            return false;
        }
        let ip = local.ip().to_canonical();
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let literal = bare.unwrap_or(name);
        let is_local_name = name.eq_ignore_ascii_case("localhost") && ip.is_loopback();
        is_local_name
            || literal
                .parse::<IpAddr>()
                .is_ok_and(|named| named.to_canonical() == ip)
    }
}

/// Whether a page is this host's own: it is asked by the name and port that the page came from.
fn is_own(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let schemes = ["http://", "https://"];
    let mut authorities = schemes.iter().filter_map(|it| origin.strip_prefix(it));
    authorities.any(|authority| authority.eq_ignore_ascii_case(host))
}

impl Refusal {
    pub(super) fn response(self) -> Response<Answer> {
        match self {
            Self::NoHost => detail(StatusCode::BAD_REQUEST, "say which host you mean, once"),
            Self::Host => detail(
                StatusCode::MISDIRECTED_REQUEST,
                "this host is not asked by that name; server.names in its configuration has those it is",
            ),
            Self::Origin => detail(
                StatusCode::FORBIDDEN,
                "pages of that origin may not ask; server.origins in the configuration has those that may",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, headers: &[(&'static str, &str)], local: &str) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        guard.check(&map, local.parse().unwrap())
    }

    #[test]
    fn only_names_of_ours() {
        let guard = Guard {
            names: vec!["agents.example".into(), "front:80".into()],
            origins: Vec::new(),
        };
        let local = "127.0.0.1:8765";
        for host in [
            "127.0.0.1:8765",
            "localhost:8765",
            "LocalHost:8765",
            "agents.example:8765",
            "agents.example",
            "front:80",
        ] {
            assert_eq!(check(&guard, &[("host", host)], local), Ok(()), "{host}");
        }
        for host in [
            "evil.example:8765",
            "localhost",
            "localhost:80",
            "localhost:8765:8765",
            "127.0.0.1",
            "127.0.0.2:8765",
            "localhost.:8765",
            "evil.example/localhost:8765",
            "front:8765",
            "[[127.0.0.1]]:8765",
            "",
            ":8765",
        ] {
            let outcome = check(&guard, &[("host", host)], local);
            assert_eq!(outcome, Err(Refusal::Host), "{host}");
        }
        assert_eq!(check(&guard, &[("host", "[::1]:9")], "[::1]:9"), Ok(()));
        assert_eq!(
            check(&guard, &[("host", "10.0.0.1")], "10.0.0.1:80"),
            Ok(())
        );
        let elsewhere = check(&guard, &[("host", "localhost:9")], "10.0.0.1:9");
        assert_eq!(elsewhere, Err(Refusal::Host));
    }

    #[test]
    fn one_host_and_no_other() {
        let guard = Guard::default();
        assert_eq!(check(&guard, &[], "127.0.0.1:9"), Err(Refusal::NoHost));
        let two = [("host", "localhost:9"), ("host", "evil.example")];
        assert_eq!(check(&guard, &two, "127.0.0.1:9"), Err(Refusal::NoHost));
    }

    /// A name that leads here by DNS rebinding is refused with its own page.
    #[test]
    fn a_page_is_own_only_by_a_name_of_this_host() {
        let evil = [
            ("host", "evil.example:9"),
            ("origin", "http://evil.example:9"),
        ];
        assert_eq!(
            check(&Guard::default(), &evil, "127.0.0.1:9"),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn only_pages_that_may_ask() {
        let guard = Guard {
            names: Vec::new(),
            origins: vec!["https://console.example".into()],
        };
        let host = ("host", "localhost:9");
        for (origin, outcome) in [
            ("https://console.example", Ok(())),
            ("https://console.example:444", Err(Refusal::Origin)),
            ("http://localhost:9", Ok(())),
            ("http://localhost", Err(Refusal::Origin)),
            ("http://localhost:90", Err(Refusal::Origin)),
            ("http://127.0.0.1:9", Err(Refusal::Origin)),
            ("http://localhost:9.evil.example", Err(Refusal::Origin)),
            ("ftp://localhost:9", Err(Refusal::Origin)),
            ("localhost:9", Err(Refusal::Origin)),
            ("null", Err(Refusal::Origin)),
            ("", Err(Refusal::Origin)),
        ] {
            let headers = [host, ("origin", origin)];
            assert_eq!(check(&guard, &headers, "127.0.0.1:9"), outcome, "{origin}");
        }
    }
}
