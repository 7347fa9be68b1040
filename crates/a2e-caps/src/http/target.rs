//! What is asked for: addresses and headers, as far as they may be chosen.

use std::collections::BTreeMap;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Uri, header};

use super::{MAX_HEADER_BYTES, MAX_HEADERS, MAX_URL};
use crate::tool::ToolFailure;

/// Where a request goes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) security: Security,
    /// In lower case, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(super) path: PathAndQuery,
    /// As the `Host` header has it.
    pub(super) authority: HeaderValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    None,
    Tls,
}

/// Appends to the path of a URL; its query stays behind the path.
pub(crate) fn append_path(url: &str, path: &str) -> String {
    let (base, query) = url.find('?').map_or((url, ""), |at| url.split_at(at));
    format!("{}{path}{query}", base.trim_end_matches('/'))
}

impl Target {
    /// Whether nobody on the way can read along.
    #[cfg(feature = "mcp")]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.security == Security::Tls
    }

    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, ToolFailure> {
        let bad = |why: &str| ToolFailure::new(format!("`url` cannot be used: {why}"));
        if url.len() > MAX_URL {
            return Err(bad(&format!("it has more than {MAX_URL} bytes")));
        }
        if !url.is_ascii() {
            return Err(bad(
                "it must be ASCII; percent-encode its path, name its host in Punycode",
            ));
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is no URL"))?;
        let security = match uri.scheme_str() {
            Some("http") => Security::None,
            Some("https") => Security::Tls,
            _ => return Err(bad("it must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad(
                "it has a name or a password in it; use a header for these",
            ));
        }
        let (host, port) =
            host_and_port(authority).ok_or_else(|| bad("its host or its port is none"))?;
        let port = match (port, security) {
            (Some(port), _) => port,
            (None, Security::None) => 80,
            (None, Security::Tls) => 443,
        };
        // Before a query there may be no path, but there must be one in what is sent.
        let path = match uri.query() {
            Some(query) => format!("{}?{query}", uri.path()),
            None => uri.path().to_owned(),
        };
        Ok(Self {
            security,
            host,
            port,
            path: path.parse().map_err(|_| bad("its path cannot be sent"))?,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("its host cannot be sent"))?,
        })
    }
}

/// The parts of an authority: the host in lower case and without brackets, and a port if one is
/// named; nothing if either is none, or there is the name of a user too.
pub(super) fn host_and_port(authority: &Authority) -> Option<(String, Option<u16>)> {
    let (host, port) = (authority.host(), authority.port_u16());
    let has_user = authority.as_str().contains('@');
    let is_whole = !has_user && (port.is_some() || host.len() == authority.as_str().len());
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (is_whole && !host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// Headers that belong to the connection, or are set here.
const OURS: [HeaderName; 10] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::PROXY_AUTHORIZATION,
];

/// Headers that may be sent.
///
/// # Errors
/// What is wrong, by the name of a header and never its value.
pub(crate) fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let bytes = given.iter().map(|(name, value)| name.len() + value.len());
    if given.len() > MAX_HEADERS || bytes.sum::<usize>() > MAX_HEADER_BYTES {
        return Err(format!(
            "there may be {MAX_HEADERS} headers with {MAX_HEADER_BYTES} bytes in all"
        ));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let shown: String = name.chars().take(64).collect();
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| format!("`{shown}` is no name of a header"))?;
        if OURS.contains(&known) || name.to_ascii_lowercase().starts_with("proxy-") {
            return Err(format!("the header `{shown}` is set by the host"));
        }
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| format!("the value of `{shown}` cannot be sent"))?;
        value.set_sensitive(true);
        if headers.insert(known, value).is_some() {
            return Err(format!("the header `{shown}` is there twice"));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_can_be_used() {
        let parsed = |url: &str| {
            let target = Target::parse(url).unwrap();
            let path = target.path.as_str().to_owned();
            (target.security, target.host, target.port, path)
        };
        assert_eq!(
            parsed("http://Example.com"),
            (Security::None, "example.com".into(), 80, "/".into())
        );
        assert_eq!(
            parsed("https://[2606::1]:8443/a?b=c#d"),
            (Security::Tls, "2606::1".into(), 8443, "/a?b=c".into())
        );
        assert_eq!(parsed("https://h?x").3, "/?x");
    }

    #[test]
    fn urls_that_cannot() {
        let long = |size: usize| format!("http://h/{}", "a".repeat(size - "http://h/".len()));
        assert!(Target::parse(&long(MAX_URL)).is_ok());
        for url in [
            "",
            "/path",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://",
            "http://u:p@h/",
            "http://u@h/",
            "http://h:99999/",
            "http://h:/",
            "http://:80/",
            "http://h/ x",
            "http://h/\r\nx: y",
            "http://hö/",
            "http://h/ö",
            &long(MAX_URL + 1),
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn headers_that_may_not_be_sent() {
        let of = |list: &[(&str, &str)]| {
            let list = list
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            headers(&list.collect())
        };
        assert_eq!(of(&[("X-A", "b"), ("cookie", "c")]).unwrap().len(), 2);
        for bad in [
            ("Host", "x"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Proxy-Anything", "x"),
            ("a b", "x"),
            ("", "x"),
            ("x", "secret\r\ny: z"),
        ] {
            let problem = of(&[bad]).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
        assert!(of(&[("x-a", "1"), ("X-A", "2")]).is_err());
        let many = |count: usize| {
            (0..count)
                .map(|n| (format!("x{n}"), String::new()))
                .collect()
        };
        assert!(headers(&many(MAX_HEADERS)).is_ok());
        assert!(headers(&many(MAX_HEADERS + 1)).is_err());
        let large = |size: usize| [("x".to_owned(), "v".repeat(size - 1))].into();
        assert!(headers(&large(MAX_HEADER_BYTES)).is_ok());
        assert!(headers(&large(MAX_HEADER_BYTES + 1)).is_err());
    }

    #[test]
    fn values_are_not_shown() {
        let given = BTreeMap::from([("authorization".to_owned(), "hunter2".to_owned())]);
        assert!(!format!("{:?}", headers(&given)).contains("hunter2"));
    }
}
