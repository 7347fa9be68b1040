//! What agents remember: keyed entries in three tiers, found by key, by tag and by their words.

mod analysis;
mod find;
mod fold;
mod matrix;
mod memory;
mod query;
mod rank;
mod search;
mod sqlite;
mod vectors;

use std::fmt;

use crate::limits::{Size, check_name, json_length};
use crate::{Error, Limit, Pending, UnixMillis};

use analysis::Analysis;

pub(crate) use memory::{InMemory, Table};
/// For the benchmark.
pub(crate) mod statements {
    pub use super::sqlite::{BY_KEY, INSERT, LATEST_MATCHING};
}

pub(crate) use memory::VectorsInMemory;
pub(crate) use sqlite::{
    ERASURE, EraseProgress, InSqlite, LastErasure, SCHEMA, SWEEP_PLACES, TABLE, VectorCache,
    VectorsInSqlite, erase,
};
pub use vectors::{EntryNumber, Near, Unread, Vectors};

/// What is remembered in one space: the working entries of a session, the episodic ones of its
/// agent, and the semantic ones, which all agents share. Who may read and write the last is decided
/// before a request gets here.
pub trait Memories: fmt::Debug + Send + Sync {
    /// Keeps entries, each in place of the one with its key; each for itself, so that one that is
    /// refused keeps no other out. The answer has one outcome for each, in their order.
    ///
    /// An entry keeps the `created` of the one it replaces. When a tier is full the entries go that
    /// were written first, or the new one is refused with [`Error::Full`], as `rooms` says.
    fn put(
        &self,
        now: UnixMillis,
        entries: Vec<NewEntry>,
        rooms: Rooms,
    ) -> Pending<Vec<Result<(), Error>>>;

    /// Finds entries for which all that is asked holds; the best first, then the latest, up to
    /// [`MAX_FOUND_BYTES`].
    fn find(&self, now: UnixMillis, wanted: &Wanted) -> Pending<Found>;

    /// Removes entries for which all that is asked holds, some thousands at a time.
    fn forget(&self, now: UnixMillis, unwanted: &Unwanted) -> Pending<Forgotten>;

    /// Entries of a tier in the order they were written, after one of them; for a copy of all. There
    /// may be fewer than asked for, and none only after the last.
    fn page(
        &self,
        now: UnixMillis,
        tier: Tier,
        after: i64,
        at_most: usize,
    ) -> Pending<Vec<(i64, Entry)>>;

    /// How much there is in each tier, in the order of [`Tier::ALL`].
    fn sizes(&self, now: UnixMillis) -> Pending<[TierSize; 3]>;

    /// Removes the working entries of the session, those of other spaces too: it has ended.
    fn end_session(&self) -> Pending<Forgotten>;
}

/// How long an entry lives, and who sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// As long as its session, which alone sees it.
    Working,
    /// Across the sessions of its agent.
    Episodic,
    /// For all agents.
    Semantic,
}

/// An entry to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// Where.
    pub tier: Tier,
    /// Its name in the tier, as the caller compares names: a store compares bytes.
    pub key: String,
    /// What is remembered.
    pub content: String,
    /// The words by which it is found: those that name it, and those it says.
    pub text: Text,
    /// Labels that are compared as they are.
    pub tags: Vec<String>,
    /// Where it is from.
    pub source: String,
    /// What it counts, for whoever keeps it.
    pub weight: f64,
    /// When it was first kept, if no entry with its key knows better.
    pub created: UnixMillis,
    /// When it ends.
    pub expires: UnixMillis,
}

/// Words by which an entry is found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// What names it. Such words are found even if they are misspelt.
    pub title: String,
    /// What it says.
    pub body: String,
}

/// An entry that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it is.
    pub tier: Tier,
    /// Its name.
    pub key: String,
    /// What is remembered.
    pub content: String,
    /// Its labels, each once, sorted.
    pub tags: Vec<String>,
    /// Where it is from.
    pub source: String,
    /// What it counts.
    pub weight: f64,
    /// When an entry with its key was first kept.
    pub created: UnixMillis,
    /// When it was kept.
    pub updated: UnixMillis,
    /// When it ends.
    pub expires: UnixMillis,
}

/// How many entries each tier of a space may have, and what happens to one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rooms {
    /// Working entries.
    pub working: usize,
    /// Episodic entries.
    pub episodic: usize,
    /// Semantic entries.
    pub semantic: usize,
    /// What happens to one more.
    pub overflow: Overflow,
}

/// What happens when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Those go that were written first.
    Evict,
    /// The new one is refused.
    Refuse,
}

/// What is looked for. What is empty asks for nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wanted {
    /// In these tiers.
    pub tiers: Vec<Tier>,
    /// With one of these keys.
    pub keys: Vec<String>,
    /// With one of these labels.
    pub tags: Vec<String>,
    /// Saying something like this.
    pub query: String,
    /// What the query means, if somebody knows; without a query it asks for nothing.
    pub near: Option<Near>,
    /// With a score of at least this.
    pub min_score: f64,
    /// At most so many.
    pub limit: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The best of it, with scores from 0 to 1.
    pub entries: Vec<(Entry, f64)>,
    /// How much there is in all.
    pub total: usize,
    /// Whether there may be more than that.
    pub is_more: bool,
}

