//! Sessions that are kept, one for each server and wish for encryption.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_identity::Did;
use a2a_session::{ClientSession, Now};
use bytes::Bytes;
use tokio::time::Instant;

use super::{Encrypt, Route, SessionView};
use crate::standing::lock;
use crate::transport::{Courier, Place, Reply};

/// Servers that are remembered at once.
const SERVERS: usize = 4096;
/// A session is renewed when this part of its life is left, or this much time.
const RENEWED: (u32, Duration) = (10, Duration::from_secs(60));

/// A session with a server, and what carries its messages.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) session: Mutex<ClientSession>,
    pub(super) courier: T,
    /// Where its handshakes are.
    pub(super) url: String,
    pub(super) view: SessionView,
    /// From then on there should be another.
    renew_at: Duration,
}

/// The sessions with one server; whoever has the lock may shake hands.
#[derive(Debug)]
pub(super) struct Gate<T> {
    pub(super) held: Option<Arc<Held<T>>>,
    /// When a handshake was begun last.
    pub(super) begun: Option<Instant>,
}

pub(super) type Server<T> = Arc<tokio::sync::Mutex<Gate<T>>>;

/// All servers.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<BTreeMap<(String, Encrypt), Server<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Courier> Pool<T> {
    pub(super) fn server(&self, did: &Did, encrypt: Encrypt) -> Server<T> {
        let mut servers = lock(&self.0);
        if servers.len() >= SERVERS {
            // Who is in use stays.
            servers.retain(|_, server| Arc::strong_count(server) > 1);
        }
        let new = || {
            Arc::new(tokio::sync::Mutex::new(Gate {
                held: None,
                begun: None,
            }))
        };
        Arc::clone(
            servers
                .entry((did.to_string(), encrypt))
                .or_insert_with(new),
        )
    }

    /// Keeps no session with these agents any more; what is under way ends as it may.
    pub(super) fn forget(&self, dids: &[String]) {
        lock(&self.0).retain(|(did, _), _| !dids.contains(did));
    }

    pub(super) fn servers(&self) -> Vec<Server<T>> {
        lock(&self.0).values().cloned().collect()
    }

    pub(super) async fn sessions(&self, now: Now) -> Vec<SessionView> {
        let mut views = Vec::new();
        for server in self.servers() {
            let held = server.lock().await.held.clone();
            let held = held.filter(|held| !lock(&held.session).is_over(now));
            views.extend(held.map(|held| held.view.clone()));
        }
        views
    }

    pub(super) async fn take_all(&self) -> Vec<Arc<Held<T>>> {
        let servers = std::mem::take(&mut *lock(&self.0));
        let mut all = Vec::new();
        for server in servers.into_values() {
            all.extend(server.lock().await.held.take());
        }
        all
    }
}

impl<T: Courier> Held<T> {
    pub(super) fn new(now: Now, session: ClientSession, courier: T, route: &Route) -> Self {
        let established = session.established();
        let peer = established.peer();
        let life = established.expires_at().0.saturating_sub(now.unix.0);
        let life = Duration::from_secs(u64::try_from(life).unwrap_or_default());
        let (part, most) = RENEWED;
        let left = life.checked_div(part).unwrap_or_default().min(most);
        Self {
            view: SessionView {
                did: peer.did().to_string(),
                session_id: established.session_id().to_string(),
                expires_at: established.expires_at(),
                trust_level: peer.trust_level(),
                binding: established.binding(),
                encrypted: established.is_encrypted(),
                policy_hash: established.policy().hash(),
                carrier: route.carrier,
            },
            url: route.handshake.clone(),
            renew_at: now.monotonic.saturating_add(life.saturating_sub(left)),
            session: Mutex::new(session),
            courier,
        }
    }

    /// Whether it is good for another request.
    pub(super) fn is_good(&self, now: Now) -> bool {
        now.monotonic < self.renew_at && !lock(&self.session).is_over(now)
    }

    /// Sends a control message, and takes in what comes back.
    pub(super) async fn tell(&self, now: Now, message: Vec<u8>) {
        let session_id = Some(self.view.session_id.as_str());
        let message = Bytes::from(message);
        let reply = self.courier.send(Place::Request, session_id, message).await;
        if let Ok(Reply::Message { message, .. }) = reply {
            // Whatever it is, nobody waits for it.
            let _ = lock(&self.session).handle_message(now, &message);
        }
    }
}
