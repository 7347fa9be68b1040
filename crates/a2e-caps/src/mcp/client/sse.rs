//! The older way over HTTP: all that a server says comes as events of one request, and all that is
//! said to it goes to an address that the first event names.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use hyper::Uri;
use hyper::header::HeaderMap;
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use sse_stream::{Error as SseError, Sse};

use super::http::{HttpError, Poster};
use super::pages::{Arrived, Pages};

/// A connection to a server.
pub(super) struct SseTransport {
    poster: Poster,
    endpoint: Arc<str>,
    events: BoxStream<'static, Result<Sse, SseError>>,
    pages: Pages,
}

/// Events that are no messages, until the server is given up.
const MAX_GARBAGE: usize = 100;

impl SseTransport {
    /// Connects, and waits to be told where to send to.
    pub(super) async fn connect(poster: Poster, url: &str) -> Result<Self, HttpError> {
        let mut events = poster.events(url, HeaderMap::new()).await?;
        let ended = HttpError::Unexpected("the server did not say where to send to");
        let Some(Ok(first)) = events.next().await else {
            return Err(ended);
        };
        let endpoint = match (first.event.as_deref(), &first.data) {
            (Some("endpoint"), Some(endpoint)) => beside(url, endpoint.trim()).ok_or(
                HttpError::Unexpected("the server named an address that is not its own"),
            )?,
            _ => return Err(ended),
        };
        Ok(Self {
            poster,
            endpoint: endpoint.into(),
            events,
            pages: Pages::default(),
        })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        self.pages.sent(&item);
        let (poster, endpoint) = (self.poster.clone(), Arc::clone(&self.endpoint));
        async move {
            let body = serde_json::to_vec(&item)
                .map_err(|_| HttpError::Unexpected("the message cannot be written"))?;
            poster.post(&endpoint, body).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        for _ in 0..MAX_GARBAGE {
            let event = self.events.next().await?.ok()?;
            let data = event.data.unwrap_or_default();
            match self.pages.look(data.as_bytes()) {
                Arrived::Readable => {}
                Arrived::TooLong(answer) => return Some(*answer),
                Arrived::Unclear => continue,
            }
            if let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(&data) {
                return Some(message);
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}

/// The address that a server names, if it is of the same origin.
fn beside(url: &str, endpoint: &str) -> Option<String> {
    let base: Uri = url.parse().ok()?;
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    if endpoint.starts_with('/') && !endpoint.starts_with("//") {
        return Some(format!("{scheme}://{authority}{endpoint}"));
    }
    let named: Uri = endpoint.parse().ok()?;
    let is_same = named.scheme_str() == Some(scheme) && named.authority() == Some(authority);
    is_same.then(|| endpoint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_only_addresses_of_its_own() {
        let url = "https://mcp.example:8443/sse";
        for (endpoint, address) in [
            (
                "/messages?id=1",
                Some("https://mcp.example:8443/messages?id=1"),
            ),
            (
                "https://mcp.example:8443/m",
                Some("https://mcp.example:8443/m"),
            ),
            ("https://evil.example/m", None),
            ("http://mcp.example:8443/m", None),
            ("//evil.example/m", None),
            ("messages", None),
        ] {
            assert_eq!(beside(url, endpoint).as_deref(), address, "{endpoint}");
        }
    }
}
