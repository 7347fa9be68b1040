//! The few URLs that A2A follows: `https` and `wss`, a host, perhaps a port, a path.

use crate::did::is_public_name;

/// A URL taken apart. Nothing of it is normalised but the case of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
}

/// How to speak to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// WebSocket over TLS.
    Wss,
}

/// Why a URL is not one of those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a URL that may be followed: {0}")]
pub struct UrlError(&'static str);

impl WebUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// If it is not `https` or `wss`, names a user, has a fragment, or a host or port of a wrong
    /// form. Whether the host may be connected to is a later question, of its addresses.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let visible = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if !visible || text.contains('#') {
            return Err(UrlError("it has a fragment, or characters no URL has"));
        }
        let (scheme, rest) = match (text.strip_prefix("https://"), text.strip_prefix("wss://")) {
            (Some(rest), _) => (Scheme::Https, rest),
            (_, Some(rest)) => (Scheme::Wss, rest),
            _ => return Err(UrlError("it must begin with https:// or wss://")),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(UrlError("it names a user"));
        }
        let (host, port) = split_port(authority)?;
        Ok(Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_owned(),
        })
    }

    /// The host: a name, or an address (in brackets if it is of version 6).
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without brackets: what a certificate names.
    #[must_use]
    pub fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port; 443 unless it says another.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(443)
    }

    /// Path and query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether it may be followed out into the world: a public name (no address, no special-use
    /// name) and one of the ports an operator allows, 443 unless told. Its addresses are looked at
    /// after that ([`choose_address`](crate::choose_address)).
    #[must_use]
    pub fn is_public(&self, ports: &[u16]) -> bool {
        is_public_name(&self.host) && ports.contains(&self.port())
    }

    /// `https://host[:port]`, in the form `DidWeb::origin` has.
    #[must_use]
    pub fn origin(&self) -> String {
        match self.port {
            Some(port) => format!("https://{}:{port}", self.host),
            None => format!("https://{}", self.host),
        }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let wrong_port = UrlError("its port is not 1 to 65535");
    let (host, port) = match authority.strip_prefix('[') {
        Some(_) => {
            let end = authority.find(']').ok_or(UrlError("its host is cut off"))?;
            let (host, rest) = authority
                .split_at_checked(end.saturating_add(1))
                .ok_or(UrlError("its host is cut off"))?;
            match rest {
                "" => (host, None),
                rest => (host, Some(rest.strip_prefix(':').ok_or(wrong_port)?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let of_host =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'[' | b']' | b':');
    if host.is_empty() || host.ends_with('.') || !host.bytes().all(of_host) {
        return Err(UrlError("its host is not a name or an address"));
    }
    let port = port.map(|port| match port.parse::<u16>() {
        Ok(number) if number > 0 && number.to_string() == port => Ok(number),
        _ => Err(wrong_port),
    });
    Ok((host, port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = WebUrl::parse("https://Agent.example.com:8443/a2a/handshake?x=1").unwrap();
        assert_eq!((url.host(), url.port()), ("agent.example.com", 8443));
        assert_eq!(url.path(), "/a2a/handshake?x=1");
        assert_eq!(WebUrl::parse("wss://[::1]/ws").unwrap().host(), "[::1]");
        assert_eq!(WebUrl::parse("https://a.example").unwrap().port(), 443);
    }

    /// Threats 75 and 84: URLs that are well formed and lead inside.
    #[test]
    fn threats_75_84_urls_that_lead_inside() {
        let public = |text: &str| WebUrl::parse(text).unwrap().is_public(&[443]);
        assert!(public("https://a.example.com/x") && public("wss://a.example.com:443/"));
        for inside in [
            "https://a.example.com:22/",
            "https://a.example.com:8443/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://localhost/",
            "https://db.internal/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://intranet/",
        ] {
            assert!(!public(inside), "{inside}");
        }
        assert!(
            WebUrl::parse("https://a.example.com:8443/")
                .unwrap()
                .is_public(&[443, 8443])
        );
    }

    /// Threats 75 and 84.
    #[test]
    fn threats_75_84_urls_that_are_never_followed() {
        for wrong in [
            "http://a.example/",
            "ftp://a.example/",
            "//a.example/",
            "https:///x",
            "https://",
            "https://user@a.example/",
            "https://user:pw@a.example/",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://a.example:080/",
            "https://a.example:/",
            "https://a.example./",
            "https://a b.example/",
            "https://a.example/#x",
            "https://a.example\\@b.example/",
            "https://a%2eexample/",
            "https://[::1/",
            "https://[::1]x/",
            "javascript:alert(1)",
            "https://é.example/",
        ] {
            assert!(WebUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
