//! `approvals.list`, `approvals.show`, `approvals.decide`.

use a2e_wire::Tag;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Approval, Verdict};

use super::{Nothing, Operations};
use crate::approvals::Approvals;

/// The answer to `approvals.list`, which needs [`Nothing`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldCalls {
    /// The calls that wait, oldest first.
    pub calls: Vec<WaitingCall>,
}

/// A call that waits, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingCall {
    /// Names it here.
    pub id: String,
    /// The agent that makes it.
    pub agent: String,
    /// Since when it waits, and until when: milliseconds since 1970.
    pub since: i64,
    /// See `since`.
    pub until: i64,
    /// What is called, with what, in one line; one that ends in `…` goes on.
    pub summary: String,
}

/// A call that waits for the operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCall {
    /// Names it here.
    pub id: String,
    /// The agent that makes it.
    pub agent: String,
    /// Since when it waits, and until when: milliseconds since 1970.
    pub since: i64,
    /// See `since`.
    pub until: i64,
    /// JSON: `rule`, which holds it; `request`, the whole message; and `resolved`, what it stands for beyond
    /// its words: the tool with its configuration, the servers, the digest of all that.
    pub shown: String,
    /// `waiting`, `granted` or `refused`.
    pub verdict: String,
    /// Why, if the operator said so.
    #[serde(default)]
    pub reason: String,
    /// Whether somebody waits for the word at this moment.
    pub awaited: bool,
}

/// The request of `approvals.show`; the answer is a [`HeldCall`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The call.
    pub id: String,
}

/// The request of `approvals.decide`; the answer is the [`HeldCall`] as decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The call.
    pub id: String,
    /// Whether it may be done.
    pub grant: bool,
    /// Why; the agent is told.
    #[serde(default)]
    pub reason: String,
}

impl WaitingCall {
    fn new(approval: &Approval) -> Self {
        Self {
            id: approval.id.clone(),
            agent: approval.agent.clone(),
            since: approval.created.0,
            until: approval.expires.0,
            summary: summary(&approval.shown),
        }
    }
}

impl HeldCall {
    fn new(approval: Approval, approvals: &Approvals) -> Self {
        let verdict = match approval.verdict {
            Verdict::Waiting => "waiting",
            Verdict::Granted => "granted",
            Verdict::Refused => "refused",
        };
        Self {
            awaited: approvals.is_awaited(&approval.id),
            id: approval.id,
            agent: approval.agent,
            since: approval.created.0,
            until: approval.expires.0,
            shown: String::from_utf8_lossy(&approval.shown).into_owned(),
            verdict: verdict.to_owned(),
            reason: approval.reason,
        }
    }
}

impl Operations {
    /// Adds the operations on held calls.
    #[must_use]
    pub fn with_approvals(self, approvals: &Approvals) -> Self {
        let (listing, showing, deciding) =
            (approvals.clone(), approvals.clone(), approvals.clone());
        self.add("approvals.list", move |_: Nothing| {
            let approvals = listing.clone();
            async move {
                let calls = approvals.each(|call| WaitingCall::new(&call)).await;
                let calls = calls.map_err(|error| error.to_string())?;
                Ok(HeldCalls { calls })
            }
        })
        .add("approvals.show", move |request: Show| {
            let approvals = showing.clone();
            async move {
                let call = approvals.get(&request.id).await;
                let call = call.map_err(|error| error.to_string())?;
                call.map(|call| HeldCall::new(call, &approvals))
                    .ok_or_else(|| unknown(&request.id))
            }
        })
        .add("approvals.decide", move |request: Decide| {
            let approvals = deciding.clone();
            async move {
                let verdict = match request.grant {
                    true => Verdict::Granted,
                    false => Verdict::Refused,
                };
                // Whoever waits has gone as soon as the word is out.
                let awaited = approvals.is_awaited(&request.id);
                match approvals
                    .decide(&request.id, verdict, &request.reason)
                    .await
                {
                    Ok(call) => Ok(HeldCall {
                        awaited,
                        ..HeldCall::new(call, &approvals)
                    }),
                    Err(store::Error::NotFound { .. }) => Err(unknown(&request.id)),
                    Err(error) => Err(error.to_string()),
                }
            }
        })
    }
}

/// A call in one line, made of what will be done and nothing else: what is called, with what.
pub(crate) fn summary(shown: &[u8]) -> String {
    let shown: Value = serde_json::from_slice(shown).unwrap_or_default();
    let request = shown.get("request").unwrap_or(&Value::Null);
    let member = |name: &str| request.get(name).unwrap_or(&Value::Null);
    let kind = member("type").as_str().unwrap_or_default();
    let line = match kind == Tag::ToolCallRequest.as_str() {
        true => format!("{} {}", word(member("tool_name")), member("arguments")),
        false => format!("{kind} {request}"),
    };
    match line.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Characters of a summary.
const MAX_SUMMARY: usize = 160;

/// A name as it is, if it cannot be taken for anything else.
fn word(name: &Value) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
    match name.as_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        _ => name.to_string(),
    }
}

fn unknown(id: &str) -> String {
    let id: String = id.chars().take(64).collect();
    format!("no call `{id}` waits for a word; `frith approvals` shows those that do")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(request: &Value) -> String {
        summary(
            serde_json::json!({"rule": "ask", "request": request})
                .to_string()
                .as_bytes(),
        )
    }

    #[test]
    fn a_call_in_one_line() {
        let call = serde_json::json!({"type": "tool/call/req", "tool_name": "write", "arguments": {"path": "a"}});
        assert_eq!(shown(&call), r#"write {"path":"a"}"#);
        // What only looks like a call of a tool is none.
        let list =
            serde_json::json!({"type": "tool/list/req", "tool_name": "write", "arguments": {}});
        assert!(
            shown(&list).starts_with("tool/list/req {"),
            "{}",
            shown(&list)
        );
    }

    #[test]
    fn a_name_makes_no_second_line() {
        let name = "a\n48d7abb84f43  default  299 s left  echo {}";
        let call = serde_json::json!({"type": "tool/call/req", "tool_name": name, "arguments": {}});
        assert!(shown(&call).starts_with(r#""a\n48d7"#), "{}", shown(&call));
    }

    #[test]
    fn a_cut_is_seen() {
        let call = |length: usize| serde_json::json!({"type": "tool/call/req", "tool_name": "x".repeat(length), "arguments": {}});
        let full = MAX_SUMMARY - " {}".len();
        assert!(shown(&call(full)).ends_with(" {}"));
        assert!(shown(&call(full + 1)).ends_with('…'));
    }
}
