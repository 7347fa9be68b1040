//! Slots of sessions: how many there are in all and of each agent, and which one gives way.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use a2e_session::CloseReason;
use base::{Class, Exceeded, Limits, Table};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::access::AccessHolder;
use crate::auth::{Counted, Identity, Source};
use crate::buffers::Buffers;
use crate::tokens::DEFAULT_AGENT;

/// The slots of a host's sessions. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Slots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Mutex<SlotTable>,
    buffers: Buffers,
    last: AtomicU64,
    /// Sessions that have not ended, those that were evicted included.
    running: AtomicUsize,
    /// Notified when the last has ended.
    none_left: Notify,
}

/// A slot of a session, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    number: u64,
    holder: Holder,
    class: Class,
    is_attached: bool,
    /// Bytes that wait in the session, as they are counted.
    bytes: usize,
    signal: Arc<Signal>,
}

/// Whose sessions, connections, requests and bytes are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// The connections of a source whose agents are not known yet; this process is no source.
    Source(Option<Counted>),
    Agent(Arc<AgentHolder>),
}

type SlotTable = Table<(Holder, u64), u64, Arc<Signal>>;

/// An agent; on a host that does not authenticate agents, a source.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentHolder {
    agent: String,
    did: Option<String>,
    source: Option<Counted>,
}

/// What others have decided about a session, for its task to act on.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    end: OnceLock<CloseReason>,
    is_paused: AtomicBool,
    task: AtomicWaker,
}

/// The agent for whom bytes are counted that wait beside its sessions.
#[derive(Debug, Clone)]
pub(crate) struct ByteAccount {
    slots: Slots,
    holder: Holder,
    class: Class,
}

/// Bytes that wait for an agent, given back when dropped.
#[derive(Debug)]
pub(crate) struct ByteCharge {
    account: ByteAccount,
    bytes: usize,
}

/// Waiting bytes of a session are counted in these steps.
const STEP: usize = 16 * 1024;

/// Sessions that agents cannot have, so that the operator's own commands always find a slot: so many,
/// or a quarter if there are few.
const RESERVED: usize = 32;

/// The limits of a host's sessions.
pub(crate) fn limits(max_sessions: usize, max_sessions_per_agent: usize) -> Limits {
    Limits {
        total: max_sessions,
        per_holder: max_sessions_per_agent,
        reserved: reserved(max_sessions),
    }
}

/// How much of something is reserved for the operator's own commands.
pub(crate) const fn reserved(total: usize) -> usize {
    let quarter = total / 4;
    if quarter < RESERVED {
        quarter
    } else {
        RESERVED
    }
}

/// The class of a connection whose agent is not known yet.
pub(crate) fn class_of(source: Source) -> Class {
    match source.is_operator() {
        true => Class::Known,
        false => Class::Stranger,
    }
}

impl Holder {
    /// Who holds the session of an agent, and whether it may use what is reserved: only the node's own
    /// identity may, from this process or over the Unix socket as the user that runs it.
    pub(crate) fn of(identity: &Identity, source: Source, is_required: bool) -> (Self, Class) {
        let AccessHolder { agent, did } = AccessHolder::of(identity);
        let class = match agent == DEFAULT_AGENT && did.is_none() {
            true => class_of(source),
            false => Class::Stranger,
        };
        // Without authentication anybody can be this agent.
        let source = Counted::of(source).filter(|_| !is_required);
        let holder = AgentHolder { agent, did, source };
        (Self::Agent(Arc::new(holder)), class)
    }

    /// Who holds the slot of a session. A session without an agent counts for nobody else: how many of them a
    /// source may have is limited before.
    fn of_slot(&self, number: u64) -> (Self, u64) {
        match self {
            Self::Source(_) => (self.clone(), number),
            Self::Agent(_) => (self.clone(), 0),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(_) => f.write_str("-"),
            Self::Agent(holder) => f.write_str(&holder.agent),
        }
    }
}

