//! What the sub-agents of all sessions of one agent have used together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::{Failure, Identity};
use a2e_wire::{ErrorCode, Namespace};
use base::{Class, Limits, Table};
use policy::TrustLevel;
use tokio::time::Instant;

use crate::model::ModelError;

/// How long the account of an agent is kept after its last session, so that a reconnect does not
/// refill it.
const RETENTION: Duration = Duration::from_secs(3600);

/// How many agents may have an account: one each.
const CAPACITY: Limits = Limits {
    total: 4096,
    per_holder: 1,
    reserved: 1024,
};

/// The accounts of all agents. They outlast the plugin, which another configuration replaces.
#[derive(Debug)]
pub(super) struct Accounts(Mutex<Table<Arc<str>, Arc<str>, Entry>>);

#[derive(Debug)]
struct Entry {
    account: Arc<Account>,
    /// How many handles there are.
    handles: usize,
    /// When the last of them was dropped; counts while there are none.
    idle_since: Instant,
}

/// What the sub-agents of one agent have used.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) tokens: Arc<AtomicU64>,
    steps: AtomicUsize,
    agents: AtomicUsize,
}

/// One sub-agent that is counted, until it is dropped.
#[derive(Debug)]
pub(super) struct AgentPermit(Arc<Account>);

/// Keeps the account of an agent until it is dropped, and for [`RETENTION`] after that.
#[derive(Debug)]
pub(super) struct AccountHandle {
    pub(super) account: Arc<Account>,
    pub(super) agent: Arc<str>,
    accounts: Arc<Accounts>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self(Mutex::new(Table::new(CAPACITY)))
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, Table<Arc<str>, Arc<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the account of an agent: the one it has, or a new one if that has been idle for
    /// [`RETENTION`].
    ///
    /// # Errors
    /// If as many agents as may have an account use theirs.
    pub(super) fn open(
        self: &Arc<Self>,
        identity: &Identity,
        now: Instant,
    ) -> Result<AccountHandle, Failure> {
        let agent: Arc<str> = identity.agent.as_str().into();
        let mut table = self.lock();
        let is_over = |entry: &Entry| {
            entry.handles == 0 && now.saturating_duration_since(entry.idle_since) >= RETENTION
        };
        if table.get(&agent).is_none_or(is_over) {
            let entry = Entry {
                account: Arc::default(),
                handles: 0,
                idle_since: now,
            };
            let class = class_of(identity);
            let inserted = table.insert(Arc::clone(&agent), class, Arc::clone(&agent), entry);
            inserted.map_err(|_| full())?;
        }
        let entry = table.get_mut(&agent).ok_or_else(full)?;
        entry.handles = entry.handles.saturating_add(1);
        let account = Arc::clone(&entry.account);
        table.set_in_use(&agent, true);
        Ok(AccountHandle {
            account,
            agent,
            accounts: Arc::clone(self),
        })
    }

    fn close(&self, agent: &Arc<str>, now: Instant) {
        let mut table = self.lock();
        let Some(entry) = table.get_mut(agent) else {
            return;
        };
        entry.handles = entry.handles.saturating_sub(1);
        if entry.handles == 0 {
            entry.idle_since = now;
            table.set_in_use(agent, false);
            // Of those that are idle, the first to become so is evicted first.
            table.touch(agent);
        }
    }
}

impl Drop for AccountHandle {
    fn drop(&mut self) {
        self.accounts.close(&self.agent, Instant::now());
    }
}

impl Account {
    /// Admits one more sub-agent, until the permit is dropped.
    ///
    /// # Errors
    /// If there are as many as there may be.
    pub(super) fn admit(self: &Arc<Self>, most: usize) -> Result<AgentPermit, String> {
        let one_more = |count: usize| (count < most).then(|| count.saturating_add(1));
        let admitted = self
            .agents
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        match admitted {
            Ok(_) => Ok(AgentPermit(Arc::clone(self))),
            Err(_) => Err(format!(
                "all sessions of this agent together may have {most} sub-agents; terminate one \
                 that has ended"
            )),
        }
    }

    /// One step more of a task.
    ///
    /// # Errors
    /// If there were as many as there may be.
    pub(super) fn step(&self, most: usize) -> Result<(), ModelError> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.check_steps(most)
    }

    /// Whether no sub-agent has tried to take more steps than there may be.
    ///
    /// # Errors
    /// If one has: those that go on regardless are stopped.
    pub(super) fn check_steps(&self, most: usize) -> Result<(), ModelError> {
        match self.steps.load(Ordering::SeqCst) > most {
            true => Err(ModelError::new(
                "step_limit",
                format!(
                    "the sub-agents of all sessions of this agent together may take {most} steps, \
                     and have taken them; they are counted anew an hour after the agent's last \
                     session has ended"
                ),
            )),
            false => Ok(()),
        }
    }
}

