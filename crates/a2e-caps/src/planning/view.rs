//! Plans and tasks as agents see them.

use std::borrow::Cow;
use std::collections::HashSet;

use a2e_runtime::Failure;
use a2e_wire::messages::planning::{BoardTask, PlanBoard, PlanSummary, TaskChange, TaskSummary};
use a2e_wire::wire::ToStatic;
use a2e_wire::{ErrorCode, Map, Namespace, Object};
use store::{Change, MAX_TASK_LIST, Plan, Task};

use crate::fresh::timestamp;

/// Bytes of one answer. The tasks of one plan are never more.
const MAX_ANSWER: usize = MAX_TASK_LIST;

/// How large an answer gets.
#[derive(Debug, Default)]
pub(super) struct Size(usize);

/// A plan with its tasks.
pub(super) struct Listed {
    pub(super) plan: Plan,
    /// By column, and within it by place.
    pub(super) tasks: Vec<Task>,
    /// The ids of those that are not done.
    open: HashSet<String>,
}

impl Size {
    pub(super) fn count(&mut self, task: &Task) -> Result<(), Failure> {
        self.0 = self.0.saturating_add(task.listed_size());
        match self.0 > MAX_ANSWER {
            true => Err(Failure {
                retryable: false,
                ..Failure::new(
                    ErrorCode::RuntimeError,
                    Namespace::Planning,
                    "that is too much for one answer; ask for one `plan_id`",
                )
            }),
            false => Ok(()),
        }
    }
}

impl Listed {
    pub(super) fn new(plan: Plan, tasks: Vec<Task>) -> Self {
        let done = plan.columns.last().map_or("", |last| last);
        let open = tasks.iter().filter(|task| task.status != done);
        let open = open.map(|task| task.id.clone()).collect();
        let mut listed = Self { plan, tasks, open };
        let columns = listed.columns().into_iter();
        let columns: Vec<String> = columns.map(str::to_owned).collect();
        listed.tasks.sort_by_key(|task| {
            let column = columns.iter().position(|it| *it == task.status);
            (column, task.place)
        });
        listed
    }

    /// What must be done before a task: of its dependencies, those that are not in the last column.
    pub(super) fn blocked_by(&self, task: &Task) -> Vec<Cow<'static, str>> {
        let open = task.deps.iter().filter(|id| self.open.contains(*id));
        open.map(|id| Cow::Owned(id.clone())).collect()
    }

    pub(super) fn summary(&self, task: Task) -> TaskSummary<'static> {
        TaskSummary {
            blocked_by: Some(self.blocked_by(&task)),
            deps: Some(task.deps.into_iter().map(Cow::Owned).collect()),
            position: i64::try_from(task.place).ok(),
            version: Some(task.version),
            created_at: Some(timestamp(task.created)),
            updated_at: Some(timestamp(task.changed)),
            ..TaskSummary::new(
                task.id.into(),
                task.title.into(),
                task.status.into(),
                task.assignee.into(),
                self.plan.id.clone().into(),
            )
        }
    }

    pub(super) fn board(&self) -> PlanBoard<'static> {
        let columns = self.columns().into_iter().map(|column| {
            let tasks = self.tasks.iter().filter(|task| task.status == column);
            let tasks = tasks.map(|task| BoardTask {
                blocked_by: Some(self.blocked_by(task)),
                version: Some(task.version),
                ..BoardTask::new(
                    task.id.clone().into(),
                    task.title.clone().into(),
                    task.status.clone().into(),
                    task.assignee.clone().into(),
                )
            });
            (Cow::Owned(column.to_owned()), tasks.collect())
        });
        let tasks: Vec<(Cow<'static, str>, Vec<BoardTask<'static>>)> = columns.collect();
        let names = tasks.iter().map(|(column, _)| column.clone()).collect();
        PlanBoard::new(
            self.plan.id.clone().into(),
            self.plan.name.clone().into(),
            names,
            Map::from_pairs(tasks).unwrap_or_default(),
        )
    }

    /// Those of the plan, and then those that only tasks have.
    fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self.plan.columns.iter().map(|it| &**it).collect();
        for task in &self.tasks {
            if !columns.contains(&&*task.status) {
                columns.push(&task.status);
            }
        }
        columns
    }
}

pub(super) fn plan(plan: Plan, tasks: usize) -> PlanSummary<'static> {
    PlanSummary {
        description: Some(plan.description.into()),
        tasks: i64::try_from(tasks).ok(),
        created_at: Some(timestamp(plan.created)),
        ..PlanSummary::new(
            plan.id.into(),
            plan.name.into(),
            plan.columns.into_iter().map(Cow::Owned).collect(),
        )
    }
}

/// A task with all there is of it.
pub(super) fn in_full(
    summary: TaskSummary<'static>,
    full: Option<(Task, Vec<Change>)>,
) -> TaskSummary<'static> {
    let Some((task, changes)) = full else {
        return summary;
    };
    let metadata = Object::parse(&task.metadata).map(ToStatic::to_static);
    TaskSummary {
        description: Some(task.description.into()),
        metadata: metadata.ok(),
        history: Some(changes.into_iter().map(change).collect()),
        ..summary
    }
}

fn change(change: Change) -> TaskChange<'static> {
    TaskChange::new(
        timestamp(change.at),
        change.by.into(),
        change.version,
        change.field.into(),
        change.before.into(),
        change.after.into(),
    )
}

#[cfg(test)]
mod tests {
    use store::UnixMillis;

    use super::*;

    #[test]
    fn an_answer_has_a_limit() {
        let mut task = Task {
            id: String::new(),
            title: "x".repeat(768),
            status: String::new(),
            assignee: String::new(),
            description: String::new(),
            deps: Vec::new(),
            metadata: String::new(),
            place: 0,
            version: 1,
            created: UnixMillis(0),
            changed: UnixMillis(0),
        };
        let mut size = Size::default();
        assert_eq!(task.listed_size(), 1024);
        for _ in 0..MAX_ANSWER / 1024 {
            size.count(&task).unwrap();
        }
        task.title.clear();
        let failure = size.count(&task).unwrap_err();
        assert!(!failure.retryable && failure.message.contains("`plan_id`"));
    }
}
