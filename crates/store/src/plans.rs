//! Plans: tasks in columns, on which several may work at once.

mod memory;
mod rules;
mod sqlite;

use std::fmt;

use crate::limits::{Limits, check_name};
use crate::{Error, Pending, UnixMillis};

pub(crate) use memory::{InMemory, Table};
pub(crate) use sqlite::{CHANGES, InSqlite, PLANS, SCHEMA, TASKS};

/// The plans of one owner, and their tasks.
///
/// A task has a version, which each change of it raises: who changes one that has changed since it
/// was seen is told so, and nothing is done. What was changed, when and by whom is kept; when that
/// is too much, the oldest of it goes.
pub trait Plans: fmt::Debug + Send + Sync {
    /// Makes a plan.
    ///
    /// Fails with [`Error::Exists`] if another has its id.
    fn create(&self, plan: Plan) -> Pending<()>;

    /// All plans, the oldest first, and how many tasks each has.
    fn list(&self) -> Pending<Vec<(Plan, usize)>>;

    /// A plan by its id.
    fn get(&self, plan: &str) -> Pending<Option<Plan>>;

    /// Adds a task at the end of its column.
    ///
    /// Fails with [`Error::NotFound`] if there is no such plan.
    fn add(&self, author: Author, plan: &str, task: NewTask) -> Pending<Changed>;

    /// Changes a task.
    ///
    /// Fails with [`Error::NotFound`] if there is no such plan or task.
    fn change(
        &self,
        author: Author,
        plan: &str,
        task: &str,
        change: TaskChange,
    ) -> Pending<Changed>;

    /// The tasks of a plan in the order they were added, without their descriptions and metadata;
    /// none if there is no such plan.
    fn tasks(&self, plan: &str) -> Pending<Vec<Task>>;

    /// A task in full, and its changes, the oldest first: of many the newest, up to
    /// [`MAX_CHANGES_BYTES`].
    fn task(&self, plan: &str, task: &str) -> Pending<Option<(Task, Vec<Change>)>>;

    /// Removes a plan with its tasks; says whether there was one.
    fn remove(&self, plan: &str) -> Pending<bool>;
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Names it; the caller's to make.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its columns in order; the last has what is done.
    pub columns: Vec<String>,
    /// When it was made.
    pub created: UnixMillis,
}

/// A task of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Names it within its plan.
    pub id: String,
    /// What is to be done.
    pub title: String,
    /// The column it is in.
    pub status: String,
    /// Who does it; nobody if empty.
    pub assignee: String,
    /// More about it.
    pub description: String,
    /// The tasks of its plan that must be done before.
    pub deps: Vec<String>,
    /// What the caller keeps with it.
    pub metadata: String,
    /// Which of its column it is, from 0.
    pub place: usize,
    /// How often it was changed, from 1.
    pub version: i64,
    /// When it was added.
    pub created: UnixMillis,
    /// When it was last changed.
    pub changed: UnixMillis,
}

/// A task that is to be added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewTask {
    /// See [`Task::id`]; the caller's to make.
    pub id: String,
    /// See [`Task::title`].
    pub title: String,
    /// See [`Task::status`].
    pub status: String,
    /// See [`Task::assignee`].
    pub assignee: String,
    /// See [`Task::description`].
    pub description: String,
    /// See [`Task::deps`].
    pub deps: Vec<String>,
    /// See [`Task::metadata`].
    pub metadata: String,
}

/// What is to be changed of a task; what is not given stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskChange {
    /// The version that was seen: with another nothing is done.
    pub seen: Option<i64>,
    /// See [`Task::title`].
    pub title: Option<String>,
    /// See [`Task::status`].
    pub status: Option<String>,
    /// See [`Task::assignee`].
    pub assignee: Option<String>,
    /// See [`Task::description`].
    pub description: Option<String>,
    /// See [`Task::deps`].
    pub deps: Option<Vec<String>>,
    /// See [`Task::metadata`].
    pub metadata: Option<String>,
    /// See [`Task::place`]; beyond the end is at the end.
    pub place: Option<usize>,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is done; the task is like this now.
    Done(Box<Task>),
    /// Somebody has changed the task since: it is like this now.
    Stale(Box<Task>),
    /// It would depend on what is no task of the plan.
    UnknownDependency(String),
    /// It would have to be done before itself, by way of these.
    Cycle(Vec<String>),
}

/// Who changes something, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Who.
    pub by: String,
    /// When.
    pub now: UnixMillis,
}

/// One thing that was changed of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: UnixMillis,
    /// By whom.
    pub by: String,
    /// The version that this made.
    pub version: i64,
    /// What: the name of a field, or `added`.
    pub field: String,
    /// What it was; nothing of long fields.
    pub before: String,
    /// What it became.
    pub after: String,
}

const PLAN: &str = "plan";
const TASK: &str = "task";

impl Plan {
    fn size(&self) -> usize {
        let columns = self.columns.iter().map(String::len).sum::<usize>();
        self.id.len() + self.name.len() + self.description.len() + columns
    }

    fn check(&self, limits: &Limits) -> Result<(), Error> {
        check_name(PLAN, &self.id)?;
        limits.plans.take(PLAN, self.size())
    }
}

impl Task {
    /// A new one, at the end of its column.
    fn new(task: NewTask, place: usize, now: UnixMillis) -> Self {
        let NewTask {
            id,
            title,
            status,
            assignee,
            description,
            deps,
            metadata,
        } = task;
        Self {
            id,
            title,
            status,
            assignee,
            description,
            deps,
            metadata,
            place,
            version: 1,
            created: now,
            changed: now,
        }
    }

    fn size(&self) -> usize {
        let deps = self.deps.iter().map(String::len).sum::<usize>();
        let texts = [
            &self.id,
            &self.title,
            &self.status,
            &self.assignee,
            &self.description,
            &self.metadata,
        ];
        texts.iter().map(|text| text.len()).sum::<usize>() + deps
    }

    fn check(&self, limits: &Limits) -> Result<(), Error> {
        check_name(TASK, &self.id)?;
        limits.tasks.take(TASK, self.size())
    }
}

/// Bytes of the changes that are given of a task.
pub const MAX_CHANGES_BYTES: usize = 512 * 1024;

impl Change {
    /// About how many bytes it takes in an answer.
    fn told(&self) -> usize {
        self.size("", "") + 128
    }

    fn size(&self, plan: &str, task: &str) -> usize {
        let own = self.by.len() + self.field.len() + self.before.len() + self.after.len();
        plan.len() + task.len() + own
    }
}
