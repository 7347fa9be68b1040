//! Plans: tasks in columns, on which several may work at once.

mod memory;
mod rules;
mod sqlite;

use std::fmt;

use crate::limits::{Limits, check_name, json_length};
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
const TASK_TEXT: &str = "task, title or dependency in this plan";

impl Plan {
    /// As JSON: all plans are listed at once.
    fn size(&self) -> usize {
        let columns = self.columns.iter().map(|it| json_length(it)).sum::<usize>();
        self.id.len() + json_length(&self.name) + json_length(&self.description) + columns
    }

    fn check(&self, limits: &Limits) -> Result<(), Error> {
        check_name(PLAN, &self.id)?;
        limits.plans.take(PLAN, self.size())
    }
}

/// Bytes of a task in a list beside its texts: names of members, its id, that of its plan, numbers.
const TASK_MEMBERS: usize = 256;

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

    /// The most bytes that it has in a list, which leaves out its description and metadata.
    #[must_use]
    pub fn listed_size(&self) -> usize {
        // A dependency stands there twice if it blocks the task, each time in quotes.
        let deps = self.deps.iter().map(|id| 2 * id.len() + 6).sum::<usize>();
        let texts = [&self.title, &self.status, &self.assignee];
        let texts = texts.iter().map(|text| json_length(text)).sum::<usize>();
        TASK_MEMBERS + deps + texts
    }
}

/// Refuses a change that makes a task longer in a list that has no room for that.
fn check_list(
    tasks: &[Task],
    before: Option<&Task>,
    after: &Task,
    limits: &Limits,
) -> Result<(), Error> {
    let is_longer = before.is_none_or(|before| before.listed_size() < after.listed_size());
    let size = tasks.iter().map(Task::listed_size).sum::<usize>();
    match is_longer && size > limits.task_list {
        true => Err(Error::Full { what: TASK_TEXT }),
        false => Ok(()),
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
