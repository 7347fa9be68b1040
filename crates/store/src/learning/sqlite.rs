//! What is learned, in SQLite.

use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::{
    COMPONENT, Component, Learning, MAX_SAMPLES_BYTES, Refinement, Sample, SampleKind, check,
};
use crate::limits::{Bytes, Size};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Limit, Pending};

/// Samples and refinements come in the order of `number`.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE samples (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        kind INTEGER NOT NULL,
        body BLOB NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX samples_by_age ON samples (owner);
    CREATE TABLE components (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        known BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE learned (
        owner TEXT NOT NULL PRIMARY KEY,
        state BLOB NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE refinements (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        entry BLOB NOT NULL,
        snapshot BLOB,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX refinements_by_id ON refinements (owner, id);
    CREATE INDEX refinements_by_age ON refinements (owner);",
    metered!(triggers "samples"),
    metered!(triggers "components"),
    metered!(triggers "learned"),
    metered!(triggers "refinements")
);

pub(crate) const SAMPLES: Metered = metered!("samples", "sample");
pub(crate) const COMPONENTS: Metered = metered!("components", "component");
pub(crate) const LEARNED: Metered = metered!("learned", "learned state");
pub(crate) const REFINEMENTS: Metered = metered!("refinements", "refinement");

/// Keeps a sample; public for the benchmark.
pub const ADD_SAMPLE: &str =
    "INSERT INTO samples (owner, kind, body, bytes) VALUES (?1, ?2, ?3, ?4)";

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

impl Learning for InSqlite {
    fn record(&self, samples: Vec<Sample>, components: Vec<Component>) -> Pending<()> {
        let (owner, limits) = (Arc::clone(&self.owner), *self.database.limits());
        let bodies = samples.iter().map(|sample| sample.body.len());
        let size = bodies.chain(components.iter().map(Component::size)).sum();
        self.database.write(size, move |connection| {
            check(&samples, &components, &limits)?;
            make_room_for(connection, &owner, &components, limits.components)?;
            put_components(connection, &owner, &components)?;
            let mut keep = connection.prepare_cached(ADD_SAMPLE)?;
            for Sample { kind, body } in &samples {
                keep.execute((&*owner, kind.number(), body, body.len()))?;
            }
            drop_oldest(connection, &owner, &SAMPLES, limits.samples)
        })
    }

    fn samples(
        &self,
        kind: SampleKind,
        after: i64,
        at_most: usize,
    ) -> Pending<Vec<(i64, Vec<u8>)>> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT number, body FROM samples INDEXED BY samples_by_age
                 WHERE owner = ?1 AND number > ?2 AND kind = ?3 ORDER BY number LIMIT ?4",
            )?;
            let wanted = (&*self.owner, after, kind.number(), at_most);
            let mut rows = list.query(wanted)?;
            let (mut samples, mut room) = (Vec::new(), Bytes::new(MAX_SAMPLES_BYTES));
            while let Some(row) = rows.next()? {
                let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                if !room.take(body.len()) {
                    break;
                }
                samples.push((row.get(0)?, body.to_owned()));
            }
            Ok(samples)
        })
    }

    fn components(&self) -> Pending<Vec<Component>> {
        self.database.read(|connection| {
            let mut list =
                connection.prepare_cached("SELECT name, known FROM components WHERE owner = ?1")?;
            let components = list.query_map([&*self.owner], |row| {
                Ok(Component {
                    name: row.get(0)?,
                    known: row.get(1)?,
                })
            })?;
            Ok(components.collect::<Result<_, _>>()?)
        })
    }

    fn state(&self) -> Pending<Option<Vec<u8>>> {
        self.database.read(|connection| {
            let mut find =
                connection.prepare_cached("SELECT state FROM learned WHERE owner = ?1")?;
            let state = find.query_row([&*self.owner], |row| row.get(0));
            Ok(state.optional()?)
        })
    }

    fn refine(&self, refinement: Refinement) -> Pending<()> {
        let (owner, limits) = (Arc::clone(&self.owner), *self.database.limits());
        let state = refinement.state.as_ref().map_or(0, Vec::len);
        let size = refinement.size() + state;
        self.database.write(size, move |connection| {
            refinement.check(&limits)?;
            if refinement.spends {
                let mut spend = connection.prepare_cached(
                    "UPDATE refinements SET snapshot = NULL, bytes = bytes - length(snapshot)
                     WHERE owner = ?1 AND id = ?2 AND snapshot IS NOT NULL",
                )?;
                spend.execute((&*owner, &refinement.id))?;
            }
            if let Some(state) = &refinement.state {
                let mut keep = connection.prepare_cached(
                    "INSERT INTO learned (owner, state, bytes) VALUES (?1, ?2, ?3)
                     ON CONFLICT (owner) DO UPDATE SET state = excluded.state,
                     bytes = excluded.bytes",
                )?;
                keep.execute((&*owner, state, state.len()))?;
            }
            let mut keep = connection.prepare_cached(
                "INSERT INTO refinements (owner, id, entry, snapshot, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let Refinement {
                id,
                entry,
                snapshot,
                ..
            } = &refinement;
            keep.execute((&*owner, id, entry, snapshot, refinement.size()))?;
            drop_oldest(connection, &owner, &REFINEMENTS, limits.refinements)
        })
    }

    fn snapshot(&self, id: &str) -> Pending<Option<Vec<u8>>> {
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(
                "SELECT snapshot FROM refinements
                 WHERE owner = ?1 AND id = ?2 AND snapshot IS NOT NULL
                 ORDER BY number DESC LIMIT 1",
            )?;
            let snapshot = find.query_row((&*self.owner, id), |row| row.get(0));
            Ok(snapshot.optional()?)
        })
    }

    fn refinements(&self, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT entry FROM refinements WHERE owner = ?1 ORDER BY number DESC",
            )?;
            let mut rows = list.query([&*self.owner])?;
            while let Some(row) = rows.next()? {
                let entry = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                if show(entry).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Refuses components for which there is no room, before anything is written.
fn make_room_for(
    connection: &Connection,
    owner: &str,
    components: &[Component],
    limit: Limit,
) -> Result<(), Error> {
    let mut find =
        connection.prepare_cached("SELECT bytes FROM components WHERE owner = ?1 AND name = ?2")?;
    let mut size = COMPONENTS.usage(connection, owner)?;
    for component in components {
        let known = find.query_row((owner, &component.name), |row| row.get(0));
        if let Some(bytes) = known.optional()? {
            size = size.minus(Size::one(bytes));
        }
        size = size.plus(Size::one(component.size()));
    }
    match limit.holds(size) {
        true => Ok(()),
        false => Err(Error::Full { what: COMPONENT }),
    }
}

fn put_components(
    connection: &Connection,
    owner: &str,
    components: &[Component],
) -> Result<(), Error> {
    let mut keep = connection.prepare_cached(
        "INSERT INTO components (owner, name, known, bytes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (owner, name) DO UPDATE SET known = excluded.known, bytes = excluded.bytes",
    )?;
    for component in components {
        let Component { name, known } = component;
        keep.execute((owner, name, known, component.size()))?;
    }
    Ok(())
}

/// Drops what is too much of a table whose rows are numbered, the oldest first.
fn drop_oldest(
    connection: &Connection,
    owner: &str,
    table: &Metered,
    limit: Limit,
) -> Result<(), Error> {
    let mut size = table.usage(connection, owner)?;
    if limit.holds(size) {
        return Ok(());
    }
    let table = table.table;
    let mut oldest = connection.prepare_cached(&format!(
        "SELECT number, bytes FROM {table} WHERE owner = ?1 ORDER BY number"
    ))?;
    let mut rows = oldest.query([owner])?;
    let mut last = 0_i64;
    while !limit.holds(size)
        && let Some(row) = rows.next()?
    {
        last = row.get(0)?;
        size = size.minus(Size::one(row.get(1)?));
    }
    drop(rows);
    let mut remove = connection.prepare_cached(&format!(
        "DELETE FROM {table} WHERE owner = ?1 AND number <= ?2"
    ))?;
    remove.execute((owner, last))?;
    Ok(())
}
