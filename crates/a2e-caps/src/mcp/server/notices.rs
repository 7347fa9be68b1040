//! What a client is told unasked: lists that have changed, resources that have, and what tools log.
#![expect(
    deprecated,
    reason = "logging is going away in MCP, and clients of all eras are served"
)]

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::{Client, Handler};
use a2e_wire::Body;
use a2e_wire::messages::mcp::{McpNotification, McpServerPush};
use rmcp::ErrorData;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, PromptListChangedNotification,
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification, ToolListChangedNotification,
};
use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use tokio::sync::broadcast;

/// Something that clients may want to know.
#[derive(Debug, Clone)]
pub(super) enum Notice {
    Tools,
    Prompts,
    Resources,
    Updated(String),
    Logged(Box<LoggingMessageNotificationParam>),
}

/// The notices of a session.
#[derive(Debug)]
pub(super) struct Notices {
    sender: broadcast::Sender<Notice>,
    pub(super) wishes: Arc<Wishes>,
}

/// What a client of the older eras wants to know.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    level: Mutex<Option<LoggingLevel>>,
    watched: Mutex<HashSet<String>>,
}

/// Notices that wait for a client. One that is slower misses some; it lists anew all the same.
const WAITING: usize = 64;

/// How many resources a client may watch.
pub const MAX_WATCHED: usize = 256;

impl Default for Notices {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(WAITING).0,
            wishes: Arc::default(),
        }
    }
}

impl Notices {
    /// Hears what the host pushes.
    pub(super) fn hear(&self, client: &Client) {
        let sender = self.sender.clone();
        let handler = Handler::new(move |message| {
            if let Body::McpServerPush(push) = message.body {
                // It may be that nobody wants to know.
                drop(notice(&push).map(|notice| sender.send(notice)));
            }
        });
        client.register_push_handler("mcp/server/push", handler);
    }

    pub(super) fn tell(&self, notice: Notice) {
        // It may be that nobody wants to know.
        let _ = self.sender.send(notice);
    }

    /// Tells a client of the older eras, until it or the session is gone.
    pub(super) fn follow(&self, peer: Peer<RoleServer>) {
        let (mut heard, wishes) = (self.listener(), Arc::clone(&self.wishes));
        tokio::spawn(async move {
            while let Some(notice) = next(&mut heard).await {
                if wishes.have(&notice)
                    && peer.send_notification(notice.into_message()).await.is_err()
                {
                    return;
                }
            }
        });
    }

    /// Hears all that is told from now on.
    pub(super) fn listener(&self) -> broadcast::Receiver<Notice> {
        self.sender.subscribe()
    }
}

/// Tells a client of the newer era, as long as it listens.
pub(super) async fn pass_on(mut heard: broadcast::Receiver<Notice>, context: &SubscriptionContext) {
    loop {
        tokio::select! {
            () = context.cancelled() => return,
            notice = next(&mut heard) => match notice {
                // What it has not asked for is left out there.
                Some(notice) => drop(context.sink().send(notice.into_message()).await),
                None => return,
            },
        }
    }
}

impl Wishes {
    /// From which level on it wants to hear what tools log; nothing until it says so.
    pub(super) fn level(&self) -> Option<LoggingLevel> {
        *lock(&self.level)
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *lock(&self.level) = Some(level);
    }

    /// It wants to know when this resource changes.
    ///
    /// # Errors
    /// If it watches as many as it may.
    pub(super) fn watch(&self, uri: String) -> Result<(), ErrorData> {
        let mut watched = lock(&self.watched);
        if watched.len() >= MAX_WATCHED && !watched.contains(&uri) {
            let text = format!("{MAX_WATCHED} resources are watched; unsubscribe from one first");
            return Err(ErrorData::invalid_request(text, None));
        }
        watched.insert(uri);
        Ok(())
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.watched).remove(uri);
    }

    fn have(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Tools | Notice::Prompts | Notice::Resources => true,
            Notice::Updated(uri) => lock(&self.watched).contains(uri),
            Notice::Logged(logged) => is_loud(logged.level, self.level()),
        }
    }
}

impl Notice {
    fn into_message(self) -> ServerNotification {
        match self {
            Self::Tools => ToolListChangedNotification::default().into(),
            Self::Prompts => PromptListChangedNotification::default().into(),
            Self::Resources => ResourceListChangedNotification::default().into(),
            Self::Updated(uri) => {
                let params = ResourceUpdatedNotificationParam::new(uri);
                ResourceUpdatedNotification::new(params).into()
            }
            Self::Logged(logged) => rmcp::model::LoggingMessageNotification::new(*logged).into(),
        }
    }
}

/// Whether something of this level is for a client that wants to hear from another level on.
pub(super) fn is_loud(level: LoggingLevel, from: Option<LoggingLevel>) -> bool {
    from.is_some_and(|from| rank(level) >= rank(from))
}

const fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

/// The next notice; some may have been missed. Nothing when the session is gone.
async fn next(heard: &mut broadcast::Receiver<Notice>) -> Option<Notice> {
    loop {
        match heard.recv().await {
            Ok(notice) => return Some(notice),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

/// What a push of the host means to a client.
fn notice(push: &McpServerPush<'_>) -> Option<Notice> {
    let params: Value = push.params.raw().deserialize().unwrap_or_default();
    match &push.method {
        McpNotification::ToolsListChanged => Some(Notice::Tools),
        McpNotification::PromptsListChanged => Some(Notice::Prompts),
        McpNotification::ResourcesListChanged => Some(Notice::Resources),
        McpNotification::ResourcesUpdated => {
            let uri = params["uri"].as_str()?;
            Some(Notice::Updated(uri.to_owned()))
        }
        McpNotification::Message => {
            let logged = serde_json::from_value(params).ok()?;
            Some(Notice::Logged(Box::new(logged)))
        }
        _ => None,
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_loud_enough_is_told() {
        use LoggingLevel::{Debug, Emergency, Info, Warning};
        for (level, from, told) in [
            (Emergency, None, false),
            (Info, Some(Warning), false),
            (Warning, Some(Warning), true),
            (Emergency, Some(Debug), true),
        ] {
            assert_eq!(is_loud(level, from), told, "{level:?} {from:?}");
        }
    }

    #[test]
    fn so_many_resources_are_watched_and_no_more() {
        let wishes = Wishes::default();
        for number in 0..MAX_WATCHED {
            wishes.watch(number.to_string()).unwrap();
        }
        wishes.watch("0".to_owned()).unwrap();
        assert!(wishes.watch("more".to_owned()).is_err());
        wishes.unwatch("0");
        wishes.watch("more".to_owned()).unwrap();
        assert!(wishes.have(&Notice::Updated("more".into())));
        assert!(!wishes.have(&Notice::Updated("0".into())));
    }
}
