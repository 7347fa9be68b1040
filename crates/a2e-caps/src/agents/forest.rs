//! The sub-agents of all sessions, for the operator.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::account::Accounts;
use super::tree::{Sub, Tree};

/// The sub-agents of all sessions, and what those of each agent have used.
#[derive(Debug, Default)]
pub struct Forest {
    trees: Mutex<Vec<Weak<Tree>>>,
    pub(super) accounts: Arc<Accounts>,
}

/// A sub-agent, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Names it.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub agent: String,
    /// The sub-agent that has it, if one does.
    pub parent: Option<String>,
    /// How deep it is.
    pub depth: usize,
    /// What it is.
    pub model: String,
    /// How it is doing.
    pub status: String,
    /// What it does.
    pub task: String,
    /// What it found out.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// Tokens that the sub-agents of all sessions of the agent have used.
    pub tokens: u64,
}

impl Forest {
    pub(super) fn add(&self, tree: &Arc<Tree>) {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.retain(|tree| tree.strong_count() > 0);
        trees.push(Arc::downgrade(tree));
    }

    fn trees(&self) -> Vec<Arc<Tree>> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.iter().filter_map(Weak::upgrade).collect()
    }

    /// All there are.
    #[must_use]
    pub fn list(&self) -> Vec<AgentInfo> {
        let trees = self.trees();
        let of = |tree: &Arc<Tree>| {
            let all = tree.all();
            all.iter().map(|sub| info(tree, sub)).collect::<Vec<_>>()
        };
        trees.iter().flat_map(of).collect()
    }

    /// One of them.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<AgentInfo> {
        let trees = self.trees();
        trees.iter().find_map(|tree| {
            let sub = tree.find(id)?;
            Some(info(tree, &sub))
        })
    }

    /// Cancels one with all that it has; how many were at work, if it is there at all.
    #[must_use]
    pub fn cancel(&self, id: &str) -> Option<usize> {
        let trees = self.trees();
        let tree = trees.iter().find(|tree| tree.find(id).is_some())?;
        Some(super::cancel(tree, id).len())
    }
}

fn info(tree: &Tree, sub: &Sub) -> AgentInfo {
    let state = sub.state();
    AgentInfo {
        id: sub.id.clone(),
        name: sub.wish.name.clone(),
        agent: tree.agent().as_ref().to_owned(),
        parent: sub.parent.clone(),
        depth: sub.depth,
        model: sub.wish.model.clone(),
        status: state.status.as_str().to_owned(),
        task: state.task,
        result: state.result,
        error: state.error,
        tokens: tree.spent.tokens(),
    }
}
