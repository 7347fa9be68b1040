//! `approve.list`, `approve.show`, `approve.decide`.

use serde::{Deserialize, Serialize};
use store::{Approval, Verdict};

use super::{Nothing, Operations};
use crate::approvals::Approvals;

/// The answer to `approve.list`, which needs [`Nothing`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldCalls {
    /// The calls that wait, oldest first.
    pub calls: Vec<HeldCall>,
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
    /// JSON: `rule`, which holds it, and `request`, the whole message.
    pub shown: String,
    /// `waiting`, `granted` or `refused`.
    pub verdict: String,
}

/// The request of `approve.show`; the answer is a [`HeldCall`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The call.
    pub id: String,
}

/// The request of `approve.decide`; the answer is the [`HeldCall`] as decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The call.
    pub id: String,
    /// Whether it may be done.
    pub grant: bool,
}

impl From<Approval> for HeldCall {
    fn from(approval: Approval) -> Self {
        let verdict = match approval.verdict {
            Verdict::Waiting => "waiting",
            Verdict::Granted => "granted",
            Verdict::Refused => "refused",
        };
        Self {
            id: approval.id,
            agent: approval.agent,
            since: approval.created.0,
            until: approval.expires.0,
            shown: String::from_utf8_lossy(&approval.shown).into_owned(),
            verdict: verdict.to_owned(),
        }
    }
}

impl Operations {
    /// Adds the operations on held calls.
    #[must_use]
    pub fn with_approvals(self, approvals: &Approvals) -> Self {
        let (listing, showing, deciding) =
            (approvals.clone(), approvals.clone(), approvals.clone());
        self.add("approve.list", move |_: Nothing| {
            let approvals = listing.clone();
            async move {
                let calls = approvals.list().await.map_err(|error| error.to_string())?;
                let calls = calls.into_iter().map(HeldCall::from).collect();
                Ok(HeldCalls { calls })
            }
        })
        .add("approve.show", move |request: Show| {
            let approvals = showing.clone();
            async move {
                let call = approvals.get(&request.id).await;
                let call = call.map_err(|error| error.to_string())?;
                call.map(HeldCall::from).ok_or_else(|| unknown(&request.id))
            }
        })
        .add("approve.decide", move |request: Decide| {
            let approvals = deciding.clone();
            async move {
                let verdict = match request.grant {
                    true => Verdict::Granted,
                    false => Verdict::Refused,
                };
                match approvals.decide(&request.id, verdict).await {
                    Ok(call) => Ok(HeldCall::from(call)),
                    Err(store::Error::NotFound { .. }) => Err(unknown(&request.id)),
                    Err(error) => Err(error.to_string()),
                }
            }
        })
    }
}

fn unknown(id: &str) -> String {
    let id: String = id.chars().take(64).collect();
    format!("no call `{id}` waits for a word; `frith approve list` shows those that do")
}
