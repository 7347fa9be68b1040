//! What a session has written: numbered, bounded, and kept for a peer that comes back.

use std::collections::VecDeque;

use a2e_wire::{Body, Charset, Envelope, Message};

/// A message on its way out: one line of JSON without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'o> {
    /// Its number in the session; none if it is not sent again to a peer that comes back.
    pub eid: Option<u64>,
    /// The line.
    pub line: &'o [u8],
}

/// More is written than the peer has read; try again when some of it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer reads too slowly; wait until it has caught up")]
pub struct Backpressure;

/// The written messages of a session: one buffer, into which they are encoded and out of which they
/// are sent, put on record and sent again.
#[derive(Debug)]
pub(crate) struct Outbox {
    max_outbound: usize,
    max_replay: usize,
    /// The answer to a peer that comes back: before everything else, and not numbered.
    first: Option<Vec<u8>>,
    /// That answer while it is on its way.
    lent: Vec<u8>,
    /// The lines of `entries`, one behind the other, each with its newline.
    log: Vec<u8>,
    /// How much at the beginning of `log` belongs to no entry any more.
    gone: usize,
    entries: VecDeque<Entry>,
    /// Entries taken by the transport, kept in case the peer did not get them.
    sent: usize,
    sent_bytes: usize,
    /// Entries taken for the record.
    recorded: usize,
    recorded_bytes: usize,
    /// Bytes of the entries that are not sent.
    waiting_bytes: usize,
    last_eid: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    eid: u64,
    /// With its newline.
    length: usize,
}

/// A buffer of this size is kept when nothing is in it.
const KEPT: usize = 4 * 1024;

/// A buffer with more than this in it has at least the other size. Blocks between the two share pages of
/// the allocator with those of other sessions, which keeps all of them from being returned to the system.
/// Of what is not used only the addresses are taken.
const SMALL: usize = 48 * 1024;
const LARGE: usize = 1024 * 1024;

impl Outbox {
    pub(crate) const fn new(max_outbound: usize, max_replay: usize) -> Self {
        Self {
            max_outbound,
            max_replay,
            first: None,
            lent: Vec::new(),
            log: Vec::new(),
            gone: 0,
            entries: VecDeque::new(),
            sent: 0,
            sent_bytes: 0,
            recorded: 0,
            recorded_bytes: 0,
            waiting_bytes: 0,
            last_eid: 0,
        }
    }

