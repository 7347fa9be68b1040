//! Between the client and its connections: what is weighed.

use std::sync::{Arc, Mutex, PoisonError};

use a2a_net::courier::Post;
use a2a_net::transport::{CarryError, Courier, Place, Reply};
use a2a_net::{Couriers, Posts, Route};
use bytes::Bytes;

/// The sizes of messages that went to and fro.
#[derive(Debug, Clone, Default)]
pub struct Sizes(Arc<Mutex<Vec<usize>>>);

/// Connections that several clients share.
#[derive(Debug)]
pub struct Shared {
    /// The connections.
    pub posts: Arc<Posts>,
    /// What went over them.
    pub sizes: Sizes,
}

/// A courier of theirs.
#[derive(Debug)]
pub struct Watched {
    post: Post,
    sizes: Sizes,
}

/// More are not of interest.
const WEIGHED: usize = 8;

impl Sizes {
    /// The sizes so far, which are forgotten.
    #[must_use]
    pub fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, size: usize) {
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sizes.len() < WEIGHED {
            sizes.push(size);
        }
    }
}

impl Couriers for Shared {
    type Courier = Watched;

    fn courier(&self, route: &Route) -> Result<Watched, CarryError> {
        Ok(Watched {
            post: self.posts.courier(route)?,
            sizes: self.sizes.clone(),
        })
    }
}

impl Courier for Watched {
    async fn send(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        self.sizes.add(message.len());
        let reply = self.post.send(place, session_id, message).await?;
        if let Reply::Message { message, .. } = &reply {
            self.sizes.add(message.len());
        }
        Ok(reply)
    }
}
