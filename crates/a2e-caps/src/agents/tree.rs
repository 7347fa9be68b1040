//! The sub-agents of one session: who has whom.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_wire::messages::subagent::SubagentStatus;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::account::{AccountHandle, AgentPermit};
use super::scope::{Memory, Scope};
use crate::model::{ModelError, Spent};
use crate::truncate::truncate;

/// Messages that wait for a sub-agent.
pub const MAX_INBOX: usize = 100;

/// Bytes of one of them.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Bytes of what a sub-agent is asked to be, as JSON.
pub const MAX_CONFIG: usize = 64 * 1024;

/// Bytes of a name, a role, a model or a task in a list; a longer one ends with `…`.
pub(super) const MAX_LISTED_TEXT: usize = 256;

/// Bytes of the reason why a task failed.
const MAX_ERROR: usize = 4 * 1024;

/// What the sub-agents of all sessions of one agent may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How deep sub-agents may have sub-agents.
    pub depth: usize,
    /// How many there may be.
    pub agents: usize,
    /// Steps of all tasks.
    pub steps: usize,
    /// Tokens of all tasks.
    pub tokens: u64,
    /// How long a task may take.
    pub timeout: Duration,
}

/// The sub-agents of one session.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) limits: Limits,
    /// What those of all sessions of the agent have used.
    account: AccountHandle,
    pub(super) spent: Spent,
    subs: Mutex<Vec<Arc<Sub>>>,
    over: CancellationToken,
}

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) depth: usize,
    pub(super) wish: Wish,
    pub(super) scope: Scope,
    /// Whose memory it has: none is the agent's own.
    pub(super) memory: Option<String>,
    /// Whose memory it could see if it shared that of who has it: a copy is of nothing else.
    pub(super) around: Option<String>,
    pub(super) over: CancellationToken,
    state: watch::Sender<State>,
    /// It counts as a sub-agent of the agent until it is terminated.
    permit: Mutex<Option<AgentPermit>>,
    inbox: Mutex<Vec<Value>>,
    requests: AtomicU64,
}

/// What a sub-agent is to be.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) model: String,
    pub(super) system_prompt: String,
    pub(super) scope: Scope,
    pub(super) memory: Memory,
    pub(super) max_steps: usize,
    pub(super) timeout: Duration,
    /// Whether what happens to it is told as it happens.
    pub(super) is_told: bool,
    /// The request as it came, for lists.
    pub(super) config: Value,
}

/// How a sub-agent is doing.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) status: SubagentStatus<'static>,
    pub(super) task: String,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
}

impl Tree {
    /// No sub-agents yet; those that come end with `over`, the end of the session.
    pub(super) fn new(account: AccountHandle, limits: Limits, over: CancellationToken) -> Self {
        Self {
            limits,
            spent: Spent::counted_by(Arc::clone(&account.account.tokens), limits.tokens),
            account,
            subs: Mutex::default(),
            over,
        }
    }

    /// Whose they are.
    pub(super) const fn agent(&self) -> &Arc<str> {
        &self.account.agent
    }

    /// One step more of a task.
    ///
    /// # Errors
    /// If there were as many as there may be.
    pub(super) fn step(&self) -> Result<(), ModelError> {
        self.account.account.step(self.limits.steps)
    }

