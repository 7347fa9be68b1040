//! Calls that wait for the operator's word.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_session::Failure;
use canonical::Digest;
use store::{AgentId, Approval, Call, Hash, Held, Store, UnixMillis, Verdict};
use tokio::sync::watch;

use crate::clock::random_id;
use crate::decision::{Asked, RuleName, ambiguous, too_large};

/// The held calls of a host, and who is told when one is decided.
#[derive(Debug, Clone)]
pub struct Approvals {
    store: Store,
    /// How often something was decided or withdrawn.
    decided: Arc<watch::Sender<u64>>,
    /// The calls that somebody waits for the word on, by id.
    waiting: Arc<Mutex<HashMap<String, AwaitedCall>>>,
    /// How long a call waits.
    patience: Duration,
}

/// A call that the operator is asked about.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) agent: String,
    /// Exactly this call.
    pub(crate) hash: Digest,
    /// The rule that asks for it, as the operator knows it.
    pub(crate) rule: String,
    /// The request, as it will be done.
    pub(crate) text: Vec<u8>,
    /// Whether the store may have it; if not it is shown as long as somebody waits for the word.
    pub(crate) is_written: bool,
    /// What it stands for, where that is more than its words.
    pub(crate) resolved: Option<serde_json::Value>,
}

/// A call that requests wait for the operator's decision on.
#[derive(Debug, Default)]
struct AwaitedCall {
    /// How many do.
    count: usize,
    /// What is shown of it, if the store must not have it.
    shown: Option<Vec<u8>>,
}

/// Somebody who waits for the word on a call.
struct Waiting {
    all: Arc<Mutex<HashMap<String, AwaitedCall>>>,
    id: String,
}

/// What became of a held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The id under which the operator saw it.
    pub(crate) id: String,
    pub(crate) decision: ApprovalDecision,
}

/// The decision about a held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApprovalDecision {
    Approved,
    /// With the operator's reason, which may be empty.
    Denied(String),
    /// There was none in time.
    Expired,
}

/// How long a held call waits, unless the configuration says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What stands in the store for a request that must not be written to a file.
const NOT_WRITTEN: &[u8] = br#""not kept: the agreed data retention forbids it""#;

/// What is shown to the operator, in bytes: who approves must have seen all of it.
const MAX_SHOWN: usize = 64 * 1024;

impl Approvals {
    /// Keeps held calls in a store.
    #[must_use]
    pub fn new(store: Store, patience: Duration) -> Self {
        Self {
            store,
            decided: Arc::new(watch::channel(0).0),
            waiting: Arc::default(),
            patience,
        }
    }

