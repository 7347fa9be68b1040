//! What a session allows, unless configured otherwise.

use std::time::Duration;

/// The limits of one session; the configuration's `global_limits` set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that run at once.
    pub max_parallel: usize,
    /// Requests that wait for their turn; the next one is refused.
    pub max_queue: usize,
    /// Bytes written but not yet taken by the transport; beyond them nothing new is started and
    /// events are pushed back.
    pub max_outbound: usize,
    /// Bytes of sent messages kept for a peer that comes back.
    pub max_replay: usize,
    /// How long a peer may take to shake hands.
    pub handshake: Duration,
    /// How long a session may be silent with nothing under way; zero for ever.
    pub idle: Duration,
    /// How long a session waits for a peer whose connection broke.
    pub resume: Duration,
    /// How long a request may take that sets no time itself.
    pub request: Duration,
    /// How long a tool call may take in all while it gets on; its own `timeout` counts from its last
    /// progress. One that asks for more without progress has that.
    pub progress: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_parallel: 4,
            max_queue: 64,
            max_outbound: 8 * 1024 * 1024,
            max_replay: 256 * 1024,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(3600),
            resume: Duration::from_secs(300),
            request: Duration::from_secs(300),
            progress: Duration::from_secs(3600),
        }
    }
}