    /// Whether no sub-agent of the agent has tried to take more steps than there may be.
    ///
    /// # Errors
    /// If one has: those that go on regardless are stopped.
    pub(super) fn check_steps(&self) -> Result<(), ModelError> {
        self.account.account.check_steps(self.limits.steps)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Sub>>> {
        self.subs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a sub-agent of the agent, or of one of its sub-agents.
    ///
    /// # Errors
    /// Why there cannot be one more.
    pub(super) fn add(
        &self,
        id: String,
        parent: Option<&str>,
        wish: Wish,
    ) -> Result<Arc<Sub>, String> {
        let mut subs = self.lock();
        if self.over.is_cancelled() {
            return Err("the session is over".to_owned());
        }
        let of = |id: &str| subs.iter().find(|sub| sub.id == id).cloned();
        let parent = match parent {
            None => None,
            Some(id) => Some(of(id).ok_or("there is no such parent")?),
        };
        if parent
            .as_ref()
            .is_some_and(|parent| parent.over.is_cancelled())
        {
            return Err("its parent has ended".to_owned());
        }
        let depth = parent
            .as_ref()
            .map_or(1, |parent| parent.depth.saturating_add(1));
        let most = self.limits.depth;
        if depth > most {
            return Err(format!("sub-agents may be {most} deep"));
        }
        subs.retain(|sub| sub.status() != SubagentStatus::Terminated);
        let permit = self.account.account.admit(self.limits.agents)?;
        let all = Scope::ALL;
        let (around, memory) = match &parent {
            Some(parent) => (&parent.scope, parent.memory.clone()),
            None => (&all, None),
        };
        let sub = Arc::new(Sub {
            parent: parent.as_ref().map(|parent| parent.id.clone()),
            depth,
            scope: wish.scope.clone().within(around),
            around: memory.clone(),
            memory: match wish.memory {
                Memory::Shared => memory,
                Memory::Isolated | Memory::Snapshot => Some(id.clone()),
            },
            over: match &parent {
                Some(parent) => parent.over.child_token(),
                None => self.over.child_token(),
            },
            id,
            wish,
            state: watch::Sender::new(State {
                status: SubagentStatus::Ready,
                task: String::new(),
                result: None,
                error: None,
            }),
            permit: Mutex::new(Some(permit)),
            inbox: Mutex::default(),
            requests: AtomicU64::new(0),
        });
        subs.push(Arc::clone(&sub));
        Ok(sub)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Sub>> {
        self.lock().iter().find(|sub| sub.id == id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Sub>> {
        self.lock().clone()
    }

    /// Those that a sub-agent has, and those that these have.
    pub(super) fn below(&self, id: &str) -> Vec<Arc<Sub>> {
        let subs = self.lock();
        let mut found: Vec<Arc<Sub>> = Vec::new();
        // Whoever has others came before them.
        for sub in subs.iter() {
            let is_below =
                |parent: &String| parent == id || found.iter().any(|known| known.id == *parent);
            if sub.parent.as_ref().is_some_and(is_below) {
                found.push(Arc::clone(sub));
            }
        }
        found
    }

    /// Ends all of them: the session is over.
    pub(super) fn end(&self) {
        self.over.cancel();
        for sub in self.all() {
            sub.close(SubagentStatus::Terminated);
        }
    }
}

impl Sub {
    pub(super) fn status(&self) -> SubagentStatus<'static> {
        self.state.borrow().status.clone()
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Begins a task, if it has none.
    pub(super) fn begin(&self, task: &str) -> bool {
        self.state.send_if_modified(|state| {
            let is_ready = state.status == SubagentStatus::Ready;
            if is_ready {
                state.status = SubagentStatus::Running;
                state.task = truncate(task.to_owned(), MAX_LISTED_TEXT);
            }
            is_ready
        })
    }

    /// Ends a task that goes on.
    pub(super) fn finish(&self, outcome: Result<Value, String>) -> bool {
        self.state.send_if_modified(|state| {
            let goes_on = state.is_busy();
            if goes_on {
                match outcome {
                    Ok(result) => {
                        state.status = SubagentStatus::Completed;
                        state.result = Some(result);
                    }
                    Err(error) => {
                        state.status = SubagentStatus::Failed;
                        state.error = Some(truncate(error, MAX_ERROR));
                    }
                }
            }
            goes_on
        })
    }

    /// Cancels or terminates it; says whether that changed anything.
    pub(super) fn close(&self, status: SubagentStatus<'static>) -> bool {
        let changed = self.state.send_if_modified(|state| {
            let may = match status == SubagentStatus::Cancelled {
                true => state.is_busy() || state.status == SubagentStatus::Ready,
                false => state.status != SubagentStatus::Terminated,
            };
            if may {
                state.status = status.clone();
            }
            may
        });
        if changed {
            self.over.cancel();
        }
        if self.status() == SubagentStatus::Terminated {
            let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
            *permit = None;
        }
        changed
    }

    /// How it is once it does nothing any more.
    pub(super) async fn rest(&self) -> State {
        let mut states = self.state.subscribe();
        let rest = states.wait_for(|state| !state.is_busy()).await;
        rest.map_or_else(|_| self.state(), |state| state.clone())
    }

    /// Puts a message where the sub-agent finds it; says whether it may still read it.
    pub(super) fn tell(&self, message: Value) -> bool {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = inbox.len() < MAX_INBOX && message.to_string().len() <= MAX_MESSAGE;
        let reads = {
            let state = self.state.borrow();
            state.is_busy() || state.status == SubagentStatus::Ready
        };
        let is_delivered = has_room && reads && !self.over.is_cancelled();
        if is_delivered {
            inbox.push(message);
        }
        is_delivered
    }

    /// The messages that wait for it.
    pub(super) fn take_messages(&self) -> Vec<Value> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut inbox)
    }

    /// What its next request is called on record.
    pub(super) fn next_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.id)
    }
}

impl State {
    pub(super) const fn is_busy(&self) -> bool {
        matches!(
            self.status,
            SubagentStatus::Running | SubagentStatus::Waiting
        )
    }
}
