//! The skills there are: read when a folder has changed, and compared with what was approved.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use a2e_runtime::definitions::{Definitions, Shown, Standing};
use a2e_runtime::{Failure, Weights};
use a2e_wire::{ErrorCode, Namespace};
use serde_json::json;
use tokio::sync::{Mutex, watch};

use super::skill::{Skill, file_of, walk};
use crate::ranking;
use crate::tool::{Definition, Index};

/// Skills of a node.
pub const MAX_SKILLS: usize = 500;

/// Where skills come from, as far as approval is concerned.
const SOURCE: &str = "skills";

/// What has changed since it was approved waits for the operator.
const CHANGED: &str = "it has changed since the operator approved it; `frith tools pending` shows \
                       the operator how, and how to approve that";

/// How often the folders are looked at for those who want to hear of changes.
const LOOKING: Duration = Duration::from_secs(2);

/// The skills of some folders. Whoever asks sees them as they are on the disk.
pub struct Shelf {
    definitions: Definitions,
    folders: SyncMutex<Vec<PathBuf>>,
    /// Ranks what is found.
    weights: SyncMutex<Option<Arc<dyn Weights>>>,
    state: Mutex<State>,
    /// How often they have changed.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    marks: Option<Vec<Mark>>,
    current: Arc<Snapshot>,
}

/// What tells a file from what it was before, without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    path: PathBuf,
    size: u64,
    changed: (i64, i64),
    number: u64,
}

/// The skills there were at one moment.
#[derive(Default)]
pub(super) struct Snapshot {
    skills: Vec<Arc<Skill>>,
    index: Index,
    /// Whether some wait for the operator.
    has_waiting: bool,
}

impl Shelf {
    /// The skills of no folder yet.
    #[must_use]
    pub fn new(definitions: Definitions) -> Arc<Self> {
        Arc::new(Self {
            definitions,
            folders: SyncMutex::default(),
            weights: SyncMutex::default(),
            state: Mutex::default(),
            changes: watch::Sender::default(),
        })
    }

    /// Has the skills of these folders from now on, and no others.
    pub fn configure(&self, folders: Vec<PathBuf>) {
        *self.folders.lock().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Ranks what agents find by how well it has done for them, too, from now on; or no longer.
    pub fn rank_by(&self, weights: Option<Arc<dyn Weights>>) {
        *self.weights.lock().unwrap_or_else(PoisonError::into_inner) = weights;
    }

    /// What an agent has found with some words, or without any, in the order it is told of it.
    pub(super) fn ranked<'s>(
        &self,
        agent: &str,
        query: &str,
        found: Vec<&'s Arc<Skill>>,
    ) -> Vec<&'s Arc<Skill>> {
        let weights = self.weights.lock();
        let weights = weights.unwrap_or_else(PoisonError::into_inner).clone();
        let Some(weights) = weights else {
            return found;
        };
        let query = query.trim();
        let weight = |skill: &&Arc<Skill>| match skill.name().eq_ignore_ascii_case(query) {
            // Who names a skill means it.
            true => f64::INFINITY,
            false => weights.weight(agent, skill.name()),
        };
        match query.is_empty() {
            true => ranking::by_weight_alone(found, weight),
            false => ranking::by_weight(found, weight),
        }
    }

    /// Tells whenever skills have changed. The folders are looked at every few seconds for this.
    #[must_use]
    pub fn changes(self: &Arc<Self>) -> watch::Receiver<u64> {
        let shelf = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOKING).await;
                let Some(shelf) = shelf.upgrade() else { return };
                // Whoever wants the skills is told what is wrong with them.
                drop(shelf.current().await);
            }
        });
        self.changes.subscribe()
    }

    /// The skills there are now.
    pub(super) async fn current(&self) -> Result<Arc<Snapshot>, Failure> {
        let folders = self.folders.lock();
        let folders = folders.unwrap_or_else(PoisonError::into_inner).clone();
        let state = &mut *self.state.lock().await;
        let before = state.marks.take();
        let was_read = before.is_some();
        let read = tokio::task::spawn_blocking(move || {
            let marks = marks(&folders);
            match before.as_ref() == Some(&marks) {
                true => (marks, None),
                false => (marks, Some(read(&folders))),
            }
        });
        let (marks, new) = read
            .await
            .map_err(|_| failed("the skills cannot be read"))?;
        let has_changed = was_read && new.is_some();
        if let Some(skills) = new {
            state.current = Arc::new(self.admit(skills).await?);
        } else if state.current.has_waiting {
            // Somebody may have approved of them.
            let again = read_again(&state.current);
            state.current = Arc::new(self.admit(again).await?);
        }
        state.marks = Some(marks);
        if has_changed {
            self.changes
                .send_modify(|count| *count = count.wrapping_add(1));
        }
        Ok(Arc::clone(&state.current))
    }

    /// Blocks those that are not what was approved.
    async fn admit(&self, mut skills: Vec<Skill>) -> Result<Snapshot, Failure> {
        let mut has_waiting = false;
        for skill in skills.iter_mut().filter(|skill| skill.blocked.is_none()) {
            let shown = Shown {
                source: SOURCE,
                name: skill.name(),
                text: &skill.text,
            };
            let standing = self.definitions.compare(shown).await;
            let standing = standing.map_err(|error| {
                tracing::error!(%error, "skills cannot be compared with what was approved");
                failed("the host cannot say which skills are approved; try again later")
            })?;
            skill.blocked = match standing {
                Standing::Approved => None,
                Standing::Changed { .. } | Standing::New => {
                    has_waiting = true;
                    Some(CHANGED.to_owned())
                }
                Standing::TooMany => Some("there are too many skills".to_owned()),
            };
        }
        Ok(Snapshot::new(skills, has_waiting))
    }
}

