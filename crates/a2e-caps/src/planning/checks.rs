//! What a plan and a task may be. Who asks for something else is told what is wrong with it.

use std::borrow::Cow;

use a2e_wire::messages::planning::TaskUpdateRequest;
use store::{NewTask, Plan, TaskChange};

/// Bytes of a plan's name.
pub const MAX_PLAN_NAME: usize = 256;
/// Bytes of a plan's description.
pub const MAX_PLAN_DESCRIPTION: usize = 8 * 1024;
/// Columns of a plan.
pub const MAX_COLUMNS: usize = 32;
/// Bytes of a column's name, and so of a task's status.
pub const MAX_COLUMN: usize = 64;
/// Bytes of a task's title.
pub const MAX_TITLE: usize = 256;
/// Bytes of an assignee.
pub const MAX_ASSIGNEE: usize = 128;
/// Bytes of a task's description.
pub const MAX_DESCRIPTION: usize = 64 * 1024;
/// Bytes of a task's metadata, as JSON.
pub const MAX_METADATA: usize = 32 * 1024;
/// Tasks that one may depend on.
pub const MAX_DEPS: usize = 32;

/// What is wrong.
type Why = Cow<'static, str>;

pub(super) fn plan(plan: &Plan) -> Result<(), Why> {
    name("name", &plan.name, MAX_PLAN_NAME)?;
    within("description", &plan.description, MAX_PLAN_DESCRIPTION)?;
    if plan.columns.len() > MAX_COLUMNS {
        return Err(format!("`columns` may name {MAX_COLUMNS} columns at most").into());
    }
    for (index, column) in plan.columns.iter().enumerate() {
        name("columns", column, MAX_COLUMN)?;
        if plan.columns.iter().take(index).any(|other| other == column) {
            return Err(format!("`columns` names `{column}` twice").into());
        }
    }
    Ok(())
}

pub(super) fn new_task(task: &NewTask) -> Result<(), Why> {
    name("title", &task.title, MAX_TITLE)?;
    name("status", &task.status, MAX_COLUMN)?;
    assignee(&task.assignee)?;
    within("description", &task.description, MAX_DESCRIPTION)?;
    within("metadata", &task.metadata, MAX_METADATA)?;
    deps(task.deps.len())
}

/// The change that is asked for: fields that are not empty, and those to be emptied.
pub(super) fn change(request: TaskUpdateRequest<'_>) -> Result<TaskChange, Why> {
    let given = |text: Cow<'_, str>| (!text.is_empty()).then(|| text.into_owned());
    let mut change = TaskChange {
        seen: request.seen_version,
        title: request.title.map(Cow::into_owned),
        status: given(request.status),
        assignee: given(request.assignee),
        description: request.description.map(Cow::into_owned),
        deps: (!request.deps.is_empty())
            .then(|| request.deps.iter().map(|dep| (**dep).to_owned()).collect()),
        metadata: request.metadata.map(|it| it.raw().as_str().to_owned()),
        place: match request.position.map(usize::try_from) {
            Some(Err(_)) => return Err("`position` counts from 0".into()),
            Some(Ok(place)) => Some(place),
            None => None,
        },
    };
    for field in request.clear.unwrap_or_default() {
        match &*field {
            "assignee" => change.assignee = Some(String::new()),
            "deps" => change.deps = Some(Vec::new()),
            "description" => change.description = Some(String::new()),
            "metadata" => change.metadata = Some("{}".to_owned()),
            _ => {
                return Err(
                    "`clear` may name `assignee`, `deps`, `description` and `metadata`".into(),
                );
            }
        }
    }
    let check = |text: &Option<String>, check: &dyn Fn(&str) -> Result<(), Why>| {
        text.as_deref().map_or(Ok(()), check)
    };
    check(&change.title, &|it| name("title", it, MAX_TITLE))?;
    check(&change.status, &|it| name("status", it, MAX_COLUMN))?;
    check(&change.assignee, &assignee)?;
    check(&change.description, &|it| {
        within("description", it, MAX_DESCRIPTION)
    })?;
    check(&change.metadata, &|it| within("metadata", it, MAX_METADATA))?;
    deps(change.deps.as_ref().map_or(0, Vec::len))?;
    Ok(change)
}

fn deps(count: usize) -> Result<(), Why> {
    match count > MAX_DEPS {
        true => Err(format!("`deps` may name {MAX_DEPS} tasks at most").into()),
        false => Ok(()),
    }
}

fn assignee(text: &str) -> Result<(), Why> {
    one_line("assignee", text)?;
    within("assignee", text, MAX_ASSIGNEE)
}

/// What people read in one line.
fn name(field: &str, text: &str, limit: usize) -> Result<(), Why> {
    if text.trim().is_empty() {
        return Err(format!("`{field}` is empty").into());
    }
    one_line(field, text)?;
    within(field, text, limit)
}

fn one_line(field: &str, text: &str) -> Result<(), Why> {
    match text.chars().any(char::is_control) {
        true => Err(format!("`{field}` has a control character in it").into()),
        false => Ok(()),
    }
}

fn within(field: &str, text: &str, limit: usize) -> Result<(), Why> {
    match text.len() > limit {
        true => Err(format!("`{field}` has {} bytes; it may have {limit}", text.len()).into()),
        false => Ok(()),
    }
}
