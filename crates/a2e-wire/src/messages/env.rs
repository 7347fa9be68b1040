//! Environments: episodes that are reset, stepped and observed.

use std::borrow::Cow;

use strict_json::Raw;

use crate::open_enum::open_enum;
use crate::record::record;
use crate::{ActionId, EpisodeId, EventId, Message, Object, Real, Timestamp};

open_enum! {
    /// How an episode is to be shown.
    EnvRenderMode {
        Screenshot = "screenshot",
        RgbArray = "rgb_array",
        Text = "text",
        Json = "json",
    }
}

open_enum! {
    /// What an environment pushes.
    EnvPushEventType {
        Observation = "Observation",
        ToolResult = "tool_result",
        Status = "status",
        Error = "error",
    }
}

record! {
    /// An action, in the form that documents itself; environments take any object.
    EnvAction<'a> {
        action_type: Cow<'a, str>,
        payload: Object<'a> = {} ~ [],
        metadata: Option<Object<'a>> = {},
    }
}

record! {
    /// What an episode looks like after a step.
    EnvObservation<'a> {
        episode_id: EpisodeId<'a>,
        step_num: i64,
        state: Object<'a>,
        done: bool = false,
        truncated: bool = false,
        reward: Option<Real> = 0.0,
        created_at: Timestamp = (now),
        metadata: Option<Object<'a>> = {},
    }
    others { others }
}

record! {
    /// Something that happened in an episode.
    EnvEvent<'a> {
        event_id: EventId<'a> = (uuid4),
        kind as "type": Cow<'a, str>,
        episode_id: EpisodeId<'a>,
        step_id: i64,
        action_id: Option<ActionId<'a>> = null,
        payload: Object<'a> = {},
        timestamp: Timestamp = (now),
        metadata: Object<'a> = {},
    }
}

record! {
    /// Starts an episode.
    EnvResetRequest<'a> {
        env_name: Cow<'a, str>,
        seed: Option<i64> = null,
        options: Object<'a> = {},
    }
}

record! {
    /// Answers [`EnvResetRequest`].
    EnvResetResponse<'a> {
        obs: EnvObservation<'a>,
    }
}

record! {
    /// Something changed in an episode without a step.
    EnvStatePush<'a> {
        episode_id: EpisodeId<'a>,
        step_id: i64,
        action_id: Option<ActionId<'a>> = null,
        event_type: EnvPushEventType<'a>,
        reason: Cow<'a, str> = "",
        delta & "state_delta": Object<'a> = {},
        reward: Option<Real> = null,
        reward_info: Option<Object<'a>> = {},
        terminal: bool = false,
    }
}

record! {
    /// Takes a step.
    EnvStepRequest<'a> {
        episode_id: EpisodeId<'a>,
        action: Object<'a>,
    }
}

record! {
    /// Answers [`EnvStepRequest`].
    EnvStepResponse<'a> {
        obs: EnvObservation<'a>,
    }
}

record! {
    /// Asks how an episode looks now.
    EnvObserveRequest<'a> {
        episode_id: EpisodeId<'a>,
    }
}

record! {
    /// Answers [`EnvObserveRequest`].
    EnvObserveResponse<'a> {
        obs: EnvObservation<'a>,
    }
}

record! {
    /// Ends an episode.
    EnvCloseRequest<'a> {
        episode_id: EpisodeId<'a>,
    }
}

record! {
    /// Answers [`EnvCloseRequest`].
    EnvCloseResponse {
        closed: bool = true,
    }
}

record! {
    /// Asks which actions and states an environment has.
    EnvSpaceRequest<'a> {
        env_name: Cow<'a, str>,
    }
}

record! {
    /// Answers [`EnvSpaceRequest`].
    EnvSpaceResponse<'a> {
        action_space: Object<'a>,
        state_schema: Object<'a>,
    }
}

record! {
    /// Asks for a picture of an episode.
    EnvRenderRequest<'a> {
        episode_id: EpisodeId<'a>,
        mode: Option<EnvRenderMode<'a>> = "screenshot",
    }
}

record! {
    /// Answers [`EnvRenderRequest`].
    EnvRenderResponse<'a> {
        render: Raw<'a>,
    }
}

record! {
    /// Asks which actions make sense now.
    EnvPlanRequest<'a> {
        episode_id: Option<EpisodeId<'a>> = null,
        state: Option<Object<'a>> = null,
    }
}

record! {
    /// Answers [`EnvPlanRequest`].
    EnvPlanResponse<'a> {
        suggested_actions: Vec<Object<'a>> = [],
    }
}

record! {
    /// Takes a step in several episodes.
    EnvBatchStepRequest<'a> {
        episode_ids: Vec<EpisodeId<'a>>,
        actions: Vec<Object<'a>>,
    }
}

record! {
    /// Answers [`EnvBatchStepRequest`].
    EnvBatchStepResponse<'a> {
        results: Vec<Message<'a, EnvStepResponse<'a>>>,
    }
}

record! {
    /// Asks for recorded episodes.
    EnvExpListRequest<'a> {
        episode_id: EpisodeId<'a> = "",
        limit: i64 = 100,
    }
}

record! {
    /// Answers [`EnvExpListRequest`].
    EnvExpListResponse<'a> {
        episodes: Vec<Object<'a>> = [],
    }
}

record! {
    /// An environment, as it is listed. Ours alone.
    EnvSummary<'a> {
        name: Cow<'a, str>,
        description: Cow<'a, str> = "",
        max_steps: Option<i64> = null,
    }
}

record! {
    /// Lists the environments. Ours alone.
    EnvListRequest {
    }
}

record! {
    /// Answers [`EnvListRequest`].
    EnvListResponse<'a> {
        environments: Vec<EnvSummary<'a>> = [],
    }
}
