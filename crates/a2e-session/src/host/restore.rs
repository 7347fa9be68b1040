//! Sessions that outlive their process: what to put on record, and how to go on from it.

use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::{Body, Capability, MessageId, SessionId};

use super::{HostSession, State};
use crate::event::Token;
use crate::{Limits, Now, Offer, Random, Transmit};

/// A session as it was put on record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Saved {
    /// Its id.
    pub session_id: SessionId<'static>,
    /// The capabilities that were accepted.
    pub accepted: Vec<Capability<'static>>,
    /// What it has written and still kept: numbers and lines, oldest first.
    pub written: Vec<(u64, Vec<u8>)>,
    /// The number of the last message it wrote, kept or not.
    pub last_eid: u64,
    /// The requests that were taken and have no response, each with the one that it is sent now.
    pub open: Vec<(MessageId<'static>, Body<'static>)>,
}

/// A handshake that another session answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// Its id.
    pub request: MessageId<'static>,
    /// The lines that came behind it.
    pub lines: Vec<Vec<u8>>,
}

impl HostSession {
    /// A session of an earlier process, waiting for its peer. Open requests are answered.
    #[must_use]
    pub fn restore(
        now: Now,
        limits: Limits,
        offer: Offer,
        random: Box<dyn Random>,
        saved: Saved,
    ) -> Self {
        let mut session = Self::new(now, limits, offer, random);
        session.state = State::Detached {
            accepted: saved.accepted,
            until: now.after(limits.resume),
        };
        session.has_peer = false;
        session.session_id = saved.session_id;
        for (eid, line) in &saved.written {
            session.outbox.restore(*eid, line);
        }
        session.outbox.count_from(saved.last_eid);
        for (request, body) in saved.open {
            session.send(now, request, body);
        }
        session
    }

    /// What is to be put on record: lines with their newlines. Ask again after every other call; a
    /// message that must survive the process goes on record before it is sent.
    #[must_use]
    pub fn take_unrecorded(&mut self) -> &[u8] {
        self.outbox.take_unrecorded()
    }

    /// Begins the record anew: all messages that are kept come again.
    pub const fn record_again(&mut self) {
        self.outbox.record_again();
    }

    /// The requests that are not answered, of those taken after `after`.
    pub fn open_requests(
        &self,
        after: Option<Token>,
    ) -> impl Iterator<Item = (Token, &MessageId<'static>)> {
        self.requests
            .open()
            .filter(move |(token, _)| after.is_none_or(|after| *token > after))
    }

    /// The accepted capabilities.
    #[must_use]
    pub fn accepted(&self) -> &[Capability<'static>] {
        match &self.state {
            State::Active { accepted } | State::Detached { accepted, .. } => accepted,
            State::AwaitingHandshake { .. } | State::Draining { .. } | State::Closed => &[],
        }
    }

    /// Whether a peer that has everything up to `last_eid` can go on with the session.
    #[must_use]
    pub fn can_resume(&self, last_eid: u64) -> bool {
        let is_open = matches!(self.state, State::Active { .. } | State::Detached { .. });
        is_open && last_eid <= self.outbox.last_eid()
    }

    /// The answer to a peer that has come back, if it is not taken yet: for a connection that gives
    /// way to the next one before anything was written to it.
    #[must_use]
    pub fn poll_greeting(&mut self) -> Option<Transmit<'_>> {
        self.outbox.pop_first()
    }

    /// The session's id; empty before the handshake.
    #[must_use]
    pub const fn session_id(&self) -> &SessionId<'static> {
        &self.session_id
    }

    /// The line written last.
    #[must_use]
    pub fn last_written(&self) -> &[u8] {
        self.outbox.last_line().unwrap_or_default()
    }

    /// The peer will not come back to this session: nothing that was sent is kept.
    pub const fn keep_nothing(&mut self) {
        self.outbox.keep_nothing();
        self.limits.resume = std::time::Duration::ZERO;
    }

    /// The handshake under way goes to another session, with what came behind it.
    pub fn hand_over(&mut self) -> Option<HandedOver> {
        let login = self.login.take()?;
        Some(HandedOver {
            request: login.request,
            lines: std::mem::take(&mut self.held).into(),
        })
    }

    /// The other session did not take the handshake.
    pub fn refuse_hand_over(
        &mut self,
        now: Now,
        request: MessageId<'static>,
        reason: HandshakeReason<'static>,
    ) {
        self.refuse_handshake(now, request, reason, Vec::new());
    }
}