/// What is to be removed. Without keys and tags, everything in the tiers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unwanted {
    /// From these tiers.
    pub tiers: Vec<Tier>,
    /// What has one of these keys.
    pub keys: Vec<String>,
    /// What has one of these labels.
    pub tags: Vec<String>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// How many entries that had not expired.
    pub removed: usize,
    /// Whether there is more than is removed at once: the same again removes it.
    pub has_more: bool,
}

/// How much there is in a tier of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierSize {
    /// Entries that have not expired.
    pub entries: usize,
    /// Their bytes, with what is indexed of them.
    pub bytes: usize,
}

/// Labels of an entry, or of a search.
pub const MAX_TAGS: usize = 64;
/// Bytes of a label.
pub const MAX_TAG: usize = 256;
/// Bytes of a key, or of where an entry is from.
pub const MAX_KEY: usize = 4096;
/// Keys of a search.
pub const MAX_KEYS: usize = 1000;
/// Bytes of a query.
pub const MAX_QUERY: usize = 16 * 1024;
/// Entries that a search gives.
pub const MAX_FOUND: usize = 1000;
/// Bytes of the entries that a search or a page gives; the first is given however large it is.
pub const MAX_FOUND_BYTES: usize = 1024 * 1024;
/// What is found is counted to here; whether there is more is said.
pub const MAX_COUNTED: usize = 10_000;

const WHAT: &str = "memory entry";

/// Bytes of an entry in an answer beside its texts.
const ENTRY: usize = 256;

/// What is indexed is in the file twice: in the row, since it could not be removed from the index
/// otherwise, and in the index, where each word of an entry has some bytes beside it.
const INDEX_FACTOR: usize = 2;
const INDEX_WORD: usize = 6;

/// Entries that are removed at once.
const FORGET: usize = 2_000;

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Working, Self::Episodic, Self::Semantic];

    const fn number(self) -> i64 {
        match self {
            Self::Working => 0,
            Self::Episodic => 1,
            Self::Semantic => 2,
        }
    }
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            working: 1_000,
            episodic: 100_000,
            semantic: 1_000_000,
            overflow: Overflow::Evict,
        }
    }
}

impl Rooms {
    const fn of(&self, tier: Tier) -> usize {
        match tier {
            Tier::Working => self.working,
            Tier::Episodic => self.episodic,
            Tier::Semantic => self.semantic,
        }
    }
}

impl Entry {
    /// About how many bytes it takes in an answer.
    fn size(&self) -> usize {
        // Key and content are JSON already.
        let tags: usize = self.tags.iter().map(|tag| json_length(tag)).sum();
        self.key.len() + self.content.len() + json_length(&self.source) + tags + ENTRY
    }
}

impl NewEntry {
    /// Sorts the labels and refuses what is too large.
    fn check(&mut self, limit: Limit) -> Result<(), Error> {
        self.tags.sort_unstable();
        self.tags.dedup();
        within("the number of tags", self.tags.len(), MAX_TAGS)?;
        for tag in &self.tags {
            within("a tag", tag.len(), MAX_TAG)?;
        }
        within("the key of a memory entry", self.key.len(), MAX_KEY)?;
        within("the source of a memory entry", self.source.len(), MAX_KEY)?;
        limit.take(WHAT, self.content.len())
    }

    /// Bytes that it takes in the store, about, with its part of the index.
    fn bytes(&self, analysis: &Analysis) -> usize {
        // Key and content are JSON already.
        let tags: usize = self.tags.iter().map(|tag| json_length(tag)).sum();
        let entry = self.key.len() + self.content.len() + json_length(&self.source) + tags;
        // A label is indexed by two digits for each byte.
        let indexed = analysis.words.len() + analysis.grams.len() + 2 * tags;
        entry + INDEX_FACTOR * indexed + INDEX_WORD * analysis.length
    }
}

/// Whether there is room for an entry, in its tier and with its owner.
struct Room {
    /// Entries of the tier, with the new one.
    entries: usize,
    at_most: usize,
    /// What the owner has, with the new one.
    used: Size,
    limit: Limit,
}

impl Room {
    const fn is_enough(&self) -> bool {
        self.entries <= self.at_most && self.limit.holds(self.used)
    }

    const fn free(&mut self, size: Size) {
        self.entries = self.entries.saturating_sub(1);
        self.used = self.used.minus(size);
    }
}

/// Refuses a space that is none.
fn check_space(space: &str) -> Result<(), Error> {
    check_name("a memory", space)
}

const fn within(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    match size > limit {
        true => Err(Error::TooLarge { what, size, limit }),
        false => Ok(()),
    }
}
