//! The capability `planning`: plans, whose tasks stand in columns.
//!
//! Plans are kept for an agent across its sessions, or for all agents together where the
//! configuration says so. Several may work on one: a task has a version, and who changes one that
//! has changed since it was seen is told how it is now.

mod checks;
mod view;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session};
use a2e_wire::messages::planning::{
    DEFAULT_COLUMNS, PlanBoardRequest, PlanBoardResponse, PlanCreateRequest, PlanCreateResponse,
    PlanListResponse, PlanRemoveRequest, PlanRemoveResponse, TaskAddRequest, TaskAddResponse,
    TaskListRequest, TaskListResponse, TaskUpdateRequest, TaskUpdateResponse,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Tag};
use store::{AgentId, Author, Changed, NewTask, Plan, Plans, Store, TaskChange};

use crate::fresh;
use crate::placement::{Placement, placed};

use view::{Listed, Size};

pub use checks::{
    MAX_ASSIGNEE, MAX_COLUMN, MAX_COLUMNS, MAX_DEPS, MAX_DESCRIPTION, MAX_METADATA,
    MAX_PLAN_DESCRIPTION, MAX_PLAN_NAME, MAX_TITLE,
};

/// Whose plans an agent sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Its own.
    #[default]
    Own,
    /// Those of all agents that may use the capability.
    All,
}

/// The plugin.
#[derive(Debug, Clone)]
pub struct Planning {
    placement: Placement,
    shelf: Arc<Shelf>,
}

/// Where the plans are.
#[derive(Debug)]
struct Shelf {
    store: Store,
    sharing: Sharing,
}

/// Who asks, and the plans he sees.
struct Desk {
    plans: Arc<dyn Plans>,
    agent: String,
}

impl Shelf {
    fn desk(&self, session: &Session) -> Result<Desk, Failure> {
        let agent = session.identity().agent.clone();
        let scope = match self.sharing {
            Sharing::All => self.store.node(),
            Sharing::Own => self.store.for_agent(&AgentId::new(&agent).map_err(failed)?),
        };
        Ok(Desk {
            plans: scope.plans(),
            agent,
        })
    }
}

impl Planning {
    /// A plugin for plans in a store.
    #[must_use]
    pub fn new(store: Store, sharing: Sharing, placement: Placement) -> Self {
        Self {
            placement,
            shelf: Arc::new(Shelf { store, sharing }),
        }
    }
}

impl Desk {
    fn author(&self) -> Author {
        Author {
            by: self.agent.clone(),
            now: fresh::now(),
        }
    }

