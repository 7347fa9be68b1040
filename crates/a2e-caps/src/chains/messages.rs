//! Messages beside the catalogue: chains that are kept.

use a2e_runtime::{CustomMessage, CustomRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Asks for the chains of this agent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct List {}

/// Answers [`List`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listed {
    /// The newest first.
    pub chains: Vec<Head>,
}

/// Asks for all that is known of a chain.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Show {
    /// Its number, from the list.
    pub number: i64,
}

/// Answers [`Show`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shown {
    /// The chain; nothing if there is none.
    pub chain: Option<Details>,
}

/// Goes on with a chain that was cut off. Answered when it has ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Resume {
    /// Its number, from the list.
    pub number: i64,
    /// Whether nobody but the host itself wants it, which does not try for ever.
    #[serde(default)]
    pub by_itself: bool,
}

/// Answers [`Resume`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resumed {
    /// What a `chain/resp` has.
    pub response: Option<Value>,
    /// Why it does not go on.
    pub error: String,
}

/// Ends a chain.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cancel {
    /// Its number, from the list.
    pub number: i64,
}

/// Answers [`Cancel`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancelled {
    /// Whether it was there to be cancelled.
    pub success: bool,
    /// Why not.
    pub error: String,
}

/// A chain, in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// Names it.
    pub number: i64,
    /// What its agent calls it.
    pub chain_id: String,
    /// `running`, `cut_off`, `done`, `failed`, `cancelled` or `interrupted`.
    pub state: String,
    /// When it began, in milliseconds since 1970.
    pub begun: i64,
    /// When it ended.
    pub ended: Option<i64>,
    /// How often it was taken up again.
    pub resumed: u32,
}

/// A chain with all that is known of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Details {
    /// How it stands.
    #[serde(flatten)]
    pub head: Head,
    /// What was asked for: a `chain/req`; nothing if it was left out.
    pub request: Value,
    /// Its nodes, in the order of the request.
    pub nodes: Vec<NodeState>,
    /// What came of it: what a `chain/resp` has.
    pub response: Option<Value>,
    /// What was too large for the answer: `request`, `nodes` (the last of them) or `outputs` (of the
    /// response, with `final_output`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A node, and how it stands.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub node_id: String,
    /// `waiting`, `started`, `done` or `failed`.
    pub state: String,
    /// Of a map that runs, how many items have ended.
    pub items: usize,
    /// Why it failed.
    pub error: String,
}

macro_rules! custom {
    ($($message:ident = $name:literal => $answer:ident = $answer_name:literal,)+) => {
        $(
            impl CustomMessage for $message {
                const TYPE: &'static str = $name;
            }

            impl CustomRequest for $message {
                type Response = $answer;
            }

            impl CustomMessage for $answer {
                const TYPE: &'static str = $answer_name;
            }
        )+
    };
}

custom! {
    List = "chain/list/req" => Listed = "chain/list/resp",
    Show = "chain/show/req" => Shown = "chain/show/resp",
    Resume = "chain/resume/req" => Resumed = "chain/resume/resp",
    Cancel = "chain/cancel/req" => Cancelled = "chain/cancel/resp",
}
