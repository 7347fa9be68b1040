//! `frith plan`: plans, whose tasks stand in columns.

mod board;
mod show;

use a2e_runtime::{Client, nearest};
use a2e_wire::messages::planning::{
    PlanBoardRequest, PlanCreateRequest, PlanListRequest, PlanRemoveRequest, PlanSummary,
    TaskAddRequest, TaskListRequest, TaskSummary, TaskUpdateRequest,
};
use a2e_wire::{Object, PlanId};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::connect;
use crate::screen::plain;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    host: connect::Arguments,
}

/// Plans and tasks are named by their ids, by the beginning of an id, or by a name that no other has.
#[derive(Debug, Subcommand)]
enum Action {
    /// Make a plan
    Create {
        /// Its name
        name: String,

        /// Its columns in order, the last for what is done: `--columns open,closed`
        #[arg(long, value_delimiter = ',')]
        columns: Vec<String>,

        /// What it is for
        #[arg(long, default_value = "", hide_default_value = true)]
        description: String,
    },
    /// List all plans
    List,
    /// Show plans as boards
    Board {
        /// The plan; all of them without it
        plan: Option<String>,
    },
    /// Add a task to a plan
    Add {
        /// The plan
        plan: String,

        /// What is to be done
        title: String,

        /// The column; the first without it
        #[arg(long)]
        column: Option<String>,

        /// Make the column if the plan has no such
        #[arg(long)]
        new_column: bool,

        /// Who does it
        #[arg(long, default_value = "", hide_default_value = true)]
        assignee: String,

        /// More about it
        #[arg(long, default_value = "", hide_default_value = true)]
        description: String,

        /// A task that must be done before; may be given several times
        #[arg(long, value_name = "TASK")]
        after: Vec<String>,
    },
    /// Move a task to a column
    Move {
        /// The plan
        plan: String,

        /// The task
        task: String,

        /// The column
        column: String,

        /// Make the column if the plan has no such
        #[arg(long)]
        new_column: bool,

        /// Where in the column, from 0; at the end without it
        #[arg(long)]
        position: Option<u32>,
    },
    /// Show a task and its history, or all tasks of a plan
    Show {
        /// The plan
        plan: String,

        /// The task
        task: Option<String>,
    },
    /// Remove a plan with all its tasks
    Remove {
        /// The plan
        plan: String,
    },
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&["planning"]).await?;
        let done = act(&arguments.action, &connection.client, as_json).await;
        connection.close().await;
        done.map(|()| Outcome::Good)
    })
}

async fn act(action: &Action, client: &Client, as_json: bool) -> Result<()> {
    match action {
        Action::Create {
            name,
            columns,
            description,
        } => {
            let request = PlanCreateRequest {
                name: name.clone().into(),
                columns: columns.iter().map(|it| it.clone().into()).collect(),
                description: description.clone().into(),
            };
            let made = client.request(request).await?;
            succeeded(made.success, made.error.as_deref())?;
            match as_json {
                true => {
                    print_json(&json!({"plan_id": made.plan_id.as_str(), "columns": made.columns}))
                }
                false => print(&made.plan_id),
            }
        }
        Action::List => list(client, as_json).await,
        Action::Board { plan } => show_boards(client, plan.as_deref(), as_json).await,
        Action::Add { .. } => add(client, action, as_json).await,
        Action::Move {
            plan,
            task,
            column,
            new_column,
            position,
        } => {
            let to = (column.as_str(), *new_column, *position);
            move_task(client, (plan, task), to, as_json).await
        }
        Action::Show { plan, task } => {
            let plan = find_plan(client, plan).await?;
            let task = match task {
                Some(task) => Some(find_task(client, &plan, task).await?),
                None => None,
            };
            let request = TaskListRequest {
                task_id: task.map(|task| task.task_id),
                ..of_plan(&plan)
            };
            let tasks = client.request(request).await?.tasks;
            match as_json {
                true => print_all(&tasks),
                false => show::tasks(&plan, &tasks),
            }
        }
        Action::Remove { plan } => {
            let plan = find_plan(client, plan).await?;
            let plan_id = plan.plan_id.clone();
            let removed = client.request(PlanRemoveRequest { plan_id }).await?;
            succeeded(removed.success, Some(&removed.error))?;
            match as_json {
                true => print(&json!({"removed": plan.plan_id.as_str()})),
                false => print(&format!("removed `{}`", plain(&plan.name))),
            }
        }
    }
}

