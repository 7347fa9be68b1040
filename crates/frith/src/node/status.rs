//! What a node says about itself to the operator.

use std::path::Path;
use std::sync::Arc;

use a2e_runtime::definitions::Definitions;
use a2e_runtime::operator::{Nothing, Operations};
use a2e_runtime::{Approvals, DataDir, Host};
use sandbox::{MemoryLevel, Settings};
use serde_json::Value;
use store::Sqlite;

use super::{Agents, Shared};
use crate::audit::head::HeadFile;
use crate::keystore::now;
use crate::status::{
    AuditHead, Guards, McpServer, NodeStatus, OPERATION, Peers, Signed, StoreFiles,
};

/// What it looks at.
pub(super) struct Sources {
    host: Host,
    approvals: Approvals,
    definitions: Definitions,
    audit: Option<audit::Log>,
    agents: Option<Arc<Agents>>,
    guards: Option<Settings>,
    servers: Box<dyn Fn() -> Vec<McpServer> + Send + Sync>,
    database: Sqlite,
    data: DataDir,
    endpoints: Value,
    started_at: u64,
}

impl Sources {
    pub(super) fn new(
        host: &Host,
        shared: &Shared,
        approvals: &Approvals,
        agents: Option<&Arc<Agents>>,
        (database, data, endpoints): (&Sqlite, &DataDir, Value),
    ) -> Self {
        Self {
            host: host.clone(),
            approvals: approvals.clone(),
            definitions: shared.definitions.clone(),
            audit: shared.audit.clone(),
            agents: agents.cloned(),
            guards: shared.capabilities.guards().cloned(),
            servers: Box::new(shared.capabilities.server_states()),
            database: database.clone(),
            data: data.clone(),
            endpoints,
            started_at: u64::try_from(now().0).unwrap_or(0),
        }
    }

    /// Answers the operator.
    pub(super) fn serve(self, operations: Operations) -> Operations {
        let sources = Arc::new(self);
        operations.add(OPERATION, move |_: Nothing| {
            let sources = Arc::clone(&sources);
            async move { sources.look().await }
        })
    }

    async fn look(&self) -> Result<NodeStatus, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let held = self.approvals.each(|_| ()).await;
        let held = held.map_err(|error| text(&error))?;
        let pending = self.definitions.changed().await;
        let pending = pending.map_err(|error| text(&error))?;
        Ok(NodeStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            stopping: self.host.is_stopping(),
            data: self.data.path().to_owned(),
            endpoints: self.endpoints.clone(),
            sessions: self.host.sessions(),
            pending_approvals: held.len(),
            pending_tools: pending.len(),
            sandbox: self.guards.as_ref().map(|settings| Guards {
                landlock: settings.landlock,
                tree_memory: settings.memory == MemoryLevel::Tree,
            }),
            servers: (self.servers)(),
            peers: match &self.agents {
                Some(agents) => Some(peers(agents).await),
                None => None,
            },
            store: store_files(&self.database),
            audit: match &self.audit {
                Some(log) => Some(audit_head(log, &self.data.path().join("audit")).await),
                None => None,
            },
        })
    }
}

async fn peers(agents: &Agents) -> Peers {
    let pages = agents.book.books.pages();
    Peers {
        known: pages.peers().count(),
        blocked: pages.blocked().len(),
        outgoing: agents.client.sessions().await.len(),
        incoming: agents.server.sessions().len(),
        half_open: agents.server.half_open(),
    }
}

fn store_files(database: &Sqlite) -> StoreFiles {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    StoreFiles {
        bytes: bytes(database.path()),
        log_bytes: bytes(&database.path().with_extension("db-wal")),
        check: database.integrity().into(),
    }
}

async fn audit_head(log: &audit::Log, folder: &Path) -> AuditHead {
    let (receipt, problem) = match log.probe().await {
        Ok(receipt) => (Some(receipt), log.check().err()),
        Err(error) => (None, Some(error)),
    };
    // One that cannot be read is as good as none: the log itself says what is wrong with it.
    let signed = HeadFile::beside(folder).read().ok().flatten();
    AuditHead {
        seq: receipt.map_or(0, |receipt| receipt.seq),
        last: receipt.map_or(0, |receipt| receipt.timestamp.0),
        checkpoint: signed.map(|head| Signed {
            seq: head.seq,
            hash: head.hash.to_string(),
        }),
        problem: problem.map(|error| error.to_string()),
    }
}
