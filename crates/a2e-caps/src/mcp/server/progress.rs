//! Events of a call as MCP's progress.

use a2e_wire::messages::base::EventKind;
use a2e_wire::{Body, Message};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde_json::Value;

/// Tells a client how its call gets on.
#[derive(Debug)]
pub(super) struct Reporter {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    meter: Meter,
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
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self {
            peer: context.peer.clone(),
            token,
            meter: Meter::default(),
        })
    }

    /// Tells of an event.
    pub(super) async fn tell(&mut self, event: &Message<'_>) {
        let Body::ToolEvent(event) = &event.body else {
            return;
        };
        let data: Value = event.data.raw().deserialize().unwrap_or_default();
        let is_progress = event.kind == EventKind::Progress;
        let percent = data["pct"].as_f64().filter(|_| is_progress);
        let Some((progress, total)) = self.meter.next(percent) else {
            return;
        };
        let mut told = ProgressNotificationParam::new(self.token.clone(), progress);
        told.total = total;
        told.message = match data["message"].as_str() {
            Some(message) => Some(message.to_owned()),
            None => Some(data.to_string()),
        };
        // A client that has gone is told nothing.
        let _ = self.peer.notify_progress(told).await;
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
}
