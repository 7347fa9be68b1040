//! Memory: three tiers of keyed entries.

use std::borrow::Cow;

use strict_json::Raw;

use crate::lenient::{LooseText, MemoryKey, Ttl};
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{Map, MemoryId, Object, Real, Timestamp};

open_enum! {
    /// How long an entry lives and who sees it.
    MemoryTier {
        Working = "working",
        Episodic = "episodic",
        Semantic = "semantic",
    }
}

record! {
    /// One thing remembered.
    MemoryEntry<'a> {
        key: MemoryKey<'a>,
        content: Raw<'a>,
        tier: MemoryTier<'a>,
        tags: Vec<Cow<'a, str>> = [],
        source: Cow<'a, str> = "",
        score: Real = 1.0,
        ttl: Ttl = 0 ~ null,
        created_at: Timestamp = (now),
        updated_at: Timestamp = (now),
    }
}

record! {
    /// Opens a memory.
    MemoryInitRequest<'a> {
        namespace: Cow<'a, str> = "default",
        scope: Map<'a, LooseText<'a>> = {},
        metadata: Object<'a> = {},
    }
}

record! {
    /// Answers [`MemoryInitRequest`].
    MemoryInitResponse<'a> {
        memory_id: MemoryId<'a>,
        namespace: Cow<'a, str>,
        success: bool = true,
    }
}

record! {
    /// Remembers entries.
    MemoryStoreRequest<'a> {
        memory_id: MemoryId<'a> = "",
        entries: Vec<MemoryEntry<'a>> = [],
    }
}

record! {
    /// Answers [`MemoryStoreRequest`].
    MemoryStoreResponse<'a> {
        stored: Vec<MemoryKey<'a>> = [],
        errors: Vec<Cow<'a, str>> = [],
    }
}

record! {
    /// Looks for entries; all that is given must match.
    MemoryRetrieveRequest<'a> {
        memory_id: MemoryId<'a> = "",
        keys: Vec<MemoryKey<'a>> = [],
        query: Cow<'a, str> = "",
        tags: Vec<Cow<'a, str>> = [],
        tier: MemoryTier<'a> = "",
        limit: i64 = 10,
        min_score: Real = 0.0,
    }
}

record! {
    /// Answers [`MemoryRetrieveRequest`].
    MemoryRetrieveResponse<'a> {
        entries: Vec<MemoryEntry<'a>> = [],
        total: i64 = 0,
    }
}

record! {
    /// Forgets entries.
    MemoryForgetRequest<'a> {
        memory_id: MemoryId<'a> = "",
        keys: Vec<MemoryKey<'a>> = [],
        tags: Vec<Cow<'a, str>> = [],
        tier: MemoryTier<'a> = "episodic",
    }
}

record! {
    /// Answers [`MemoryForgetRequest`].
    MemoryForgetResponse {
        deleted: i64 = 0,
    }
}
