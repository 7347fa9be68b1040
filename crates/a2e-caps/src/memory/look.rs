//! Finding and forgetting.

use std::sync::Arc;

use a2e_runtime::{Failure, Session};
use a2e_wire::messages::memory::{
    MemoryForgetRequest, MemoryForgetResponse, MemoryRetrieveRequest, MemoryRetrieveResponse,
};
use a2e_wire::{ErrorCode, Namespace};
use store::{Found, MAX_FOUND, Tier, Unwanted, Wanted};

use super::{Memory, NO_WRITE, Opened, apart, entry, failed, schema};

impl Memory {
    pub(super) async fn retrieve(
        &self,
        request: MemoryRetrieveRequest<'static>,
        session: &Session,
    ) -> Result<MemoryRetrieveResponse<'static>, Failure> {
        let opened = self.open(&request.memory_id, session)?;
        let tiers = opened.tiers(&request.tier)?;
        let limit = usize::try_from(request.limit).unwrap_or(0).min(MAX_FOUND);
        if let Some(after) = request.after {
            return self.page(&opened, &tiers, after, limit).await;
        }
        let keys = request.keys.iter().map(entry::name);
        let query = request.query.trim().to_owned();
        let near = match &self.settings.reader {
            Some(reader) if !query.is_empty() => reader.near(&query).await,
            _ => None,
        };
        let wanted = Wanted {
            tiers,
            keys: keys.collect::<Result<_, _>>().map_err(schema)?,
            tags: request.tags.iter().map(|tag| (**tag).to_owned()).collect(),
            query,
            near,
            min_score: request.min_score.get(),
            limit,
        };
        let now = self.now();
        let memories = Arc::clone(&opened.memories);
        let found = match wanted.query.is_empty() && wanted.tags.is_empty() {
            true => memories.find(now, &wanted),
            false => apart(move || memories.find(now, &wanted)).await?,
        };
        let Found {
            entries,
            total,
            is_more,
        } = found.await.map_err(failed)?;
        let entries = entries.into_iter();
        let entries = entries.map(|(entry, score)| entry::to_wire(entry, score));
        Ok(MemoryRetrieveResponse {
            entries: entries.collect::<Result<_, _>>().map_err(broken)?,
            total: i64::try_from(total).unwrap_or(i64::MAX),
            more: is_more.then_some(true),
            next: None,
        })
    }

    /// The next part of a copy of a tier.
    async fn page(
        &self,
        opened: &Opened,
        tiers: &[Tier],
        after: i64,
        limit: usize,
    ) -> Result<MemoryRetrieveResponse<'static>, Failure> {
        let [tier] = tiers else {
            return Err(schema(
                "`after` needs a `tier`: one is copied after the other",
            ));
        };
        let now = self.now();
        let page = opened.memories.page(now, *tier, after, limit);
        let page = page.await.map_err(failed)?;
        let sizes = opened.memories.sizes(now).await.map_err(failed)?;
        let total = Tier::ALL
            .iter()
            .zip(&sizes)
            .find(|(other, _)| *other == tier);
        let next = page.last().map(|(number, _)| *number);
        let entries = page.into_iter().map(|(_, entry)| entry::copied(entry));
        Ok(MemoryRetrieveResponse {
            entries: entries.collect::<Result<_, _>>().map_err(broken)?,
            total: total.map_or(0, |(_, size)| {
                i64::try_from(size.entries).unwrap_or(i64::MAX)
            }),
            more: None,
            next,
        })
    }

    pub(super) async fn forget(
        &self,
        request: MemoryForgetRequest<'static>,
        session: &Session,
    ) -> Result<MemoryForgetResponse, Failure> {
        let opened = self.open(&request.memory_id, session)?;
        if request.keys.is_empty() && request.tags.is_empty() && request.tier.as_str().is_empty() {
            return Err(schema(
                "without keys and tags, `tier` must say which tier is cleared",
            ));
        }
        let mut tiers = opened.tiers(&request.tier)?;
        if tiers == [Tier::Semantic] && !opened.may_write {
            return Err(Failure::new(
                ErrorCode::Unauthorized,
                Namespace::Memory,
                NO_WRITE,
            ));
        }
        tiers.retain(|tier| *tier != Tier::Semantic || opened.may_write);
        let keys = request.keys.iter().map(entry::name);
        let unwanted = Unwanted {
            tiers,
            keys: keys.collect::<Result<_, _>>().map_err(schema)?,
            tags: request.tags.iter().map(|tag| (**tag).to_owned()).collect(),
        };
        let (now, mut deleted) = (self.now(), 0_usize);
        loop {
            let forgotten = opened
                .memories
                .forget(now, &unwanted)
                .await
                .map_err(failed)?;
            deleted += forgotten.removed;
            if !forgotten.has_more {
                break;
            }
        }
        Ok(MemoryForgetResponse {
            deleted: i64::try_from(deleted).unwrap_or(i64::MAX),
        })
    }
}

fn broken(why: String) -> Failure {
    Failure::new(ErrorCode::RuntimeError, Namespace::Memory, why)
}
