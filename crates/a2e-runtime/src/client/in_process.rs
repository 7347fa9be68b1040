//! Sessions of a host in the same process.

use a2e_session::AgentConfig;

use super::{Client, ClientError, Handler};
use crate::auth::Source;
use crate::host::Host;

/// How many bytes are on their way between the two ends.
const IN_PROCESS: usize = 64 * 1024;

impl Host {
    /// Begins a session of an agent in this process. It is as any other: the agent's credential is
    /// checked, and so is what it asks for.
    ///
    /// # Errors
    /// If the host refuses, or has no room for a session.
    pub async fn connect(
        &self,
        config: AgentConfig,
        source: Source,
        on_push: Handler,
    ) -> Result<Client, ClientError> {
        let (stream, served) = tokio::io::duplex(IN_PROCESS);
        let host = self.clone();
        tokio::spawn(async move {
            if let Err(error) = host.serve(served, source).await {
                tracing::debug!(%error, "a session in this process broke");
            }
        });
        Client::connect(stream, config, on_push).await
    }
}