async fn list(client: &Client, as_json: bool) -> Result<()> {
    let plans = client.request(PlanListRequest {}).await?.plans;
    if as_json {
        return print_all(&plans);
    }
    for plan in &plans {
        let tasks = match plan.tasks.unwrap_or_default() {
            1 => "1 task".to_owned(),
            count => format!("{count} tasks"),
        };
        let name = plain(&plan.name);
        print(&format!("{}  {tasks:10} {name}", plan.plan_id))?;
    }
    if plans.is_empty() {
        print(&"there are no plans; `frith plan create NAME` makes one")?;
    }
    Ok(())
}

async fn show_boards(client: &Client, plan: Option<&str>, as_json: bool) -> Result<()> {
    let plan_id = match plan {
        Some(plan) => find_plan(client, plan).await?.plan_id,
        None => PlanId::default(),
    };
    let boards = client.request(PlanBoardRequest { plan_id }).await?.boards;
    if as_json {
        return print_all(&boards);
    }
    for board in &boards {
        print(&board::draw(board, board::width()))?;
    }
    if boards.is_empty() {
        print(&"there are no plans; `frith plan create NAME` makes one")?;
    }
    Ok(())
}

async fn add(client: &Client, action: &Action, as_json: bool) -> Result<()> {
    let Action::Add {
        plan,
        title,
        column,
        new_column,
        assignee,
        description,
        after,
    } = action
    else {
        return Ok(());
    };
    let plan = find_plan(client, plan).await?;
    let mut deps = Vec::new();
    for task in after {
        let task = find_task(client, &plan, task).await?;
        deps.push(task.task_id.to_string().into());
    }
    if let Some(column) = column.as_ref().filter(|_| !new_column) {
        check_column(client, &plan, column).await?;
    }
    let first = || plan.columns.first().map(ToString::to_string);
    let column = column.clone().or_else(first).unwrap_or_default();
    let request = TaskAddRequest {
        status: column.into(),
        description: description.clone().into(),
        assignee: assignee.clone().into(),
        deps,
        ..TaskAddRequest::new(plan.plan_id, title.clone().into())
    };
    let added = client.request(request).await?;
    succeeded(added.success, added.error.as_deref())?;
    let blocked = added.blocked_by.unwrap_or_default();
    if as_json {
        return print_json(
            &json!({"task_id": added.task_id.as_str(), "status": added.status,
            "blocked_by": blocked}),
        );
    }
    print(&added.task_id)?;
    tell_blocked(&blocked);
    Ok(())
}

async fn move_task(
    client: &Client,
    (plan, task): (&str, &str),
    (column, new_column, position): (&str, bool, Option<u32>),
    as_json: bool,
) -> Result<()> {
    let plan = find_plan(client, plan).await?;
    let task = find_task(client, &plan, task).await?;
    if !new_column {
        check_column(client, &plan, column).await?;
    }
    let request = TaskUpdateRequest {
        status: column.to_owned().into(),
        position: position.map(i64::from),
        // Whoever was quicker has decided with his eyes open; so must this one.
        seen_version: task.version,
        ..TaskUpdateRequest::new(plan.plan_id, task.task_id)
    };
    let moved = client.request(request).await?;
    succeeded(moved.success, moved.error.as_deref())?;
    let Some(task) = moved.task else {
        return Ok(());
    };
    if as_json {
        return print_all(&[task]);
    }
    print(&format!(
        "`{}` is in {}",
        plain(&task.title),
        plain(&task.status)
    ))?;
    tell_blocked(&task.blocked_by.unwrap_or_default());
    Ok(())
}

/// A host makes every column that is named, so a slip of the finger would make one too.
async fn check_column(client: &Client, plan: &PlanSummary<'static>, column: &str) -> Result<()> {
    let plan_id = plan.plan_id.clone();
    let boards = client.request(PlanBoardRequest { plan_id }).await?.boards;
    let columns = boards.iter().flat_map(|board| &board.columns);
    let columns: Vec<&str> = columns.map(|it| &**it).collect();
    if columns.contains(&column) {
        return Ok(());
    }
    let meant = match nearest(column, columns.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", plain(near)),
        None => format!("it has {}.", plain(columns.join(", "))),
    };
    bail!(
        "`{}` has no column `{}`; {meant} --new-column makes one",
        plain(&plan.name),
        plain(column)
    );
}