    /// The calls that wait, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self) -> Result<Vec<Approval>, store::Error> {
        let mut calls = self.store.approvals().list(now()).await?;
        calls.iter_mut().for_each(|call| self.complete(call));
        Ok(calls)
    }

    /// A call by its id.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, store::Error> {
        let mut call = self.store.approvals().get(now(), id).await?;
        call.iter_mut().for_each(|call| self.complete(call));
        Ok(call)
    }

    /// Adds what is shown of a call and is not in the store.
    fn complete(&self, call: &mut Approval) {
        let waiting = lock(&self.waiting);
        let shown = waiting.get(&call.id).and_then(|it| it.shown.as_ref());
        if let Some(shown) = shown {
            call.shown.clone_from(shown);
        }
    }

    /// Says whether a call may be done, and why (may be empty). The word stands for as long as a call
    /// waits.
    ///
    /// # Errors
    /// If no such call waits, the reason is too long, or the store fails.
    pub async fn decide(
        &self,
        id: &str,
        verdict: Verdict,
        reason: &str,
    ) -> Result<Approval, store::Error> {
        let now = now();
        let until = now.plus(self.patience);
        let mut decided = self
            .store
            .approvals()
            .decide(now, id, verdict, reason, until)
            .await?;
        // Before the waiting requests wake: the text is removed with the last of them.
        self.complete(&mut decided);
        self.tell();
        Ok(decided)
    }

    /// Whether somebody waits for the word on a call at the moment.
    #[must_use]
    pub fn is_awaited(&self, id: &str) -> bool {
        lock(&self.waiting).contains_key(id)
    }

    /// Nobody waits for a call of an agent's any more.
    pub(crate) async fn withdraw(self, agent: String, call: Digest) -> Result<(), store::Error> {
        let agent = AgentId::new(&agent)?;
        let calls = self.store.for_agent(&agent).held_calls();
        calls.withdraw(Hash(*call.as_bytes())).await?;
        self.tell();
        Ok(())
    }

    /// Withdraws every call of these agents that waits: what asked has ended.
    pub(crate) async fn withdraw_all(
        &self,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), store::Error> {
        loop {
            // Of very many, a part is listed at a time.
            let waiting = self.list().await?;
            let all = waiting.len();
            let meant: Vec<_> = waiting.iter().filter(|it| is_meant(&it.agent)).collect();
            for call in &meant {
                let agent = AgentId::new(&call.agent)?;
                let calls = self.store.for_agent(&agent).held_calls();
                calls.withdraw(call.hash).await?;
            }
            self.tell();
            if meant.is_empty() || all < store::MAX_LISTED {
                return Ok(());
            }
        }
    }

    fn tell(&self) {
        self.decided
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Asks the operator about an agent's call and waits for the word; `held` is told the id under
    /// which the operator sees it. Silence grants nothing.
    pub(crate) async fn ask<F: Future>(
        self,
        question: Question,
        held: impl Fn(String) -> F,
    ) -> Result<Word, store::Error> {
        let agent = AgentId::new(&question.agent)?;
        let calls = self.store.for_agent(&agent).held_calls();
        let hash = Hash(*question.hash.as_bytes());
        let mut decided = self.decided.subscribe();
        // What was decided before, perhaps before a restart, needs no second question.
        if let Some(word) = word(calls.take(now(), hash).await?) {
            return Ok(word);
        }
        let patience = tokio::time::sleep(self.patience);
        tokio::pin!(patience);
        // Another call just like this one may use up the word; then this one is asked about anew.
        loop {
            let call = question.call(hash, now().plus(self.patience));
            let asked = calls.hold(now(), call).await?;
            let _waiting = self.wait_for(&asked.id, &question);
            held(asked.id.clone()).await;
            let mut is_there = true;
            while is_there {
                tokio::select! {
                    biased;
                    _ = decided.changed() => {}
                    () = &mut patience => {
                        calls.withdraw(hash).await?;
                        self.tell();
                        return Ok(Word { id: asked.id, decision: ApprovalDecision::Expired });
                    }
                }
                let held = calls.take(now(), hash).await?;
                is_there = held.is_some();
                if let Some(word) = word(held) {
                    return Ok(word);
                }
            }
        }
    }

    fn wait_for(&self, id: &str, question: &Question) -> Waiting {
        let mut waiting = lock(&self.waiting);
        let awaited = waiting.entry(id.to_owned()).or_default();
        awaited.count = awaited.count.saturating_add(1);
        if !question.is_written {
            awaited.shown = Some(question.shown(&question.text));
        }
        drop(waiting);
        Waiting {
            all: Arc::clone(&self.waiting),
            id: id.to_owned(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        if let Some(awaited) = all.get_mut(&self.id) {
            awaited.count = awaited.count.saturating_sub(1);
            if awaited.count == 0 {
                all.remove(&self.id);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Question {
    /// The question about a call that a rule holds.
    ///
    /// # Errors
    /// If the call is ambiguous, or the operator could not see all of it.
    pub(crate) fn new(
        asked: Asked<'_>,
        rule: &RuleName,
        is_written: bool,
    ) -> Result<Self, Failure> {
        let namespace = asked.namespace();
        let (text, resolved) = (asked.shown(), asked.shown_resolution());
        // Who approves of a call must have seen all of it.
        let size = resolved.as_ref().map_or(0, |it| it.to_string().len());
        if text.len().saturating_add(size) > MAX_SHOWN {
            return Err(too_large(namespace, &rule.name, MAX_SHOWN));
        }
        Ok(Self {
            agent: asked.agent().to_owned(),
            hash: asked
                .hash()
                .ok_or_else(|| ambiguous(namespace, &rule.name))?,
            rule: rule.label.clone(),
            text,
            is_written,
            resolved,
        })
    }

    fn call(&self, hash: Hash, expires: UnixMillis) -> Call {
        Call {
            id: random_id().chars().take(12).collect(),
            hash,
            shown: match self.is_written {
                true => self.shown(&self.text),
                false => self.shown(NOT_WRITTEN),
            },
            expires,
        }
    }

    /// The call as the operator sees it: JSON. A line that came this far is JSON itself.
    fn shown(&self, text: &[u8]) -> Vec<u8> {
        let rule = serde_json::Value::from(self.rule.as_str());
        let mut shown = format!("{{\"rule\":{rule},\"request\":").into_bytes();
        shown.extend_from_slice(text);
        if let Some(resolved) = &self.resolved {
            shown.extend_from_slice(format!(",\"resolved\":{resolved}").as_bytes());
        }
        shown.push(b'}');
        shown
    }
}

fn word(held: Option<Held>) -> Option<Word> {
    let held = held?;
    let decision = match held.verdict {
        Verdict::Waiting => return None,
        Verdict::Granted => ApprovalDecision::Approved,
        Verdict::Refused => ApprovalDecision::Denied(held.reason),
    };
    let id = held.id;
    Some(Word { id, decision })
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
}
