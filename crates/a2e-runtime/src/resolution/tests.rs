//! All members of all requests, and which of them select what a request is about.

use a2e_wire::{Decoder, MessageKind, Sender, Tag, Timestamp};

use super::*;

/// What the members of a request are for rules.
struct Members {
    /// Left out, it stands for something all the same: it is resolved before the rules see it.
    open: &'static str,
    /// Selects, and must be there: left out, nothing is selected.
    named: &'static str,
    /// Narrows what is listed, or says what is done: left out, it is empty or has the value that the rules
    /// see. A filter protects nothing: what it would find is also found with another one.
    rest: &'static str,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    clippy::too_many_lines,
    reason = "a table"
)]
fn members(tag: Tag) -> Members {
    let (open, named, rest) = match tag {
        Tag::ToolListRequest => ("", "", "filter_kind filter_tags query include_deferred"),
        Tag::ToolCallRequest => (
            "",
            "tool_name",
            "session_id arguments correlation_id streaming timeout",
        ),
        Tag::ToolkitListRequest => ("", "", "filter_kind filter_tags"),
        Tag::ToolkitConfigureRequest => ("", "toolkit_name", "session_id config"),
        Tag::SkillDiscoverRequest => ("", "", "filter_tags filter_categories"),
        // The model is the operator's choice, unless the operator opens one for `llm_override`.
        Tag::SkillCallRequest => (
            "",
            "name",
            "arguments correlation_id timeout streaming llm_override metadata",
        ),
        // An empty namespace is written out.
        Tag::MemoryInitRequest => ("", "namespace", "scope metadata"),
        // An id is one session's own; without it, it is the memory of the namespace `default`. Unknown tiers
        // are refused.
        Tag::MemoryStoreRequest => ("", "memory_id", "entries"),
        Tag::MemoryRetrieveRequest => {
            ("tier", "memory_id", "keys query tags limit min_score after")
        }
        Tag::MemoryForgetRequest => ("tier", "memory_id", "keys tags"),
        Tag::EnvResetRequest => ("", "env_name", "seed options"),
        Tag::EnvStepRequest => ("", "episode_id", "action"),
        Tag::EnvObserveRequest | Tag::EnvCloseRequest => ("", "episode_id", ""),
        Tag::EnvSpaceRequest => ("", "env_name", ""),
        // No mode is written as the one that it stands for.
        Tag::EnvRenderRequest => ("", "episode_id mode", ""),
        Tag::EnvPlanRequest => ("episode_id", "", "state"),
        Tag::EnvBatchStepRequest => ("", "episode_ids", "actions"),
        Tag::EnvExpListRequest => ("episode_id", "", "limit"),
        // The folder is that of the workspace, whose programs see all of it in any case.
        Tag::ProcSpawnRequest => ("", "cmd", "session_id cwd env stdin_mode timeout"),
        Tag::ProcWriteRequest => ("", "proc_id", "data eof"),
        Tag::ProcKillRequest => ("", "proc_id", "signal"),
        Tag::ProcStatusRequest => ("", "proc_id", ""),
        Tag::LearnFeedbackRequest => ("", "", "feedbacks"),
        Tag::LearnExperienceRequest => ("", "", "experiences"),
        Tag::LearnAdaptRequest => ("component_name", "", "strategy"),
        Tag::LearnStatsRequest => ("component_name", "", ""),
        Tag::LearnRefinementPlanRequest => ("component_name", "", "scope"),
        Tag::LearnRefinementApplyRequest | Tag::LearnRefinementReviewRequest => {
            ("", "", "proposal")
        }
        Tag::LearnRefinementRollbackRequest => ("", "refinement_id", ""),
        // Its calls come as requests of their own.
        Tag::ChainRequest => (
            "",
            "",
            "session_id chain_id nodes entry_node initial_input correlation_id streaming timeout",
        ),
        Tag::McpServerRegisterRequest => ("", "", "config"),
        Tag::McpServerListRequest => ("", "", "status_filter"),
        Tag::McpServerUnregisterRequest => ("", "server_id", ""),
        Tag::McpResourceListRequest | Tag::McpPromptListRequest => ("server_id", "", "cursor"),
        Tag::McpResourceReadRequest | Tag::McpResourceSubscribeRequest => ("server_id", "", "uri"),
        Tag::McpPromptGetRequest => ("server_id", "", "name arguments"),
        // What comes back is the same for all servers.
        Tag::McpRootListRequest => ("", "", "server_id mcp_request_id"),
        Tag::SubagentSpawnRequest => ("", "", "agent parent_agent_id root_agent_id"),
        Tag::SubagentDelegateRequest => ("", "subagent_id", "task"),
        Tag::SubagentMessageRequest => ("", "to_subagent_id", "from_subagent_id message"),
        Tag::SubagentAwaitRequest
        | Tag::SubagentCancelRequest
        | Tag::SubagentTerminateRequest
        | Tag::MultiAgentAwaitRequest
        | Tag::MultiAgentTerminateRequest => ("", "subagent_id", ""),
        Tag::SubagentMergeRequest => ("", "subagent_ids", "strategy"),
        Tag::MultiAgentSpawnRequest => ("", "", "name role model max_steps metadata"),
        Tag::MultiAgentDelegateRequest => {
            ("", "subagent_id", "task_name instruction success_criteria")
        }
        Tag::PlanCreateRequest => ("", "", "name columns description"),
        Tag::TaskAddRequest => (
            "",
            "plan_id",
            "title status description assignee deps metadata",
        ),
        Tag::TaskUpdateRequest => (
            "",
            "plan_id task_id",
            "status assignee deps title description metadata position seen_version clear",
        ),
        // A list has the summaries of all tasks of its plans.
        Tag::TaskListRequest => ("plan_id", "", "status task_id"),
        Tag::PlanBoardRequest => ("plan_id", "", ""),
        Tag::PlanRemoveRequest => ("", "plan_id", ""),
        Tag::ChainShowRequest | Tag::ChainCancelRequest => ("", "number", ""),
        Tag::ChainResumeRequest => ("", "number", "by_itself"),
        Tag::ProcResizeRequest => ("", "proc_id", "rows cols"),
        Tag::LearnSamplesRequest => ("", "", "kind after limit"),
        Tag::MultiAgentResultRequest => ("", "", "result"),
        _ => ("", "", ""),
    };
    Members { open, named, rest }
}

