//! Requests and their responses as types, and how long each kind is waited for.

use std::marker::PhantomData;
use std::time::Duration;

use a2e_wire::{Body, Request, Tag};

use super::{CallOptions, Client, ClientError, Handler};
use crate::plugin::BoxFuture;

/// A request that is about to be made; `.await` makes it.
#[derive(Debug)]
#[must_use = "a request is made when it is awaited"]
pub struct Asking<'c, R> {
    client: &'c Client,
    body: Body<'static>,
    options: CallOptions,
    request: PhantomData<fn() -> R>,
}

impl Client {
    /// Makes a request of the catalogue; its response comes as the type that answers it.
    ///
    /// Without a time of its own it waits as long as is usual for its kind.
    pub fn request<R: Request + Into<Body<'static>>>(&self, request: R) -> Asking<'_, R> {
        let body = request.into();
        let options = CallOptions {
            timeout: usual_wait(&body),
            ..CallOptions::default()
        };
        Asking {
            client: self,
            body,
            options,
            request: PhantomData,
        }
    }
}

impl<R> Asking<'_, R> {
    /// Waits so long for the response.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Calls a handler with each event.
    pub fn event_callback(mut self, handler: Handler) -> Self {
        self.options.event_callback = handler;
        self
    }
}

impl<'c, R: Request> IntoFuture for Asking<'c, R> {
    type Output = Result<R::Response, ClientError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let response = self.client.rpc(self.body, self.options).await?;
            let unexpected = |body: Box<Body<'_>>| {
                let name = body.tag().map_or("an unknown type", Tag::as_str);
                ClientError::Unexpected(name.into())
            };
            R::Response::try_from(response.body).map_err(unexpected)
        })
    }
}

/// How long a request is usually waited for: what it asks for itself and a little more, or what is
/// usual for its kind.
fn usual_wait(body: &Body<'_>) -> Duration {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others set no time themselves"
    )]
    let own = match body {
        Body::ToolCallRequest(call) => call.timeout,
        Body::SkillCallRequest(call) => call.timeout,
        Body::ChainRequest(chain) => chain.timeout,
        Body::ProcSpawnRequest(spawn) => spawn.timeout,
        _ => 0,
    };
    if let Some(seconds) = u64::try_from(own).ok().filter(|seconds| *seconds > 0) {
        return Duration::from_secs(seconds.saturating_add(5));
    }
    let wait = body.tag().and_then(|tag| {
        let found = WAITS
            .iter()
            .find(|(prefix, _)| tag.as_str().starts_with(prefix));
        found.map(|(_, seconds)| *seconds)
    });
    Duration::from_secs(wait.unwrap_or(300))
}

/// Seconds by the beginning of the type; the first that fits counts.
const WAITS: &[(&str, u64)] = &[
    ("handshake/", 30),
    ("ping", 5),
    ("tool/list", 10),
    ("tool/", 60),
    ("toolkit/list", 10),
    ("toolkit/", 200),
    ("skill/discover", 10),
    ("skill/", 60),
    ("memory/init", 300),
    ("memory/", 10),
    ("env/observe", 10),
    ("env/close", 10),
    ("env/", 30),
    ("proc/spawn", 100_000),
    ("proc/status", 5),
    ("proc/", 10),
    ("mcp/server/register", 20),
    ("mcp/", 10),
    ("learn/", 10),
    ("planning/", 30),
    ("multi_agent/", 30),
    ("SUBAGENT_", 30),
];

#[cfg(test)]
mod tests {
    use a2e_wire::messages::base::Ping;
    use a2e_wire::messages::chain::ChainRequest;
    use a2e_wire::messages::memory::{MemoryInitRequest, MemoryStoreRequest};
    use a2e_wire::messages::proc::ProcSpawnRequest;
    use a2e_wire::messages::tool::{ToolCallRequest, ToolListRequest};

    use super::*;

    /// `a2e-behaviour.md` §3, "Time limits of the typed calls".
    #[test]
    fn waits_are_those_of_the_table() {
        let call = |timeout| ToolCallRequest {
            timeout,
            ..ToolCallRequest::new()
        };
        let bodies: [(Body<'_>, u64); 8] = [
            (Ping::new().into(), 5),
            (ToolListRequest::new().into(), 10),
            (call(7).into(), 12),
            (call(0).into(), 60),
            (MemoryInitRequest::new().into(), 300),
            (MemoryStoreRequest::new().into(), 10),
            (ProcSpawnRequest::new().into(), 100_000),
            (call(-1).into(), 60),
        ];
        for (body, seconds) in bodies {
            assert_eq!(usual_wait(&body), Duration::from_secs(seconds), "{body:?}");
        }
        let chain = ChainRequest::new("a".into());
        assert!(usual_wait(&chain.into()) >= Duration::from_secs(300));
    }
}