impl Slots {
    /// No sessions, with limits of their number and of the bytes that wait in them.
    pub(crate) fn new(limits: Limits, buffers: Limits) -> Self {
        Self(Arc::new(Inner {
            table: Mutex::new(Table::new(limits)),
            buffers: Buffers::new(buffers),
            last: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            none_left: Notify::new(),
        }))
    }

    /// Applies other limits from now on; sessions that exceed them go on.
    pub(crate) fn set_limits(&self, limits: Limits, buffers: Limits) {
        self.0.table.lock().set_limits(limits);
        self.0.buffers.set_limits(buffers);
    }

    /// An account for the bytes that wait for an agent.
    pub(crate) fn account(&self, (holder, class): (Holder, Class)) -> ByteAccount {
        ByteAccount {
            slots: self.clone(),
            holder,
            class,
        }
    }

    /// Bytes that wait for all agents.
    pub(crate) fn buffered(&self) -> usize {
        self.0.buffers.total()
    }

    /// A slot for a connection whose agent is not known yet. It ends no session of an agent.
    pub(crate) fn admit(&self, source: Source) -> Option<Slot> {
        let number = self.next();
        let (holder, class) = (Holder::Source(Counted::of(source)), class_of(source));
        let may_evict = class == Class::Known;
        self.take(number, holder, class, may_evict).ok()
    }

    /// A slot for the session of an agent that is not connected.
    pub(crate) fn admit_detached(&self, holder: Holder, class: Class) -> Result<Slot, Exceeded> {
        let mut slot = self.take(self.next(), holder, class, true)?;
        slot.set_attached(false);
        Ok(slot)
    }

    /// How many sessions there are, those before their handshake included.
    pub(crate) fn count(&self) -> usize {
        self.0.running.load(Ordering::Relaxed)
    }

    /// Waits until there are no sessions.
    pub(crate) async fn none_left(&self) {
        loop {
            let notified = self.0.none_left.notified();
            if self.count() == 0 {
                return;
            }
            notified.await;
        }
    }

    fn next(&self) -> u64 {
        self.0.last.fetch_add(1, Ordering::Relaxed)
    }

    fn take(
        &self,
        number: u64,
        holder: Holder,
        class: Class,
        may_evict: bool,
    ) -> Result<Slot, Exceeded> {
        let signal = Arc::new(Signal::default());
        let mut table = self.0.table.lock();
        if !may_evict {
            table.check(&holder.of_slot(number), class)?;
        }
        insert(&mut table, &holder, class, number, &signal)?;
        drop(table);
        self.0.running.fetch_add(1, Ordering::AcqRel);
        Ok(Slot {
            slots: self.clone(),
            number,
            holder,
            class,
            is_attached: true,
            bytes: 0,
            signal,
        })
    }
}

/// Adds a session that is connected, and ends what gives way to it.
fn insert(
    table: &mut SlotTable,
    holder: &Holder,
    class: Class,
    number: u64,
    signal: &Arc<Signal>,
) -> Result<(), Exceeded> {
    let holder = holder.of_slot(number);
    // More than one only if the limits have been lowered.
    while let Err(exceeded) = table.check(&holder, class) {
        let evicted = table.evict(&holder, class, exceeded);
        let (_, evicted) = evicted.ok_or(exceeded)?;
        evicted.end(CloseReason::GaveWay);
    }
    table.insert(holder, class, number, Arc::clone(signal))?;
    table.set_in_use(&number, true);
    Ok(())
}

