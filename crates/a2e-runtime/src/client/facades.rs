//! Short ways to what agents do most. Everything else is [`Client::request`].

use std::time::Duration;

use a2e_wire::lenient::MemoryKey;
use a2e_wire::messages::env::{
    EnvCloseRequest, EnvObservation, EnvObserveRequest, EnvResetRequest, EnvStepRequest,
};
use a2e_wire::messages::memory::{
    MemoryEntry, MemoryForgetRequest, MemoryInitRequest, MemoryRetrieveRequest, MemoryStoreRequest,
    MemoryTier,
};
use a2e_wire::messages::skill::{SkillCallRequest, SkillCallResponse};
use a2e_wire::messages::tool::{ToolCallRequest, ToolDefinition, ToolListRequest, ToolResult};
use a2e_wire::{EpisodeId, MemoryId, Object, Raw};
use serde::Serialize;

use super::{Client, ClientError, Handler};

/// The tools of a host.
#[derive(Debug, Clone, Copy)]
pub struct Tools<'c>(&'c Client);

/// The skills of a host.
#[derive(Debug, Clone, Copy)]
pub struct Skills<'c>(&'c Client);

/// How to call a tool or a skill.
#[derive(Debug)]
pub struct Calling {
    /// Seconds that it may take; the host ends it then.
    pub seconds: u32,
    /// Called with its events. Without a handler none are asked for.
    pub event_callback: Handler,
}

/// A memory of the agent's.
#[derive(Debug, Clone)]
pub struct Memory {
    client: Client,
    id: MemoryId<'static>,
}

/// A run of an environment.
#[derive(Debug)]
pub struct Episode {
    client: Client,
    id: EpisodeId<'static>,
    observation: EnvObservation<'static>,
}

impl Default for Calling {
    fn default() -> Self {
        Self {
            seconds: 60,
            event_callback: Handler::none(),
        }
    }
}

impl Client {
    /// The tools of the host.
    #[must_use]
    pub const fn tools(&self) -> Tools<'_> {
        Tools(self)
    }

    /// The skills of the host.
    #[must_use]
    pub const fn skills(&self) -> Skills<'_> {
        Skills(self)
    }

    /// Opens a memory.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn memory(&self, namespace: impl Into<String>) -> Result<Memory, ClientError> {
        let request = MemoryInitRequest {
            namespace: namespace.into().into(),
            ..MemoryInitRequest::new()
        };
        Ok(Memory {
            id: self.request(request).await?.memory_id,
            client: self.clone(),
        })
    }

    /// Starts an episode of an environment.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn episode(
        &self,
        environment: impl Into<String>,
        seed: Option<i64>,
    ) -> Result<Episode, ClientError> {
        let request = EnvResetRequest {
            seed,
            ..EnvResetRequest::new(environment.into().into())
        };
        let observation = self.request(request).await?.obs;
        Ok(Episode {
            client: self.clone(),
            id: observation.episode_id.clone(),
            observation,
        })
    }
}

impl Tools<'_> {
    /// All tools but those that are to be searched for.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn list(self) -> Result<Vec<ToolDefinition<'static>>, ClientError> {
        Ok(self.0.request(ToolListRequest::new()).await?.tools)
    }

    /// The tools that fit a query, those that are not listed included.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn search(
        self,
        query: impl Into<String>,
    ) -> Result<Vec<ToolDefinition<'static>>, ClientError> {
        let request = ToolListRequest {
            query: query.into().into(),
            include_deferred: true,
            ..ToolListRequest::new()
        };
        Ok(self.0.request(request).await?.tools)
    }

    /// Calls a tool. A tool that ran and failed is a result too: see its `success`.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the arguments are no JSON object.
    pub async fn call(
        self,
        tool: impl Into<String>,
        arguments: &(impl Serialize + Sync),
        calling: Calling,
    ) -> Result<ToolResult<'static>, ClientError> {
        let request = ToolCallRequest {
            tool_name: tool.into().into(),
            arguments: object(arguments)?,
            streaming: !calling.event_callback.is_none(),
            timeout: calling.seconds.into(),
            ..ToolCallRequest::new()
        };
        let asking = self
            .0
            .request(request)
            .event_callback(calling.event_callback);
        Ok(asking.await?.data)
    }
}

