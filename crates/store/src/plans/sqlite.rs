//! Plans in SQLite.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::rules::{self, Done};
use super::{
    Author, Change, Changed, MAX_CHANGES_BYTES, NewTask, PLAN, Plan, Plans, TASK, Task, TaskChange,
    check_list,
};
use crate::limits::{Bytes, Size};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Limits, Pending, UnixMillis};

/// Names of columns stand one a line, and so do dependencies. `place` counts within a column; tasks
/// come in the order of `number`.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE plans (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        columns TEXT NOT NULL,
        created INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, id)
    ) STRICT;
    CREATE TABLE tasks (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        plan TEXT NOT NULL,
        id TEXT NOT NULL,
        title TEXT NOT NULL,
        status TEXT NOT NULL,
        assignee TEXT NOT NULL,
        description TEXT NOT NULL,
        deps TEXT NOT NULL,
        metadata TEXT NOT NULL,
        place INTEGER NOT NULL,
        version INTEGER NOT NULL,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, plan, id)
    ) STRICT;
    CREATE TABLE task_changes (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        plan TEXT NOT NULL,
        task TEXT NOT NULL,
        at INTEGER NOT NULL,
        author TEXT NOT NULL,
        version INTEGER NOT NULL,
        field TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX task_changes_by_task ON task_changes (owner, plan, task);
    CREATE INDEX task_changes_by_age ON task_changes (owner);",
    metered!(triggers "plans"),
    metered!(triggers "tasks"),
    metered!(triggers "task_changes")
);

pub(crate) const PLANS: Metered = metered!("plans", "plan");
pub(crate) const TASKS: Metered = metered!("tasks", "task");
pub(crate) const CHANGES: Metered = metered!("task_changes", "change of a task");

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

    /// Changes the tasks of a plan by a rule, and writes what is different then.
    fn change_tasks(
        &self,
        plan: &str,
        size: usize,
        in_full: &str,
        rule: impl Fn(&mut Vec<Task>) -> Result<Result<Done, Changed>, Error> + Send + 'static,
    ) -> Pending<Changed> {
        let limits = *self.database.limits();
        let place = Place {
            owner: Arc::clone(&self.owner),
            plan: plan.to_owned(),
        };
        let in_full = in_full.to_owned();
        self.database.write(size, move |connection| {
            if find(connection, &place.owner, &place.plan)?.is_none() {
                return Err(Error::NotFound { what: PLAN });
            }
            let mut tasks = place.tasks(connection, &in_full)?;
            let before = tasks.iter().find(|task| task.id == in_full).cloned();
            let done = match rule(&mut tasks)? {
                Ok(done) => done,
                Err(refused) => return Ok(refused),
            };
            done.task.check(&limits)?;
            if before.is_none() && tasks.len() > limits.tasks_of_plan {
                return Err(Error::Full { what: TASK });
            }
            check_list(&tasks, before.as_ref(), &done.task, &limits)?;
            let less = before
                .as_ref()
                .map_or_else(Size::default, |it| Size::one(it.size()));
            let more = Size::one(done.task.size());
            let whose = (&*place.owner, UnixMillis(0));
            TASKS.make_room(connection, whose, limits.tasks, less, more)?;
            place.put(connection, &done.task)?;
            for task in done.moved.iter().filter_map(|index| tasks.get(*index)) {
                place.put_place(connection, task)?;
            }
            place.remember(connection, &done, &limits)?;
            Ok(Changed::Done(Box::new(done.task)))
        })
    }
}

