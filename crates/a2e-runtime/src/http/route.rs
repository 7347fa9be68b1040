//! Paths beside A2E's own, for agents who show a credential with every request.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

use super::body::Answer;
use super::visit::Visitor;
use super::{BODY, HttpServer, bearer, detail, read};
use crate::auth::{Identity, Login, Source};
use crate::plugin::BoxFuture;
use crate::slots::Holder;

/// Serves a path beside A2E's own, as another protocol's endpoint.
///
/// What it is given came to a name of this host's, from a page that may ask, and from an agent whose
/// credential is good.
pub trait Route: Send + Sync + 'static {
    /// The path, as `/mcp`.
    fn path(&self) -> &str;

    /// Answers a request.
    fn answer(
        &self,
        request: Request<Bytes>,
        guest: Guest,
    ) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>>;
}

/// Who asks.
#[derive(Clone)]
pub struct Guest {
    /// The agent, as its credential says.
    pub identity: Identity,
    /// Its credential, to begin a session of the host with; empty where none is needed.
    pub token: String,
    /// Where it asks from.
    pub source: Source,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest")
            .field("identity", &self.identity)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer").finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Serves another path too.
    #[must_use]
    pub fn route(mut self, route: Arc<dyn Route>) -> Self {
        self.routes.push(route);
        self
    }

    /// The route of this path.
    pub(super) fn route_of(&self, path: &str) -> Option<&dyn Route> {
        let mut routes = self.routes.iter();
        let found = routes.find(|route| route.path() == path);
        found.map(AsRef::as_ref)
    }

    /// Lets an agent in, and has its request answered.
    pub(super) async fn take_route(
        &self,
        route: &dyn Route,
        (parts, body): (Parts, &mut Incoming),
        visitor: &Visitor,
    ) -> Result<Response<Answer>, hyper::Error> {
        let source = Source::Address(visitor.connection.peer.ip());
        let login = Login {
            agent_id: "http".into(),
            auth_token: bearer(&parts.headers).unwrap_or_default().to_owned(),
            resume: None,
        };
        let settings = self.host.settings();
        let Ok(identity) = settings.authenticator.authenticate(&login, source).await else {
            return Ok(unauthorized());
        };
        let is_required = settings.authenticator.required();
        let (agent, class) = Holder::of(&identity, source, is_required);
        visitor.visit.assign(&agent, class);
        let Ok(body) = tokio::time::timeout(BODY, read(body, settings.max_line, |_| {})).await
        else {
            let text = "the body did not come in time";
            return Ok(detail(StatusCode::REQUEST_TIMEOUT, text));
        };
        let Some(Ok(body)) = body? else {
            let text = "the body is too long; global_limits.max_line in the configuration says how long one may be";
            return Ok(detail(StatusCode::PAYLOAD_TOO_LARGE, text));
        };
        let guest = Guest {
            identity,
            token: login.auth_token,
            source,
        };
        let answer = route.answer(Request::from_parts(parts, body), guest).await;
        Ok(answer.map(Answer::Other))
    }
}

fn unauthorized() -> Response<Answer> {
    let text = "say `Authorization: Bearer TOKEN` with an agent's token";
    let mut response = detail(StatusCode::UNAUTHORIZED, text);
    let scheme = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    response
}
