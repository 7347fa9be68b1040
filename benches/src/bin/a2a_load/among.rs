//! Hostile messages among honest ones: over the same connections, made of what was just sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_net::courier::Post;
use a2a_net::transport::{CarryError, Courier, Place, Reply};
use a2a_net::{Couriers, Posts, Route};
use bytes::Bytes;

/// One message in so many is hostile.
const ONE_IN: usize = 100;

/// What hostile messages came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: AtomicUsize,
    /// Whether any are sent.
    hostile: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    /// Those that were answered as if they were honest.
    pub(crate) let_in: AtomicUsize,
}

impl Tally {
    pub(crate) fn begin(&self) {
        self.hostile.store(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.hostile.store(0, Ordering::Relaxed);
    }

    /// The number of a hostile message, if one is due.
    fn due(&self) -> Option<usize> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let due = number.is_multiple_of(ONE_IN) && self.hostile.load(Ordering::Relaxed) == 1;
        due.then_some(number / ONE_IN)
    }
}

/// Connections that honest and hostile messages share.
#[derive(Debug)]
pub(crate) struct Among {
    pub(crate) posts: Arc<Posts>,
    pub(crate) tally: Arc<Tally>,
}

/// A courier of theirs.
#[derive(Debug)]
pub(crate) struct Mixed {
    post: Arc<Post>,
    tally: Arc<Tally>,
}

impl Couriers for Among {
    type Courier = Mixed;

    fn courier(&self, route: &Route) -> Result<Mixed, CarryError> {
        Ok(Mixed {
            post: Arc::new(self.posts.courier(route)?),
            tally: Arc::clone(&self.tally),
        })
    }
}

impl Courier for Mixed {
    async fn send(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        let due = match place {
            Place::Request => self.tally.due(),
            Place::Handshake | Place::Any => None,
        };
        let sent = message.clone();
        let reply = self.post.send(place, session_id, message).await?;
        if let Some(number) = due {
            let (post, tally) = (Arc::clone(&self.post), Arc::clone(&self.tally));
            tokio::spawn(async move { attack(&post, &tally, &sent, number).await });
        }
        Ok(reply)
    }
}

/// Sends again what was answered, changes it, names another session, or sends nonsense.
async fn attack(post: &Post, tally: &Tally, sent: &[u8], number: usize) {
    let text = String::from_utf8_lossy(sent);
    let (message, hint) = match number % 4 {
        0 => (text.into_owned(), None),
        1 => (text.replace("grey fox", "grey wolf"), None),
        2 => (text.into_owned(), Some("a-session-of-somebody-else")),
        _ => (text.replace(':', ""), None),
    };
    let reply = post.send(Place::Request, hint, Bytes::from(message)).await;
    let counted = match reply {
        Ok(Reply::Message { status, .. }) if status < 400 => &tally.let_in,
        Ok(Reply::Stream(_)) => &tally.let_in,
        Ok(Reply::Message { .. } | Reply::Nothing) | Err(_) => &tally.refused,
    };
    counted.fetch_add(1, Ordering::Relaxed);
}
