//! What servers are asked to tell: that resources change, and, in the newer era, that their lists do.
//!
//! An older server tells of its lists by itself, and of a resource when asked. One of the newer era tells
//! only whom it was told to, for as long as that request is open. Either forgets all with the connection,
//! so the next one begins with asking again.
//!
//! A subscription belongs to the session that has asked for it: it alone gets the updates, and the server
//! is asked for them only as long as a session wants them.
#![expect(
    deprecated,
    reason = "servers of the older eras know no other way to subscribe"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_runtime::Session;
use a2e_wire::messages::mcp::McpNotification;
use base::{Class, Exceeded, Limits, Quota};
use rmcp::ServiceError;
use rmcp::model::{
    ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::Subscription;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::server::{Connection, Server, backoff};

/// How many resources of one server sessions may subscribe to, each counted for its agent.
pub(super) const SUBSCRIPTIONS: Limits = Limits {
    total: 4096,
    per_holder: 256,
    reserved: 0,
};

/// How long a server may take to say that it will tell of its lists.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The subscriptions of sessions to resources of a server.
#[derive(Debug)]
pub(super) struct Subscriptions(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// By address.
    resources: BTreeMap<String, Resource>,
    by_agent: Quota<Arc<str>>,
}

#[derive(Debug, Default)]
struct Resource {
    subscribers: Vec<Subscriber>,
    /// The server tells of it over this connection; cancelled when no session wants that any more.
    told: Option<CancellationToken>,
}

#[derive(Debug)]
struct Subscriber {
    agent: Arc<str>,
    /// The key of the session.
    key: String,
    session: Weak<Session>,
}

/// A subscription that the server has not agreed to yet. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct NewSubscriber {
    server: Arc<Server>,
    session: Arc<Session>,
    uri: String,
    is_kept: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            resources: BTreeMap::new(),
            by_agent: Quota::new(SUBSCRIPTIONS),
        }))
    }
}

impl Subscriptions {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().resources.is_empty()
    }

    /// A new connection begins: the resources that the server has to be asked for again.
    pub(super) fn begin_anew(&self) -> Vec<String> {
        let mut inner = self.lock();
        let resources = inner.resources.iter_mut();
        let wanted = resources.map(|(uri, resource)| {
            resource.told = None;
            uri.clone()
        });
        wanted.collect()
    }

    /// The sessions that are subscribed to a resource, or to one that it is part of.
    pub(super) fn of(&self, uri: &str) -> Vec<Arc<Session>> {
        let inner = self.lock();
        let resources = inner.resources.iter();
        let subscribed = resources.filter(|(known, _)| is_part_of(uri, known));
        let subscribers = subscribed.flat_map(|(_, resource)| &resource.subscribers);
        let mut found: Vec<Arc<Session>> = Vec::new();
        for session in subscribers.filter_map(|it| it.session.upgrade()) {
            if !found.iter().any(|known| known.key() == session.key()) {
                found.push(session);
            }
        }
        found
    }

    /// Adds a subscriber. Returns whether it is a new one.
    fn add(&self, session: &Arc<Session>, uri: &str) -> Result<bool, Exceeded> {
        let mut inner = self.lock();
        let Inner {
            resources,
            by_agent,
        } = &mut *inner;
        let known = resources.get(uri);
        let is_it = |it: &Subscriber| it.key == session.key();
        if known.is_some_and(|known| known.subscribers.iter().any(is_it)) {
            return Ok(false);
        }
        let agent: Arc<str> = session.identity().agent.as_str().into();
        by_agent.take(Arc::clone(&agent), Class::Known, 1)?;
        let resource = resources.entry(uri.to_owned()).or_default();
        resource.subscribers.push(Subscriber {
            agent,
            key: session.key().to_owned(),
            session: Arc::downgrade(session),
        });
        Ok(true)
    }

    /// Removes subscriptions of a session: that to one resource, or all. Returns the resources that no
    /// session wants to be told of any more.
    fn remove(&self, session: &Session, uri: Option<&str>) -> Vec<String> {
        self.remove_if(|known, it| it.key == session.key() && uri.is_none_or(|uri| uri == known))
    }

    /// The server does not tell of a resource.
    fn remove_all_of(&self, uri: &str) {
        self.remove_if(|known, _| known == uri);
    }

    fn remove_if(&self, is_meant: impl Fn(&str, &Subscriber) -> bool) -> Vec<String> {
        let mut inner = self.lock();
        let Inner {
            resources,
            by_agent,
        } = &mut *inner;
        for (uri, resource) in resources.iter_mut() {
            for gone in resource.subscribers.extract_if(.., |it| is_meant(uri, it)) {
                by_agent.give_back(&gone.agent, Class::Known, 1);
            }
        }
        let unwanted = resources.extract_if(.., |_, resource| resource.subscribers.is_empty());
        let unwanted = unwanted.map(|(uri, resource)| {
            if let Some(told) = resource.told {
                told.cancel();
            }
            uri
        });
        unwanted.collect()
    }

    /// Whether the server tells of a resource already.
    fn is_told(&self, uri: &str) -> bool {
        let inner = self.lock();
        let resource = inner.resources.get(uri);
        resource.is_some_and(|resource| resource.told.is_some())
    }

    /// The server has agreed to tell of a resource until this is cancelled. Returns whether that is
    /// wanted: meanwhile the last session may have left, or another may have asked too.
    fn agree(&self, uri: &str, until: &CancellationToken) -> bool {
        let mut inner = self.lock();
        match inner.resources.get_mut(uri) {
            Some(resource) if resource.told.is_none() => {
                resource.told = Some(until.clone());
                true
            }
            Some(_) | None => false,
        }
    }

    fn is_wanted(&self, uri: &str) -> bool {
        self.lock().resources.contains_key(uri)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an address is another one, or that of a part of it: servers may tell of parts.
fn is_part_of(uri: &str, whole: &str) -> bool {
    let Some(rest) = uri.strip_prefix(whole) else {
        return false;
    };
    rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '#', '?'])
}