impl Slot {
    /// The agent is known: from now on the session counts as its own. The oldest of its sessions that
    /// wait for their agent to come back gives way if there are too many.
    ///
    /// # Errors
    /// If none does; then the session counts as before.
    pub(crate) fn identify(&mut self, holder: Holder, class: Class) -> Result<(), Exceeded> {
        if (&holder, class) == (&self.holder, self.class) {
            return Ok(());
        }
        // They are counted for the agent the next time.
        self.set_bytes(0);
        let mut table = self.slots.0.table.lock();
        if table.remove(&self.number).is_none() {
            return Err(Exceeded::Total);
        }
        let taken = insert(&mut table, &holder, class, self.number, &self.signal);
        match taken {
            Ok(()) => (self.holder, self.class) = (holder, class),
            Err(_) => {
                // Its own slot was free a moment ago.
                let before = (&self.holder, self.class);
                let _ = insert(&mut table, before.0, before.1, self.number, &self.signal);
            }
        }
        drop(table);
        let is_attached = std::mem::replace(&mut self.is_attached, true);
        self.set_attached(is_attached);
        taken
    }

    /// Sets whether the session's agent is connected. One that waits for its agent may give way, the one
    /// that has waited longest first. Returns whether this one has not.
    pub(crate) fn set_attached(&mut self, is_attached: bool) -> bool {
        let was_attached = std::mem::replace(&mut self.is_attached, is_attached);
        if was_attached == is_attached || matches!(self.holder, Holder::Source(_)) {
            return self.signal.end.get().is_none();
        }
        let mut table = self.slots.0.table.lock();
        if !is_attached {
            table.touch(&self.number);
        }
        table.set_in_use(&self.number, is_attached);
        table.get(&self.number).is_some()
    }

    /// The account for bytes that wait for its agent beside those of the session.
    pub(crate) fn account(&self) -> ByteAccount {
        self.slots.account((self.holder.clone(), self.class))
    }

    /// Sets how many bytes wait in the session.
    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        // A few are not worth counting one by one.
        let bytes = match bytes <= STEP {
            true => 0,
            false => bytes.checked_next_multiple_of(STEP).unwrap_or(bytes),
        };
        if bytes != self.bytes {
            self.bytes = bytes;
            let holder = (&self.holder, self.class);
            let buffers = &self.slots.0.buffers;
            buffers.set(holder, self.number, &self.signal, bytes);
        }
    }

    /// Wakes this task when others decide something about the session.
    pub(crate) fn wakes(&self, waker: &Waker) {
        self.signal.task.register(waker);
    }

    /// Why the session is to end, if others have decided that.
    pub(crate) fn end(&self) -> Option<CloseReason> {
        self.signal.end.get().copied()
    }

    /// Whether others have paused the session.
    pub(crate) fn is_paused(&self) -> bool {
        self.signal.is_paused()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.set_bytes(0);
        self.slots.0.table.lock().remove(&self.number);
        if self.slots.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.slots.0.none_left.notify_waiters();
        }
    }
}

impl ByteAccount {
    /// The agent.
    pub(crate) const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Counts bytes until the charge is dropped. None if so much waits that what sends them must pause.
    pub(crate) fn charge(&self, bytes: usize) -> Option<ByteCharge> {
        let holder = (&self.holder, self.class);
        let is_taken = self.slots.0.buffers.take(holder, bytes);
        is_taken.then(|| ByteCharge {
            account: self.clone(),
            bytes,
        })
    }
}

impl Drop for ByteCharge {
    fn drop(&mut self) {
        let ByteAccount {
            slots,
            holder,
            class,
        } = &self.account;
        slots.0.buffers.give_back((holder, *class), self.bytes);
    }
}

impl Signal {
    /// Ends the session.
    pub(crate) fn end(&self, reason: CloseReason) {
        let _ = self.end.set(reason);
        self.task.wake();
    }

    /// Whether the session is to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// Whether the session is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// Pauses the session, or lets it go on.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "192.0.2.1";

    const NO_BYTES: Limits = Limits {
        total: 0,
        per_holder: 0,
        reserved: 0,
    };

    fn slots(max_sessions: usize, per_agent: usize) -> Slots {
        Slots::new(limits(max_sessions, per_agent), NO_BYTES)
    }

