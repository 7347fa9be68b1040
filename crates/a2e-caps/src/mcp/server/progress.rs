//! Events of a call as MCP's progress, and as what servers log.
#![expect(
    deprecated,
    reason = "logging is going away in MCP, and clients of all eras are served"
)]

use a2e_wire::messages::base::EventKind;
use a2e_wire::{Body, Message};
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde_json::Value;

use super::notices::is_loud;
use super::session::Session;

/// Tells a client how its call gets on.
#[derive(Debug)]
pub(super) struct Reporter {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    meter: Meter,
    /// From which level on it hears what the tool logs.
    level: Option<LoggingLevel>,
    /// The tool.
    name: String,
}

/// How far a call is. What is told must always be more than before.
#[derive(Debug, Default, PartialEq)]
struct Meter {
    last: f64,
    /// The call has told per cents; other events then are no progress.
    in_percent: bool,
}

impl Reporter {
    /// For a request whose client wants to know.
    pub(super) fn of(
        session: &Session,
        context: &RequestContext<RoleServer>,
        name: &str,
    ) -> Option<Self> {
        let token = context.meta.get_progress_token();
        let level = context.meta.log_level();
        let level = level.or_else(|| session.notices.wishes.level());
        (token.is_some() || level.is_some()).then(|| Self {
            peer: context.peer.clone(),
            token,
            meter: Meter::default(),
            level,
            name: name.to_owned(),
        })
    }

    /// Tells of an event.
    pub(super) async fn tell(&mut self, event: &Message<'_>) {
        let Body::ToolEvent(event) = &event.body else {
            return;
        };
        let data: Value = event.data.raw().deserialize().unwrap_or_default();
        if event.kind == EventKind::Log && self.level.is_some() {
            return self.log(data).await;
        }
        let Some(token) = &self.token else {
            return;
        };
        let is_progress = event.kind == EventKind::Progress;
        let percent = data["pct"].as_f64().filter(|_| is_progress);
        let Some((progress, total)) = self.meter.next(percent) else {
            return;
        };
        let mut told = ProgressNotificationParam::new(token.clone(), progress);
        told.total = total;
        told.message = match data["message"].as_str() {
            Some(message) => Some(message.to_owned()),
            None => Some(data.to_string()),
        };
        // A client that has gone is told nothing.
        let _ = self.peer.notify_progress(told).await;
    }

    /// Tells what the tool logs.
    async fn log(&self, data: Value) {
        let level = level_of(data["level"].as_str().unwrap_or_default());
        if !is_loud(level, self.level) {
            return;
        }
        let message = match &data["message"] {
            Value::Null => data,
            message => message.clone(),
        };
        let told = LoggingMessageNotificationParam::new(level, message);
        let told = told.with_logger(self.name.clone());
        // A client that has gone is told nothing.
        let _ = self.peer.notify_logging_message(told).await;
    }
}

/// A level by its name; what a tool says without one, or with a name of its own, is information.
fn level_of(name: &str) -> LoggingLevel {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "warn" => LoggingLevel::Warning,
        name => serde_json::from_value(name.into()).unwrap_or(LoggingLevel::Info),
    }
}

impl Meter {
    /// What to tell of an event, if anything.
    fn next(&mut self, percent: Option<f64>) -> Option<(f64, Option<f64>)> {
        match percent {
            Some(percent) if percent > self.last || !self.in_percent => {
                self.in_percent = true;
                self.last = percent.max(self.last);
                Some((self.last, Some(100.0)))
            }
            Some(_) => None,
            None if self.in_percent => None,
            None => {
                self.last += 1.0;
                Some((self.last, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_only_grows() {
        let mut meter = Meter::default();
        assert_eq!(meter.next(None), Some((1.0, None)));
        assert_eq!(meter.next(None), Some((2.0, None)));
        assert_eq!(meter.next(Some(10.0)), Some((10.0, Some(100.0))));
        assert_eq!(meter.next(Some(10.0)), None);
        assert_eq!(meter.next(None), None);
        assert_eq!(meter.next(Some(60.0)), Some((60.0, Some(100.0))));
    }

    #[test]
    fn levels_go_by_their_names() {
        for (name, level) in [
            ("DEBUG", LoggingLevel::Debug),
            ("warn", LoggingLevel::Warning),
            ("critical", LoggingLevel::Critical),
            ("loud", LoggingLevel::Info),
            ("", LoggingLevel::Info),
        ] {
            assert_eq!(level_of(name), level, "{name}");
        }
    }
}
