//! Keeps samples, and what they say of components.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::Error;
use tokio::sync::OwnedMutexGuard;

use super::super::samples::{Checked, Observed};
use super::super::{MANY, at_leisure};
use super::{ALL, Book, Component, Ledger, MAX_KNOWN};

impl Ledger {
    /// Keeps samples; says how many of them all there are now. What many of them say is put together where
    /// nobody else waits for it.
    pub(in crate::learning) async fn record(
        self: &Arc<Self>,
        checked: Checked,
        half_life: Duration,
    ) -> Result<u64, Error> {
        let book = Arc::clone(&self.book).lock_owned().await;
        let names: usize = checked.seen.iter().map(|it| it.names.len()).sum();
        let is_large = names.max(checked.seen.len()) > MANY;
        let ledger = Arc::clone(self);
        let recorded = async move { ledger.record_in(book, checked, half_life).await };
        match is_large {
            true => at_leisure(recorded).await,
            false => recorded.await,
        }
    }

    async fn record_in(
        &self,
        mut book: OwnedMutexGuard<Book>,
        checked: Checked,
        half_life: Duration,
    ) -> Result<u64, Error> {
        let mut changed = book.changed(&checked.seen, half_life);
        let components = changed
            .iter_mut()
            .map(|(name, component)| store::Component {
                name: name.clone(),
                known: component.written(),
            });
        let components = components.collect();
        self.kept.record(checked.samples, components).await?;
        book.components.extend(changed);
        Ok(book.count())
    }
}

impl Book {
    /// The components that something was seen of, as they are then.
    fn changed(&self, seen: &[Observed], half_life: Duration) -> BTreeMap<String, Component> {
        let mut changed: BTreeMap<String, Component> = BTreeMap::new();
        let mut new = 0_usize;
        for observed in seen {
            // The whole comes first: there is always room for it.
            let whole = observed.is_whole.then_some(ALL).into_iter();
            let all = whole.chain(observed.names.iter().map(|name| &**name));
            for name in all {
                let is_new = !self.components.contains_key(name) && !changed.contains_key(name);
                if is_new && self.components.len() + new >= MAX_KNOWN {
                    continue;
                }
                new += usize::from(is_new);
                let component = changed.entry(name.to_owned()).or_insert_with(|| {
                    let known = self.components.get(name);
                    known.cloned().unwrap_or_default()
                });
                component.see(&observed.seen, half_life);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use store::{AgentId, Limits, Memory, Store};

    use super::super::super::component::{Seen, What};
    use super::*;

    fn named(count: usize) -> Checked {
        let seen = |number| Observed {
            names: vec![format!("c{number}")],
            seen: Seen {
                score: 1.0,
                at: 1.0,
                what: What::Lived {
                    duration_ms: None,
                    is_tool: false,
                },
            },
            is_whole: true,
        };
        Checked {
            samples: Vec::new(),
            seen: (0..count).map(seen).collect(),
        }
    }

    /// A store in memory answers at once, so whatever is done on the thread that asks is done at the
    /// first poll. The only other thread is busy meanwhile.
    #[test]
    fn much_is_put_together_on_another_thread() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).enable_time().build();
        runtime.unwrap().block_on(put_together());
    }

    async fn put_together() {
        let store = Store::new(Memory::new(Limits::default()));
        let kept = store.for_agent(&AgentId::new("a").unwrap()).learning();
        let ledger = Arc::new(Ledger::open(kept).unwrap());
        for (count, is_apart) in [(MANY, false), (MANY + 1, true)] {
            let before = ledger.count().await;
            let mut recorded = pin!(ledger.record(named(count), Duration::from_secs(60)));
            let mut context = Context::from_waker(Waker::noop());
            let (release, busy) = std::sync::mpsc::channel::<()>();
            let other = tokio::task::spawn_blocking(move || busy.recv().is_ok());
            let first = recorded.as_mut().poll(&mut context);
            assert_eq!(first.is_pending(), is_apart, "{count}");
            release.send(()).unwrap();
            assert!(other.await.unwrap());
            if is_apart {
                let all = recorded.await.unwrap();
                assert_eq!(all, before + u64::try_from(count).unwrap());
            }
        }
        assert_eq!(ledger.known_of("", |_, _| ()).await.len(), MANY + 1);
    }
}
