//! What one agent has learned: in memory for quick answers, in the store before any answer.

mod record;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::{Error, Learning, Refinement};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::component::{Component, number};
use super::edits::{self, Edit, WEIGHTS};
use super::entry::{Entry, Made, shown, value};
use super::proposal::{self, Proposal, Review};
use super::strategy::{Random, Strategy};
use super::{MANY, Settings, apart, at_leisure};

/// An agent's ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    kept: Arc<dyn Learning>,
    /// One change at a time: what is in memory is what is in the store.
    book: Arc<Mutex<Book>>,
    /// Read by whoever ranks, without waiting.
    weights: ArcSwap<BTreeMap<String, f64>>,
}

#[derive(Debug)]
struct Book {
    /// That of no name is of all samples together.
    components: BTreeMap<String, Component>,
    /// The learned state, to the byte as it is kept.
    state: Vec<u8>,
}

/// What came of applying a proposal.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) applied: usize,
    pub(super) failed: usize,
    pub(super) error: String,
}

/// All samples together.
const ALL: &str = "";

/// Components that an agent has statistics of, all of them together included; of further ones only the
/// samples are kept.
pub const MAX_KNOWN: usize = 9_000;

/// The state of who has learned nothing.
const NOTHING: &[u8] = b"{}";

/// Proposals of one plan.
pub const MAX_PLANNED: usize = 1_000;

/// Proposals beside those of weights that are looked at in one adapt.
const ADAPTED: usize = 32;

/// Entries of the history that a review looks at.
const REVIEWED: usize = 50;

impl Ledger {
    /// Reads what is kept.
    pub(super) fn open(kept: Arc<dyn Learning>) -> Result<Self, Error> {
        let read = |it: store::Component| {
            let known = serde_json::from_slice(&it.known);
            let known = known.map_err(|error| Error::Damaged {
                why: format!("what is known of `{}`: {error}", it.name),
            })?;
            Ok((it.name, known))
        };
        let components = kept.components().wait()?.into_iter();
        let book = Book {
            components: components.map(read).collect::<Result<_, Error>>()?,
            state: kept.state().wait()?.unwrap_or_else(|| NOTHING.to_vec()),
        };
        Ok(Self {
            kept,
            weights: ArcSwap::from_pointee(book.weights()),
            book: Arc::new(Mutex::new(book)),
        })
    }

    /// The weight of a component that has one.
    pub(super) fn weight(&self, component: &str) -> Option<f64> {
        self.weights.load().get(component).copied()
    }

    /// The same of all.
    pub(super) fn weights(&self) -> Arc<BTreeMap<String, f64>> {
        self.weights.load_full()
    }

    /// What is made of what is known of a component; of all without a name. Nothing of it is copied:
    /// all of them together may be many megabytes.
    pub(super) async fn known_of<T>(
        &self,
        name: &str,
        make: impl Fn(&str, &Component) -> T,
    ) -> Vec<T> {
        let book = self.book.lock().await;
        book.named(name).map(|(name, it)| make(name, it)).collect()
    }

    /// What they are called.
    pub(super) async fn names(&self) -> Vec<String> {
        let book = self.book.lock().await;
        book.named("").map(|(name, _)| name.to_owned()).collect()
    }

    /// How many samples there are.
    pub(super) async fn count(&self) -> u64 {
        self.book.lock().await.count()
    }

    /// What would help.
    pub(super) async fn plan(&self, name: &str, scope: &str, settings: &Settings) -> Vec<Proposal> {
        let book = self.book.lock().await;
        let mut planned = book.planned(name, scope, settings.min_experiences);
        // The surest first; stable.
        planned.sort_by(|one, other| other.confidence.total_cmp(&one.confidence));
        planned.truncate(MAX_PLANNED);
        planned
    }

    pub(super) async fn review(&self, proposal: Proposal, threshold: f64) -> Result<Review, Error> {
        let (proposals, known) = self.known(vec![proposal]).await?;
        let reviewed = proposals.iter().zip(known);
        let mut reviews = reviewed.map(|(proposal, known)| proposal.review(known, threshold));
        // There is one for each.
        reviews.next().ok_or(Error::Closed)
    }

