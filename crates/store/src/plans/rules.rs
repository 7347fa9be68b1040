//! What a change does to the tasks of a plan, wherever they are kept.

use std::collections::{BTreeMap, BTreeSet};

use super::{Author, Change, Changed, NewTask, TASK, Task, TaskChange};
use crate::Error;

/// A change that is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The task as it is now.
    pub(super) task: Task,
    /// Others, by where they stand in the list, of which the place has changed.
    pub(super) moved: Vec<usize>,
    /// What was changed; nothing if all was as wanted.
    pub(super) changes: Vec<Change>,
}

/// Adds a task to those of its plan.
pub(super) fn add(tasks: &mut Vec<Task>, task: NewTask, author: Author) -> Result<Done, Changed> {
    let deps = checked(tasks, &task.id, &task.deps)?;
    let place = tasks.iter().filter(|it| it.status == task.status).count();
    let task = Task::new(NewTask { deps, ..task }, place, author.now);
    let change = Change {
        at: author.now,
        by: author.by,
        version: 1,
        field: "added".to_owned(),
        before: String::new(),
        after: task.status.clone(),
    };
    tasks.push(task.clone());
    Ok(Done {
        task,
        moved: Vec::new(),
        changes: vec![change],
    })
}

/// Changes one of the tasks of a plan.
///
/// # Errors
/// [`Error::NotFound`].
pub(super) fn change(
    tasks: &mut [Task],
    id: &str,
    change: TaskChange,
    author: &Author,
) -> Result<Result<Done, Changed>, Error> {
    let Some(before) = tasks.iter().find(|task| task.id == id).cloned() else {
        return Err(Error::NotFound { what: TASK });
    };
    if change.seen.is_some_and(|seen| seen != before.version) {
        return Ok(Err(Changed::Stale(Box::new(before))));
    }
    let deps = match change.deps.map(|deps| checked(tasks, id, &deps)) {
        Some(Err(refused)) => return Ok(Err(refused)),
        Some(Ok(deps)) => deps,
        None => before.deps.clone(),
    };
    let status = change.status.unwrap_or_else(|| before.status.clone());
    let (place, moved) = rearrange(tasks, &before, &status, change.place);
    let mut task = Task {
        title: change.title.unwrap_or_else(|| before.title.clone()),
        assignee: change.assignee.unwrap_or_else(|| before.assignee.clone()),
        description: change
            .description
            .unwrap_or_else(|| before.description.clone()),
        metadata: change.metadata.unwrap_or_else(|| before.metadata.clone()),
        status,
        deps,
        place,
        ..before.clone()
    };
    let changes = compared(&before, &task, author);
    if !changes.is_empty() {
        task.version = before.version.saturating_add(1);
        task.changed = author.now;
    }
    for known in tasks.iter_mut().filter(|known| known.id == id) {
        known.clone_from(&task);
    }
    Ok(Ok(Done {
        task,
        moved,
        changes,
    }))
}

/// Dependencies without repetitions, if they can be.
fn checked(tasks: &[Task], id: &str, deps: &[String]) -> Result<Vec<String>, Changed> {
    let known: BTreeMap<&str, &Task> = tasks.iter().map(|task| (&*task.id, task)).collect();
    let mut kept: Vec<String> = Vec::new();
    for dep in deps {
        if dep != id && !known.contains_key(&**dep) {
            return Err(Changed::UnknownDependency(dep.clone()));
        }
        if !kept.contains(dep) {
            kept.push(dep.clone());
        }
    }
    match cycle(&known, id, &kept) {
        Some(path) => Err(Changed::Cycle(path)),
        None => Ok(kept),
    }
}

/// A way from a task over these dependencies back to it.
fn cycle(known: &BTreeMap<&str, &Task>, id: &str, deps: &[String]) -> Option<Vec<String>> {
    // Each with the one that led to it.
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = deps.iter().map(|dep| &**dep).collect();
    while let Some(next) = open.pop() {
        if next == id {
            let mut path = vec![id.to_owned()];
            let mut at = from.get(id).copied();
            while let Some(task) = at {
                path.push(task.to_owned());
                at = from.get(task).copied();
            }
            path.push(id.to_owned());
            path.reverse();
            return Some(path);
        }
        if !seen.insert(next) {
            continue;
        }
        for dep in known.get(next).into_iter().flat_map(|task| &task.deps) {
            if !seen.contains(&**dep) {
                from.insert(dep, next);
                open.push(dep);
            }
        }
    }
    None
}

/// Makes way for a task at a place of a column: gives the place it gets, and which others have moved.
fn rearrange(
    tasks: &mut [Task],
    task: &Task,
    status: &str,
    wanted: Option<usize>,
) -> (usize, Vec<usize>) {
    let others = tasks.iter().filter(|other| other.id != task.id);
    let end = others.filter(|other| other.status == status).count();
    let is_same_column = task.status == status;
    let place = match wanted {
        Some(place) => place.min(end),
        None if is_same_column => task.place,
        None => end,
    };
    if is_same_column && place == task.place {
        return (place, Vec::new());
    }
    let mut moved = Vec::new();
    let others = tasks.iter_mut().enumerate();
    for (at, other) in others.filter(|(_, other)| other.id != task.id) {
        let mut to = other.place;
        if other.status == task.status && to > task.place {
            to -= 1;
        }
        if other.status == status && to >= place {
            to += 1;
        }
        if to != other.place {
            other.place = to;
            moved.push(at);
        }
    }
    (place, moved)
}