impl Skills<'_> {
    /// Calls a skill.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the arguments are no JSON object.
    pub async fn call(
        self,
        skill: impl Into<String>,
        arguments: &(impl Serialize + Sync),
        calling: Calling,
    ) -> Result<SkillCallResponse<'static>, ClientError> {
        let request = SkillCallRequest {
            name: skill.into().into(),
            arguments: object(arguments)?,
            streaming: !calling.event_callback.is_none(),
            timeout: calling.seconds.into(),
            ..SkillCallRequest::new()
        };
        self.0
            .request(request)
            .event_callback(calling.event_callback)
            .await
    }
}

impl Memory {
    /// Its id, for requests that this type has no method for.
    #[must_use]
    pub const fn id(&self) -> &MemoryId<'static> {
        &self.id
    }

    /// Keeps a value under a key, which is a JSON object or text.
    ///
    /// # Errors
    /// As [`Client::rpc`]; if the value cannot be written as JSON or the host cannot keep it.
    pub async fn remember(
        &self,
        tier: MemoryTier<'static>,
        key: &(impl Serialize + Sync),
        value: &(impl Serialize + Sync),
    ) -> Result<(), ClientError> {
        let entry = MemoryEntry::new(memory_key(key)?, raw(value)?, tier, now(), now());
        let request = MemoryStoreRequest {
            memory_id: self.id.clone(),
            entries: vec![entry],
        };
        let stored = self.client.request(request).await?;
        match stored.errors.into_iter().next() {
            Some(error) => Err(ClientError::Custom(error.into_owned())),
            None => Ok(()),
        }
    }

    /// The value under a key, as JSON.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the key is neither a JSON object nor text.
    pub async fn recall(
        &self,
        key: &(impl Serialize + Sync),
    ) -> Result<Option<Raw<'static>>, ClientError> {
        let request = MemoryRetrieveRequest {
            memory_id: self.id.clone(),
            keys: vec![memory_key(key)?],
            limit: 1,
            ..MemoryRetrieveRequest::new()
        };
        let found = self.client.request(request).await?;
        Ok(found.entries.into_iter().next().map(|entry| entry.content))
    }

    /// Forgets a key; says how many entries there were.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the key is neither a JSON object nor text.
    pub async fn forget(
        &self,
        tier: MemoryTier<'static>,
        key: &(impl Serialize + Sync),
    ) -> Result<i64, ClientError> {
        let request = MemoryForgetRequest {
            memory_id: self.id.clone(),
            keys: vec![memory_key(key)?],
            tier,
            ..MemoryForgetRequest::new()
        };
        Ok(self.client.request(request).await?.deleted)
    }
}

impl Episode {
    /// What was seen last.
    #[must_use]
    pub const fn observation(&self) -> &EnvObservation<'static> {
        &self.observation
    }

    /// Acts, and returns what is seen then.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the action is no JSON object.
    pub async fn step(
        &mut self,
        action: &(impl Serialize + Sync),
    ) -> Result<&EnvObservation<'static>, ClientError> {
        let request = EnvStepRequest::new(self.id.clone(), object(action)?);
        self.observation = self.client.request(request).await?.obs;
        Ok(&self.observation)
    }

    /// Looks without acting.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn observe(&mut self) -> Result<&EnvObservation<'static>, ClientError> {
        let request = EnvObserveRequest::new(self.id.clone());
        self.observation = self.client.request(request).await?.obs;
        Ok(&self.observation)
    }

    /// Ends the episode.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn close(self) -> Result<(), ClientError> {
        let request = EnvCloseRequest::new(self.id);
        let closing = self
            .client
            .request(request)
            .timeout(Duration::from_secs(10));
        closing.await.map(drop)
    }
}

fn now() -> a2e_wire::Timestamp {
    crate::clock::Clock::start().now().unix
}

fn raw(value: &impl Serialize) -> Result<Raw<'static>, ClientError> {
    Raw::from_serialize(value).map_err(|error| ClientError::Custom(error.to_string()))
}

fn object(value: &impl Serialize) -> Result<Object<'static>, ClientError> {
    Object::from_serialize(value).map_err(|error| ClientError::Custom(error.to_string()))
}

fn memory_key(key: &impl Serialize) -> Result<MemoryKey<'static>, ClientError> {
    let wrong = || ClientError::Custom("a memory's key is a JSON object or text".into());
    MemoryKey::new(raw(key)?).ok_or_else(wrong)
}