fn requests() -> impl Iterator<Item = Tag> {
    let all = Tag::ALL.iter().copied();
    all.filter(|tag| {
        tag.kind() == MessageKind::Request
            && tag.may_be_sent_by(Sender::Agent)
            && tag.namespace().capability().is_some()
    })
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_whitespace()
}

/// Whoever adds a member to a request says here what it is, and in `open_selector` if it may be left out.
#[test]
fn every_member_of_every_request_is_a_selector_or_is_none() {
    for tag in requests() {
        let Members { open, named, rest } = members(tag);
        let mut known: Vec<&str> = words(open).chain(words(named)).chain(words(rest)).collect();
        let mut fields: Vec<&str> = tag.shape().fields.iter().map(|it| it.name).collect();
        known.sort_unstable();
        fields.sort_unstable();
        assert_eq!(known, fields, "{}", tag.as_str());
    }
}

fn decoded(text: &str) -> Option<Message<'static>> {
    let mut decoder = Decoder::default();
    let message = decoder.decode(text.as_bytes(), Sender::Agent, Timestamp::default());
    Some(message.ok()?.into_owned())
}

#[test]
fn selector_that_may_be_left_out_is_open_only_then() {
    for tag in requests() {
        let name = tag.as_str();
        // What has members that must be there is named by them.
        let Some(bare) = decoded(&format!(r#"{{"type":"{name}","id":"1"}}"#)) else {
            assert_eq!(members(tag).open, "", "{name}");
            continue;
        };
        // The older forget clears one tier unless it is told to clear all.
        if tag != Tag::MemoryForgetRequest {
            let open = open_selector(&bare.body).unwrap_or_default();
            assert_eq!(open, members(tag).open, "{name}");
        }
        for member in words(members(tag).open) {
            for (value, expected) in [("\"\"", Some(member)), ("\"episodic\"", None)] {
                let text = format!(r#"{{"type":"{name}","id":"1","{member}":{value}}}"#);
                let mut message = decoded(&text).unwrap();
                normalize(&mut message).unwrap();
                assert_eq!(open_selector(&message.body), expected, "{text}");
            }
        }
    }
}

#[test]
fn what_is_left_out_is_written_as_what_it_stands_for() {
    for (text, expected) in [
        (
            r#"{"type":"memory/store/req","entries":[{"key":"k","content":1,"tier":""}]}"#,
            r#""tier":"episodic""#,
        ),
        (
            r#"{"type":"memory/init/req","namespace":""}"#,
            r#""namespace":"default""#,
        ),
        (
            r#"{"type":"mcp/server/register/req","config":{"name":"files"}}"#,
            r#""server_id":"files""#,
        ),
        (
            r#"{"type":"env/render/req","episode_id":"e","mode":null}"#,
            r#""mode":"screenshot""#,
        ),
    ] {
        let mut message = decoded(text).unwrap();
        normalize(&mut message).unwrap();
        let mut written = Vec::new();
        message.encode_to(&mut written, a2e_wire::Charset::Utf8);
        let written = String::from_utf8(written).unwrap();
        assert!(written.contains(expected), "{written}");
    }
}

/// Seed 001 lists the tiers: `working`, `episodic`, `semantic`.
#[test]
fn unknown_memory_tier_is_a_schema_violation() {
    for text in [
        r#"{"type":"memory/retrieve/req","tier":"nothing"}"#,
        r#"{"type":"memory/forget/req","tier":"Working"}"#,
        r#"{"type":"memory/store/req","entries":[{"key":"k","content":1,"tier":"working"},
            {"key":"l","content":1,"tier":"nothing"}]}"#,
    ] {
        let failure = normalize(&mut decoded(text).unwrap()).unwrap_err();
        assert_eq!(failure.code, ErrorCode::SchemaViolation, "{text}");
        assert_eq!(failure.capability, Some(a2e_wire::Capability::Memory));
        assert!(
            failure
                .message
                .contains("`working`, `episodic` and `semantic`")
        );
    }
}

#[test]
fn selection_and_target_are_shown_and_secret_values_are_not() {
    let both = vec!["a".to_owned(), "b".to_owned()];
    let digest = Digest::of(b"all");
    let resolution = Resolution::of_all("server_id", both).target(digest, json!({"source": "x"}));
    let expected = json!({"source": "x", "server_id": ["a", "b"], "digest": digest.to_string()});
    assert_eq!(resolution.shown(), Some(expected));
    assert_eq!(Resolution::default().shown(), None);
    let mut secret = json!({"headers": {"authorization": "Bearer x"}, "list": [1, null]});
    redact(&mut secret);
    let hidden = "(hidden)";
    assert_eq!(
        secret,
        json!({"headers": {"authorization": hidden}, "list": [hidden, hidden]})
    );
}
