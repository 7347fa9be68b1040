//! Counts the configuration requests that were sent to each mounted host. An approval of a call there
//! covers the count: definitions of tools do not show how a toolkit is configured.
//!
//! The counter belongs to the host's address, since all agents of this node may be one agent there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::Address;
use crate::clock::random_id;

/// The counters of all mounted hosts. They are kept when the configuration is read again: a call may be
/// approved before that and released after it.
#[derive(Debug, Clone)]
pub struct ConfigurationCounters {
    /// Differs in each process, since the counters begin at zero.
    process: Arc<str>,
    hosts: Arc<Mutex<HashMap<String, Arc<ConfigurationCounter>>>>,
}

/// The number of configuration requests to one host.
#[derive(Debug, Default)]
pub(super) struct ConfigurationCounter(Mutex<u64>);

/// The number of the last configuration request over one connection; zero if there was none. It stands
/// for what the host configures for a single session.
#[derive(Debug, Default)]
pub(super) struct LastConfiguration(AtomicU64);

/// The counters when a call was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConfigurationState {
    count: u64,
    /// Of the connection that the call is sent over.
    last: u64,
}

/// What forwarding a request has to do with how its host is configured.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gate {
    Open,
    /// It was approved with these counters.
    Approved(ConfigurationState),
    /// It configures the host.
    Configures,
}

impl Default for ConfigurationCounters {
    fn default() -> Self {
        Self {
            process: random_id().into(),
            hosts: Arc::default(),
        }
    }
}

impl ConfigurationCounters {
    /// The counter of the host at an address.
    pub(super) fn of(&self, address: &Address) -> Arc<ConfigurationCounter> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(address.place()).or_default())
    }

    pub(super) fn process(&self) -> &str {
        &self.process
    }
}

impl ConfigurationCounter {
    /// The counters at the moment.
    pub(super) fn state(&self, last: &LastConfiguration) -> ConfigurationState {
        ConfigurationState::of(*self.lock(), last)
    }

    /// Sends a request. One that was approved is not sent if a configuration request was sent since.
    pub(super) fn send<T>(
        &self,
        gate: Gate,
        last: &LastConfiguration,
        send: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut count = self.lock();
        match gate {
            Gate::Approved(approved) if approved != ConfigurationState::of(*count, last) => {
                return None;
            }
            Gate::Configures => {
                *count = count.saturating_add(1);
                last.0.store(*count, Ordering::Relaxed);
            }
            Gate::Open | Gate::Approved(_) => {}
        }
        Some(send())
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigurationState {
    fn of(count: u64, last: &LastConfiguration) -> Self {
        Self {
            count,
            last: last.0.load(Ordering::Relaxed),
        }
    }

    pub(super) const fn numbers(self) -> [u64; 2] {
        [self.count, self.last]
    }
}
