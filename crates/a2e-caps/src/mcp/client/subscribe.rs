//! What servers are asked to tell: that resources change, and, in the newer era, that their lists do.
//!
//! An older server tells of its lists by itself, and of a resource when asked. One of the newer era tells
//! only whom it was told to, for as long as that request is open. Either forgets all with the connection,
//! so the next one begins with asking again.
#![expect(
    deprecated,
    reason = "servers of the older eras know no other way to subscribe"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_wire::Object;
use a2e_wire::messages::mcp::McpNotification;
use rmcp::ServiceError;
use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter};
use rmcp::service::Subscription;
use serde_json::json;

use super::server::{Connection, Server, backoff};

/// How many resources of one server agents may be told of; those of the older eras are the server's.
const MAX_SUBSCRIPTIONS: usize = 256;

/// How long a server may take to say that it will tell of its lists.
const PATIENCE: Duration = Duration::from_secs(10);

/// The resources that agents want to be told of, by address.
#[derive(Debug, Default)]
pub(super) struct Subscribed(Mutex<BTreeSet<String>>);

impl Subscribed {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Has agents told when a resource changes, over this connection and all after it.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        uri: &str,
    ) -> Result<(), ServiceError> {
        {
            let mut known = self.subscribed.lock();
            // All who may use the server are told of what one of them has asked for.
            if known.contains(uri) {
                return Ok(());
            }
            if known.len() >= MAX_SUBSCRIPTIONS {
                return Err(ServiceError::SubscriptionLagged {
                    capacity: MAX_SUBSCRIPTIONS,
                });
            }
            known.insert(uri.to_owned());
        }
        let asked = self.ask_of_resource(connection, uri).await;
        if asked.is_err() {
            self.subscribed.lock().remove(uri);
        }
        asked
    }

    /// Has a server of the newer era tell when its lists change. Whoever looks at them after this misses
    /// nothing.
    pub(super) async fn listen_to_lists(self: &Arc<Self>, connection: &Arc<Connection>) {
        let filter = connection.lists();
        if !connection.is_newer() || filter == SubscriptionFilter::new() {
            return;
        }
        let asked = connection.peer().listen(filter.clone());
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(subscription)) => self.hear(connection, filter, subscription),
            _ => tracing::warn!(
                server = self.name(),
                "it does not tell when its lists change"
            ),
        }
    }

    /// Has a server that was connected to anew tell what the one before was asked for.
    pub(super) async fn listen_to_resources(
        self: Arc<Self>,
        connection: Arc<Connection>,
        wanted: Vec<String>,
    ) {
        for uri in wanted {
            if let Err(error) = self.ask_of_resource(&connection, &uri).await {
                tracing::warn!(server = self.name(), uri, %error, "a resource is followed no more");
                self.subscribed.lock().remove(&uri);
            }
        }
    }

    async fn ask_of_resource(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        uri: &str,
    ) -> Result<(), ServiceError> {
        let peer = connection.peer();
        if !connection.is_newer() {
            return peer.subscribe(SubscribeRequestParams::new(uri)).await;
        }
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(vec![uri.to_owned()]);
        let subscription = peer.listen(filter.clone()).await?;
        self.hear(connection, filter, subscription);
        Ok(())
    }

    /// Tells agents what comes of a subscription, as long as there is the connection. A server that ends
    /// it is asked again: over HTTP the connection outlives the request.
    fn hear(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        filter: SubscriptionFilter,
        mut subscription: Subscription,
    ) {
        let server = Arc::clone(self);
        let (over, ended) = (self.over.clone(), connection.ended.clone());
        let connection = Arc::downgrade(connection);
        let hearing = async move {
            loop {
                while let Ok(Some(notification)) = subscription.next().await {
                    server.heard(notification);
                }
                let again = listen_again(&connection, &filter).await;
                let Some(again) = again else { return };
                subscription = again;
                // Nobody knows what was to be told in between.
                for method in lists(&filter) {
                    server.tell(method, Object::default());
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = hearing => {}
                () = over.cancelled() => {}
                () = ended.cancelled() => {}
            }
        });
    }

    fn heard(self: &Arc<Self>, notification: ServerNotification) {
        let mut params = Object::default();
        let method = match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => {
                params = Object::from_serialize(&json!(updated.params)).unwrap_or_default();
                McpNotification::ResourcesUpdated
            }
            ServerNotification::ToolListChangedNotification(_) => McpNotification::ToolsListChanged,
            ServerNotification::PromptListChangedNotification(_) => {
                McpNotification::PromptsListChanged
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                McpNotification::ResourcesListChanged
            }
            _ => return,
        };
        self.tell(method, params);
    }
}

/// The same subscription once more; nothing if there is no connection any more.
async fn listen_again(
    connection: &Weak<Connection>,
    filter: &SubscriptionFilter,
) -> Option<Subscription> {
    let mut failures = 0_u32;
    loop {
        failures = failures.saturating_add(1);
        tokio::time::sleep(backoff(failures)).await;
        let connection = connection.upgrade()?;
        if let Ok(again) = connection.peer().listen(filter.clone()).await {
            return Some(again);
        }
    }
}

/// The changes of lists that a filter is for.
fn lists(filter: &SubscriptionFilter) -> impl Iterator<Item = McpNotification<'static>> {
    let all = [
        (filter.tools_list_changed, McpNotification::ToolsListChanged),
        (
            filter.prompts_list_changed,
            McpNotification::PromptsListChanged,
        ),
        (
            filter.resources_list_changed,
            McpNotification::ResourcesListChanged,
        ),
    ];
    let wanted = all
        .into_iter()
        .filter(|(is_wanted, _)| *is_wanted == Some(true));
    wanted.map(|(_, method)| method)
}

impl Connection {
    /// The lists that the server says it tells of.
    fn lists(&self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        let Some(info) = self.peer().peer_info() else {
            return filter;
        };
        let told = |it: Option<bool>| it.filter(|is_told| *is_told);
        let has = &info.capabilities;
        filter.tools_list_changed = has.tools.as_ref().and_then(|it| told(it.list_changed));
        filter.prompts_list_changed = has.prompts.as_ref().and_then(|it| told(it.list_changed));
        filter.resources_list_changed = has.resources.as_ref().and_then(|it| told(it.list_changed));
        filter
    }
}
