//! Calls that wait for the operator's word.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_session::Failure;
use canonical::Digest;
use store::{AgentId, Approval, Call, Hash, Held, Store, UnixMillis, Verdict};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};

use crate::access::{AccessHolder, IsMeant};
use crate::clock::random_id;
use crate::decision::{Asked, RuleName, ambiguous, too_large};
use crate::operator::summary;
use crate::session::Session;

/// The held calls of a host, and who is told when one is decided.
#[derive(Debug, Clone)]
pub struct Approvals {
    store: Store,
    /// How often something was decided or withdrawn.
    decided: Arc<watch::Sender<u64>>,
    /// Where calls are announced that have become pending.
    requests: broadcast::Sender<ApprovalRequest>,
    /// The calls that somebody waits for the word on, by id.
    waiting: Arc<Mutex<HashMap<String, AwaitedCall>>>,
    /// How long a call waits.
    patience: Duration,
}

/// A call that has become pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The id under which the operator sees it.
    pub id: String,
    /// The agent that makes it.
    pub agent: String,
    /// The rule that requires approval, as the operator knows it.
    pub rule: String,
    /// What is called, with what, in one line; one that ends in `…` goes on.
    pub summary: String,
    /// Until when it waits: milliseconds since 1970.
    pub until: i64,
}

/// A call that the operator is asked about.
#[derive(Debug)]
pub(crate) struct Question {
    /// The session whose call it is. Asking ends when its access is revoked.
    session: Arc<Session>,
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

/// A call that the operator is asked about, in the store.
#[derive(Clone)]
struct StoredCall {
    approvals: Approvals,
    session: Arc<Session>,
    hash: Hash,
}

/// A call that the operator is asked about. If this is dropped before the question is answered, the
/// call is withdrawn.
struct PendingCall {
    call: StoredCall,
    is_over: bool,
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

/// Announced calls that may wait to be heard of; of more, the oldest are dropped.
const REQUESTS: usize = 64;

/// How many identities are looked at at a time when calls are withdrawn.
const PAGE: usize = 1_000;

/// What is shown to the operator, in bytes: who approves must have seen all of it.
const MAX_SHOWN: usize = 64 * 1024;

impl Approvals {
    /// Keeps held calls in a store.
    #[must_use]
    pub fn new(store: Store, patience: Duration) -> Self {
        Self {
            store,
            decided: Arc::new(watch::channel(0).0),
            requests: broadcast::Sender::new(REQUESTS),
            waiting: Arc::default(),
            patience,
        }
    }

    /// The calls that wait, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self) -> Result<Vec<Approval>, store::Error> {
        self.each(|call| call).await
    }

    /// Something of each call that waits, oldest first. The calls are in memory one at a time.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn each<T>(&self, mut of: impl FnMut(Approval) -> T) -> Result<Vec<T>, store::Error> {
        let mut all = Vec::new();
        let mut show = |mut call| {
            self.complete(&mut call);
            all.push(of(call));
        };
        let shown = self.store.approvals().each(now(), &mut show);
        shown.await?;
        Ok(all)
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

    /// Hears of calls as they become pending. Whoever is slow misses some, and nothing waits for that.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<ApprovalRequest> {
        self.requests.subscribe()
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

    /// Withdraws every call that waits and was asked for these identities.
    pub(crate) async fn withdraw_all(&self, is_meant: &IsMeant) -> Result<(), store::Error> {
        let approvals = self.store.approvals();
        let mut after = None;
        loop {
            let callers = approvals.callers(now(), after, PAGE).await?;
            for caller in &callers {
                let holder = AccessHolder {
                    agent: caller.agent.clone(),
                    did: caller.did.clone(),
                };
                if is_meant(&holder) {
                    approvals.withdraw(caller).await?;
                }
            }
            self.tell();
            if callers.len() < PAGE {
                return Ok(());
            }
            after = callers.into_iter().next_back();
        }
    }