impl Snapshot {
    fn new(skills: Vec<Skill>, has_waiting: bool) -> Self {
        let described = skills.iter().filter_map(described);
        let index = Index::build(described.collect::<Vec<_>>().iter());
        Self {
            skills: skills.into_iter().map(Arc::new).collect(),
            index,
            has_waiting,
        }
    }

    pub(super) fn all(&self) -> &[Arc<Skill>] {
        &self.skills
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills.iter().find(|skill| skill.name() == name)
    }

    /// Those that fit some words, the best first; all of them without words.
    pub(super) fn search(&self, query: &str) -> Vec<&Arc<Skill>> {
        if query.trim().is_empty() {
            return self.skills.iter().collect();
        }
        let found = self.index.search(query).into_iter();
        found.filter_map(|at| self.skills.get(at)).collect()
    }
}

/// What words lead to a skill: its name, triggers, tags, category, and what it is for.
fn described(skill: &Skill) -> Option<Definition> {
    let front = &skill.front;
    let slug: String = front.name.split_whitespace().collect::<Vec<_>>().join("_");
    let text = format!("{} {}", front.description, front.when_to_use);
    let tags = front.triggers.iter().chain(&front.tags);
    let tags = tags.chain(&front.category).cloned();
    // A place in the index is a place in the list, so that each must have one.
    let definition = Definition::new(slug, text, &json!({"type": "object"}));
    let other = || Definition::new("skill", "", &json!({"type": "object"}));
    Some(definition.or_else(|_| other()).ok()?.tags(tags))
}

/// The same skills, as they were before anybody compared them.
fn read_again(before: &Snapshot) -> Vec<Skill> {
    let again = |skill: &Arc<Skill>| {
        let waits = skill.blocked.as_deref() == Some(CHANGED);
        let blocked = skill.blocked.clone().filter(|_| !waits);
        Skill {
            blocked,
            ..Skill::clone(skill)
        }
    };
    before.skills.iter().map(again).collect()
}

/// The folders that are skills, by name, those of the first folder first.
fn candidates(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
        let is_skill = |path: &PathBuf| file_of(path).is_some();
        let mut found: Vec<PathBuf> = entries.filter(is_skill).collect();
        found.sort();
        all.extend(found);
    }
    all
}

fn marks(folders: &[PathBuf]) -> Vec<Mark> {
    let mut files = Vec::new();
    for folder in candidates(folders).iter().take(MAX_SKILLS) {
        let mut of_skill = Vec::new();
        // What is wrong with it is said when it is read.
        let _ = walk(folder, 0, &mut of_skill);
        of_skill.sort();
        files.push(folder.clone());
        files.extend(of_skill);
    }
    files.into_iter().map(mark).collect()
}

fn mark(path: PathBuf) -> Mark {
    let found = fs::symlink_metadata(&path).ok();
    let of = |take: fn(&fs::Metadata) -> i64| found.as_ref().map_or(0, take);
    Mark {
        size: found.as_ref().map_or(0, fs::Metadata::len),
        changed: (of(MetadataExt::ctime), of(MetadataExt::ctime_nsec)),
        number: found.as_ref().map_or(0, MetadataExt::ino),
        path,
    }
}

/// The skills of some folders; of two with one name the first has it.
pub(super) fn read(folders: &[PathBuf]) -> Vec<Skill> {
    let mut candidates = candidates(folders);
    if candidates.len() > MAX_SKILLS {
        tracing::warn!("there are more than {MAX_SKILLS} skills; the rest are left out");
        candidates.truncate(MAX_SKILLS);
    }
    let mut names = HashSet::new();
    let skills = candidates.iter().filter_map(|folder| one(folder));
    let mut all: Vec<Skill> = skills.collect();
    for skill in &mut all {
        if !names.insert(skill.front.name.clone()) && skill.blocked.is_none() {
            let name = skill.front.name.clone();
            // It is told apart by where it is.
            skill.front.name.clone_from(&skill.path);
            skill.blocked = Some(format!("another skill is called `{name}`"));
        }
        if let Some(reason) = &skill.blocked {
            tracing::warn!(skill = skill.path, reason, "a skill cannot be called");
        }
    }
    all
}

fn one(folder: &Path) -> Option<Skill> {
    let (file, form) = file_of(folder)?;
    Some(Skill::read(folder, &file, form))
}

fn failed(text: &'static str) -> Failure {
    Failure::new(ErrorCode::RuntimeError, Namespace::Skill, text)
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}
