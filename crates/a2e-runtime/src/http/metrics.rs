//! `/metrics`: what is counted here, for those who may know.

use a2e_session::Login;
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};

use super::body::Answer;
use super::{Connection, HttpServer, bearer, detail, text};
use crate::auth::Source;

/// Gives what others count.
pub(super) struct MoreMetrics(Box<dyn Fn() -> String + Send + Sync>);

impl HttpServer {
    /// Has `/metrics` tell more than what the host counts: whatever this gives, in Prometheus' text
    /// format. There is one such source; a second one is not asked.
    pub fn set_more_metrics(&self, metrics: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.more_metrics.set(MoreMetrics(Box::new(metrics)));
    }

    /// Counts tell much about a host: whoever is not on this machine needs a credential.
    pub(super) async fn metrics(
        &self,
        headers: &HeaderMap,
        connection: Connection,
    ) -> Response<Answer> {
        if !connection.peer.ip().to_canonical().is_loopback() {
            let token = bearer(headers).unwrap_or_default();
            let login = Login {
                agent_id: "metrics".into(),
                auth_token: token.to_owned(),
                resume: None,
            };
            let source = Source::Address(connection.peer.ip());
            let settings = self.host.settings();
            let is_open = !settings.authenticator.required();
            if is_open
                || settings
                    .authenticator
                    .authenticate(&login, source)
                    .await
                    .is_err()
            {
                let text = "say `Authorization: Bearer TOKEN` with an agent's token";
                return detail(StatusCode::UNAUTHORIZED, text);
            }
        }
        let mut counts = self.host.metrics();
        if let Some(more) = self.more_metrics.get() {
            counts.push_str(&(more.0)());
        }
        text(counts)
    }
}
