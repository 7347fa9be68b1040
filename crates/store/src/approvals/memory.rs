//! Held calls in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Approval, Approvals, Call, Caller, Held, HeldCalls, MAX_LISTED, Verdict, WHAT, check_decision,
    may_become,
};
use crate::memory::{Kept, Memory, Shelves};
use crate::scope::Owner;
use crate::{Error, Hash, Pending, UnixMillis};

/// Held calls, by their owners.
#[derive(Debug, Default)]
pub(crate) struct Table(Shelves<Hash, Entry>);

#[derive(Debug)]
struct Entry {
    id: String,
    did: Option<String>,
    shown: Vec<u8>,
    created: UnixMillis,
    verdict: Verdict,
    reason: String,
}

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
        }
    }

    fn ask(&self, now: UnixMillis, call: Call) -> Result<Held, Error> {
        let limit = self.memory.limits().approvals;
        call.check(limit)?;
        let table = &mut self.memory.tables().approvals.0;
        if let Some(kept) = table.live(&self.owner, &call.hash, now) {
            return Ok(kept.value.held());
        }
        if table
            .everything(now)
            .any(|(_, _, kept)| kept.value.id == call.id)
        {
            return Err(Error::Exists { what: WHAT });
        }
        let kept = Kept {
            bytes: call.size(),
            expires: call.expires,
            value: Entry {
                id: call.id.clone(),
                did: call.did,
                shown: call.shown,
                created: now,
                verdict: Verdict::Waiting,
                reason: String::new(),
            },
        };
        let held = kept.value.held();
        let entry = BTreeMap::from([(call.hash, kept)]);
        table.put(&self.owner, now, limit, WHAT, entry)?;
        // Whatever else is left of this name has expired.
        table.retain_all(|owner, hash, kept| {
            kept.value.id != call.id || (*owner == self.owner && *hash == call.hash)
        });
        Ok(held)
    }

    fn word(
        &self,
        now: UnixMillis,
        id: &str,
        (verdict, reason): (Verdict, &str),
        expires: UnixMillis,
    ) -> Result<Approval, Error> {
        check_decision(verdict, reason)?;
        let missing = Error::NotFound { what: WHAT };
        let table = &mut self.memory.tables().approvals.0;
        let waiting = table
            .everything(now)
            .find(|(_, _, kept)| kept.value.id == id && may_become(kept.value.verdict, verdict));
        let Some((owner, hash)) = waiting.map(|(owner, hash, _)| (Arc::clone(owner), *hash)) else {
            return Err(missing);
        };
        let kept = table.live_mut(&owner, &hash, now).ok_or(missing)?;
        kept.value.verdict = verdict;
        reason.clone_into(&mut kept.value.reason);
        kept.expires = expires;
        Ok(kept.value.approval(&owner, hash, expires))
    }
}

impl HeldCalls for InMemory {
    fn hold(&self, now: UnixMillis, call: Call) -> Pending<Held> {
        Pending::ready(self.ask(now, call))
    }

    fn take(&self, now: UnixMillis, hash: Hash) -> Pending<Option<Held>> {
        let table = &mut self.memory.tables().approvals.0;
        let held = table
            .live(&self.owner, &hash, now)
            .map(|kept| kept.value.held());
        if held
            .as_ref()
            .is_some_and(|held| held.verdict == Verdict::Granted)
        {
            table.remove(&self.owner, &hash);
        }
        Pending::ready(Ok(held))
    }

    fn withdraw(&self, hash: Hash) -> Pending<()> {
        let table = &mut self.memory.tables().approvals.0;
        table.retain(&self.owner, |held, kept| {
            *held != hash || kept.value.verdict != Verdict::Waiting
        });
        Pending::ready(Ok(()))
    }
}

impl Approvals for InMemory {
    fn each(&self, now: UnixMillis, show: &mut dyn FnMut(Approval)) -> Pending<()> {
        let tables = self.memory.tables();
        let waiting = tables.approvals.0.everything(now);
        let waiting = waiting.filter(|(_, _, kept)| kept.value.verdict == Verdict::Waiting);
        let mut list: Vec<Approval> = waiting
            .map(|(owner, hash, kept)| kept.value.approval(owner, *hash, kept.expires))
            .collect();
        list.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        list.into_iter().take(MAX_LISTED).for_each(show);
        Pending::ready(Ok(()))
    }

    fn callers(&self, now: UnixMillis, after: Option<Caller>, most: usize) -> Pending<Vec<Caller>> {
        let tables = self.memory.tables();
        let waiting = tables.approvals.0.everything(now);
        let waiting = waiting.filter(|(_, _, kept)| kept.value.verdict == Verdict::Waiting);
        let callers = waiting.map(|(owner, _, kept)| Caller {
            agent: owner.to_string(),
            did: kept.value.did.clone(),
        });
        let callers: BTreeSet<_> = callers.collect();
        let behind = |caller: &Caller| after.as_ref().is_none_or(|after| caller > after);
        let callers = callers.into_iter().filter(behind);
        Pending::ready(Ok(callers.take(most).collect()))
    }

    fn withdraw(&self, caller: &Caller) -> Pending<()> {
        let table = &mut self.memory.tables().approvals.0;
        table.retain(&caller.agent.as_str().into(), |_, kept| {
            kept.value.did != caller.did || kept.value.verdict != Verdict::Waiting
        });
        Pending::ready(Ok(()))
    }

    fn get(&self, now: UnixMillis, id: &str) -> Pending<Option<Approval>> {
        let tables = self.memory.tables();
        let mut all = tables.approvals.0.everything(now);
        let found = all.find(|(_, _, kept)| kept.value.id == id);
        let found =
            found.map(|(owner, hash, kept)| kept.value.approval(owner, *hash, kept.expires));
        Pending::ready(Ok(found))
    }

    fn decide(
        &self,
        now: UnixMillis,
        id: &str,
        verdict: Verdict,
        reason: &str,
        expires: UnixMillis,
    ) -> Pending<Approval> {
        Pending::ready(self.word(now, id, (verdict, reason), expires))
    }
}

impl Entry {
    fn held(&self) -> Held {
        Held {
            id: self.id.clone(),
            verdict: self.verdict,
            reason: self.reason.clone(),
        }
    }

    fn approval(&self, owner: &str, hash: Hash, expires: UnixMillis) -> Approval {
        Approval {
            id: self.id.clone(),
            agent: owner.to_owned(),
            hash,
            shown: self.shown.clone(),
            created: self.created,
            expires,
            verdict: self.verdict,
            reason: self.reason.clone(),
        }
    }
}

impl Table {
    pub(crate) fn sweep(&mut self, now: UnixMillis) -> usize {
        self.0.sweep(now)
    }
}