/// What differs, for the record.
fn compared(before: &Task, after: &Task, author: &Author) -> Vec<Change> {
    let (old_deps, new_deps) = (before.deps.join(" "), after.deps.join(" "));
    let (old_place, new_place) = match before.status == after.status {
        true => (before.place.to_string(), after.place.to_string()),
        // Where in a column it comes to stand is part of coming there.
        false => (String::new(), String::new()),
    };
    let fields = [
        ("title", &*before.title, &*after.title),
        ("status", &before.status, &after.status),
        ("assignee", &before.assignee, &after.assignee),
        ("description", &before.description, &after.description),
        ("deps", &old_deps, &new_deps),
        ("metadata", &before.metadata, &after.metadata),
        ("position", &old_place, &new_place),
    ];
    let differ = fields.into_iter().filter(|(_, old, new)| old != new);
    let changes = differ.map(|(field, old, new)| {
        let is_long = matches!(field, "description" | "metadata");
        let kept = |text: &str| match is_long {
            true => String::new(),
            false => text.to_owned(),
        };
        Change {
            at: author.now,
            by: author.by.clone(),
            version: before.version.saturating_add(1),
            field: field.to_owned(),
            before: kept(old),
            after: kept(new),
        }
    });
    changes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;

    fn author() -> Author {
        Author {
            by: "ada".to_owned(),
            now: UnixMillis(1),
        }
    }

    fn task(id: &str, status: &str, deps: &[&str]) -> NewTask {
        NewTask {
            id: id.to_owned(),
            status: status.to_owned(),
            deps: deps.iter().map(|dep| (*dep).to_owned()).collect(),
            ..NewTask::default()
        }
    }

    fn column(tasks: &[Task], status: &str) -> Vec<String> {
        let mut column: Vec<&Task> = tasks.iter().filter(|it| it.status == status).collect();
        column.sort_by_key(|task| task.place);
        let places: Vec<usize> = column.iter().map(|task| task.place).collect();
        assert_eq!(places, (0..column.len()).collect::<Vec<_>>(), "{tasks:?}");
        column.into_iter().map(|task| task.id.clone()).collect()
    }

    fn do_change(tasks: &mut [Task], id: &str, wanted: TaskChange) -> Done {
        change(tasks, id, wanted, &author()).unwrap().unwrap()
    }

    fn three() -> Vec<Task> {
        let mut tasks = Vec::new();
        for id in ["a", "b", "c"] {
            add(&mut tasks, task(id, "todo", &[]), author()).unwrap();
        }
        tasks
    }

    #[test]
    fn places_of_a_column_stay_without_gaps() {
        let mut tasks = three();
        let go = |status: &str, place| TaskChange {
            status: Some(status.to_owned()),
            place,
            ..TaskChange::default()
        };
        do_change(&mut tasks, "c", go("todo", Some(0)));
        assert_eq!(column(&tasks, "todo"), ["c", "a", "b"]);
        do_change(&mut tasks, "c", go("todo", Some(99)));
        assert_eq!(column(&tasks, "todo"), ["a", "b", "c"]);
        do_change(&mut tasks, "b", go("done", None));
        do_change(&mut tasks, "a", go("done", Some(0)));
        assert_eq!(column(&tasks, "todo"), ["c"]);
        assert_eq!(column(&tasks, "done"), ["a", "b"]);
        assert_eq!(tasks[0].version, 2);
    }

    #[test]
    fn what_is_as_wanted_is_no_change() {
        let mut tasks = three();
        let same = TaskChange {
            status: Some("todo".to_owned()),
            place: Some(1),
            ..TaskChange::default()
        };
        let done = do_change(&mut tasks, "b", same);
        assert_eq!(
            (done.changes, done.moved, tasks[1].version),
            (vec![], vec![], 1)
        );
    }

    #[test]
    fn a_way_back_is_found_however_long() {
        let mut tasks = Vec::new();
        add(&mut tasks, task("0", "todo", &[]), author()).unwrap();
        for number in 1..500_usize {
            let before = (number - 1).to_string();
            let next = task(&number.to_string(), "todo", &[&before]);
            add(&mut tasks, next, author()).unwrap();
        }
        let deps = TaskChange {
            deps: Some(vec!["499".to_owned()]),
            ..TaskChange::default()
        };
        let Ok(Err(Changed::Cycle(path))) = change(&mut tasks, "0", deps, &author()) else {
            panic!("no cycle was found");
        };
        assert_eq!(path.len(), 501);
        assert_eq!((&*path[0], &*path[1], &*path[500]), ("0", "499", "0"));
        let own = TaskChange {
            deps: Some(vec!["7".to_owned()]),
            ..TaskChange::default()
        };
        let itself = change(&mut tasks, "7", own, &author());
        let cycle = Changed::Cycle(vec!["7".into(), "7".into()]);
        assert_eq!(itself, Ok(Err(cycle)));
    }
}
