//! Plans in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::rules::{self, Done};
use super::{
    Author, Change, Changed, MAX_CHANGES_BYTES, NewTask, PLAN, Plan, Plans, TASK, Task, TaskChange,
    check_list,
};
use crate::limits::{Bytes, Size};
use crate::memory::Memory;
use crate::scope::Owner;
use crate::{Error, Limits, Pending};

/// The plans of all owners.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<Arc<str>, Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    /// The oldest first.
    plans: Vec<Record>,
    /// The oldest first, of all plans.
    changes: VecDeque<Kept>,
}

#[derive(Debug)]
struct Record {
    plan: Plan,
    tasks: Vec<Task>,
}

#[derive(Debug)]
struct Kept {
    plan: String,
    task: String,
    change: Change,
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

    fn with<T>(&self, act: impl FnOnce(&mut Shelf, &Limits) -> Result<T, Error>) -> Pending<T> {
        let tables = &mut *self.memory.tables();
        let shelf = tables.plans.0.entry(Arc::clone(&self.owner)).or_default();
        Pending::ready(act(shelf, self.memory.limits()))
    }
}

impl Plans for InMemory {
    fn create(&self, plan: Plan) -> Pending<()> {
        self.with(|shelf, limits| {
            plan.check(limits)?;
            if shelf.record(&plan.id).is_ok() {
                return Err(Error::Exists { what: PLAN });
            }
            let sizes = shelf.plans.iter().map(|it| Size::one(it.plan.size()));
            let size = sizes.fold(Size::one(plan.size()), Size::plus);
            if !limits.plans.holds(size) {
                return Err(Error::Full { what: PLAN });
            }
            let tasks = Vec::new();
            shelf.plans.push(Record { plan, tasks });
            Ok(())
        })
    }

    fn list(&self) -> Pending<Vec<(Plan, usize)>> {
        self.with(|shelf, _| {
            let plans = shelf.plans.iter();
            Ok(plans.map(|it| (it.plan.clone(), it.tasks.len())).collect())
        })
    }

    fn get(&self, plan: &str) -> Pending<Option<Plan>> {
        self.with(|shelf, _| Ok(shelf.record(plan).ok().map(|record| record.plan.clone())))
    }

    fn add(&self, author: Author, plan: &str, task: NewTask) -> Pending<Changed> {
        self.with(|shelf, limits| {
            let all = shelf.tasks_size();
            let record = shelf.record(plan)?;
            if record.tasks.iter().any(|known| known.id == task.id) {
                return Err(Error::Exists { what: TASK });
            }
            let mut tasks = record.tasks.clone();
            let done = match rules::add(&mut tasks, task, author) {
                Ok(done) => done,
                Err(refused) => return Ok(refused),
            };
            done.task.check(limits)?;
            let size = all.plus(Size::one(done.task.size()));
            if tasks.len() > limits.tasks_of_plan || !limits.tasks.holds(size) {
                return Err(Error::Full { what: TASK });
            }
            check_list(&tasks, None, &done.task, limits)?;
            record.tasks = tasks;
            Ok(shelf.settle(plan, done, limits))
        })
    }

    fn change(
        &self,
        author: Author,
        plan: &str,
        task: &str,
        change: TaskChange,
    ) -> Pending<Changed> {
        self.with(|shelf, limits| {
            let all = shelf.tasks_size();
            let record = shelf.record(plan)?;
            let mut tasks = record.tasks.clone();
            let done = match rules::change(&mut tasks, task, change, &author)? {
                Ok(done) => done,
                Err(refused) => return Ok(refused),
            };
            done.task.check(limits)?;
            let before = record.tasks.iter().find(|known| known.id == task);
            check_list(&tasks, before, &done.task, limits)?;
            let before = Size::one(before.map_or(0, Task::size));
            let size = all.minus(before).plus(Size::one(done.task.size()));
            if !limits.tasks.holds(size) {
                return Err(Error::Full { what: TASK });
            }
            record.tasks = tasks;
            Ok(shelf.settle(plan, done, limits))
        })
    }

    fn tasks(&self, plan: &str) -> Pending<Vec<Task>> {
        self.with(|shelf, _| {
            let tasks = shelf.record(plan).map(|record| record.tasks.clone());
            let outline = |task: Task| Task {
                description: String::new(),
                metadata: String::new(),
                ..task
            };
            Ok(tasks.unwrap_or_default().into_iter().map(outline).collect())
        })
    }

    fn task(&self, plan: &str, task: &str) -> Pending<Option<(Task, Vec<Change>)>> {
        self.with(|shelf, _| {
            let found = shelf.record(plan).ok();
            let found = found.and_then(|it| it.tasks.iter().find(|known| known.id == task));
            let Some(found) = found.cloned() else {
                return Ok(None);
            };
            let changes = shelf.changes.iter();
            let own = changes.filter(|kept| kept.plan == plan && kept.task == task);
            let mut room = Bytes::new(MAX_CHANGES_BYTES);
            let newest = own.rev().take_while(|kept| room.take(kept.change.told()));
            let mut changes: Vec<Change> = newest.map(|kept| kept.change.clone()).collect();
            changes.reverse();
            Ok(Some((found, changes)))
        })
    }

    fn remove(&self, plan: &str) -> Pending<bool> {
        self.with(|shelf, _| {
            let before = shelf.plans.len();
            shelf.plans.retain(|record| record.plan.id != plan);
            shelf.changes.retain(|kept| kept.plan != plan);
            Ok(shelf.plans.len() < before)
        })
    }
}

impl Shelf {
    fn record(&mut self, plan: &str) -> Result<&mut Record, Error> {
        let found = self.plans.iter_mut().find(|record| record.plan.id == plan);
        found.ok_or(Error::NotFound { what: PLAN })
    }

    fn tasks_size(&self) -> Size {
        let tasks = self.plans.iter().flat_map(|record| &record.tasks);
        let sizes = tasks.map(|task| Size::one(task.size()));
        sizes.fold(Size::default(), Size::plus)
    }

    /// Puts what was done on record.
    fn settle(&mut self, plan: &str, done: Done, limits: &Limits) -> Changed {
        self.changes
            .extend(done.changes.into_iter().map(|change| Kept {
                plan: plan.to_owned(),
                task: done.task.id.clone(),
                change,
            }));
        let size_of = |kept: &Kept| Size::one(kept.change.size(&kept.plan, &kept.task));
        let mut size = self
            .changes
            .iter()
            .map(size_of)
            .fold(Size::default(), Size::plus);
        while !limits.task_changes.holds(size)
            && let Some(oldest) = self.changes.pop_front()
        {
            size = size.minus(size_of(&oldest));
        }
        Changed::Done(Box::new(done.task))
    }
}
