//! Which fetch goes next: as many at once as the profile allows, and a share for each source.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2a_session::Holder;
use base::{Class, Limits, Quota};
use tokio::sync::Notify;

use crate::standing::lock;

/// How many fetches there may be at once. Each is counted for who needs it.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Of all hosts.
    pub all: Limits,
    /// Of one host.
    pub of_host: Limits,
}

impl Default for FetchLimits {
    /// The figures of profile §4; the shares and the reserves are ours.
    fn default() -> Self {
        Self {
            all: Limits {
                total: 16,
                per_holder: 4,
                reserved: 4,
            },
            of_host: Limits {
                total: 2,
                per_holder: 2,
                reserved: 1,
            },
        }
    }
}

/// Fetches that run and those that wait.
#[derive(Debug)]
pub(super) struct Queue {
    limits: FetchLimits,
    state: Mutex<State>,
    /// Is notified when a fetch begins or ends.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// In the order in which they came.
    fetches: BTreeMap<u64, Entry>,
    running: Quota<Holder>,
    hosts: BTreeMap<String, Quota<Holder>>,
    last: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    holder: Holder,
    host: String,
    is_running: bool,
}

/// A fetch that waits or runs; dropping it lets the next one begin.
#[derive(Debug)]
pub(super) struct Permit {
    queue: Arc<Queue>,
    number: u64,
}

impl Queue {
    pub(super) fn new(limits: FetchLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::new(State {
                fetches: BTreeMap::new(),
                running: Quota::new(limits.all),
                hosts: BTreeMap::new(),
                last: 0,
            }),
            changed: Notify::new(),
        })
    }

    /// Waits until a fetch from this host may begin.
    pub(super) async fn wait(self: &Arc<Self>, holder: Holder, host: &str) -> Permit {
        let permit = Permit {
            queue: Arc::clone(self),
            number: lock(&self.state).add(holder, host),
        };
        loop {
            let changed = self.changed.notified();
            if lock(&self.state).begin(permit.number, self.limits.of_host) {
                self.changed.notify_waiters();
                return permit;
            }
            changed.await;
        }
    }
}

impl State {
    fn add(&mut self, holder: Holder, host: &str) -> u64 {
        self.last = self.last.saturating_add(1);
        let entry = Entry {
            holder,
            host: host.to_owned(),
            is_running: false,
        };
        self.fetches.insert(self.last, entry);
        self.last
    }

    /// Begins a fetch if it is the next one.
    fn begin(&mut self, number: u64, of_host: Limits) -> bool {
        if self.next() != Some(number) {
            return false;
        }
        let Some(entry) = self.fetches.get_mut(&number) else {
            return false;
        };
        let (holder, class) = (entry.holder, entry.holder.class());
        let host = self.hosts.entry(entry.host.clone());
        let host = host.or_insert_with(|| Quota::new(of_host));
        entry.is_running = host.take(holder, class, 1).is_ok();
        entry.is_running && self.running.take(holder, class, 1).is_ok()
    }

    /// Of those that may begin: known agents first, then those of the holder with the fewest
    /// fetches, so that who comes rarely does not wait for who comes often.
    fn next(&self) -> Option<u64> {
        let mut of_holder: BTreeMap<Holder, usize> = BTreeMap::new();
        for entry in self.fetches.values() {
            let count = of_holder.entry(entry.holder).or_default();
            *count = count.saturating_add(1);
        }
        let waiting = self
            .fetches
            .iter()
            .filter(|(_, entry)| self.may_begin(entry));
        let next = waiting.min_by_key(|(number, entry)| {
            let is_stranger = entry.holder.class() == Class::Stranger;
            (is_stranger, of_holder.get(&entry.holder), **number)
        });
        next.map(|(number, _)| *number)
    }

    fn may_begin(&self, entry: &Entry) -> bool {
        let (holder, class) = (&entry.holder, entry.holder.class());
        let host = self.hosts.get(&entry.host);
        !entry.is_running
            && self.running.check(holder, class, 1).is_ok()
            && host.is_none_or(|host| host.check(holder, class, 1).is_ok())
    }

    fn end(&mut self, number: u64) {
        let Some(entry) = self.fetches.remove(&number) else {
            return;
        };
        if !entry.is_running {
            return;
        }
        let class = entry.holder.class();
        self.running.give_back(&entry.holder, class, 1);
        if let Some(host) = self.hosts.get_mut(&entry.host) {
            host.give_back(&entry.holder, class, 1);
            if host.total() == 0 {
                self.hosts.remove(&entry.host);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.queue.state).end(self.number);
        self.queue.changed.notify_waiters();
    }
}
