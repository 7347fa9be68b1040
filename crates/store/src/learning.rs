//! What is learned from: feedback and experiences, what is known of components, and refinements.

mod memory;
mod sqlite;

use std::fmt;
use std::ops::ControlFlow;

use crate::limits::{Limits, check_name};
use crate::{Error, Pending};

pub(crate) use memory::{InMemory, Table};
pub use sqlite::ADD_SAMPLE;
pub(crate) use sqlite::{COMPONENTS, InSqlite, LEARNED, REFINEMENTS, SAMPLES, SCHEMA};

/// What one agent has learned. Everything in it is the caller's to read: to a store it is bytes.
pub trait Learning: fmt::Debug + Send + Sync {
    /// Keeps samples, and what is known of components with them: all of it or nothing. When there
    /// are too many samples the oldest go.
    ///
    /// Fails with [`Error::Full`] if there are too many components, or more samples at once than
    /// are kept at all.
    fn record(&self, samples: Vec<Sample>, components: Vec<Component>) -> Pending<()>;

    /// Samples of a kind with their numbers, which grow: those after a number, the oldest first, up to
    /// [`MAX_SAMPLES_BYTES`]. There may be fewer than asked for, and none only after the last.
    fn samples(&self, kind: SampleKind, after: i64, at_most: usize)
    -> Pending<Vec<(i64, Vec<u8>)>>;

    /// What is known of each component, by name.
    fn components(&self) -> Pending<Vec<Component>>;

    /// The state that refinements change; none if there was none.
    fn state(&self) -> Pending<Option<Vec<u8>>>;

    /// Puts a refinement on record, and with it changes the state: both or neither. When there are
    /// too many on record the oldest go.
    fn refine(&self, refinement: Refinement) -> Pending<()>;

    /// The state before a refinement, unless it was used up or is no longer on record.
    fn snapshot(&self, id: &str) -> Pending<Option<Vec<u8>>>;

    /// Shows what is on record of refinements, the newest first and one at a time, until it is
    /// enough.
    fn refinements(&self, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()>;
}

/// Something to learn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What it is.
    pub kind: SampleKind,
    /// What it says.
    pub body: Vec<u8>,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleKind {
    /// A rating.
    Feedback,
    /// Something that happened.
    Experience,
}

/// What is known of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// What is known.
    pub known: Vec<u8>,
}

/// A refinement, to be put on record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refinement {
    /// Names it; several records may be about one.
    pub id: String,
    /// What it was.
    pub entry: Vec<u8>,
    /// The state from now on; without it, it stays.
    pub state: Option<Vec<u8>>,
    /// What leads back from it.
    pub snapshot: Option<Vec<u8>>,
    /// Whether the snapshots of its id are used up by it.
    pub spends: bool,
}

/// Bytes of the samples that are given at once; the first is given however large it is.
pub const MAX_SAMPLES_BYTES: usize = 1024 * 1024;

const SAMPLE: &str = "sample";
const COMPONENT: &str = "component";
const REFINEMENT: &str = "refinement";
const STATE: &str = "learned state";

impl SampleKind {
    const fn number(self) -> i64 {
        match self {
            Self::Feedback => 0,
            Self::Experience => 1,
        }
    }
}

impl Component {
    fn size(&self) -> usize {
        self.name.len() + self.known.len()
    }
}

impl Refinement {
    fn size(&self) -> usize {
        self.id.len() + self.entry.len() + self.snapshot.as_ref().map_or(0, Vec::len)
    }

    fn check(&self, limits: &Limits) -> Result<(), Error> {
        check_name(REFINEMENT, &self.id)?;
        limits.refinements.take(REFINEMENT, self.size())?;
        let state = self.state.as_ref().map_or(0, Vec::len);
        limits.learned.take(STATE, state)
    }
}

fn check(samples: &[Sample], components: &[Component], limits: &Limits) -> Result<(), Error> {
    for sample in samples {
        limits.samples.take(SAMPLE, sample.body.len())?;
    }
    for component in components {
        check_name(COMPONENT, &component.name)?;
        limits.components.take(COMPONENT, component.known.len())?;
    }
    let bytes = samples.iter().map(|sample| sample.body.len()).sum();
    let all = crate::limits::Size {
        entries: samples.len(),
        bytes,
    };
    match limits.samples.holds(all) {
        true => Ok(()),
        false => Err(Error::Full { what: SAMPLE }),
    }
}
