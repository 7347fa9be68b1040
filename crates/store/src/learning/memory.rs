//! What is learned, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{
    COMPONENT, Component, Learning, MAX_SAMPLES_BYTES, Refinement, Sample, SampleKind, check,
};
use crate::limits::{Bytes, Size};
use crate::memory::Memory;
use crate::scope::Owner;
use crate::{Error, Limits, Pending};

/// What all agents have learned.
#[derive(Debug, Default)]
pub(crate) struct Table {
    shelves: BTreeMap<Arc<str>, Shelf>,
    /// The number of the last sample of anybody.
    last: i64,
}

#[derive(Debug, Default)]
struct Shelf {
    samples: VecDeque<(i64, Sample)>,
    samples_size: Size,
    components: BTreeMap<String, Vec<u8>>,
    state: Option<Vec<u8>>,
    /// The oldest first.
    refinements: VecDeque<Refinement>,
}

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
        }
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut Shelf, &mut i64, &Limits) -> Result<T, Error>,
    ) -> Pending<T> {
        let tables = &mut *self.memory.tables();
        let table = &mut tables.learning;
        let shelf = table.shelves.entry(Arc::clone(&self.owner)).or_default();
        Pending::ready(act(shelf, &mut table.last, self.memory.limits()))
    }
}

impl Learning for InMemory {
    fn record(&self, samples: Vec<Sample>, components: Vec<Component>) -> Pending<()> {
        self.with(|shelf, last, limits| {
            check(&samples, &components, limits)?;
            let mut known = shelf.components.clone();
            known.extend(components.into_iter().map(|it| (it.name, it.known)));
            let sizes = known
                .iter()
                .map(|(name, it)| Size::one(name.len() + it.len()));
            if !limits
                .components
                .holds(sizes.fold(Size::default(), Size::plus))
            {
                return Err(Error::Full { what: COMPONENT });
            }
            shelf.components = known;
            for sample in samples {
                *last += 1;
                let size = Size::one(sample.body.len());
                shelf.samples_size = shelf.samples_size.plus(size);
                shelf.samples.push_back((*last, sample));
            }
            while !limits.samples.holds(shelf.samples_size)
                && let Some((_, oldest)) = shelf.samples.pop_front()
            {
                let size = Size::one(oldest.body.len());
                shelf.samples_size = shelf.samples_size.minus(size);
            }
            Ok(())
        })
    }

    fn samples(
        &self,
        kind: SampleKind,
        after: i64,
        at_most: usize,
    ) -> Pending<Vec<(i64, Vec<u8>)>> {
        self.with(|shelf, _, _| {
            let later = shelf.samples.iter().filter(|(number, _)| *number > after);
            let wanted = later.filter(|(_, sample)| sample.kind == kind);
            let wanted = wanted.map(|(number, sample)| (*number, sample.body.clone()));
            let mut room = Bytes::new(MAX_SAMPLES_BYTES);
            let wanted = wanted.take(at_most);
            Ok(wanted
                .take_while(|(_, body)| room.take(body.len()))
                .collect())
        })
    }

    fn components(&self) -> Pending<Vec<Component>> {
        self.with(|shelf, _, _| {
            let components = shelf.components.clone().into_iter();
            Ok(components
                .map(|(name, known)| Component { name, known })
                .collect())
        })
    }

    fn state(&self) -> Pending<Option<Vec<u8>>> {
        self.with(|shelf, _, _| Ok(shelf.state.clone()))
    }

    fn refine(&self, refinement: Refinement) -> Pending<()> {
        self.with(|shelf, _, limits| {
            refinement.check(limits)?;
            if refinement.spends {
                for earlier in shelf.refinements.iter_mut() {
                    if earlier.id == refinement.id {
                        earlier.snapshot = None;
                    }
                }
            }
            if refinement.state.is_some() {
                shelf.state.clone_from(&refinement.state);
            }
            shelf.refinements.push_back(refinement);
            let size_of = |it: &Refinement| Size::one(it.size());
            let sizes = shelf.refinements.iter().map(size_of);
            let mut size = sizes.fold(Size::default(), Size::plus);
            while !limits.refinements.holds(size)
                && let Some(oldest) = shelf.refinements.pop_front()
            {
                size = size.minus(size_of(&oldest));
            }
            Ok(())
        })
    }

    fn snapshot(&self, id: &str) -> Pending<Option<Vec<u8>>> {
        self.with(|shelf, _, _| {
            let newest = shelf.refinements.iter().rev().filter(|it| it.id == id);
            Ok(newest.filter_map(|it| it.snapshot.clone()).next())
        })
    }

    fn refinements(&self, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()> {
        self.with(|shelf, _, _| {
            // Stopping early is no failure.
            let _ = shelf
                .refinements
                .iter()
                .rev()
                .try_for_each(|it| show(&it.entry));
            Ok(())
        })
    }
}
