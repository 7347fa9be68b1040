//! Whose memory a program has that is a sub-agent: that of the agent that has it, or one of its own.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use a2e_runtime::{Errand, Failure};
use a2e_wire::messages::memory::{
    MemoryInitRequest, MemoryInitResponse, MemoryRetrieveRequest, MemoryStoreRequest, MemoryTier,
};
use a2e_wire::{Body, ErrorCode, MemoryId, Namespace};

use super::scope::Memory;
use super::tree::Sub;

/// The memories that a sub-agent has opened, if they are not those of the agent that has it.
#[derive(Debug)]
pub(super) struct Memories {
    /// What their names begin with.
    owner: Option<String>,
    /// Whether they begin as copies.
    is_copied: bool,
    /// By id, what the sub-agent calls them.
    known: Mutex<BTreeMap<String, String>>,
}

/// Entries that are copied at once.
const PART: i64 = 100;

const DEFAULT: &str = "default";

impl Memories {
    pub(super) fn new(sub: &Sub) -> Self {
        Self {
            owner: sub.memory.clone(),
            is_copied: sub.wish.memory == Memory::Snapshot,
            known: Mutex::default(),
        }
    }

    /// A request about memories as it is meant.
    pub(super) async fn prepare(
        &self,
        body: Body<'static>,
        errand: &Errand,
        sub: &Sub,
    ) -> Result<Body<'static>, Failure> {
        let Some(owner) = &self.owner else {
            return Ok(body);
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "nothing else is about memories"
        )]
        Ok(match body {
            Body::MemoryInitRequest(mut init) => {
                // Opened here first, so that it has its copy before anybody reads it.
                self.open(owner, &init.namespace, errand, sub).await?;
                init.namespace = format!("{owner}/{}", init.namespace).into();
                init.into()
            }
            Body::MemoryStoreRequest(mut store) => {
                store.memory_id = self.meant(store.memory_id, errand, sub).await?;
                store.into()
            }
            Body::MemoryRetrieveRequest(mut retrieve) => {
                retrieve.memory_id = self.meant(retrieve.memory_id, errand, sub).await?;
                retrieve.into()
            }
            Body::MemoryForgetRequest(mut forget) => {
                forget.memory_id = self.meant(forget.memory_id, errand, sub).await?;
                forget.into()
            }
            body => body,
        })
    }

    /// An answer in the words of the sub-agent.
    pub(super) fn shown(&self, answer: Body<'static>) -> Body<'static> {
        match (answer, &self.owner) {
            (Body::MemoryInitResponse(mut opened), Some(owner)) => {
                let own = opened.namespace.strip_prefix(&format!("{owner}/"));
                if let Some(own) = own.map(str::to_owned) {
                    opened.namespace = own.into();
                }
                opened.into()
            }
            (answer, _) => answer,
        }
    }

    /// The memory that a request is about: one that this sub-agent has opened.
    async fn meant(
        &self,
        id: MemoryId<'static>,
        errand: &Errand,
        sub: &Sub,
    ) -> Result<MemoryId<'static>, Failure> {
        if id.as_str().is_empty() {
            let owner = self.owner.as_deref().unwrap_or_default();
            return self.open(owner, DEFAULT, errand, sub).await;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.contains_key(id.as_str()) {
            true => Ok(id),
            false => Err(failed("this sub-agent has not opened such a memory")),
        }
    }

    /// Opens a memory of the sub-agent's own; the first time, copies into it what it is to have.
    async fn open(
        &self,
        owner: &str,
        namespace: &str,
        errand: &Errand,
        sub: &Sub,
    ) -> Result<MemoryId<'static>, Failure> {
        let before = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known.iter().find(|(_, name)| *name == namespace);
            found.map(|(id, _)| id.clone())
        };
        if let Some(id) = before {
            return Ok(id.into());
        }
        let own = init(format!("{owner}/{namespace}"), errand, sub).await?;
        if self.is_copied {
            let source = match &sub.around {
                Some(parent) => format!("{parent}/{namespace}"),
                None => namespace.to_owned(),
            };
            let source = init(source, errand, sub).await?;
            copy(&source.memory_id, &own.memory_id, errand, sub).await?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(own.memory_id.as_str().to_owned(), namespace.to_owned());
        Ok(own.memory_id)
    }
}

async fn init(
    namespace: String,
    errand: &Errand,
    sub: &Sub,
) -> Result<MemoryInitResponse<'static>, Failure> {
    let request = MemoryInitRequest {
        namespace: namespace.into(),
        ..MemoryInitRequest::new()
    };
    let answer = errand.ask(sub.next_id(), request, None).await?;
    let Body::MemoryInitResponse(opened) = answer else {
        return Err(failed("the memory cannot be opened"));
    };
    Ok(opened)
}

async fn copy(
    from: &MemoryId<'static>,
    to: &MemoryId<'static>,
    errand: &Errand,
    sub: &Sub,
) -> Result<(), Failure> {
    for tier in [
        MemoryTier::Working,
        MemoryTier::Episodic,
        MemoryTier::Semantic,
    ] {
        let mut after = Some(0);
        while let Some(place) = after {
            let request = MemoryRetrieveRequest {
                memory_id: from.clone(),
                tier: tier.clone(),
                limit: PART,
                after: Some(place),
                ..MemoryRetrieveRequest::new()
            };
            let Body::MemoryRetrieveResponse(part) =
                errand.ask(sub.next_id(), request, None).await?
            else {
                return Err(failed("the memory cannot be copied"));
            };
            after = part.next.filter(|next| *next > place);
            if part.entries.is_empty() {
                break;
            }
            let store = MemoryStoreRequest {
                memory_id: to.clone(),
                entries: part.entries,
            };
            errand.ask(sub.next_id(), store, None).await?;
        }
    }
    Ok(())
}

fn failed(text: &'static str) -> Failure {
    Failure::new(ErrorCode::ToolDenied, Namespace::Memory, text)
}