    async fn create(
        &self,
        request: PlanCreateRequest<'_>,
    ) -> Result<PlanCreateResponse<'static>, Failure> {
        let columns: Vec<String> = match request.columns.is_empty() {
            true => DEFAULT_COLUMNS.map(str::to_owned).into(),
            false => request.columns.iter().map(|it| (**it).to_owned()).collect(),
        };
        let plan = Plan {
            id: fresh::id(Namespace::Planning)?,
            name: request.name.into_owned(),
            description: request.description.into_owned(),
            columns,
            created: fresh::now(),
        };
        let (id, columns) = (plan.id.clone(), plan.columns.clone());
        let made = match checks::plan(&plan) {
            Ok(()) => self.plans.create(plan).await.map_err(refusal),
            Err(why) => Err(Ok(why)),
        };
        match made {
            Ok(()) => Ok(PlanCreateResponse {
                success: true,
                plan_id: id.into(),
                columns: columns.into_iter().map(Cow::Owned).collect(),
                ..PlanCreateResponse::new()
            }),
            Err(why) => Ok(PlanCreateResponse {
                error: Some(why?),
                ..PlanCreateResponse::new()
            }),
        }
    }

    async fn list(&self) -> Result<PlanListResponse<'static>, Failure> {
        let plans = self.plans.list().await.map_err(failed)?;
        let plans = plans.into_iter();
        Ok(PlanListResponse {
            plans: plans.map(|(plan, tasks)| view::plan(plan, tasks)).collect(),
        })
    }

    async fn add(&self, request: TaskAddRequest<'_>) -> Result<TaskAddResponse<'static>, Failure> {
        let plan = request.plan_id.as_str().to_owned();
        let task = NewTask {
            id: fresh::id(Namespace::Planning)?,
            title: request.title.into_owned(),
            status: self.first_status(&plan, request.status).await?,
            assignee: request.assignee.into_owned(),
            description: request.description.into_owned(),
            deps: request.deps.iter().map(|dep| (**dep).to_owned()).collect(),
            metadata: request.metadata.raw().as_str().to_owned(),
        };
        let added = match checks::new_task(&task) {
            Ok(()) => {
                let added = self.plans.add(self.author(), &plan, task).await;
                added.map_err(refusal).map(told)
            }
            Err(why) => Err(Ok(why)),
        };
        let added = match added {
            Ok(Ok(task)) => task,
            Ok(Err((why, _))) | Err(Ok(why)) => {
                return Ok(TaskAddResponse {
                    error: Some(why),
                    ..TaskAddResponse::new()
                });
            }
            Err(Err(failure)) => return Err(failure),
        };
        let blocked_by = self.listed(&plan).await?.blocked_by(&added);
        Ok(TaskAddResponse {
            success: true,
            task_id: added.id.into(),
            status: added.status.into(),
            error: None,
            blocked_by: Some(blocked_by),
        })
    }

    /// Returns the column of a new task. The wire's default names a column that not every plan has;
    /// there it stands for the first one.
    async fn first_status(&self, plan: &str, status: Cow<'_, str>) -> Result<String, Failure> {
        let default = DEFAULT_COLUMNS.first().copied().unwrap_or_default();
        if status == default
            && let Some(plan) = self.plans.get(plan).await.map_err(failed)?
            && !plan.columns.iter().any(|column| column == default)
            && let Some(first) = plan.columns.first()
        {
            return Ok(first.clone());
        }
        Ok(status.into_owned())
    }

    async fn update(
        &self,
        request: TaskUpdateRequest<'_>,
    ) -> Result<TaskUpdateResponse<'static>, Failure> {
        let (plan, task) = (
            request.plan_id.as_str().to_owned(),
            request.task_id.as_str().to_owned(),
        );
        let changed = match checks::change(request) {
            Ok(change) => self.change(&plan, &task, change).await?,
            Err(why) => Err((why, None)),
        };
        let (error, current) = match changed {
            Ok(task) => (None, Some(Box::new(task))),
            Err((why, current)) => (Some(why), current),
        };
        let summary = match current {
            Some(task) => Some(self.listed(&plan).await?.summary(*task)),
            None => None,
        };
        Ok(TaskUpdateResponse {
            success: error.is_none(),
            task_id: task.into(),
            error,
            task: summary,
        })
    }

    async fn change(&self, plan: &str, task: &str, change: TaskChange) -> Result<Told, Failure> {
        let changed = self.plans.change(self.author(), plan, task, change).await;
        match changed.map_err(refusal) {
            Ok(changed) => Ok(told(changed)),
            Err(why) => Ok(Err((why?, None))),
        }
    }

    async fn tasks(
        &self,
        request: TaskListRequest<'_>,
        decided: Option<&PlanIds>,
    ) -> Result<TaskListResponse<'static>, Failure> {
        let mut size = Size::default();
        let mut tasks = Vec::new();
        for (plan, _) in self.plans.list().await.map_err(failed)? {
            if !is_meant(request.plan_id.as_str(), decided, &plan) {
                continue;
            }
            let mut listed = self.listed_of(plan).await?;
            // Each is moved into the answer: two copies of many tasks would be many megabytes.
            for task in std::mem::take(&mut listed.tasks) {
                let is_other = |id: &str| id != task.id;
                if (!request.status.is_empty() && request.status != *task.status)
                    || request
                        .task_id
                        .as_ref()
                        .is_some_and(|id| is_other(id.as_str()))
                {
                    continue;
                }
                size.count(&task)?;
                let full = match request.task_id {
                    None => None,
                    Some(_) => {
                        let full = self.plans.task(&listed.plan.id, &task.id).await;
                        full.map_err(failed)?
                    }
                };
                tasks.push(view::in_full(listed.summary(task), full));
            }
        }
        Ok(TaskListResponse { tasks })
    }

    async fn board(
        &self,
        request: PlanBoardRequest<'_>,
        decided: Option<&PlanIds>,
    ) -> Result<PlanBoardResponse<'static>, Failure> {
        let mut size = Size::default();
        let mut boards = Vec::new();
        for (plan, _) in self.plans.list().await.map_err(failed)? {
            if !is_meant(request.plan_id.as_str(), decided, &plan) {
                continue;
            }
            let listed = self.listed_of(plan).await?;
            listed.tasks.iter().try_for_each(|task| size.count(task))?;
            boards.push(listed.board());
        }
        Ok(PlanBoardResponse { boards })
    }

    async fn remove(
        &self,
        request: PlanRemoveRequest<'static>,
    ) -> Result<PlanRemoveResponse<'static>, Failure> {
        let removed = self.plans.remove(request.plan_id.as_str()).await;
        let success = removed.map_err(failed)?;
        Ok(PlanRemoveResponse {
            success,
            plan_id: request.plan_id,
            error: if success { "" } else { "there is no such plan" }.into(),
        })
    }

    async fn listed(&self, plan: &str) -> Result<Listed, Failure> {
        match self.plans.get(plan).await.map_err(failed)? {
            Some(plan) => self.listed_of(plan).await,
            // It was removed in this moment.
            None => Err(failed(store::Error::NotFound { what: "plan" })),
        }
    }

    async fn listed_of(&self, plan: Plan) -> Result<Listed, Failure> {
        let tasks = self.plans.tasks(&plan.id).await.map_err(failed)?;
        Ok(Listed::new(plan, tasks))
    }
}

