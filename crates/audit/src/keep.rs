//! Records by which a log keeps itself: they are never erased.

use std::borrow::Cow;

use canonical::{Digest, Number, Object, Value};

use crate::purge::Range;
use crate::{Head, UnixMillis};

/// Events that the log itself puts on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Somebody began to write.
    Start,
    /// It ended as it should.
    Stop,
    /// The record before this one has a signed checkpoint.
    Checkpoint,
    /// Something was removed or erased.
    Purge,
    /// Something is missing.
    AuditGap,
}

impl Keep {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Checkpoint => "checkpoint",
            Self::Purge => "purge",
            Self::AuditGap => "audit_gap",
        }
    }

    /// The one that is written so.
    pub(crate) fn of(event_type: &str) -> Option<Self> {
        let all = [
            Self::Start,
            Self::Stop,
            Self::Checkpoint,
            Self::Purge,
            Self::AuditGap,
        ];
        all.into_iter().find(|keep| keep.as_str() == event_type)
    }
}

/// A record of the log about itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) keep: Keep,
    pub(crate) body: Object<'static>,
}

/// What a purge takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeKind {
    /// Whole records, from the first one on.
    Prefix,
    /// The bodies of records.
    Body,
    /// The addresses beside records.
    RemoteIp,
}

impl PurgeKind {
    const ALL: [Self; 3] = [Self::Prefix, Self::Body, Self::RemoteIp];

    /// The word in a record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Body => "body",
            Self::RemoteIp => "remote_ip",
        }
    }

    /// The one that is written so.
    pub(crate) fn of(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == kind)
    }
}

impl Note {
    pub(crate) fn start(name: &str) -> Self {
        Self::new(Keep::Start).with("name", text(name.to_owned()))
    }

    pub(crate) fn stop() -> Self {
        Self::new(Keep::Stop)
    }

    /// The record before it has this checkpoint.
    pub(crate) fn checkpoint(hash: &Digest) -> Self {
        Self::new(Keep::Checkpoint).with("checkpoint_hash", text(hash.to_string()))
    }

    /// A line that was never finished was dropped.
    pub(crate) fn torn(bytes: u64) -> Self {
        Self::gap("torn_tail").with("dropped_bytes", integer(bytes))
    }

    /// Records were refused for a while.
    pub(crate) fn refused(records: u64) -> Self {
        Self::gap("sink_failed").with("refused", integer(records))
    }

    /// The log before this one is not as it should be; `end` is the last record of it that is.
    pub(crate) fn new_log(reason: &'static str, end: Option<&Head>) -> Self {
        let note = Self::gap(reason);
        match end {
            None => note,
            Some(end) => note
                .with("previous_log_id", text(end.log_id.clone()))
                .with("previous_seq", integer(end.seq))
                .with("previous_hash", text(end.hash.to_string())),
        }
    }

    /// So many were purged, up to this record and with it; of those only what is from before a time,
    /// if there is one. That says exactly which: all that had something to take away. The range is
    /// for people: the purged records show it no more.
    pub(crate) fn purge(
        kind: PurgeKind,
        count: u64,
        (log_id, seq): (&str, u64),
        before: Option<UnixMillis>,
        range: Range,
    ) -> Self {
        let note = Self::new(Keep::Purge)
            .with("kind", text(kind.as_str()))
            .with("count", integer(count))
            .with("purged_log_id", text(log_id.to_owned()))
            .with("purged_through", integer(seq))
            .with("purged_from", text(range.from.to_string()))
            .with("purged_to", text(range.to.to_string()));
        match before {
            None => note,
            Some(before) => note.with("purged_before", text(before.to_string())),
        }
    }

    fn gap(reason: &'static str) -> Self {
        Self::new(Keep::AuditGap).with("reason", text(reason))
    }

    fn new(keep: Keep) -> Self {
        Self {
            keep,
            body: Object::default(),
        }
    }

    fn with(mut self, name: &'static str, value: Value<'static>) -> Self {
        self.body.insert(name, value);
        self
    }
}

fn text(text: impl Into<Cow<'static, str>>) -> Value<'static> {
    Value::String(text.into())
}

fn integer(value: u64) -> Value<'static> {
    let value = i64::try_from(value).ok().and_then(Number::integer);
    value.map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::RESERVED;

    #[test]
    fn notes_use_no_reserved_names_and_their_own_events() {
        let head = Head {
            log_id: "log-1".into(),
            seq: 7,
            hash: Digest::of(b""),
        };
        let range = Range {
            from: UnixMillis(0),
            to: UnixMillis(1),
        };
        for note in [
            Note::start("test"),
            Note::stop(),
            Note::checkpoint(&Digest::of(b"")),
            Note::torn(5),
            Note::refused(5),
            Note::new_log("x", Some(&head)),
            Note::purge(PurgeKind::Prefix, 5, ("log-1", 5), None, range),
            Note::purge(PurgeKind::Body, 5, ("log-1", 5), Some(UnixMillis(0)), range),
        ] {
            assert_eq!(Keep::of(note.keep.as_str()), Some(note.keep));
            assert!(note.body.iter().all(|(name, _)| !RESERVED.contains(&name)));
        }
        assert_eq!(Keep::of(crate::Event::Request.as_str()), None);
    }
}