impl Drop for AgentPermit {
    fn drop(&mut self) {
        self.0.agents.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An agent that is only its DID, for which no trust anchor vouches, may be anybody.
fn class_of(identity: &Identity) -> Class {
    let is_stranger = identity
        .proven
        .as_ref()
        .is_some_and(|it| it.did == identity.agent && it.trust == TrustLevel::Own);
    match is_stranger {
        true => Class::Stranger,
        false => Class::Known,
    }
}

fn full() -> Failure {
    let text = "as many agents have sub-agents as this node can count for; try again when one of \
                them has left";
    Failure {
        retryable: true,
        ..Failure::new(ErrorCode::RuntimeError, Namespace::MultiAgent, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(accounts: &Arc<Accounts>, agent: &str, now: Instant) -> Result<AccountHandle, Failure> {
        accounts.open(&Identity::named(agent), now)
    }

    /// Closes a handle at this time.
    fn close(handle: AccountHandle, now: Instant) {
        let agent = Arc::clone(&handle.agent);
        let accounts = Arc::clone(&handle.accounts);
        drop(handle);
        if let Some(entry) = accounts.lock().get_mut(&agent) {
            entry.idle_since = now;
        }
    }

    #[test]
    fn sessions_of_one_agent_share_steps_and_sub_agents() {
        let accounts = Arc::new(Accounts::default());
        let now = Instant::now();
        let first = open(&accounts, "ada", now).unwrap();
        let second = open(&accounts, "ada", now).unwrap();
        first.account.step(2).unwrap();
        second.account.step(2).unwrap();
        assert_eq!(first.account.step(2).unwrap_err().code, "step_limit");
        assert!(second.account.check_steps(2).is_err());
        let permit = first.account.admit(2).unwrap();
        let _second_permit = second.account.admit(2).unwrap();
        assert!(second.account.admit(2).is_err());
        drop(permit);
        drop(second.account.admit(2).unwrap());
        let other = open(&accounts, "bob", now).unwrap();
        other.account.step(2).unwrap();
        drop(other.account.admit(2).unwrap());
    }

    #[test]
    fn an_account_is_kept_for_an_hour_after_the_last_session() {
        let accounts = Arc::new(Accounts::default());
        let now = Instant::now();
        let first = open(&accounts, "ada", now).unwrap();
        let second = open(&accounts, "ada", now).unwrap();
        let account = Arc::clone(&first.account);
        let is_same = |handle: &AccountHandle| Arc::ptr_eq(&handle.account, &account);
        drop(first);
        // The second is still open, however long.
        let third = open(&accounts, "ada", now + RETENTION * 5).unwrap();
        assert!(is_same(&third));
        drop(third);
        close(second, now);
        let nearly = now + RETENTION.saturating_sub(Duration::from_nanos(1));
        let back = open(&accounts, "ada", nearly).unwrap();
        assert!(is_same(&back), "a reconnect");
        close(back, nearly);
        let later = open(&accounts, "ada", nearly + RETENTION).unwrap();
        assert!(!is_same(&later));
    }

    #[test]
    fn an_account_in_use_never_gives_way_to_another_and_the_longest_idle_does() {
        let accounts = Arc::new(Accounts::default());
        let now = Instant::now();
        let all = (0..CAPACITY.total).map(|number| format!("agent-{number}"));
        let mut handles: Vec<_> = all
            .map(|agent| open(&accounts, &agent, now).unwrap())
            .collect();
        let refused = open(&accounts, "one-more", now).unwrap_err();
        assert!(refused.retryable, "{refused:?}");
        // The last became idle before the first.
        drop(handles.pop().unwrap());
        drop(handles.remove(0));
        let _one_more = open(&accounts, "one-more", now).unwrap();
        let table = accounts.lock();
        assert_eq!(table.len(), CAPACITY.total);
        let has = |agent: &str| table.get(&Arc::from(agent)).is_some();
        assert!(has("agent-0") && has("agent-1") && has("one-more"));
        assert!(!has(&format!("agent-{}", CAPACITY.total - 1)));
    }

    #[test]
    fn strangers_leave_a_reserve_to_known_agents() {
        let accounts = Arc::new(Accounts::default());
        let now = Instant::now();
        let stranger = |number: usize| {
            let did = format!("did:key:{number}");
            accounts.open(&Identity::proven(&*did, &*did, TrustLevel::Own), now)
        };
        let most = CAPACITY.total - CAPACITY.reserved;
        let _handles: Vec<_> = (0..most).map(|number| stranger(number).unwrap()).collect();
        assert!(stranger(most).is_err());
        open(&accounts, "ada", now).unwrap();
    }
}
