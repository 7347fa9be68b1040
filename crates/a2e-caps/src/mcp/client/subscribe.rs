//! Subscriptions to resources.
#![expect(
    deprecated,
    reason = "servers of the older eras know no other way to subscribe"
)]

use std::sync::Arc;

use a2e_wire::Object;
use a2e_wire::messages::mcp::McpNotification;
use rmcp::ServiceError;
use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter};
use serde_json::json;

use super::server::{Connection, Server};

/// How many subscriptions to one server there may be; those of the older eras are the server's.
const MAX_SUBSCRIPTIONS: usize = 256;

impl Server {
    /// Has agents told when a resource changes.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        connection: &Connection,
        uri: &str,
    ) -> Result<(), ServiceError> {
        let peer = connection.peer();
        if !connection.is_newer() {
            return peer.subscribe(SubscribeRequestParams::new(uri)).await;
        }
        let Ok(place) = Arc::clone(&self.subscriptions).try_acquire_owned() else {
            return Err(ServiceError::SubscriptionLagged {
                capacity: MAX_SUBSCRIPTIONS,
            });
        };
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(vec![uri.to_owned()]);
        let mut subscription = peer.listen(filter).await?;
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let _place = place;
            loop {
                let next = tokio::select! {
                    next = subscription.next() => next,
                    () = server.over.cancelled() => return,
                };
                match next {
                    Ok(Some(ServerNotification::ResourceUpdatedNotification(updated))) => {
                        let params = Object::from_serialize(&json!(updated.params));
                        server.tell(
                            McpNotification::ResourcesUpdated,
                            params.unwrap_or_default(),
                        );
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return,
                }
            }
        });
        Ok(())
    }

    /// Room for the subscriptions of a server.
    pub(super) fn subscription_places() -> Arc<tokio::sync::Semaphore> {
        Arc::new(tokio::sync::Semaphore::new(MAX_SUBSCRIPTIONS))
    }
}
