//! What has expired goes from the disk.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use a2e_runtime::Host;
use store::{Moment, Store, UnixMillis};
use tokio_util::sync::CancellationToken;

/// How long what nobody is given any more may still be on the disk.
const EVERY: Duration = Duration::from_secs(60);

/// Sweeps until it is cancelled.
pub(super) async fn run(store: Store, host: Host, until: CancellationToken) {
    let started = Instant::now();
    while until
        .run_until_cancelled(tokio::time::sleep(EVERY))
        .await
        .is_some()
    {
        let host = host.clone();
        match tokio::task::spawn_blocking(move || host.remove_expired()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "expired requests cannot be removed"),
            Err(_) => return,
        }
        loop {
            match store.sweep(now(started)).await {
                Ok(swept) if swept.has_more => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "what has expired cannot be removed");
                    break;
                }
            }
        }
    }
}

fn now(started: Instant) -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment {
        unix: UnixMillis(0).plus(since.unwrap_or_default()),
        uptime: started.elapsed().into(),
    }
}