    /// Bytes of memory, about, that the messages take.
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.entries.len().saturating_mul(size_of::<Entry>());
        self.log.len().saturating_add(entries)
    }

    /// From now on nothing that was sent is kept.
    pub(crate) const fn keep_nothing(&mut self) {
        self.max_replay = 0;
    }

    /// Drops all messages, sent or not.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            last_eid: self.last_eid,
            ..Self::new(self.max_outbound, self.max_replay)
        };
    }

    /// Writes a message, with the next number.
    pub(crate) fn push(&mut self, mut envelope: Envelope<'static>, body: Body<'static>) {
        self.trim();
        if self.log.len() > SMALL && self.log.capacity() < LARGE {
            let more = LARGE.saturating_sub(self.log.len());
            self.log.reserve_exact(more);
        }
        self.last_eid = self.last_eid.saturating_add(1);
        envelope.eid = Some(self.last_eid);
        let before = self.log.len();
        Message { envelope, body }.encode_to(&mut self.log, Charset::Utf8);
        self.added(before);
    }

    /// Takes a line that was written in an earlier life of the session; it counts as sent. All of them
    /// are kept until the peer says what it has: it may have read much less than was written.
    pub(crate) fn restore(&mut self, eid: u64, line: &[u8]) {
        self.last_eid = eid;
        let before = self.log.len();
        self.log.extend_from_slice(line);
        self.added(before);
        self.mark_recorded();
        self.mark_sent();
    }

    /// The last message has at least this number.
    pub(crate) const fn count_from(&mut self, eid: u64) {
        if self.last_eid < eid {
            self.last_eid = eid;
        }
    }

    /// What was sent belongs to an earlier session and is not sent again.
    pub(crate) fn forget_sent(&mut self) {
        while self.sent > 0 {
            self.drop_oldest();
        }
    }

    /// Writes a message before all others, outside of what a returning peer is sent again.
    pub(crate) fn push_first(&mut self, envelope: Envelope<'static>, body: Body<'static>) {
        let mut line = Vec::new();
        Message { envelope, body }.encode_to(&mut line, Charset::Utf8);
        self.first = Some(line);
    }

    /// Whether there is one that is not sent yet.
    pub(crate) const fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// That message, if it is not sent yet.
    pub(crate) fn pop_first(&mut self) -> Option<Transmit<'_>> {
        self.lent = self.first.take()?;
        Some(Transmit {
            eid: None,
            line: &self.lent,
        })
    }

    /// The next message to send.
    pub(crate) fn pop(&mut self) -> Option<Transmit<'_>> {
        if self.first.is_some() {
            return self.pop_first();
        }
        self.lent = Vec::new();
        self.trim();
        let entry = *self.entries.get(self.sent)?;
        let start = self.gone.saturating_add(self.sent_bytes);
        self.mark_sent();
        let end = start.saturating_add(entry.length);
        let line = self.log.get(start..end)?.strip_suffix(b"\n")?;
        Some(Transmit {
            eid: Some(entry.eid),
            line,
        })
    }

    /// What is to be put on record, whether it is sent or not: lines with their newlines.
    pub(crate) fn take_unrecorded(&mut self) -> &[u8] {
        let start = self.gone.saturating_add(self.recorded_bytes);
        self.mark_recorded();
        self.log.get(start..).unwrap_or_default()
    }

    /// Begins the record anew: everything that is kept comes again.
    pub(crate) const fn record_again(&mut self) {
        self.recorded = 0;
        self.recorded_bytes = 0;
    }

    /// Puts everything after `last_eid` back in line; returns the numbers that are gone for good.
    pub(crate) fn replay_after(&mut self, last_eid: u64) -> Option<(u64, u64)> {
        let has = |entry: &Entry| entry.eid <= last_eid;
        // What was never sent it cannot have, whatever it says.
        while self.sent > 0 && self.entries.front().is_some_and(has) {
            self.drop_oldest();
        }
        self.sent = 0;
        self.waiting_bytes = self.waiting_bytes.saturating_add(self.sent_bytes);
        self.sent_bytes = 0;
        let next = last_eid.saturating_add(1);
        let kept = self.entries.front().map(|entry| entry.eid);
        let end = kept.unwrap_or_else(|| self.last_eid.saturating_add(1));
        (next < end).then(|| (next, end.saturating_sub(1)))
    }

    /// The line written last.
    pub(crate) fn last_line(&self) -> Option<&[u8]> {
        let length = self.entries.back()?.length;
        let line = self.log.get(self.log.len().checked_sub(length)?..)?;
        line.strip_suffix(b"\n")
    }

    /// Whether the peer is so far behind that nothing more should be written.
    pub(crate) const fn is_full(&self) -> bool {
        self.waiting_bytes >= self.max_outbound
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.waiting_bytes == 0
    }

    /// The number of the last message.
    pub(crate) const fn last_eid(&self) -> u64 {
        self.last_eid
    }

    fn added(&mut self, before: usize) {
        self.log.push(b'\n');
        let length = self.log.len().saturating_sub(before);
        self.waiting_bytes = self.waiting_bytes.saturating_add(length);
        self.entries.push_back(Entry {
            eid: self.last_eid,
            length,
        });
    }

    fn mark_sent(&mut self) {
        if let Some(entry) = self.entries.get(self.sent) {
            self.sent = self.sent.saturating_add(1);
            self.sent_bytes = self.sent_bytes.saturating_add(entry.length);
            self.waiting_bytes = self.waiting_bytes.saturating_sub(entry.length);
        }
    }

    fn mark_recorded(&mut self) {
        self.recorded = self.entries.len();
        self.recorded_bytes = self.log.len().saturating_sub(self.gone);
    }

    fn drop_oldest(&mut self) {
        let Some(Entry { length, .. }) = self.entries.pop_front() else {
            return;
        };
        self.gone = self.gone.saturating_add(length);
        self.sent = self.sent.saturating_sub(1);
        self.sent_bytes = self.sent_bytes.saturating_sub(length);
        self.recorded = self.recorded.saturating_sub(1);
        self.recorded_bytes = self.recorded_bytes.saturating_sub(length);
    }

    /// Lets go of what was sent and is too much to keep, and of the space it took.
    pub(crate) fn trim(&mut self) {
        while self.sent > 0 && self.sent_bytes > self.max_replay {
            self.drop_oldest();
        }
        if self.gone == self.log.len() {
            self.log.clear();
            self.log.shrink_to(KEPT);
            self.entries
                .shrink_to(KEPT.checked_div(size_of::<Entry>()).unwrap_or_default());
            self.gone = 0;
        } else if self.gone > self.log.len() / 2 && self.gone > KEPT {
            self.log.drain(..self.gone);
            self.gone = 0;
            // It was much larger while the peer did not read.
            let wanted = match self.log.len() {
                few if few < SMALL / 2 => SMALL,
                many => many.saturating_mul(2).max(LARGE),
            };
            if self.log.capacity() / 2 > wanted {
                self.log.shrink_to(wanted);
                self.entries.shrink_to(self.entries.len().saturating_mul(2));
            }
        }
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
        std::iter::from_fn(|| outbox.pop().map(|transmit| transmit.eid))
            .flatten()
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

    #[test]
    fn the_record_gets_everything_once() {
        let mut outbox = outbox(10_000, 10_000, 2);
        let lines = |outbox: &mut Outbox| {
            let lines = outbox.take_unrecorded();
            assert!(lines.is_empty() || lines.ends_with(b"}\n"));
            lines.iter().filter(|byte| **byte == b'\n').count()
        };
        assert_eq!(lines(&mut outbox), 2);
        assert_eq!(eids(&mut outbox), [1, 2]);
        assert_eq!(lines(&mut outbox), 0);
        outbox.push(Envelope::new("x", Timestamp::default()), Pong::new().into());
        assert_eq!(lines(&mut outbox), 1);
        outbox.record_again();
        assert_eq!(lines(&mut outbox), 3);
    }

    #[test]
    fn space_is_given_back() {
        let mut outbox = outbox(usize::MAX, 1000, 10_000);
        assert!(outbox.log.capacity() > 500_000);
        eids(&mut outbox);
        outbox.trim();
        assert!(outbox.log.len() < 10_000, "{}", outbox.log.len());
        assert!(outbox.log.capacity() <= SMALL);
        outbox.replay_after(10_000);
        outbox.trim();
        assert!(outbox.log.capacity() <= KEPT);
        assert_eq!(outbox.bytes(), 0);
    }

    /// The peer may have read less than was written, so what is on record is all there until it says so.
    #[test]
    fn a_restored_session_keeps_what_is_on_record() {
        let mut outbox = Outbox::new(1000, 0);
        for eid in 1..=4 {
            outbox.restore(eid, b"line");
        }
        assert_eq!(outbox.replay_after(1), None);
        assert_eq!(eids(&mut outbox), [2, 3, 4]);
        assert_eq!(outbox.replay_after(1), Some((2, 4)), "it was sent since");
    }

    #[test]
    fn a_restored_session_goes_on_counting() {
        let mut outbox = Outbox::new(1000, 1000);
        outbox.restore(7, b"seven");
        outbox.restore(8, b"eight");
        assert!(outbox.is_empty());
        assert!(outbox.take_unrecorded().is_empty());
        outbox.push(Envelope::new("x", Timestamp::default()), Pong::new().into());
        assert_eq!(outbox.replay_after(7), None);
        assert_eq!(
            outbox.pop().map(|transmit| transmit.line),
            Some(&b"eight"[..])
        );
        assert_eq!(eids(&mut outbox), [9]);
    }
}
