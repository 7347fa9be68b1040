//! The node's keys over time. A key that was rotated or revoked is shown to others soon after, and one
//! whose time has come signs: nobody has to tell the node, or to be awake then.

use std::time::Duration;

use a2a_identity::SigningKey;
use a2e_runtime::config::Identity;
use a2e_runtime::{DataDir, Secret};
use anyhow::Result;
use tokio::time::{Instant, sleep_until};

use super::Node;
use crate::id;
use crate::keystore::{Store, Stored, now, random};
use crate::watch::Watch;

/// At least so often it is looked what there is to do: clocks are set, and machines sleep.
const AT_LEAST: Duration = Duration::from_secs(3600);

/// Where the identity is that a node acts as. Which one that is does not change while it runs.
#[derive(Debug)]
pub(crate) struct NodeIdentity {
    pub(super) store: Store,
    name: String,
}

/// When to look at the keys again.
pub(crate) struct Keys {
    record: Watch,
    due: Instant,
}

impl NodeIdentity {
    /// The one that a configuration names, in this data directory.
    pub(crate) fn new(identity: &Identity, data: &DataDir) -> Self {
        let passphrase = identity.passphrase.as_ref().map(Secret::reveal);
        Self {
            store: Store::at(Some(data.path().to_owned())).opened_by(passphrase),
            name: identity.name.clone(),
        }
    }

    /// Opens it. The one that every node has is made if it is not there.
    pub(crate) fn open(&self) -> Result<Stored> {
        let is_there = self.store.names()?.contains(&self.name);
        if is_there || self.name != Identity::DEFAULT {
            return self.store.open(&self.name);
        }
        let key = SigningKey::generate(&mut random)?;
        id::make(&self.name, None, false, &self.store, &key)
    }

    /// When its keys change by themselves next.
    fn next_change(&self) -> Instant {
        let now = now();
        let stored = self.open().ok();
        let change = stored.and_then(|stored| stored.identity.next_change(now));
        let wait = change.map_or(AT_LEAST, |change| {
            let seconds = u64::try_from(change.0.saturating_sub(now.0));
            Duration::from_secs(seconds.unwrap_or_default())
        });
        Instant::now() + wait.min(AT_LEAST)
    }
}

impl Keys {
    /// Waits until somebody has changed them, or a time has come. May be dropped and called again.
    pub(crate) async fn due(&mut self) {
        tokio::select! {
            () = self.record.changed() => {}
            () = sleep_until(self.due) => {}
        }
    }
}

impl Node {
    /// What tells when to look at the node's keys.
    pub(crate) fn keys(&self) -> Keys {
        let record = self.who.store.record(&self.who.name).ok();
        Keys {
            record: Watch::new(record.as_deref()),
            due: self.who.next_change(),
        }
    }

    /// Goes on with the keys that the node has now. Those that cannot be used change nothing.
    pub(crate) fn renew(&self, keys: &mut Keys) {
        if let Err(error) = self.take_keys() {
            tracing::error!("kept the old keys of the node: {error:#}");
        }
        keys.due = self.who.next_change();
        // What time has brought was just written down.
        keys.record.reading();
    }

    fn take_keys(&self) -> Result<()> {
        let config = self.current().clone();
        if let (Some(agents), Some(identity)) = (&self.agents, self.identity(&config)?) {
            agents.server.set_identity(identity);
        }
        Ok(())
    }
}