    /// Of each proposal, whether one of the latest refinements made one of its edits.
    async fn known(&self, proposals: Vec<Proposal>) -> Result<(Vec<Proposal>, Vec<bool>), Error> {
        let mut left = REVIEWED;
        let known = vec![false; proposals.len()];
        let look = move |(proposals, known): &mut (Vec<Proposal>, Vec<bool>), earlier: Made| {
            for (proposal, is_known) in proposals.iter().zip(known) {
                *is_known = *is_known || proposal.was_made_in(&earlier);
            }
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        self.fold((proposals, known), look).await
    }

    /// Learns from what there is: weights by a strategy, and whatever else is planned and approved.
    /// Says how many proposals were applied.
    pub(super) async fn adapt(
        self: &Arc<Self>,
        name: &str,
        strategy: Strategy,
        settings: &Settings,
    ) -> Result<usize, Error> {
        let book = Arc::clone(&self.book).lock_owned().await;
        let (is_large, ledger) = (book.components.len() > MANY, Arc::clone(self));
        let (name, settings) = (name.to_owned(), *settings);
        let adapted = async move { ledger.adapt_in(book, &name, (strategy, &settings)).await };
        match is_large {
            true => at_leisure(adapted).await,
            false => adapted.await,
        }
    }

    async fn adapt_in(
        &self,
        mut book: OwnedMutexGuard<Book>,
        name: &str,
        (strategy, settings): (Strategy, &Settings),
    ) -> Result<usize, Error> {
        let mut proposals = self.weighed(&book, name, (strategy, settings));
        let others = book.planned(name, "local", settings.min_experiences);
        // Weights are the strategy's, and what is as wanted needs no change.
        let state = book.value();
        let is_news = |it: &Proposal| {
            let is_other = it.edits.iter().all(|edit| !is_weight(edit));
            is_other && it.edits.iter().any(|edit| edit.would_change(&state))
        };
        proposals.extend(others.into_iter().filter(is_news).take(ADAPTED));
        let (proposals, known) = self.known(proposals).await?;
        let mut applied = 0;
        for (proposal, was_made) in proposals.iter().zip(known) {
            let review = proposal.review(was_made, settings.confidence_threshold);
            if review.approved {
                self.apply_to(&mut book, proposal).await?;
                applied += 1;
            } else {
                self.reject(proposal, &review.reasons).await?;
            }
        }
        Ok(applied)
    }

    pub(super) async fn apply(&self, proposal: &Proposal) -> Result<Outcome, Error> {
        self.apply_to(&mut *self.book.lock().await, proposal).await
    }

    /// Takes a refinement back: the state is what it was before it, to the byte.
    pub(super) async fn roll_back(&self, id: &str) -> Result<bool, Error> {
        let mut book = self.book.lock().await;
        let Some(snapshot) = self.kept.snapshot(id).await? else {
            return Ok(false);
        };
        let entry = Entry {
            action: "rollback".to_owned(),
            status: "rolled_back".to_owned(),
            before: shown(&book.state),
            after: shown(&snapshot),
            ..Entry::of(id)
        };
        let refinement = Refinement {
            id: id.to_owned(),
            entry: serde_json::to_vec(&entry).unwrap_or_default(),
            state: Some(snapshot.clone()),
            snapshot: None,
            spends: true,
        };
        self.kept.refine(refinement).await?;
        self.put_state(&mut book, snapshot);
        Ok(true)
    }

    /// Looks at what is on record of refinements, the newest first. One at a time is in memory: all of
    /// them may be many megabytes.
    pub(super) async fn fold<T, E>(
        &self,
        mut all: T,
        mut look: impl FnMut(&mut T, E) -> ControlFlow<()> + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        E: DeserializeOwned,
    {
        let kept = Arc::clone(&self.kept);
        apart(move || {
            let mut damaged = None;
            let mut show = |entry: &[u8]| match serde_json::from_slice(entry) {
                Ok(entry) => look(&mut all, entry),
                Err(error) => {
                    damaged = Some(Error::Damaged {
                        why: format!("a refinement on record: {error}"),
                    });
                    ControlFlow::Break(())
                }
            };
            kept.refinements(&mut show).wait()?;
            damaged.map_or(Ok(all), Err)
        })
        .await
    }

    /// Samples of a kind, page by page.
    pub(super) async fn samples(
        &self,
        kind: store::SampleKind,
        after: i64,
        at_most: usize,
    ) -> Result<Vec<(i64, Vec<u8>)>, Error> {
        let kept = Arc::clone(&self.kept);
        apart(move || kept.samples(kind, after, at_most).wait()).await
    }

    /// Proposals of the weights that a strategy finds, no more edits in each than one may have.
    fn weighed(
        &self,
        book: &Book,
        name: &str,
        (strategy, settings): (Strategy, &Settings),
    ) -> Vec<Proposal> {
        let current = self.weights.load();
        // A weight says how a component does beside the others, so all are weighed, also for one.
        let all: BTreeMap<&str, &Component> = book.named("").collect();
        let mut random = Random::any();
        let found = strategy.weights(&all, &current, &mut random);
        let changes = |(known, weight): &(&String, &f64)| {
            (name.is_empty() || *known == name) && current.get(*known) != Some(*weight)
        };
        let edits = found.iter().filter(changes).map(|(name, weight)| Edit {
            target: "router_weight".to_owned(),
            op: "update".to_owned(),
            path: format!("{WEIGHTS}{name}"),
            old_value: current.get(name).map_or(Value::Null, |old| json!(old)),
            new_value: json!(weight),
            reason: strategy.name().to_owned(),
        });
        let edits: Vec<Edit> = edits.collect();
        let count = number(book.count());
        let least = number(settings.min_experiences);
        let proposals = edits.chunks(edits::MAX_EDITS).map(|edits| Proposal {
            id: hex_id(),
            scope: "local".to_owned(),
            component: name.to_owned(),
            summary: format!("weights by {} of {count} samples", strategy.name()),
            edits: edits.to_vec(),
            // The more is known, the surer.
            confidence: count / (count + least).max(1.0),
            strategy: strategy.name().to_owned(),
        });
        proposals.collect()
    }

    async fn apply_to(&self, book: &mut Book, proposal: &Proposal) -> Result<Outcome, Error> {
        let before = book.value();
        let applied = edits::apply(&before, &proposal.edits);
        let failed = applied.failed.len();
        let error = match (proposal.edits.is_empty(), applied.applied) {
            (true, _) => "the proposal has no edits".to_owned(),
            _ => applied.failed.join("; ").chars().take(1000).collect(),
        };
        let is_changed = applied.applied > 0;
        let state = serde_json::to_vec(&applied.state).unwrap_or_default();
        let entry = Entry {
            scope: proposal.scope.clone(),
            component_name: proposal.component.clone(),
            action: "apply".to_owned(),
            status: if is_changed { "applied" } else { "failed" }.to_owned(),
            edits: proposal.edits.clone(),
            applied_edits: applied.applied,
            failed_edits: failed,
            before: shown(&book.state),
            after: shown(&state),
            error: (!error.is_empty()).then(|| error.clone()),
            ..Entry::of(&proposal.id)
        };
        let refinement = Refinement {
            id: proposal.id.clone(),
            entry: serde_json::to_vec(&entry).unwrap_or_default(),
            state: is_changed.then(|| state.clone()),
            snapshot: is_changed.then(|| book.state.clone()),
            spends: false,
        };
        self.kept.refine(refinement).await?;
        if is_changed {
            self.put_state(book, state);
        }
        Ok(Outcome {
            applied: entry.applied_edits,
            failed,
            error,
        })
    }

    async fn reject(&self, proposal: &Proposal, reasons: &[String]) -> Result<(), Error> {
        let entry = Entry {
            scope: proposal.scope.clone(),
            component_name: proposal.component.clone(),
            action: "review".to_owned(),
            status: "rejected".to_owned(),
            edits: proposal.edits.clone(),
            error: Some(reasons.join("; ")),
            ..Entry::of(&proposal.id)
        };
        let refinement = Refinement {
            id: proposal.id.clone(),
            entry: serde_json::to_vec(&entry).unwrap_or_default(),
            ..Refinement::default()
        };
        self.kept.refine(refinement).await
    }

    fn put_state(&self, book: &mut Book, state: Vec<u8>) {
        book.state = state;
        self.weights.store(Arc::new(book.weights()));
    }
}

impl Book {
    fn value(&self) -> Value {
        value(&self.state)
    }

    fn count(&self) -> u64 {
        self.components.get(ALL).map_or(0, |all| all.score.count)
    }

    /// One component, or all of them.
    fn named(&self, name: &str) -> impl Iterator<Item = (&str, &Component)> {
        let all = self.components.iter().filter(|(known, _)| *known != ALL);
        let named = all.filter(move |(known, _)| name.is_empty() || *known == name);
        named.map(|(name, component)| (&**name, component))
    }

    fn planned(&self, name: &str, scope: &str, min_samples: u64) -> Vec<Proposal> {
        proposal::planned(self.named(name), scope, min_samples, hex_id)
    }

    /// The numbers among the weights of the state.
    fn weights(&self) -> BTreeMap<String, f64> {
        let state = self.value();
        let weights = state.pointer("/router/weights").and_then(Value::as_object);
        let weights = weights.into_iter().flatten();
        let weights = weights.filter_map(|(name, weight)| Some((name.clone(), weight.as_f64()?)));
        weights
            .map(|(name, weight)| (name, weight.clamp(0.0, 1.0)))
            .collect()
    }
}

fn is_weight(edit: &Edit) -> bool {
    edit.path.starts_with(WEIGHTS)
}

fn hex_id() -> String {
    let mut bytes = [0; 6];
    // Without random bytes two refinements may have one name, and nothing worse.
    let _ = getrandom::fill(&mut bytes);
    hex::encode(bytes)
}
