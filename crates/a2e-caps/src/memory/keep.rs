//! Opening memories and storing in them.

use std::sync::Arc;

use a2e_runtime::{Failure, Session};
use a2e_wire::messages::memory::{
    MemoryInitRequest, MemoryInitResponse, MemoryStoreRequest, MemoryStoreResponse,
};
use a2e_wire::wire::ToStatic;
use a2e_wire::{ErrorCode, MemoryId, Namespace, Object};
use serde_json::json;
use store::{Error, NewEntry, Tier, UnixMillis};

use super::spaces::{Space, Spaces};
use super::{Memory, NO_WRITE, Opened, apart, broke_off, code, entry, failed, forget_session};

/// What is stored at once on the connection's own task.
const INLINE: usize = 16 * 1024;

impl Memory {
    pub(super) async fn init(
        &self,
        request: MemoryInitRequest<'static>,
        session: &Session,
    ) -> Result<MemoryInitResponse<'static>, Failure> {
        let space = Space::named(&request.namespace, &request.scope)?;
        let namespace = space.namespace.clone();
        let id = session.state::<Spaces>().open(space.clone())?;
        let opened = self.opened(&space, session)?;
        let sizes = opened.memories.sizes(self.now()).await.map_err(failed)?;
        let size = |at: usize| {
            let size = sizes.get(at).copied().unwrap_or_default();
            json!({"entries": size.entries, "bytes": size.bytes})
        };
        let tiers = match opened.may_read {
            true => json!({"working": size(0), "episodic": size(1), "semantic": size(2)}),
            false => json!({"working": size(0), "episodic": size(1)}),
        };
        let tiers = Object::parse(&tiers.to_string())
            .ok()
            .map(ToStatic::to_static);
        Ok(MemoryInitResponse {
            memory_id: MemoryId::from(id),
            namespace: namespace.into(),
            success: true,
            tiers,
        })
    }

    pub(super) async fn store(
        &self,
        request: MemoryStoreRequest<'static>,
        session: &Session,
    ) -> Result<MemoryStoreResponse<'static>, Failure> {
        let opened = self.open(&request.memory_id, session)?;
        let now = self.now();
        let mut response = MemoryStoreResponse::new();
        let (mut names, mut entries): (Vec<_>, Vec<NewEntry>) = (Vec::new(), Vec::new());
        let mut refusals: Vec<ErrorCode<'static>> = Vec::new();
        for wire in request.entries {
            match entry::to_store(&wire, now) {
                Ok(entry) if entry.tier == Tier::Semantic && !opened.may_write => {
                    refusals.push(ErrorCode::Unauthorized);
                    response
                        .errors
                        .push(format!("{}: {NO_WRITE}", entry.key).into());
                }
                Ok(entry) => {
                    names.push((wire.key, entry.key.clone()));
                    entries.push(entry);
                }
                Err(why) => {
                    refusals.push(ErrorCode::SchemaViolation);
                    response.errors.push(why.into());
                }
            }
        }
        for ((key, name), outcome) in names
            .into_iter()
            .zip(self.put(&opened, session, now, entries).await?)
        {
            match outcome {
                Ok(()) => response.stored.push(key),
                Err(error) => {
                    let code = code(&error);
                    response
                        .errors
                        .push(format!("{name}: {code}: {error}").into());
                    refusals.push(code);
                }
            }
        }
        // Nothing was kept, and for one reason: that is what the request comes to.
        if let (true, Some(code)) = (response.stored.is_empty(), refusals.first().cloned())
            && code != ErrorCode::SchemaViolation
            && refusals.iter().all(|other| *other == code)
        {
            let text = response.errors.join("; ");
            return Err(Failure::new(code, Namespace::Memory, text));
        }
        Ok(response)
    }

    async fn put(
        &self,
        opened: &Opened,
        session: &Session,
        now: UnixMillis,
        entries: Vec<NewEntry>,
    ) -> Result<Vec<Result<(), Error>>, Failure> {
        let (memories, rooms) = (Arc::clone(&opened.memories), self.settings.rooms);
        let ended = session.ended().clone();
        let size: usize = entries.iter().map(|entry| entry.content.len()).sum();
        // A task of its own: what a request stores that is dropped with its session has to be seen to.
        let stored = tokio::spawn(async move {
            let putting = Arc::clone(&memories);
            let put = match size <= INLINE {
                true => putting.put(now, entries, rooms),
                // To read it into words takes a while.
                false => apart(move || putting.put(now, entries, rooms)).await?,
            };
            let outcomes = put.await.map_err(failed)?;
            // Nothing clears what is stored for a session after its end.
            if ended.is_cancelled() {
                forget_session(&*memories).await;
            }
            Ok::<_, Failure>(outcomes)
        });
        let outcomes = stored.await.map_err(|_| broke_off())??;
        if let Some(reader) = &self.settings.reader {
            reader.tell();
        }
        Ok(outcomes)
    }
}