impl NewSubscriber {
    /// The server has agreed.
    pub(super) fn keep(mut self) {
        // Subscriptions end with their session: this one came after that.
        self.is_kept |= !self.session.ended().is_cancelled();
    }
}

impl Drop for NewSubscriber {
    fn drop(&mut self) {
        if !self.is_kept {
            self.server.unsubscribe(&self.session, Some(&self.uri));
        }
    }
}

impl Server {
    /// Has a session told when a resource changes, over the connections that follow.
    ///
    /// # Errors
    /// If its agent, or all agents together, want to be told of as many as they may.
    pub(super) fn add_subscriber(
        self: &Arc<Self>,
        session: &Arc<Session>,
        uri: &str,
    ) -> Result<NewSubscriber, Exceeded> {
        let is_new = self.subscriptions.add(session, uri)?;
        Ok(NewSubscriber {
            server: Arc::clone(self),
            session: Arc::clone(session),
            uri: uri.to_owned(),
            is_kept: !is_new,
        })
    }

    /// Subscribes at the server to a resource for a session.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        uri: &str,
    ) -> Result<(), ServiceError> {
        match self.subscriptions.is_told(uri) {
            true => Ok(()),
            false => self.ask_of_resource(connection, uri).await,
        }
    }

    /// A session has ended, or has unsubscribed.
    pub(super) fn unsubscribe_all(self: &Arc<Self>, session: &Session) {
        self.unsubscribe(session, None);
    }

    fn unsubscribe(self: &Arc<Self>, session: &Session, uri: Option<&str>) {
        let unwanted = self.subscriptions.remove(session, uri);
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !unwanted.is_empty() {
            let server = Arc::clone(self);
            runtime.spawn(async move { server.tell_unwanted(unwanted).await });
        }
    }

    /// Tells a server of the older eras what it need not tell any more.
    async fn tell_unwanted(&self, unwanted: Vec<String>) {
        let connection = self.current().await.filter(|it| !it.is_newer());
        let Some(connection) = connection else { return };
        for uri in unwanted {
            // Another session may want it meanwhile.
            if !self.subscriptions.is_wanted(&uri) {
                let asked = connection
                    .peer()
                    .unsubscribe(UnsubscribeRequestParams::new(uri));
                // If that fails, later updates are ignored.
                let _ = self.in_time(asked).await;
            }
        }
    }

    /// Has a server of the newer era tell when its lists change. Whoever looks at them after this misses
    /// nothing.
    pub(super) async fn listen_to_lists(self: &Arc<Self>, connection: &Arc<Connection>) {
        let filter = connection.lists();
        if !connection.is_newer() || filter == SubscriptionFilter::new() {
            return;
        }
        let asked = connection.peer().listen(filter.clone());
        match tokio::time::timeout(LISTEN_TIMEOUT, asked).await {
            Ok(Ok(subscription)) => {
                self.hear(connection, filter, subscription, CancellationToken::new());
            }
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
            let asked = self.in_time(self.ask_of_resource(&connection, &uri));
            if let Err(error) = asked.await {
                tracing::warn!(server = self.name(), uri, %error, "a resource is followed no more");
                self.subscriptions.remove_all_of(&uri);
            }
        }
    }

    async fn ask_of_resource(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        uri: &str,
    ) -> Result<(), ServiceError> {
        let (peer, until) = (connection.peer(), CancellationToken::new());
        if !connection.is_newer() {
            peer.subscribe(SubscribeRequestParams::new(uri)).await?;
            if !self.subscriptions.agree(uri, &until) {
                self.tell_unwanted(vec![uri.to_owned()]).await;
            }
            return Ok(());
        }
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(vec![uri.to_owned()]);
        let subscription = peer.listen(filter.clone()).await?;
        // One that is not wanted ends with its handle.
        if self.subscriptions.agree(uri, &until) {
            self.hear(connection, filter, subscription, until);
        }
        Ok(())
    }

    /// Tells sessions what comes of a subscription, as long as there is the connection and that is wanted.
    /// A server that ends it is asked again: over HTTP the connection outlives the request.
    fn hear(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        filter: SubscriptionFilter,
        mut subscription: Subscription,
        until: CancellationToken,
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
                // Changes may have been missed while disconnected.
                for method in lists(&filter) {
                    server.tell_changed(method);
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = hearing => {}
                () = over.cancelled() => {}
                () = ended.cancelled() => {}
                () = until.cancelled() => {}
            }
        });
    }

    fn heard(self: &Arc<Self>, notification: ServerNotification) {
        match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.tell_updated(&updated.params);
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.tell_changed(McpNotification::ToolsListChanged);
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.tell_changed(McpNotification::PromptsListChanged);
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.tell_changed(McpNotification::ResourcesListChanged);
            }
            _ => {}
        }
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
        let listening = connection.peer().listen(filter.clone());
        if let Ok(Ok(again)) = tokio::time::timeout(LISTEN_TIMEOUT, listening).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_parts_belong_to_the_whole() {
        for (uri, whole, is) in [
            ("x://a", "x://a", true),
            ("x://a/b", "x://a", true),
            ("x://a/b", "x://a/", true),
            ("x://a#b", "x://a", true),
            ("x://ab", "x://a", false),
            ("x://a", "x://a/b", false),
        ] {
            assert_eq!(is_part_of(uri, whole), is, "{uri} {whole}");
        }
    }
}