/// The plans that a request is about which names none, as they were decided about.
#[derive(Debug)]
struct PlanIds(HashSet<String>);

/// Whether a request that names this plan, or none, is about one of the plans there are.
fn is_meant(named: &str, decided: Option<&PlanIds>, plan: &Plan) -> bool {
    match (named, decided) {
        ("", Some(PlanIds(decided))) => decided.contains(&plan.id),
        ("", None) => true,
        (named, _) => named == plan.id,
    }
}

/// A task as it was made, or why not and how it is.
type Told = Result<store::Task, (Cow<'static, str>, Option<Box<store::Task>>)>;

fn told(changed: Changed) -> Told {
    match changed {
        Changed::Done(task) => Ok(*task),
        Changed::Stale(task) => {
            let why = format!(
                "somebody has changed the task: it is at version {} now, and `task` is how it is",
                task.version
            );
            Err((why.into(), Some(task)))
        }
        Changed::UnknownDependency(id) => {
            let id: String = id.chars().take(64).collect();
            let why = format!("`deps` names `{id}`, which is no task of this plan");
            Err((why.into(), None))
        }
        Changed::Cycle(path) => {
            let shown: Vec<&str> = path.iter().take(20).map(|id| &**id).collect();
            let why = format!(
                "the task would have to be done before itself: {}",
                shown.join(" needs ")
            );
            Err((why.into(), None))
        }
    }
}

/// What an agent is told of a plan that it cannot have; or a failure.
fn refusal(error: store::Error) -> Result<Cow<'static, str>, Failure> {
    if let store::Error::Full { what } = error {
        let text =
            format!("there is no room for another {what}; `planning/plan/remove` makes some");
        return Ok(text.into());
    }
    match matches!(
        error,
        store::Error::NotFound { .. } | store::Error::TooLarge { .. }
    ) {
        true => Ok(error.to_string().into()),
        false => Err(failed(error)),
    }
}

fn failed(error: store::Error) -> Failure {
    Failure::new(
        ErrorCode::RuntimeError,
        Namespace::Planning,
        error.to_string(),
    )
}

impl Plugin for Planning {
    placed!(placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Planning)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::PlanCreateRequest,
            Tag::PlanListRequest,
            Tag::TaskAddRequest,
            Tag::TaskUpdateRequest,
            Tag::TaskListRequest,
            Tag::PlanBoardRequest,
            Tag::PlanRemoveRequest,
        ])
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "others name their plan")]
            let named = match &request.body {
                Body::TaskListRequest(request) => &request.plan_id,
                Body::PlanBoardRequest(request) => &request.plan_id,
                _ => return Ok(None),
            };
            if !named.is_empty() {
                return Ok(None);
            }
            let plans = self.shelf.desk(session)?.plans.list().await;
            let plans = plans.map_err(failed)?.into_iter();
            let ids: Vec<String> = plans.map(|(plan, _)| plan.id).collect();
            let decided = PlanIds(ids.iter().cloned().collect());
            let resolution = Resolution::of_all("plan_id", ids);
            Ok(Some(resolution.object(Arc::new(decided))))
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let desk = self.shelf.desk(context.session())?;
            let decided = context.resolved::<PlanIds>();
            let decided = decided.as_deref();
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::PlanCreateRequest(it) => Outcome::answer(desk.create(it).await?),
                Body::PlanListRequest(_) => Outcome::answer(desk.list().await?),
                Body::TaskAddRequest(it) => Outcome::answer(desk.add(it).await?),
                Body::TaskUpdateRequest(it) => Outcome::answer(desk.update(it).await?),
                Body::TaskListRequest(it) => Outcome::answer(desk.tasks(it, decided).await?),
                Body::PlanBoardRequest(it) => Outcome::answer(desk.board(it, decided).await?),
                Body::PlanRemoveRequest(it) => Outcome::answer(desk.remove(it).await?),
                _ => Outcome::Pass,
            })
        })
    }
}