    fn source() -> Source {
        Source::Address(ADDRESS.parse().unwrap())
    }

    fn begin(slots: &Slots, agent: &str) -> Result<Slot, Exceeded> {
        let mut slot = slots.admit(source()).ok_or(Exceeded::Total)?;
        let (holder, class) = Holder::of(&Identity::named(agent), source(), true);
        slot.identify(holder, class)?;
        Ok(slot)
    }

    fn has_ended(slot: &Slot) -> bool {
        slot.end() == Some(CloseReason::GaveWay)
    }

    #[test]
    fn the_session_that_was_detached_first_gives_way() {
        let slots = slots(100, 3);
        let mut all: Vec<Slot> = (0..3).map(|_| begin(&slots, "a").unwrap()).collect();
        assert_eq!(begin(&slots, "a").err(), Some(Exceeded::Share));
        for index in [2, 0, 1] {
            assert!(all[index].set_attached(false));
        }
        assert!(all[1].set_attached(true), "it is back");
        let newer = [begin(&slots, "a").unwrap()];
        assert_eq!(
            [0, 1, 2].map(|index| has_ended(&all[index])),
            [false, false, true]
        );
        let newest = begin(&slots, "a").unwrap();
        assert!(
            has_ended(&all[0]) && !all[0].set_attached(true),
            "it cannot be resumed"
        );
        assert_eq!(begin(&slots, "a").err(), Some(Exceeded::Share));
        assert_eq!(slots.count(), 5, "until their tasks have ended");
        drop((all, newer, newest));
        assert_eq!((slots.count(), slots.0.table.lock().len()), (0, 0));
    }

    #[test]
    fn other_agents_and_connections_never_give_way_to_an_agents_sessions() {
        let slots = slots(4, 2);
        let mut other = begin(&slots, "b").unwrap();
        other.set_attached(false);
        let connection = slots.admit(source()).unwrap();
        let own = begin(&slots, "a").unwrap();
        // One of four is reserved.
        assert!(slots.admit(source()).is_none());
        assert!(![&other, &connection, &own].into_iter().any(has_ended));
    }

    #[test]
    fn what_is_reserved_is_the_operators() {
        let slots = slots(8, 8);
        let all: Vec<Slot> = std::iter::from_fn(|| begin(&slots, DEFAULT_AGENT).ok()).collect();
        assert_eq!(all.len(), 6);
        let own = Source::User(rustix::process::getuid().as_raw());
        let mut slot = slots.admit(own).unwrap();
        let (holder, class) = Holder::of(&Identity::named("a"), own, true);
        assert_eq!(
            slot.identify(holder, class),
            Err(Exceeded::Total),
            "another agent's"
        );
        let (holder, class) = Holder::of(&Identity::named(DEFAULT_AGENT), own, true);
        slot.identify(holder, class).unwrap();
        assert!(slots.admit(Source::Own).is_some());
    }

    #[test]
    fn lowered_limits_hold_for_the_next_session() {
        let slots = slots(100, 4);
        let mut all: Vec<Slot> = (0..4).map(|_| begin(&slots, "a").unwrap()).collect();
        for slot in &mut all {
            slot.set_attached(false);
        }
        slots.set_limits(limits(100, 2), NO_BYTES);
        assert!(!all.iter().any(has_ended));
        let _newest = begin(&slots, "a").unwrap();
        assert_eq!(all.iter().filter(|slot| has_ended(slot)).count(), 3);
    }

    /// Without authentication all agents have one name, and are counted by where they come from.
    #[test]
    fn sources_are_counted_where_agents_are_not_authenticated() {
        let anybody = Identity::named(DEFAULT_AGENT);
        let other = Source::Address("192.0.2.2".parse().unwrap());
        let of = |source, is_required| Holder::of(&anybody, source, is_required).0;
        assert_eq!(of(source(), true), of(other, true));
        assert_ne!(of(source(), false), of(other, false));
    }
}
