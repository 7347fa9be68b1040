//! How many requests are made at once: in all, and to one host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::MAX_AT_ONCE;

/// Where requests wait for their turn.
#[derive(Debug)]
pub(super) struct Places {
    all: Semaphore,
    per_host: usize,
    /// Those hosts that somebody waits for or speaks to.
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The turn of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    _host: Option<OwnedSemaphorePermit>,
    _all: Option<SemaphorePermit<'a>>,
}

impl Places {
    pub(super) fn new(per_host: usize) -> Self {
        Self {
            all: Semaphore::new(MAX_AT_ONCE),
            per_host,
            hosts: Mutex::default(),
        }
    }

    /// Waits for a turn. The host's comes first, so that those who wait for a slow host keep nobody
    /// else from theirs.
    pub(super) async fn take(&self, host: &str) -> Place<'_> {
        // Neither is ever closed.
        Place {
            _host: self.host(host).acquire_owned().await.ok(),
            _all: self.all.acquire().await.ok(),
        }
    }

    fn host(&self, name: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(name).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let host = Arc::new(Semaphore::new(self.per_host));
        hosts.insert(name.to_owned(), Arc::downgrade(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    async fn is_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        let mut future = std::pin::Pin::new(future);
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn one_host_has_so_many_and_others_do_not_wait_for_it() {
        let places = Places::new(2);
        let (first, second) = (places.take("a").await, places.take("a").await);
        let mut third = pin!(places.take("a"));
        assert!(!is_ready(&mut third).await);
        drop(places.take("b").await);
        drop(first);
        assert!(is_ready(&mut third).await);
        drop(second);
    }

    #[tokio::test]
    async fn there_are_so_many_in_all() {
        let places = Places::new(1);
        let mut taken = Vec::new();
        for host in 0..MAX_AT_ONCE {
            taken.push(places.take(&host.to_string()).await);
        }
        let mut more = pin!(places.take("more"));
        assert!(!is_ready(&mut more).await);
        taken.pop();
        assert!(is_ready(&mut more).await);
    }

    #[tokio::test]
    async fn hosts_are_forgotten() {
        let places = Places::new(1);
        for host in 0..1000 {
            drop(places.take(&host.to_string()).await);
        }
        assert_eq!(places.hosts.lock().unwrap().len(), 1);
    }
}
