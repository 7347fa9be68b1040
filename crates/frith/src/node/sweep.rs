//! What has expired goes from the disk.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use store::{Store, UnixMillis};
use tokio_util::sync::CancellationToken;

/// How long what nobody is given any more may still be on the disk.
const EVERY: Duration = Duration::from_secs(60);

/// Sweeps until it is cancelled.
pub(super) async fn run(store: Store, until: CancellationToken) {
    while until
        .run_until_cancelled(tokio::time::sleep(EVERY))
        .await
        .is_some()
    {
        loop {
            match store.sweep(now()).await {
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

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis(0).plus(since.unwrap_or_default())
}
