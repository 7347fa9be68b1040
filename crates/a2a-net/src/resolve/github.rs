//! How often GitHub is asked whose a repository is.
//!
//! It answers 60 such questions of an address in an hour, 5,000 with a token. So only an agent is asked
//! about whose published manifest fits what it has shown, a repository is asked about once in six hours,
//! and those that the operator knows have a reserve.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use a2a_identity::{
    Cache, Did, DidGithub, Document, GithubIds, Lookup, Resolution, ResolveError,
    SelfSignedManifest, Step,
};
use a2a_session::{ClaimedIdentity, Directory as _, Holder};
use base::{Limits, Quota};

use super::Inner;
use super::in_flight::Query;
use crate::standing::lock;

/// For how long GitHub counts.
const PERIOD: Duration = Duration::from_secs(3600);
/// For how long an owner is believed, as what was fetched of a did:github is (profile §4).
const OWNER: Duration = Duration::from_secs(6 * 3600);

/// Questions to GitHub in an hour, for who needs the answer.
pub(super) const LIMITS: Limits = Limits {
    total: 60,
    per_holder: 6,
    reserved: 20,
};
/// The same with a token.
pub(super) const LIMITS_WITH_TOKEN: Limits = Limits {
    total: 5000,
    per_holder: 100,
    reserved: 1000,
};

/// What GitHub said of repositories, and how often it was asked.
#[derive(Debug)]
pub(super) struct Github(Mutex<State>);

#[derive(Debug)]
struct State {
    owners: Cache<Holder, GithubIds>,
    asked: Quota<Holder>,
    /// When, and for whom.
    recent: VecDeque<(Duration, Holder)>,
}

impl Github {
    pub(super) const fn new(asked: Limits, cached: Limits) -> Self {
        Self(Mutex::new(State {
            owners: Cache::new(cached),
            asked: Quota::new(asked),
            recent: VecDeque::new(),
        }))
    }

    /// What GitHub said lately of a repository; `None` if it may be asked now, which is counted.
    pub(super) fn owner(
        &self,
        github: &DidGithub,
        holder: Holder,
        now: Duration,
    ) -> Result<Option<GithubIds>, ResolveError> {
        let mut state = lock(&self.0);
        match state.owners.look_up(&name(github), now) {
            Lookup::Known(ids) => return Ok(Some(ids)),
            Lookup::Failed(error) => return Err(error),
            Lookup::Fetch => {}
        }
        state.forget_old(now);
        let taken = state.asked.take(holder, holder.class(), 1);
        taken.map_err(|_| ResolveError::Busy)?;
        state.recent.push_back((now, holder));
        Ok(None)
    }

    /// Keeps what GitHub said.
    pub(super) fn answered(
        &self,
        github: &DidGithub,
        holder: Holder,
        now: Duration,
        answer: Result<GithubIds, ResolveError>,
    ) {
        let outcome = answer.map(|ids| (ids, OWNER));
        let holder = (holder, holder.class());
        let mut state = lock(&self.0);
        state.owners.finish(holder, &name(github), now, outcome);
    }

    /// Forgets what GitHub said of the repository of a DID.
    pub(super) fn forget(&self, did: &Did) {
        if let Did::Github(github) = did {
            lock(&self.0).owners.forget(&name(github));
        }
    }
}

impl Inner {
    /// Whether the manifest that was fetched for a did:github is good, and what the agent has shown: that
    /// takes nothing of GitHub's quota.
    pub(super) fn check_published(
        &self,
        query: &Query,
        resolution: &Resolution,
    ) -> Result<(), ResolveError> {
        let pins = self.standing.pins(&query.did);
        let rules = self.rules(&query.did, &pins);
        let published = resolution.published().unwrap_or_default();
        let published = SelfSignedManifest::read(published, &query.did, &rules)?;
        let is_it = |shown: &ClaimedIdentity| {
            let keys = published.listed_keys();
            shown.manifest_hash == published.hash() && keys.contains_all(&shown.keys)
        };
        match query.shown.as_ref().is_none_or(is_it) {
            true => Ok(()),
            false => Err(ResolveError::NotShown),
        }
    }

    /// Asks GitHub whose a repository is, unless it said so lately.
    pub(super) async fn ask_owner(
        &self,
        query: &Query,
        github: &DidGithub,
        resolution: &mut Resolution,
        url: &str,
    ) -> Result<Step, ResolveError> {
        let holder = query.holder;
        let now = || self.clock.now().monotonic;
        if let Some(ids) = self.github.owner(github, holder, now())? {
            return Ok(resolution.owner_known(ids));
        }
        let answer = self.fetch(holder, url, Document::Ownership).await;
        let step = resolution.answer(url, answer);
        let said = match &step {
            Step::Done(resolved) => resolved.github.map(Ok),
            // That is about the DID; the numbers that GitHub said were right.
            Step::Failed(ResolveError::GithubChanged) | Step::Fetch(_) => None,
            Step::Failed(error) => Some(Err(error.clone())),
        };
        if let Some(said) = said {
            self.github.answered(github, holder, now(), said);
        }
        Ok(step)
    }
}

impl State {
    fn forget_old(&mut self, now: Duration) {
        while let Some((at, holder)) = self.recent.front().copied()
            && at.saturating_add(PERIOD) <= now
        {
            self.recent.pop_front();
            self.asked.give_back(&holder, holder.class(), 1);
        }
    }
}

/// All files of a repository have one owner.
fn name(github: &DidGithub) -> Did {
    Did::Github(github.repository())
}
