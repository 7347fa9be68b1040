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
    ///
    /// In an answer `score` is how well it fits what was asked; a copy has also the `weight` that it
    /// was kept with.
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
    sparse { weight: Real, }
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
    ///
    /// `tiers` has the `entries` and `bytes` of each tier.
    MemoryInitResponse<'a> {
        memory_id: MemoryId<'a>,
        namespace: Cow<'a, str>,
        success: bool = true,
    }
    sparse { tiers: Object<'a>, }
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
    ///
    /// With `after` it is the next part of a copy of the tier: entries in the order they were written,
    /// and nothing else is asked of them.
    MemoryRetrieveRequest<'a> {
        memory_id: MemoryId<'a> = "",
        keys: Vec<MemoryKey<'a>> = [],
        query: Cow<'a, str> = "",
        tags: Vec<Cow<'a, str>> = [],
        tier: MemoryTier<'a> = "",
        limit: i64 = 10,
        min_score: Real = 0.0,
    }
    sparse { after: i64, }
}

record! {
    /// Answers [`MemoryRetrieveRequest`].
    ///
    /// `more` says that there may be more than `total`; `next` is the `after` of the next part of a copy.
    MemoryRetrieveResponse<'a> {
        entries: Vec<MemoryEntry<'a>> = [],
        total: i64 = 0,
    }
    sparse { more: bool, next: i64, }
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