fn tell_blocked(blocked: &[std::borrow::Cow<'_, str>]) {
    if !blocked.is_empty() {
        tell!("it is blocked by {}", blocked.join(", "));
    }
}

fn succeeded(success: bool, error: Option<&str>) -> Result<()> {
    match success {
        true => Ok(()),
        false => bail!(
            "{}",
            error.unwrap_or("the host refused, and did not say why")
        ),
    }
}

fn of_plan(plan: &PlanSummary<'static>) -> TaskListRequest<'static> {
    TaskListRequest {
        plan_id: plan.plan_id.clone(),
        ..TaskListRequest::new()
    }
}

async fn find_plan(client: &Client, meant: &str) -> Result<PlanSummary<'static>> {
    let plans = client.request(PlanListRequest {}).await;
    let plans = plans.context("cannot list the plans")?.plans;
    let names = |plan: &PlanSummary<'static>| (plan.plan_id.to_string(), plan.name.to_string());
    one_of(plans, meant, names).map_err(|count| match count {
        0 => anyhow::anyhow!("there is no plan `{meant}`; `frith plan list` shows all"),
        _ => anyhow::anyhow!("{count} plans could be `{meant}`; `frith plan list` has their ids"),
    })
}

async fn find_task(
    client: &Client,
    plan: &PlanSummary<'static>,
    meant: &str,
) -> Result<TaskSummary<'static>> {
    let tasks = client.request(of_plan(plan)).await;
    let tasks = tasks.context("cannot list the tasks")?.tasks;
    let names = |task: &TaskSummary<'static>| (task.task_id.to_string(), task.title.to_string());
    let hint = format!("`frith plan show {}`", plan.plan_id);
    one_of(tasks, meant, names).map_err(|count| match count {
        0 => anyhow::anyhow!("there is no task `{meant}`; {hint} shows all"),
        _ => anyhow::anyhow!("{count} tasks could be `{meant}`; {hint} has their ids"),
    })
}

/// The one that is meant: by its id, by its name, or by the beginning of its id; or how many could be.
fn one_of<T>(all: Vec<T>, meant: &str, names: impl Fn(&T) -> (String, String)) -> Result<T, usize> {
    let is_meant = |way: usize, (id, name): (String, String)| match way {
        0 => id == meant,
        1 => name == meant,
        _ => !meant.is_empty() && id.starts_with(meant),
    };
    for way in 0..3 {
        let found: Vec<usize> = (0..)
            .zip(&all)
            .filter(|(_, one)| is_meant(way, names(one)))
            .map(|(index, _)| index)
            .collect();
        match found.as_slice() {
            [] => {}
            [index] => return all.into_iter().nth(*index).ok_or(0),
            several => return Err(several.len()),
        }
    }
    Err(0)
}

/// Records for programs, as one array.
pub(crate) fn print_all<T: a2e_wire::wire::Encode>(records: &[T]) -> Result<()> {
    let mut all = Vec::new();
    for record in records {
        let record: Value = Object::from_record(record)?.raw().deserialize()?;
        all.push(record);
    }
    print_json(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_found_by_id_name_or_beginning() {
        let all = || vec![("ab12", "x"), ("ab34", "cd"), ("cd56", "y"), ("ef78", "y")];
        let names = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        let find = |meant: &str| one_of(all(), meant, names).map(|it| it.0);
        assert_eq!(find("ab12"), Ok("ab12"));
        assert_eq!(find("ab1"), Ok("ab12"));
        assert_eq!(find("x"), Ok("ab12"));
        // A name goes before the beginning of an id.
        assert_eq!(find("cd"), Ok("ab34"));
        assert_eq!(find("ab"), Err(2));
        assert_eq!(find("y"), Err(2));
        assert_eq!(find("z"), Err(0));
        assert_eq!(find(""), Err(0));
    }
}