    fn tell(&self) {
        self.decided
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Holds an agent's call and waits for the operator's decision; `held` gets the id of the held call.
    /// Without a decision in time, or when the access is revoked, nothing is granted.
    pub(crate) async fn ask<F: Future>(
        self,
        question: Question,
        held: impl Fn(String) -> F,
    ) -> Result<Word, store::Error> {
        let mut pending = PendingCall {
            call: StoredCall {
                approvals: self.clone(),
                session: Arc::clone(&question.session),
                hash: question.hash(),
            },
            is_over: false,
        };
        let (mut id, access) = (String::new(), question.session.access());
        let word = tokio::select! {
            biased;
            () = access.revoked().cancelled() => None,
            word = self.decision(&question, &mut id, held) => word?,
        };
        if word.is_none() {
            pending.call.withdraw().await?;
        }
        pending.is_over = true;
        Ok(word.unwrap_or(Word {
            id,
            decision: ApprovalDecision::Expired,
        }))
    }

    /// The operator's decision; none if there was none in time. Sets `id` to that of the held call.
    async fn decision<F: Future>(
        &self,
        question: &Question,
        id: &mut String,
        held: impl Fn(String) -> F,
    ) -> Result<Option<Word>, store::Error> {
        let agent = AgentId::new(&question.session.identity().agent)?;
        let calls = self.store.for_agent(&agent).held_calls();
        let hash = question.hash();
        let mut decided = self.decided.subscribe();
        // What was decided before, perhaps before a restart, needs no second question.
        if let Some(word) = word(calls.take(now(), hash).await?) {
            return Ok(Some(word));
        }
        let patience = tokio::time::sleep(self.patience);
        tokio::pin!(patience);
        // An equal call may use the decision or be withdrawn; then this one is held anew.
        loop {
            let until = now().plus(self.patience);
            let asked = calls.hold(now(), question.call(until)).await?;
            id.clone_from(&asked.id);
            let _waiting = self.wait_for(&asked.id, question, until);
            held(asked.id).await;
            let mut is_there = true;
            while is_there {
                tokio::select! {
                    biased;
                    _ = decided.changed() => {}
                    () = &mut patience => return Ok(None),
                }
                let held = calls.take(now(), hash).await?;
                is_there = held.is_some();
                if let Some(word) = word(held) {
                    return Ok(Some(word));
                }
            }
        }
    }

    fn wait_for(&self, id: &str, question: &Question, until: UnixMillis) -> Waiting {
        let mut waiting = lock(&self.waiting);
        let awaited = waiting.entry(id.to_owned()).or_default();
        if awaited.count == 0 {
            // Without anybody who listens it is announced to nobody.
            let _ = self.requests.send(question.request(id, until));
        }
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

impl StoredCall {
    /// Removes it, so that the operator need not decide about it.
    async fn withdraw(&self) -> Result<(), store::Error> {
        let agent = AgentId::new(&self.session.identity().agent)?;
        let calls = self.approvals.store.for_agent(&agent).held_calls();
        calls.withdraw(self.hash).await?;
        self.approvals.tell();
        Ok(())
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        // The next process of this host may resume the session, and with it the call.
        if self.is_over || self.call.session.at().host.is_stopping() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let call = self.call.clone();
            runtime.spawn(async move {
                if let Err(error) = call.withdraw().await {
                    tracing::warn!(%error, "a held call that has ended cannot be withdrawn");
                }
            });
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
        session: &Arc<Session>,
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
            session: Arc::clone(session),
            hash: asked
                .hash()
                .ok_or_else(|| ambiguous(namespace, &rule.name))?,
            rule: rule.label.clone(),
            text,
            is_written,
            resolved,
        })
    }

    fn hash(&self) -> Hash {
        Hash(*self.hash.as_bytes())
    }

    fn call(&self, expires: UnixMillis) -> Call {
        Call {
            id: random_id().chars().take(12).collect(),
            hash: self.hash(),
            did: AccessHolder::of(self.session.identity()).did,
            shown: self.kept(),
            expires,
        }
    }

    /// What is announced of it: nothing that must not be written, for who knows where it goes.
    fn request(&self, id: &str, until: UnixMillis) -> ApprovalRequest {
        ApprovalRequest {
            id: id.to_owned(),
            agent: self.session.identity().agent.clone(),
            rule: self.rule.clone(),
            summary: summary(&self.kept()),
            until: until.0,
        }
    }

    /// What the store may have of it.
    fn kept(&self) -> Vec<u8> {
        match self.is_written {
            true => self.shown(&self.text),
            false => self.shown(NOT_WRITTEN),
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

#[cfg(test)]
mod tests {
    use std::future::ready;

    use policy::Retention;
    use store::{Limits, Memory};

    use super::*;
    use crate::auth::{Identity, Source};
    use crate::host::Host;
    use crate::session::At;
    use crate::slots::Holder;

    /// A call that is withdrawn with its agent's access is not asked about anew.
    #[tokio::test]
    async fn asking_ends_when_the_access_is_revoked() {
        let store = Store::new(Memory::new(Limits::default()));
        let approvals = Approvals::new(store, Duration::from_secs(3600));
        let host = Host::builder().approvals(approvals.clone()).build();
        let ada = Identity::named("ada");
        let at = At {
            host: host.clone(),
            settings: host.settings(),
            hash: String::new(),
            is_passing: false,
            retention: Retention::Permanent,
            access: host.inner.access.enter(&ada),
            bytes: host
                .inner
                .slots
                .account(Holder::of(&ada, Source::Own, true)),
        };
        let commands = host.inner.nobody.clone();
        let question = Question {
            session: Arc::new(Session::new(at, ada, "key".to_owned(), commands)),
            hash: Digest::of(b"call"),
            rule: "ask".to_owned(),
            text: b"{}".to_vec(),
            is_written: true,
            resolved: None,
        };
        let mut requests = approvals.subscribe();
        let asking = tokio::spawn(approvals.clone().ask(question, |_| ready(())));
        let request = requests.recv().await.unwrap();
        assert_eq!(request.id, approvals.list().await.unwrap()[0].id);
        assert_eq!((&*request.agent, &*request.rule), ("ada", "ask"));
        host.revoke_access(|it| it.agent == "ada").await.unwrap();
        assert!(approvals.list().await.unwrap().is_empty());
        let word = asking.await.unwrap().unwrap();
        assert_eq!(word.decision, ApprovalDecision::Expired);
        assert!(approvals.list().await.unwrap().is_empty());
    }
}
