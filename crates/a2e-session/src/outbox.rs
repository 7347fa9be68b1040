//! What a session has written: numbered, bounded, and kept for a peer that comes back.

use std::collections::VecDeque;

use a2e_wire::{Body, Charset, Envelope, Message};

/// A message on its way out: one line of JSON without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Its number in the session; none if it is not sent again to a peer that comes back.
    pub eid: Option<u64>,
    /// The line.
    pub line: Vec<u8>,
}

/// More is written than the peer has read; try again when some of it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer reads too slowly; wait until it has caught up")]
pub struct Backpressure;

/// The written messages of a session.
#[derive(Debug)]
pub(crate) struct Outbox {
    max_outbound: usize,
    max_replay: usize,
    charset: Charset,
    /// Written, not yet taken by the transport.
    waiting: VecDeque<Transmit>,
    waiting_bytes: usize,
    /// Taken by the transport, kept in case the peer did not get them.
    sent: VecDeque<Transmit>,
    sent_bytes: usize,
    last_eid: u64,
}

impl Outbox {
    pub(crate) const fn new(max_outbound: usize, max_replay: usize) -> Self {
        Self {
            max_outbound,
            max_replay,
            charset: Charset::Utf8,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            last_eid: 0,
        }
    }

    pub(crate) const fn set_charset(&mut self, charset: Charset) {
        self.charset = charset;
    }

    /// Writes a message, with the next number.
    pub(crate) fn push(&mut self, mut envelope: Envelope<'static>, body: Body<'static>) {
        self.last_eid = self.last_eid.saturating_add(1);
        envelope.eid = Some(self.last_eid);
        let line = self.encode(envelope, body);
        self.enqueue(Transmit {
            eid: Some(self.last_eid),
            line,
        });
    }

    /// Writes a message before all others, outside of what a returning peer is sent again.
    pub(crate) fn push_first(&mut self, envelope: Envelope<'static>, body: Body<'static>) {
        let line = self.encode(envelope, body);
        self.waiting_bytes = self.waiting_bytes.saturating_add(line.len());
        self.waiting.push_front(Transmit { eid: None, line });
    }

    /// The next message to send.
    pub(crate) fn pop(&mut self) -> Option<Transmit> {
        let transmit = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(transmit.line.len());
        if transmit.eid.is_some() && self.max_replay > 0 {
            self.sent_bytes = self.sent_bytes.saturating_add(transmit.line.len());
            self.sent.push_back(transmit.clone());
            while self.sent_bytes > self.max_replay {
                let Some(oldest) = self.sent.pop_front() else {
                    break;
                };
                self.sent_bytes = self.sent_bytes.saturating_sub(oldest.line.len());
            }
        }
        Some(transmit)
    }

    /// Puts everything after `last_eid` back in line; returns the numbers that are gone for good.
    pub(crate) fn replay_after(&mut self, last_eid: u64) -> Option<(u64, u64)> {
        while let Some(transmit) = self.sent.pop_back() {
            self.sent_bytes = self.sent_bytes.saturating_sub(transmit.line.len());
            if transmit.eid.is_some_and(|eid| eid <= last_eid) {
                break;
            }
            self.waiting_bytes = self.waiting_bytes.saturating_add(transmit.line.len());
            self.waiting.push_front(transmit);
        }
        // The peer has the older ones.
        self.sent.clear();
        self.sent_bytes = 0;
        let first_kept = self.waiting.iter().find_map(|transmit| transmit.eid);
        let next = last_eid.saturating_add(1);
        let end = first_kept.unwrap_or_else(|| self.last_eid.saturating_add(1));
        (next < end).then(|| (next, end.saturating_sub(1)))
    }

    /// Whether the peer is so far behind that nothing more should be written.
    pub(crate) const fn is_full(&self) -> bool {
        self.waiting_bytes >= self.max_outbound
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The number of the last message.
    pub(crate) const fn last_eid(&self) -> u64 {
        self.last_eid
    }

    fn encode(&self, envelope: Envelope<'static>, body: Body<'static>) -> Vec<u8> {
        let mut line = Vec::new();
        Message { envelope, body }.encode_to(&mut line, self.charset);
        line
    }

    fn enqueue(&mut self, transmit: Transmit) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(transmit.line.len());
        self.waiting.push_back(transmit);
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::Timestamp;
    use a2e_wire::messages::base::Pong;

    use super::*;

    fn outbox(max_outbound: usize, max_replay: usize, messages: usize) -> Outbox {
        let mut outbox = Outbox::new(max_outbound, max_replay);
        for _ in 0..messages {
            outbox.push(Envelope::new("x", Timestamp::default()), Pong::new().into());
        }
        outbox
    }

    fn eids(outbox: &mut Outbox) -> Vec<u64> {
        std::iter::from_fn(|| outbox.pop())
            .filter_map(|transmit| transmit.eid)
            .collect()
    }

    #[test]
    fn messages_are_numbered_from_one() {
        assert_eq!(eids(&mut outbox(1000, 1000, 3)), [1, 2, 3]);
    }

    #[test]
    fn a_returning_peer_gets_what_it_has_not() {
        let mut outbox = outbox(10_000, 10_000, 5);
        eids(&mut outbox);
        assert_eq!(outbox.replay_after(2), None);
        assert_eq!(eids(&mut outbox), [3, 4, 5]);
        assert_eq!(outbox.replay_after(5), None);
        assert!(eids(&mut outbox).is_empty());
    }

    #[test]
    fn what_was_never_sent_is_sent_in_order() {
        let mut outbox = outbox(10_000, 10_000, 4);
        outbox.pop();
        outbox.pop();
        assert_eq!(outbox.replay_after(1), None);
        assert_eq!(eids(&mut outbox), [2, 3, 4]);
    }

    #[test]
    fn what_is_gone_is_said() {
        let mut outbox = outbox(10_000, 200, 10);
        let line = outbox.pop().unwrap().line.len();
        eids(&mut outbox);
        let kept = 200 / line;
        let first_kept = 10 - kept as u64 + 1;
        assert_eq!(outbox.replay_after(2), Some((3, first_kept - 1)));
        assert_eq!(eids(&mut outbox).first(), Some(&first_kept));
    }

    #[test]
    fn nothing_kept_means_all_missed() {
        let mut outbox = outbox(10_000, 0, 4);
        eids(&mut outbox);
        assert_eq!(outbox.replay_after(1), Some((2, 4)));
        assert_eq!(outbox.replay_after(4), None);
    }
}
