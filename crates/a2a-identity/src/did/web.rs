//! did:web.

use std::fmt;

use super::DidError;

/// A DID that is a place in the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DidWeb {
    host: String,
    port: Option<u16>,
    segments: Vec<String>,
}

impl DidWeb {
    /// The host, in lower case.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `https://host[:port]`.
    #[must_use]
    pub fn origin(&self) -> String {
        match self.port {
            Some(port) => format!("https://{}:{port}", self.host),
            None => format!("https://{}", self.host),
        }
    }

    /// Where its document may be: first the base specification's place, then W3C's.
    #[must_use]
    pub fn document_urls(&self) -> Vec<String> {
        let origin = self.origin();
        let mut urls = vec![format!("{origin}/.well-known/did.json")];
        if !self.segments.is_empty() {
            urls.push(format!("{origin}/{}/did.json", self.segments.join("/")));
        }
        urls
    }

    /// Where its manifest is unless its document says otherwise.
    #[must_use]
    pub fn manifest_url(&self) -> String {
        format!("{}/.well-known/agent-manifest.json", self.origin())
    }

    pub(super) fn parse(id: &str) -> Result<Self, DidError> {
        let mut parts = id.split([':', '/']);
        let authority = parts.next().unwrap_or_default();
        let lower = authority.to_ascii_lowercase();
        let (host, port) = match lower.split_once("%3a") {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (lower.as_str(), None),
        };
        if !is_public_name(host) {
            let rule = "the host must be a public DNS name with at least one dot";
            return Err(DidError::Malformed(rule));
        }
        let segments: Vec<String> = parts.map(str::to_owned).collect();
        if !segments.iter().all(|segment| is_segment(segment)) {
            let rule = "a path has segments of `A-Za-z0-9._~-` and no dot segments";
            return Err(DidError::Malformed(rule));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            segments,
        })
    }
}

impl fmt::Display for DidWeb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "did:web:{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, "%3A{port}")?;
        }
        self.segments
            .iter()
            .try_for_each(|segment| write!(f, ":{segment}"))
    }
}

fn parse_port(text: &str) -> Result<u16, DidError> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit()) && !text.starts_with('0');
    match text.parse() {
        Ok(port) if plain => Ok(port),
        _ => Err(DidError::Malformed("the port must be 1 to 65535")),
    }
}

fn is_segment(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
    !text.is_empty() && text != "." && text != ".." && text.bytes().all(allowed)
}

/// Top-level names that never lead to a public host (RFC 6761, 6762, 7686, 9476, ICANN).
const SPECIAL_USE: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "invalid",
    "test",
    "example",
    "onion",
    "arpa",
    "alt",
];

/// Whether this is a DNS name that may lead somewhere public: no address in any spelling, no
/// special-use name. Lower case is expected.
pub(crate) fn is_public_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    let Some((_, last)) = host.rsplit_once('.') else {
        return false;
    };
    // A last label of digits makes an address of the whole (also octal, also hexadecimal).
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    host.len() <= 253 && host.split('.').all(label) && !is_number && !SPECIAL_USE.contains(&last)
}
