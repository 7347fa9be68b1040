//! Tasks, as a person reads them.

use std::time::{SystemTime, UNIX_EPOCH};

use a2e_wire::Timestamp;
use a2e_wire::messages::planning::{PlanSummary, TaskSummary};
use anyhow::Result;

use crate::agent::print;
use crate::screen::{message, plain};
use crate::token::age;

/// All tasks of a plan in a line each; one that comes in full, in full.
pub(super) fn tasks(plan: &PlanSummary<'_>, tasks: &[TaskSummary<'_>]) -> Result<()> {
    if let [task] = tasks
        && task.history.is_some()
    {
        return in_full(task);
    }
    print(&format!("{}  {}", plain(&plan.name), plan.plan_id))?;
    if let Some(text) = plan.description.as_deref().filter(|text| !text.is_empty()) {
        print(&message(text))?;
    }
    for task in tasks {
        let blocked = match task.blocked_by.as_ref().is_some_and(|by| !by.is_empty()) {
            true => " (blocked)",
            false => "",
        };
        let (status, title) = (plain(&task.status), plain(&task.title));
        print(&format!("{}  {status:12} {title}{blocked}", task.task_id))?;
    }
    Ok(())
}

fn in_full(task: &TaskSummary<'_>) -> Result<()> {
    print(&format!("{}  {}", plain(&task.title), task.task_id))?;
    let line = |name: &str, text: String| match text.is_empty() {
        true => Ok(()),
        false => print(&format!("  {name:11} {text}")),
    };
    let ids = |ids: &Option<Vec<_>>| ids.as_ref().map_or_else(String::new, |it| it.join(", "));
    line("column", plain(&task.status))?;
    line("assignee", plain(&task.assignee))?;
    line("needs", ids(&task.deps))?;
    line("blocked by", ids(&task.blocked_by))?;
    line("version", task.version.unwrap_or_default().to_string())?;
    let metadata = task.metadata.as_ref().map(|it| it.raw().as_str());
    line(
        "metadata",
        plain(metadata.filter(|it| *it != "{}").unwrap_or("")),
    )?;
    if let Some(text) = task.description.as_deref().filter(|text| !text.is_empty()) {
        print(&format!("\n{}\n", message(text)))?;
    }
    let history = task.history.iter().flatten();
    for change in history {
        let (by, field) = (plain(&change.by), plain(&change.field));
        let what = match (change.before.is_empty(), change.after.is_empty()) {
            (true, true) => String::new(),
            (true, false) => plain(&change.after),
            (false, true) => format!("no longer {}", plain(&change.before)),
            (false, false) => format!("{} → {}", plain(&change.before), plain(&change.after)),
        };
        let when = age(now()?, seconds(change.at));
        print(&format!("  {when:16} {by:12} {field:12} {what}").trim_end())?;
    }
    Ok(())
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

fn seconds(time: Timestamp) -> u64 {
    // A cast from f64 saturates.
    time.unix_seconds() as u64
}
