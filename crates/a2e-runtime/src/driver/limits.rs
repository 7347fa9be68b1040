//! Limits that a session shares with others: it is paused or ended when it is the heaviest, or ended when
//! its slot is needed.

use std::task::Waker;
use std::time::{Duration, Instant};

use a2e_session::{CloseReason, failures};
use base::LogLimit;

use super::Driver;

/// Sessions that have too many bytes.
static ENDED: LogLimit = LogLimit::new(10, Duration::from_secs(10));

/// How long a session may be paused before it ends.
const PAUSED: Duration = Duration::from_secs(10);

impl Driver {
    /// Counts the bytes that wait in the session.
    pub(super) fn count_bytes(&mut self) {
        let link = self.link.as_ref().map_or(0, |link| link.bytes());
        let bytes = self.session.bytes().saturating_add(link);
        self.slot.set_bytes(bytes);
    }

    /// Does what was decided about the session; says whether anything was.
    pub(super) fn poll_limits(&mut self, waker: &Waker) -> bool {
        self.slot.wakes(waker);
        if let Some(reason) = self.slot.end() {
            self.end_by_limit(reason);
            return true;
        }
        let is_paused = self.slot.is_paused();
        if is_paused == self.paused_until.is_some() {
            return false;
        }
        let until = self.now.monotonic.saturating_add(PAUSED);
        self.paused_until = is_paused.then_some(until);
        self.session.set_paused(self.now, is_paused);
        self.count_bytes();
        true
    }

    /// Ends the session if it has been paused too long.
    pub(super) fn end_paused(&mut self) {
        if self
            .paused_until
            .is_some_and(|until| until <= self.now.monotonic)
        {
            self.end_by_limit(CloseReason::MemoryLimit);
        }
    }

    fn end_by_limit(&mut self, reason: CloseReason) {
        let failure = (reason == CloseReason::MemoryLimit).then(failures::memory_limit);
        if failure.is_some() {
            let agent = self
                .known
                .as_ref()
                .map(|known| &*known.session.identity().agent);
            if let Some(more) = ENDED.admit(Instant::now()) {
                tracing::info!(agent, "a session ends: too many bytes wait in it{more}");
            }
        }
        self.session.end(self.now, reason, failure);
    }
}