impl Plans for InSqlite {
    fn create(&self, plan: Plan) -> Pending<()> {
        let (owner, limits) = (Arc::clone(&self.owner), *self.database.limits());
        self.database.write(plan.size(), move |connection| {
            plan.check(&limits)?;
            if find(connection, &owner, &plan.id)?.is_some() {
                return Err(Error::Exists { what: PLAN });
            }
            let whose = (&*owner, UnixMillis(0));
            let more = Size::one(plan.size());
            PLANS.make_room(connection, whose, limits.plans, Size::default(), more)?;
            let mut keep = connection.prepare_cached(
                "INSERT INTO plans (owner, id, name, description, columns, created, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let columns = plan.columns.join("\n");
            let created = plan.created.0;
            keep.execute((
                &*owner,
                &plan.id,
                &plan.name,
                &plan.description,
                columns,
                created,
                plan.size(),
            ))?;
            Ok(())
        })
    }

    fn list(&self) -> Pending<Vec<(Plan, usize)>> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT id, name, description, columns, created,
                    (SELECT count(*) FROM tasks
                     WHERE tasks.owner = plans.owner AND tasks.plan = plans.id)
                 FROM plans WHERE owner = ?1 ORDER BY number",
            )?;
            let plans = list.query_map([&*self.owner], |row| Ok((plan(row)?, row.get(5)?)))?;
            Ok(plans.collect::<Result<_, _>>()?)
        })
    }

    fn get(&self, plan: &str) -> Pending<Option<Plan>> {
        self.database
            .read(|connection| find(connection, &self.owner, plan))
    }

    fn add(&self, author: Author, plan: &str, task: NewTask) -> Pending<Changed> {
        let size = task.description.len() + task.metadata.len() + task.title.len();
        let id = task.id.clone();
        self.change_tasks(plan, size, &id, move |tasks| {
            if tasks.iter().any(|known| known.id == task.id) {
                return Err(Error::Exists { what: TASK });
            }
            Ok(rules::add(tasks, task.clone(), author.clone()))
        })
    }

    fn change(
        &self,
        author: Author,
        plan: &str,
        task: &str,
        change: TaskChange,
    ) -> Pending<Changed> {
        let long = [&change.description, &change.metadata, &change.title];
        let size = long.into_iter().flatten().map(String::len).sum();
        let id = task.to_owned();
        self.change_tasks(plan, size, task, move |tasks| {
            rules::change(tasks, &id, change.clone(), &author)
        })
    }

    fn tasks(&self, plan: &str) -> Pending<Vec<Task>> {
        self.database.read(|connection| {
            let place = Place {
                owner: Arc::clone(&self.owner),
                plan: plan.to_owned(),
            };
            place.tasks(connection, "")
        })
    }

    fn task(&self, plan: &str, task: &str) -> Pending<Option<(Task, Vec<Change>)>> {
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(
                "SELECT id, title, status, assignee, description, deps, metadata, place, version,
                    created, changed FROM tasks WHERE owner = ?1 AND plan = ?2 AND id = ?3",
            )?;
            let place = (&*self.owner, plan, task);
            let Some(found) = find.query_row(place, self::task).optional()? else {
                return Ok(None);
            };
            let mut changes = connection.prepare_cached(
                "SELECT at, author, version, field, before, after FROM task_changes
                 WHERE owner = ?1 AND plan = ?2 AND task = ?3 ORDER BY number DESC",
            )?;
            let mut rows = changes.query(place)?;
            let (mut changes, mut room) = (Vec::new(), Bytes::new(MAX_CHANGES_BYTES));
            while let Some(row) = rows.next()? {
                let change = change(row)?;
                if !room.take(change.told()) {
                    break;
                }
                changes.push(change);
            }
            changes.reverse();
            Ok(Some((found, changes)))
        })
    }

    fn remove(&self, plan: &str) -> Pending<bool> {
        let (owner, plan) = (Arc::clone(&self.owner), plan.to_owned());
        self.database.write(plan.len(), move |connection| {
            for sql in [
                "DELETE FROM task_changes WHERE owner = ?1 AND plan = ?2",
                "DELETE FROM tasks WHERE owner = ?1 AND plan = ?2",
            ] {
                connection.prepare_cached(sql)?.execute((&*owner, &plan))?;
            }
            let mut remove =
                connection.prepare_cached("DELETE FROM plans WHERE owner = ?1 AND id = ?2")?;
            Ok(remove.execute((&*owner, &plan))? > 0)
        })
    }
}

/// A plan, as a place for tasks.
struct Place {
    owner: Arc<str>,
    plan: String,
}

