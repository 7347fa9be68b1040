//! Plans: tasks in columns.

use std::borrow::Cow;

use crate::record::record;
use crate::{Map, Object, PlanId, TaskId, Timestamp};

record! {
    /// A plan, as it is listed.
    PlanSummary<'a> {
        plan_id: PlanId<'a>,
        name: Cow<'a, str>,
        columns: Vec<Cow<'a, str>>,
    }
    sparse {
        description: Cow<'a, str>,
        tasks: i64,
        created_at: Timestamp,
    }
}

record! {
    /// One change of a task.
    TaskChange<'a> {
        at: Timestamp,
        by: Cow<'a, str>,
        version: i64,
        field: Cow<'a, str>,
        before: Cow<'a, str>,
        after: Cow<'a, str>,
    }
}

record! {
    /// A task, as it is listed. One that was asked for by its id comes in full.
    TaskSummary<'a> {
        task_id: TaskId<'a>,
        title: Cow<'a, str>,
        status: Cow<'a, str>,
        assignee: Cow<'a, str>,
        plan_id: PlanId<'a>,
    }
    sparse {
        deps: Vec<Cow<'a, str>>,
        blocked_by: Vec<Cow<'a, str>>,
        position: i64,
        version: i64,
        description: Cow<'a, str>,
        metadata: Object<'a>,
        created_at: Timestamp,
        updated_at: Timestamp,
        history: Vec<TaskChange<'a>>,
    }
}

record! {
    /// A task on a board.
    BoardTask<'a> {
        task_id: TaskId<'a>,
        title: Cow<'a, str>,
        status: Cow<'a, str>,
        assignee: Cow<'a, str>,
    }
    sparse {
        blocked_by: Vec<Cow<'a, str>>,
        version: i64,
    }
}

record! {
    /// A plan with its tasks by column.
    PlanBoard<'a> {
        plan_id: PlanId<'a>,
        name: Cow<'a, str>,
        columns: Vec<Cow<'a, str>>,
        tasks: Map<'a, Vec<BoardTask<'a>>>,
    }
}

record! {
    /// Makes a plan.
    PlanCreateRequest<'a> {
        name: Cow<'a, str> = "default",
        columns: Vec<Cow<'a, str>> = [],
        description: Cow<'a, str> = "",
    }
}

record! {
    /// Asks which plans there are.
    PlanListRequest {
    }
}

record! {
    /// Adds a task to a plan.
    TaskAddRequest<'a> {
        plan_id: PlanId<'a>,
        title: Cow<'a, str>,
        status: Cow<'a, str> = "backlog",
        description: Cow<'a, str> = "",
        assignee: Cow<'a, str> = "",
        deps: Vec<Cow<'a, str>> = [],
        metadata: Object<'a> = {},
    }
}

record! {
    /// Changes what is given of a task, if it still has the version that was seen; `clear` names what
    /// is to be empty.
    TaskUpdateRequest<'a> {
        plan_id: PlanId<'a>,
        task_id: TaskId<'a>,
        status: Cow<'a, str> = "",
        assignee: Cow<'a, str> = "",
        deps: Vec<Cow<'a, str>> = [],
    }
    sparse {
        title: Cow<'a, str>,
        description: Cow<'a, str>,
        metadata: Object<'a>,
        position: i64,
        seen_version: i64,
        clear: Vec<Cow<'a, str>>,
    }
}

record! {
    /// Asks which tasks there are.
    TaskListRequest<'a> {
        plan_id: PlanId<'a> = "",
        status: Cow<'a, str> = "",
    }
    sparse {
        task_id: TaskId<'a>,
    }
}

record! {
    /// Asks for plans with their tasks by column.
    PlanBoardRequest<'a> {
        plan_id: PlanId<'a> = "",
    }
}

record! {
    /// Answers [`PlanCreateRequest`].
    PlanCreateResponse<'a> {
        success: bool = false,
        plan_id: PlanId<'a> = "",
        columns: Vec<Cow<'a, str>> = [],
    }
    sparse {
        error: Cow<'a, str>,
    }
}

record! {
    /// Answers [`PlanListRequest`].
    PlanListResponse<'a> {
        plans: Vec<PlanSummary<'a>> = [],
    }
}

record! {
    /// Answers [`TaskAddRequest`].
    TaskAddResponse<'a> {
        success: bool = false,
        task_id: TaskId<'a> = "",
        status: Cow<'a, str> = "",
    }
    sparse {
        error: Cow<'a, str>,
        blocked_by: Vec<Cow<'a, str>>,
    }
}

record! {
    /// Answers [`TaskUpdateRequest`] with the task as it is now.
    TaskUpdateResponse<'a> {
        success: bool = false,
        task_id: TaskId<'a> = "",
    }
    sparse {
        error: Cow<'a, str>,
        task: TaskSummary<'a>,
    }
}

record! {
    /// Answers [`TaskListRequest`].
    TaskListResponse<'a> {
        tasks: Vec<TaskSummary<'a>> = [],
    }
}

record! {
    /// Answers [`PlanBoardRequest`].
    PlanBoardResponse<'a> {
        boards: Vec<PlanBoard<'a>> = [],
    }
}

record! {
    /// Removes a plan with its tasks. Ours alone.
    PlanRemoveRequest<'a> {
        plan_id: PlanId<'a>,
    }
}

record! {
    /// Answers [`PlanRemoveRequest`].
    PlanRemoveResponse<'a> {
        success: bool = false,
        plan_id: PlanId<'a> = "",
        error: Cow<'a, str> = "",
    }
}

/// The columns of a plan that is made without any.
pub const DEFAULT_COLUMNS: [&str; 4] = ["backlog", "todo", "in_progress", "done"];
