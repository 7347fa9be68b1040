//! Vectors of all entries.

use std::sync::Arc;

use super::super::FORGET;
use super::super::vectors::{EntryNumber, Unread, Vectors, normalized};
use super::Row;
use crate::memory::Memory;
use crate::{Pending, UnixMillis};

/// The vectors of a model.
#[derive(Debug)]
pub(crate) struct VectorsInMemory {
    memory: Memory,
    model: Arc<str>,
}

impl VectorsInMemory {
    pub(crate) fn new(memory: &Memory, model: &str) -> Self {
        Self {
            memory: memory.clone(),
            model: model.into(),
        }
    }
}

impl Vectors for VectorsInMemory {
    fn missing(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<Unread>> {
        let tables = self.memory.tables();
        let rows = tables
            .memories
            .places
            .values()
            .flat_map(|shelf| shelf.rows.values());
        let missing = rows.filter(|row| row.vector.is_none() && row.entry.expires > now);
        let missing = missing.take(at_most).map(|row| Unread {
            number: EntryNumber(row.id),
            key: row.entry.key.clone(),
            content: row.entry.content.clone(),
            tags: row.entry.tags.clone(),
        });
        Pending::ready(Ok(missing.collect()))
    }

    fn put(&self, vectors: Vec<(EntryNumber, Vec<f32>)>) -> Pending<()> {
        let mut tables = self.memory.tables();
        let rows = tables.memories.places.values_mut();
        for row in rows.flat_map(|shelf| shelf.rows.values_mut()) {
            let new = vectors.iter().find(|(number, _)| number.0 == row.id);
            if let Some((_, vector)) = new {
                row.vector = Some((Arc::clone(&self.model), normalized(vector)));
            }
        }
        Pending::ready(Ok(()))
    }

    fn retire(&self) -> Pending<usize> {
        let mut tables = self.memory.tables();
        let rows = tables.memories.places.values_mut();
        let rows = rows.flat_map(|shelf| shelf.rows.values_mut());
        let is_old = |row: &&mut Row| {
            let vector = row.vector.as_ref();
            vector.is_some_and(|(model, vector)| *model != self.model && vector.is_some())
        };
        let retired = rows
            .filter(is_old)
            .take(FORGET)
            .map(|row| row.vector = None);
        Pending::ready(Ok(retired.count()))
    }
}
