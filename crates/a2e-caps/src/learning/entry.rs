//! What is on record of a refinement.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edits::Edit;
use crate::fresh;

/// A refinement on record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) refinement_id: String,
    pub(super) scope: String,
    pub(super) component_name: String,
    pub(super) action: String,
    pub(super) status: String,
    pub(super) edits: Vec<Edit>,
    pub(super) applied_edits: usize,
    pub(super) failed_edits: usize,
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) error: Option<String>,
    pub(super) at: f64,
}

/// What a review reads of a stored refinement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Made {
    pub(super) status: String,
    pub(super) edits: Vec<Edit>,
}

/// What the history shows of a stored refinement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Past {
    pub(super) refinement_id: String,
    pub(super) scope: String,
    pub(super) action: String,
    pub(super) status: String,
    pub(super) applied_edits: usize,
    pub(super) failed_edits: usize,
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) error: Option<String>,
    pub(super) at: f64,
}

/// The status of a refinement that changed the state.
const APPLIED: &str = "applied";

/// Bytes of a state that the history shows; of a larger one it only has the way back.
const SHOWN: usize = 64 * 1024;

impl Made {
    pub(super) fn is_applied(&self) -> bool {
        self.status == APPLIED
    }
}

impl Past {
    pub(super) fn is_applied(&self) -> bool {
        self.status == APPLIED
    }
}

impl Entry {
    /// One of this moment, about a refinement.
    pub(super) fn of(id: &str) -> Self {
        Self {
            refinement_id: id.to_owned(),
            scope: "local".to_owned(),
            component_name: String::new(),
            action: String::new(),
            status: String::new(),
            edits: Vec::new(),
            applied_edits: 0,
            failed_edits: 0,
            before: json!({}),
            after: json!({}),
            error: None,
            at: fresh::timestamp(fresh::now()).unix_seconds(),
        }
    }
}

/// A state as JSON.
pub(super) fn value(state: &[u8]) -> Value {
    serde_json::from_slice(state).unwrap_or_else(|_| json!({}))
}

/// A state as the history shows it.
pub(super) fn shown(state: &[u8]) -> Value {
    match state.len() > SHOWN {
        true => json!({}),
        false => value(state),
    }
}
