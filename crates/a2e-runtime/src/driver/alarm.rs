//! When a session is to be looked at again.

use std::pin::Pin;
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use crate::host::Host;

/// Wakes the task at a time. It may ring too early, never too late: setting it anew for each message
/// would cost more than to look again.
#[derive(Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Option<Duration>,
}

impl Alarm {
    /// Whether that time has come.
    pub(super) fn poll(
        &mut self,
        cx: &mut Waiting<'_>,
        host: &Host,
        at: Option<Duration>,
    ) -> Poll<()> {
        let Some(at) = at else {
            return Poll::Pending;
        };
        let clock = host.inner.clock;
        if self.at.is_none_or(|set| at < set) {
            let instant = clock.instant(at);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(instant),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
            }
            self.at = Some(at);
        }
        let rings = |sleep: &mut Pin<Box<Sleep>>, cx: &mut Waiting<'_>| sleep.as_mut().poll(cx);
        while let Some(sleep) = &mut self.sleep
            && rings(sleep, cx).is_ready()
        {
            if at <= clock.now().monotonic {
                self.at = None;
                return Poll::Ready(());
            }
            self.at = Some(at);
            sleep.as_mut().reset(clock.instant(at));
        }
        Poll::Pending
    }
}
