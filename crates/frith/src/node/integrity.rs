//! The check of a large store after an unclean end, while the node serves.

use std::path::Path;
use std::thread;

use ::store::{Error, Integrity, Sqlite};
use anyhow::{Context, Result, anyhow};
use tokio::sync::watch;

/// A store, and what the check in the background finds.
pub(super) struct CheckedStore {
    pub(super) database: Sqlite,
    damage: watch::Receiver<Option<Error>>,
}

impl CheckedStore {
    /// Starts the check if the store needs one.
    pub(super) fn new(database: Sqlite) -> Result<Self> {
        let (sender, damage) = watch::channel(None);
        if database.integrity() == Integrity::Running {
            tracing::warn!("the node did not end in order; its store is checked while it serves");
            let database = database.clone();
            let check = move || match database.finish_check() {
                Ok(()) => tracing::info!("the store is not damaged"),
                Err(error) => drop(sender.send(Some(error))),
            };
            let thread = thread::Builder::new().name("store-check".into());
            thread.spawn(check).context("cannot check the store")?;
        }
        Ok(Self { database, damage })
    }

    /// Waits for the check to fail; never returns if it passes.
    pub(super) async fn damaged(&self) -> anyhow::Error {
        let mut damage = self.damage.clone();
        let found = damage.wait_for(Option::is_some).await;
        match found.ok().and_then(|found| found.clone()) {
            Some(error) => unusable(self.database.path(), error),
            None => std::future::pending().await,
        }
    }
}

/// The error for a store that cannot be used: which one, why, and what to do.
pub(super) fn unusable(file: &Path, error: Error) -> anyhow::Error {
    let shown = file.display();
    let text = error.to_string();
    let error = match matches!(error, Error::Damaged { .. }) {
        true => anyhow!(
            "{text}: with the node stopped, put it in the place of {shown}, and remove {shown}-wal \
             and {shown}-shm. `frith store check` names the damage. Without a backup, move these \
             three files away: the node then starts with an empty store"
        ),
        false => error.into(),
    };
    error.context(format!("cannot use {shown}"))
}
