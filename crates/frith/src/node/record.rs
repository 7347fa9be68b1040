//! The node's audit log: opened, kept within its time, purged as the operator wishes.

use std::time::Duration;

use a2e_runtime::DataDir;
use a2e_runtime::config::Config;
use anyhow::{Context, Result};
use tokio::time::Instant;

use crate::audit::SystemClock;
use crate::audit::head::HeadFile;
use crate::audit::keys::{NodeKeys, NodeSigner};
use crate::audit::purge::{self, Taken, Wish};
use crate::keystore::{Store, Stored};

/// How often the log is looked through for what has been kept long enough.
const RETAIN_EVERY: Duration = Duration::from_secs(6 * 3600);

/// How long after a start nothing is purged: a clock that is wrong then can be set meanwhile.
const RETAIN_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Opens the log; nothing if none is kept.
pub(super) fn open(
    config: &Config,
    data: &DataDir,
    identity: &Stored,
    identities: &Store,
) -> Result<Option<audit::Log>> {
    if !config.audit.enabled {
        return Ok(None);
    }
    let folder = data.path().join("audit");
    let settings = audit::Settings {
        sync: config.audit.sync,
        name: config.host_id.clone(),
        ..audit::Settings::default()
    };
    let parts = audit::Parts {
        keys: Box::new(NodeKeys::of(identity)),
        signer: Box::new(NodeSigner::of(identity, identities)?),
        random: Box::new(|bytes: &mut [u8]| {
            getrandom::fill(bytes).map_err(|_| audit::NoRandomness)
        }),
        clock: Box::new(SystemClock::start()),
        alarm: Box::new(|alarm| tracing::error!("{alarm}")),
    };
    let head = Box::new(HeadFile::beside(&folder));
    let log = audit::Log::open_remembered(&folder, settings, parts, head);
    let log = log.with_context(|| {
        format!(
            "cannot put on record what agents do in {}",
            folder.display()
        )
    });
    log.map(Some)
}

/// Takes out of the log what has been kept long enough, from time to time.
pub(super) async fn keep_within(log: audit::Log, retention: audit::Retention) {
    let mut times = tokio::time::interval_at(Instant::now() + RETAIN_AFTER, RETAIN_EVERY);
    loop {
        times.tick().await;
        let log = log.clone();
        let retain = move || {
            let ahead = log.clock_ahead()?;
            if !ahead.is_zero() {
                tracing::warn!(
                    days = ahead.as_secs() / 86_400,
                    "the clock is ahead of the audit log, which is purged by its own time until it \
                     has gone on for 7 days"
                );
            }
            log.retain(&retention)
        };
        let retained = tokio::task::spawn_blocking(retain).await;
        match retained {
            Ok(Ok(purged)) if purged == audit::Purged::default() => {
                tracing::debug!("nothing of the audit log is due to be purged");
            }
            Ok(Ok(purged)) => tracing::info!(
                records = purged.records,
                bodies = purged.bodies,
                addresses = purged.remote_ips,
                "purged the audit log of what was kept long enough"
            ),
            Ok(Err(audit::Error::Closed)) | Err(_) => return,
            Ok(Err(error)) => tracing::error!(%error, "cannot purge the audit log"),
        }
    }
}

/// Purges the log as the operator wishes.
pub(super) async fn purge_log(log: Option<audit::Log>, wish: Wish) -> Result<Taken, String> {
    let log = log.ok_or("this node keeps no audit log (`audit.enabled` is false)")?;
    let purged = tokio::task::spawn_blocking(move || purge::purge(&log, wish)).await;
    purged
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}
