//! Calls that wait for the operator's word.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canonical::Digest;
use store::{AgentId, Approval, Call, Hash, Held, HeldCalls, Store, UnixMillis, Verdict};
use tokio::sync::watch;

use crate::clock::random_id;

/// The held calls of a host, and who is told when one is decided.
#[derive(Debug, Clone)]
pub struct Approvals {
    store: Store,
    /// How often something was decided.
    decided: Arc<watch::Sender<u64>>,
    /// How long a call waits.
    patience: Duration,
}

/// A call that the operator is asked about.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) agent: String,
    /// Exactly this call.
    pub(crate) hash: Digest,
    /// The rule that asks for it.
    pub(crate) rule: String,
    /// The request as received.
    pub(crate) line: Arc<[u8]>,
}

/// What became of a held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The id under which the operator saw it.
    pub(crate) id: String,
    pub(crate) is_granted: bool,
}

/// How long a held call waits, unless the configuration says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What is shown to the operator, in bytes: who approves must have seen all of it.
pub(crate) const MAX_SHOWN: usize = 64 * 1024;

impl Approvals {
    /// Keeps held calls in a store.
    #[must_use]
    pub fn new(store: Store, patience: Duration) -> Self {
        Self {
            store,
            decided: Arc::new(watch::channel(0).0),
            patience,
        }
    }

    /// The calls that wait, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self) -> Result<Vec<Approval>, store::Error> {
        self.store.approvals().list(now()).await
    }

    /// A call by its id.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, store::Error> {
        self.store.approvals().get(now(), id).await
    }

    /// Says whether a call may be done. The word stands for as long as a call waits.
    ///
    /// # Errors
    /// If no such call waits, or the store fails.
    pub async fn decide(&self, id: &str, verdict: Verdict) -> Result<Approval, store::Error> {
        let now = now();
        let until = now.plus(self.patience);
        let decided = self
            .store
            .approvals()
            .decide(now, id, verdict, until)
            .await?;
        self.decided
            .send_modify(|count| *count = count.wrapping_add(1));
        Ok(decided)
    }

    /// Asks the operator about an agent's call and waits for the word; `held` is told the id under
    /// which the operator sees it. Silence grants nothing.
    pub(crate) async fn ask<F: Future>(
        self,
        question: Question,
        held: impl FnOnce(String) -> F,
    ) -> Result<Word, store::Error> {
        let agent = AgentId::new(&question.agent)?;
        let calls = self.store.for_agent(&agent).held_calls();
        let hash = Hash(*question.hash.as_bytes());
        let mut decided = self.decided.subscribe();
        // What was decided before, perhaps before a restart, needs no second question.
        if let Some(word) = word(calls.take(now(), hash).await?) {
            return Ok(word);
        }
        let asked = now();
        let call = Call {
            id: random_id().chars().take(12).collect(),
            hash,
            shown: question.shown(),
            expires: asked.plus(self.patience),
        };
        let waiting = calls.hold(asked, call).await?;
        held(waiting.id.clone()).await;
        let patience = tokio::time::sleep(self.patience);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                _ = decided.changed() => {}
                () = &mut patience => return silence(&*calls, hash, waiting).await,
            }
            if let Some(word) = word(calls.take(now(), hash).await?) {
                return Ok(word);
            }
        }
    }
}

impl Question {
    /// The call as the operator sees it: JSON. A line that came this far is JSON itself.
    fn shown(&self) -> Vec<u8> {
        let rule = serde_json::Value::from(self.rule.as_str());
        let mut shown = format!("{{\"rule\":{rule},\"request\":").into_bytes();
        shown.extend_from_slice(&self.line);
        shown.push(b'}');
        shown
    }
}

fn word(held: Option<Held>) -> Option<Word> {
    let Held { id, verdict } = held?;
    let is_granted = match verdict {
        Verdict::Waiting => return None,
        Verdict::Granted => true,
        Verdict::Refused => false,
    };
    Some(Word { id, is_granted })
}

/// Nobody has said anything; whoever does now is too late.
async fn silence(calls: &dyn HeldCalls, hash: Hash, waiting: Held) -> Result<Word, store::Error> {
    calls.withdraw(hash).await?;
    Ok(Word {
        id: waiting.id,
        is_granted: false,
    })
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
}
