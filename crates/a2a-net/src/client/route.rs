//! How a peer is reached: which of its endpoints, at which address.

use std::net::SocketAddr;

use a2a_identity::WebUrl;
use a2a_wire::Endpoint;

use crate::transport::Carrier;

/// The way to a peer. Whoever connects takes exactly this address, which was looked at, with the
/// name of the URL for TLS and `Host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What carries messages.
    pub carrier: Carrier,
    /// Where handshakes go.
    pub handshake: String,
    /// Where requests go.
    pub request: String,
    /// The address to connect to.
    pub address: SocketAddr,
}

/// An endpoint that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) carrier: Carrier,
    pub(super) handshake: String,
    pub(super) request: String,
}

impl Chosen {
    pub(super) fn at(self, address: SocketAddr) -> Route {
        Route {
            carrier: self.carrier,
            handshake: self.handshake,
            request: self.request,
            address,
        }
    }

    /// An address that the operator gave, by itself.
    pub(super) fn of_url(url: &str, carriers: &[Carrier]) -> Option<Self> {
        let is_websocket = url.starts_with("wss://");
        let fits = |carrier: &&Carrier| (**carrier == Carrier::WebSocket) == is_websocket;
        Some(Self {
            carrier: *carriers.iter().find(fits)?,
            handshake: url.to_owned(),
            request: sibling(url),
        })
    }

    /// The endpoint of the most preferred way that the peer lists.
    pub(super) fn of_endpoints(endpoints: &[Endpoint], carriers: &[Carrier]) -> Option<Self> {
        carriers.iter().find_map(|carrier| {
            let serves = |endpoint: &&Endpoint, kind: &str| {
                endpoint.kind.as_str() == kind && is_of(endpoint, *carrier)
            };
            let handshake = endpoints.iter().find(|it| serves(it, "handshake"))?;
            let handshake = handshake.url.as_str();
            let request = endpoints
                .iter()
                .find(|it| serves(it, "request") && same_origin(it.url.as_str(), handshake));
            Some(Self {
                carrier: *carrier,
                handshake: handshake.to_owned(),
                request: request.map_or_else(|| sibling(handshake), |it| it.url.to_string()),
            })
        })
    }
}

/// One connection serves both, so requests go nowhere else than handshakes.
fn same_origin(one: &str, other: &str) -> bool {
    match (WebUrl::parse(one), WebUrl::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

fn is_of(endpoint: &Endpoint, carrier: Carrier) -> bool {
    let named = endpoint.transport.as_ref().map(|word| word.as_str());
    match carrier {
        Carrier::Http1 | Carrier::Http2 => matches!(named, None | Some("http" | "http2")),
        Carrier::Grpc => named == Some("grpc"),
        Carrier::WebSocket => named == Some("websocket"),
    }
}

/// `/a2a/request` beside `/a2a/handshake`. A transport with one place for all goes there alone.
fn sibling(url: &str) -> String {
    match url.strip_suffix("/handshake") {
        Some(base) => format!("{base}/request"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(kind: &str, url: &str, transport: Option<&str>) -> Endpoint {
        Endpoint {
            kind: kind.parse().unwrap(),
            url: url.parse().unwrap(),
            transport: transport.map(|it| it.parse().unwrap()),
        }
    }

    #[test]
    fn the_most_preferred_endpoint_is_taken() {
        let endpoints = [
            endpoint("handshake", "wss://a.example/ws", Some("websocket")),
            endpoint("handshake", "https://a.example/a2a/handshake", Some("http")),
            endpoint("request", "https://a.example/ask", Some("http")),
            endpoint("stream", "https://a.example/stream", Some("http")),
        ];
        let chosen = Chosen::of_endpoints(&endpoints, &Carrier::ALL).unwrap();
        assert_eq!(chosen.carrier, Carrier::Http2);
        assert_eq!(chosen.request, "https://a.example/ask");
        let chosen = Chosen::of_endpoints(&endpoints, &[Carrier::WebSocket]).unwrap();
        assert_eq!(chosen.request, "wss://a.example/ws");
        assert_eq!(Chosen::of_endpoints(&endpoints, &[Carrier::Grpc]), None);
    }

    #[test]
    fn requests_go_beside_handshakes_and_to_no_other_host() {
        let endpoints = [
            endpoint("handshake", "https://a.example/a2a/handshake", None),
            endpoint("request", "https://b.example/a2a/request", None),
        ];
        let chosen = Chosen::of_endpoints(&endpoints, &Carrier::ALL).unwrap();
        assert_eq!(chosen.request, "https://a.example/a2a/request");
    }
}
