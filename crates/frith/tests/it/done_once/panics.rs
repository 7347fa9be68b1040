//! Plugins that panic after their effect. No plugin of a node does, so these are hosts of the test's own,
//! one after the other on the same files.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2e_caps::chains::{Chains, Keeper, Settings};
use a2e_runtime::config::Policy;
use a2e_runtime::{
    Approvals, BoxFuture, Context, Failure, FileStore, Host, Limited, Outcome, Plugin, Policies,
    Secret, Serves, SnapshotMode, TokenStore, bind_unix, serve_unix,
};
use a2e_wire::messages::tool::{ToolDefinition, ToolListResponse};
use a2e_wire::{Body, Capability, Message, Tag};
use audit::{Checkpoint, KeyCheck, NotSigned, Refusal, Signer};
use serde_json::json;
use store::{Options, Sqlite, Store, Verdict};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::agent::{Session, is_record_of, request};
use super::{Answer, Class, Ending, Gets, table};
use crate::bridged::records;
use crate::node::Wire;

/// The cells of these tests, and of `intent_whose_handler_panicked_is_not_executed_again` in `a2a-net`.
pub(super) const CELLS: &[(Ending, Class)] = &[
    (Ending::Panic, Class::ToolCall),
    (Ending::Panic, Class::Intent),
    (Ending::Panic, Class::ChainNode),
    (Ending::Panic, Class::Approval),
    (Ending::Panic, Class::MemoryWrite),
];

const TOKEN: &str = "token";

/// Appends a line to a file, and panics.
struct Panicking {
    capability: Capability<'static>,
    log: PathBuf,
}

/// A host, and the folder of its files.
struct Crashing {
    folder: TempDir,
    host: Option<(Runtime, Approvals)>,
}

/// Audit records of these hosts are signed with nothing.
struct NoKeys;

impl Plugin for Panicking {
    fn name(&self) -> &str {
        self.capability.as_str()
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(self.capability.clone())
    }

    fn serves(&self) -> Serves {
        Serves::Tags(match self.capability {
            Capability::Tools => vec![Tag::ToolListRequest, Tag::ToolCallRequest],
            _ => vec![Tag::MemoryStoreRequest],
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        _context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            if matches!(request.body, Body::ToolListRequest(_)) {
                let tools = vec![ToolDefinition::new("pay".into(), "Pays".into())];
                return Ok(Outcome::answer(ToolListResponse { tools }));
            }
            let mut log = OpenOptions::new();
            let mut log = log.create(true).append(true).open(&self.log).unwrap();
            writeln!(log, "run").unwrap();
            panic!("as a plugin with a defect does");
        })
    }
}

impl Signer for NoKeys {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        Ok(checkpoint.head_hash.to_string())
    }
}

impl KeyCheck for NoKeys {
    fn check(&self, _: &str) -> Result<Checkpoint, Refusal> {
        Err(Refusal::Invalid("there are no keys".into()))
    }
}

