//! Places and bytes that handshakes under way take, counted by source.

use base::{Class, Exceeded, Limits, Quota, Table};

use super::{Slot, Ticket};
use crate::sources::Source;

/// Places that are counted together.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Space {
    pub(super) slots: Table<Source, Ticket, Slot>,
    pub(super) bytes: Quota<Source>,
}

impl Space {
    pub(super) const fn new(slots: Limits, bytes: Limits) -> Self {
        Self {
            slots: Table::new(slots),
            bytes: Quota::new(bytes),
        }
    }

    /// Whether the source's share has room for one more of this size.
    pub(super) fn has_share(&self, source: Source, size: usize, per_source: usize) -> bool {
        let bytes = self.bytes.check(&source, Class::Stranger, size);
        self.slots.held(&source, Class::Stranger) < per_source && bytes != Err(Exceeded::Share)
    }

    /// Adds a slot. What gives way to it is among the evicted, also if it does not fit in the end.
    pub(super) fn insert(
        &mut self,
        ticket: Ticket,
        slot: Slot,
        evicted: &mut Vec<(Ticket, Slot)>,
    ) -> Result<(), Exceeded> {
        let (source, size) = (slot.source, slot.size);
        self.take_bytes(source, size, evicted)?;
        let inserted = self.slots.insert(source, Class::Stranger, ticket, slot);
        let gone = inserted.inspect_err(|_| {
            self.bytes.give_back(&source, Class::Stranger, size);
        })?;
        if let Some((ticket, slot)) = gone {
            self.give_back(&slot);
            evicted.push((ticket, slot));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Slot> {
        let slot = self.slots.remove(&ticket)?;
        self.give_back(&slot);
        Some(slot)
    }

    /// Counts another size of a slot that is in use, and so does not give way to itself.
    pub(super) fn resize(
        &mut self,
        ticket: Ticket,
        size: usize,
        evicted: &mut Vec<(Ticket, Slot)>,
    ) -> Result<(), Exceeded> {
        let Some(slot) = self.slots.get_mut(&ticket) else {
            return Ok(());
        };
        let (source, before) = (slot.source, std::mem::take(&mut slot.size));
        self.bytes.give_back(&source, Class::Stranger, before);
        self.take_bytes(source, size, evicted)?;
        if let Some(slot) = self.slots.get_mut(&ticket) {
            slot.size = size;
        }
        Ok(())
    }

    /// Counts bytes of a source; others give way to them.
    fn take_bytes(
        &mut self,
        source: Source,
        size: usize,
        evicted: &mut Vec<(Ticket, Slot)>,
    ) -> Result<(), Exceeded> {
        if size > self.bytes.limits().per_holder {
            return Err(Exceeded::Share);
        }
        while let Err(exceeded) = self.bytes.check(&source, Class::Stranger, size) {
            let gone = self.slots.evict(&source, Class::Stranger, exceeded);
            let (ticket, slot) = gone.ok_or(exceeded)?;
            self.give_back(&slot);
            evicted.push((ticket, slot));
        }
        self.bytes.take(source, Class::Stranger, size)
    }

    fn give_back(&mut self, slot: &Slot) {
        self.bytes
            .give_back(&slot.source, Class::Stranger, slot.size);
    }
}
