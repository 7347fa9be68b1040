//! Whose memory a program has that is a sub-agent: that of the agent that has it, or one of its own.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use a2e_runtime::{Errand, Failure};
use a2e_wire::lenient::LooseText;
use a2e_wire::messages::memory::{
    MemoryForgetRequest, MemoryInitRequest, MemoryInitResponse, MemoryRetrieveRequest,
    MemoryStoreRequest, MemoryTier,
};
use a2e_wire::{Body, ErrorCode, Map, MemoryId, Namespace};

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
    known: Mutex<BTreeMap<String, Name>>,
    /// Held while one is opened and copied: nothing is stored in it before its copy is there.
    opening: tokio::sync::Mutex<()>,
}

/// What a sub-agent calls a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    namespace: String,
    scope: BTreeMap<String, String>,
}

/// Entries that are copied at once.
const PART: i64 = 100;

const DEFAULT: &str = "default";

const TIERS: [MemoryTier<'static>; 3] = [
    MemoryTier::Working,
    MemoryTier::Episodic,
    MemoryTier::Semantic,
];

impl Name {
    fn of(init: &MemoryInitRequest<'_>) -> Self {
        let scope = init.scope.iter();
        Self {
            namespace: init.namespace.to_string(),
            scope: scope
                .map(|(key, value)| (key.to_string(), value.0.to_string()))
                .collect(),
        }
    }

    /// The request that opens it, as part of what somebody owns.
    fn opened_for(&self, owner: Option<&str>) -> MemoryInitRequest<'static> {
        let namespace = match owner {
            Some(owner) => format!("{owner}/{}", self.namespace),
            None => self.namespace.clone(),
        };
        let mut scope = Map::default();
        for (key, value) in &self.scope {
            scope.insert(key.clone(), LooseText(value.clone().into()));
        }
        MemoryInitRequest {
            namespace: namespace.into(),
            scope,
            ..MemoryInitRequest::new()
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self {
            namespace: DEFAULT.to_owned(),
            scope: BTreeMap::new(),
        }
    }
}

impl Memories {
    pub(super) fn new(sub: &Sub) -> Self {
        Self {
            owner: sub.memory.clone(),
            is_copied: sub.wish.memory == Memory::Snapshot,
            known: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
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
                let name = Name::of(&init);
                self.open(owner, &name, errand, sub).await?;
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

    /// Forgets what is in memories of the sub-agent's own: no other task comes back to them.
    pub(super) async fn forget_own(&self, errand: &Errand, sub: &Sub) {
        if self.owner.as_ref() != Some(&sub.id) {
            return;
        }
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        for id in known.into_keys() {
            for tier in TIERS {
                let request = MemoryForgetRequest {
                    memory_id: id.clone().into(),
                    tier,
                    ..MemoryForgetRequest::new()
                };
                if let Err(failure) = errand.ask(sub.next_id(), request, None).await {
                    tracing::debug!(error = %failure.message, "a memory of a sub-agent stays");
                }
            }
        }
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
            return self.open(owner, &Name::default(), errand, sub).await;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.contains_key(id.as_str()) {
            true => Ok(id),
            false => Err(failed(
                "this sub-agent has not opened such a memory".to_owned(),
            )),
        }
    }

    /// Opens a memory of the sub-agent's own; the first time, copies into it what it is to have.
    async fn open(
        &self,
        owner: &str,
        name: &Name,
        errand: &Errand,
        sub: &Sub,
    ) -> Result<MemoryId<'static>, Failure> {
        let _opening = self.opening.lock().await;
        let before = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known.iter().find(|(_, known)| *known == name);
            found.map(|(id, _)| id.clone())
        };
        if let Some(id) = before {
            return Ok(id.into());
        }
        let own = init(name.opened_for(Some(owner)), errand, sub).await?;
        if self.is_copied {
            let source = name.opened_for(sub.around.as_deref());
            let source = init(source, errand, sub).await?;
            copy(&source.memory_id, &own.memory_id, errand, sub).await?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(own.memory_id.as_str().to_owned(), name.clone());
        Ok(own.memory_id)
    }
}

async fn init(
    request: MemoryInitRequest<'static>,
    errand: &Errand,
    sub: &Sub,
) -> Result<MemoryInitResponse<'static>, Failure> {
    let answer = errand.ask(sub.next_id(), request, None).await?;
    let Body::MemoryInitResponse(opened) = answer else {
        return Err(failed("the memory cannot be opened".to_owned()));
    };
    Ok(opened)
}

async fn copy(
    from: &MemoryId<'static>,
    to: &MemoryId<'static>,
    errand: &Errand,
    sub: &Sub,
) -> Result<(), Failure> {
    for tier in TIERS {
        match copy_tier(from, to, &tier, (errand, sub)).await {
            // What the agent may not read or write is in no copy of its memory.
            Err(failure)
                if tier == MemoryTier::Semantic && failure.code == ErrorCode::Unauthorized => {}
            copied => copied?,
        }
    }
    Ok(())
}

async fn copy_tier(
    from: &MemoryId<'static>,
    to: &MemoryId<'static>,
    tier: &MemoryTier<'static>,
    (errand, sub): (&Errand, &Sub),
) -> Result<(), Failure> {
    let mut after = Some(0);
    while let Some(place) = after {
        let request = MemoryRetrieveRequest {
            memory_id: from.clone(),
            tier: tier.clone(),
            limit: PART,
            after: Some(place),
            ..MemoryRetrieveRequest::new()
        };
        let Body::MemoryRetrieveResponse(part) = errand.ask(sub.next_id(), request, None).await?
        else {
            return Err(failed("the memory cannot be copied".to_owned()));
        };
        after = part.next.filter(|next| *next > place);
        if part.entries.is_empty() {
            break;
        }
        let store = MemoryStoreRequest {
            memory_id: to.clone(),
            entries: part.entries,
        };
        let Body::MemoryStoreResponse(kept) = errand.ask(sub.next_id(), store, None).await? else {
            return Err(failed("the memory cannot be copied".to_owned()));
        };
        if !kept.errors.is_empty() {
            let why = kept.errors.join("; ");
            return Err(failed(format!("the memory cannot be copied: {why}")));
        }
    }
    Ok(())
}

fn failed(text: String) -> Failure {
    Failure::new(ErrorCode::ToolDenied, Namespace::Memory, text)
}