impl Crashing {
    fn start(class: Class) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut crashing = Self { folder, host: None };
        crashing.up(class);
        crashing
    }

    /// Starts the host, as another process would.
    fn up(&mut self, class: Class) {
        drop(self.host.take());
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let path = |name: &str| self.folder.path().join(name);
        let database = Sqlite::open(&Options::new(path("store.db"))).unwrap();
        let store = Store::new(database);
        let approvals = Approvals::new(store.clone(), Duration::from_secs(60));
        let chains = Chains::new(Settings {
            keeper: Some(Arc::new(Keeper::new(store))),
            ..Settings::default()
        });
        let plugin = |capability| Panicking {
            capability,
            log: path("log"),
        };
        let kept = Duration::from_secs(600);
        let sessions = Arc::new(FileStore::open(path("sessions"), kept).unwrap());
        let requests = Arc::new(FileStore::open(path("idempotency"), Duration::MAX).unwrap());
        let tokens = TokenStore::in_memory(&Secret::new(TOKEN.to_owned())).unwrap();
        let host = Host::builder()
            .plugin(plugin(Capability::Tools))
            .plugin(plugin(Capability::Memory))
            .plugin(chains)
            .authenticator(Limited::new(tokens))
            .snapshots(sessions, SnapshotMode::Hybrid)
            .idempotency(requests)
            .approvals(approvals.clone())
            .policies(policies(class))
            .audit(audit_log(&path("audit")))
            .build();
        let _ = fs::remove_file(path("socket"));
        let listener = bind_unix(&path("socket")).unwrap();
        runtime.spawn(serve_unix(host, listener));
        self.host = Some((runtime, approvals));
    }

    fn session(&self) -> Session {
        Session::open(Wire::connect(&self.folder.path().join("socket")), TOKEN)
    }

    fn approve(&self, id: &str) {
        let (runtime, approvals) = self.host.as_ref().unwrap();
        let decided = approvals.decide(id, Verdict::Granted, "");
        runtime.block_on(decided).unwrap();
    }

    fn runs(&self) -> usize {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.lines().count()
    }
}

/// Whether the tool waits for the operator.
fn policies(class: Class) -> Policies {
    let rules = match class {
        Class::Approval => {
            json!({"rules": [{"id": "ask", "name": "pay", "action": "require_approval"}]})
        }
        _ => json!({}),
    };
    let policy = Policy {
        common: serde_json::from_value(rules).unwrap(),
        agents: Vec::new(),
    };
    Policies::compile(&policy).unwrap()
}

fn audit_log(folder: &Path) -> audit::Log {
    let parts = audit::Parts {
        signer: Box::new(NoKeys),
        keys: Box::new(NoKeys),
        random: Box::new(|bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        }),
        clock: Box::new(|| audit::UnixMillis(1_770_000_000_000)),
        alarm: Box::new(|_| {}),
    };
    audit::Log::open(folder, audit::Settings::default(), parts).unwrap()
}

/// Walks the cell of a class.
fn walk(class: Class) {
    let mut crashing = Crashing::start(class);
    let mut session = crashing.session();
    let work = request(class, 60);
    session.wire.say(&work);
    if class == Class::Approval {
        let id = session.hear_held();
        crashing.approve(&id);
    }
    let first = session.answer();
    let mut retries = vec![session.retry(&work), crashing.session().retry(&work)];
    drop(session);
    crashing.up(class);
    retries.push(crashing.session().retry(&work));
    for answer in &retries {
        match table::gets(Ending::Panic, class) {
            Gets::Response => assert_eq!(*answer, first),
            _ => answer.expect_interrupted(),
        }
    }
    // How far it came is not known, so the first error does not say that it may be sent again.
    let is_final = |answer: &Answer| {
        matches!(
            answer,
            Answer::Failed {
                is_retryable: false,
                ..
            }
        )
    };
    assert!(class == Class::ChainNode || is_final(&first), "{first:?}");
    assert_eq!(crashing.runs(), 1);
    drop(crashing.host.take());
    let records = records(crashing.folder.path());
    let its = records.iter().filter(|record| is_record_of(&work, record));
    let statuses: Vec<_> = its.map(|it| it["response_status"].as_str()).collect();
    let ended = table::recorded(Ending::Panic, class).map(str::to_owned);
    let expected = ended.into_iter().chain(retries.iter().map(Answer::status));
    let expected: Vec<String> = expected.collect();
    assert_eq!(
        statuses,
        expected.iter().map(|it| Some(&**it)).collect::<Vec<_>>()
    );
}

#[test]
fn tool_call_whose_plugin_panicked() {
    walk(Class::ToolCall);
}

#[test]
fn chain_whose_node_panicked() {
    walk(Class::ChainNode);
}

#[test]
fn approved_call_whose_plugin_panicked() {
    walk(Class::Approval);
}

#[test]
fn memory_write_whose_plugin_panicked() {
    walk(Class::MemoryWrite);
}