impl Place {
    /// The tasks, one of them in full.
    fn tasks(&self, connection: &Connection, in_full: &str) -> Result<Vec<Task>, Error> {
        let mut list = connection.prepare_cached(
            "SELECT id, title, status, assignee, iif(id = ?3, description, ''), deps,
                iif(id = ?3, metadata, ''), place, version, created, changed
             FROM tasks WHERE owner = ?1 AND plan = ?2 ORDER BY number",
        )?;
        let tasks = list.query_map((&*self.owner, &self.plan, in_full), task)?;
        Ok(tasks.collect::<Result<_, _>>()?)
    }

    fn put(&self, connection: &Connection, task: &Task) -> Result<(), Error> {
        let mut keep = connection.prepare_cached(
            "INSERT INTO tasks (owner, plan, id, title, status, assignee, description, deps,
                metadata, place, version, created, changed, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (owner, plan, id) DO UPDATE SET title = excluded.title,
             status = excluded.status, assignee = excluded.assignee,
             description = excluded.description, deps = excluded.deps,
             metadata = excluded.metadata, place = excluded.place, version = excluded.version,
             changed = excluded.changed, bytes = excluded.bytes",
        )?;
        let deps = task.deps.join("\n");
        keep.execute((
            &*self.owner,
            &self.plan,
            &task.id,
            &task.title,
            &task.status,
            &task.assignee,
            &task.description,
            deps,
            &task.metadata,
            task.place,
            task.version,
            task.created.0,
            task.changed.0,
            task.size(),
        ))?;
        Ok(())
    }

    fn put_place(&self, connection: &Connection, task: &Task) -> Result<(), Error> {
        let mut keep = connection.prepare_cached(
            "UPDATE tasks SET place = ?4 WHERE owner = ?1 AND plan = ?2 AND id = ?3",
        )?;
        keep.execute((&*self.owner, &self.plan, &task.id, task.place))?;
        Ok(())
    }

    /// Puts what was changed on record, and drops what is too much of it.
    fn remember(&self, connection: &Connection, done: &Done, limits: &Limits) -> Result<(), Error> {
        let mut keep = connection.prepare_cached(
            "INSERT INTO task_changes (owner, plan, task, at, author, version, field, before,
                after, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let id = &done.task.id;
        for change in &done.changes {
            keep.execute((
                &*self.owner,
                &self.plan,
                id,
                change.at.0,
                &change.by,
                change.version,
                &change.field,
                &change.before,
                &change.after,
                change.size(&self.plan, id),
            ))?;
        }
        while !limits
            .task_changes
            .holds(CHANGES.usage(connection, &self.owner)?)
        {
            let mut drop_oldest = connection.prepare_cached(
                "DELETE FROM task_changes WHERE number =
                    (SELECT min(number) FROM task_changes WHERE owner = ?1)",
            )?;
            if drop_oldest.execute([&*self.owner])? == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn find(connection: &Connection, owner: &str, id: &str) -> Result<Option<Plan>, Error> {
    let mut find = connection.prepare_cached(
        "SELECT id, name, description, columns, created FROM plans WHERE owner = ?1 AND id = ?2",
    )?;
    Ok(find.query_row((owner, id), plan).optional()?)
}

fn plan(row: &Row<'_>) -> rusqlite::Result<Plan> {
    Ok(Plan {
        id: row.get(0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        columns: lines(&row.get::<_, String>(3)?),
        created: UnixMillis(row.get(4)?),
    })
}

fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: row.get(0)?,
        title: row.get(1)?,
        status: row.get(2)?,
        assignee: row.get(3)?,
        description: row.get(4)?,
        deps: lines(&row.get::<_, String>(5)?),
        metadata: row.get(6)?,
        place: row.get(7)?,
        version: row.get(8)?,
        created: UnixMillis(row.get(9)?),
        changed: UnixMillis(row.get(10)?),
    })
}

fn change(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change {
        at: UnixMillis(row.get(0)?),
        by: row.get(1)?,
        version: row.get(2)?,
        field: row.get(3)?,
        before: row.get(4)?,
        after: row.get(5)?,
    })
}

fn lines(text: &str) -> Vec<String> {
    match text.is_empty() {
        true => Vec::new(),
        false => text.split('\n').map(str::to_owned).collect(),
    }
}
