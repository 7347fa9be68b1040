//! Our own client in environments, under load; see `benches::client`.
//!
//! usage: `env_client ADDRESS TOKEN [BATCH]`
//!
//! A call is a step in an episode of `counter`, or in BATCH episodes at once. `ADDRESS` is a URL, or
//! the words of a command.

use std::sync::{Mutex, PoisonError};

use a2e_runtime::{Address, AgentConfig, Client, ClientError, Connector};
use a2e_wire::messages::env::{EnvBatchStepRequest, EnvResetRequest, EnvStepRequest};
use a2e_wire::{EpisodeId, Object};
use benches::client::obey;

/// As in `frith`: what is measured is not the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An action after which the episode goes on.
const NOTHING: &str = r#"{"action":0}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(auth_token)) = (arguments.next(), arguments.next()) else {
        return Err("usage: env_client ADDRESS TOKEN [BATCH]".into());
    };
    let batch = arguments.next().map(|it| it.parse::<usize>()).transpose()?;
    let address: Address = address.parse()?;
    let config = AgentConfig {
        auth_token,
        wanted: vec!["env".into()],
        ..AgentConfig::default()
    };
    let client = Connector::new(address).agent(config).connect().await?;
    let action = Object::parse(NOTHING)?;
    if let Some(count) = batch {
        let mut episodes = Vec::new();
        for _ in 0..count {
            let id: &'static str = String::leak(begin(&client).await?.as_str().to_owned());
            // What is measured is the batch, not a thousand copies of names.
            episodes.push(EpisodeId::from(id));
        }
        let actions = vec![action.clone(); count];
        let call = || async {
            let request = EnvBatchStepRequest::new(episodes.clone(), actions.clone());
            let stepped = client.request(request).await?.results.len();
            (stepped == count).then_some(()).ok_or(ClientError::Closed)
        };
        return Ok(obey(call).await?);
    }
    // As many episodes as calls are in flight.
    let free = Mutex::new(Vec::new());
    let call = || async {
        let taken = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let episode = match taken {
            Some(episode) => episode,
            None => begin(&client).await?,
        };
        let step = EnvStepRequest::new(episode.clone(), action.clone());
        let observation = client.request(step).await?.obs;
        if !observation.done {
            free.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(episode);
        }
        Ok::<_, ClientError>(())
    };
    Ok(obey(call).await?)
}

async fn begin(client: &Client) -> Result<EpisodeId<'static>, ClientError> {
    let reset = EnvResetRequest::new("counter".into());
    Ok(client.request(reset).await?.obs.episode_id)
}
