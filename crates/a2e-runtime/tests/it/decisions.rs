//! The one decision point (`design.md` §2): rules, rates, held calls, and the record of it all.

mod chains;
mod dispatch;
mod held;
mod record;
mod rules;

use std::path::Path;
use std::time::Duration;

use a2e_runtime::config::Policy;
use a2e_runtime::{Approvals, Host, HostBuilder, Policies};
use audit::{Checkpoint, KeyCheck, Log, NotSigned, Parts, Refusal, Settings, UnixMillis};
use canonical::Value as Tree;
use policy::RulesConfig;
use serde_json::{Value, json};
use store::{Memory, Store};

use crate::support::{Transport, Wire, demo};

fn rules(rules: &Value) -> RulesConfig {
    let text = rules.to_string();
    Tree::parse(text.as_bytes())
        .unwrap()
        .deserialize_into()
        .unwrap()
}

fn policies(common: &Value) -> Policies {
    let policy = Policy {
        common: rules(common),
        agents: Vec::new(),
    };
    Policies::compile(&policy).unwrap()
}

fn with(common: &Value) -> HostBuilder {
    demo().policies(policies(common))
}

fn approvals() -> Approvals {
    approvals_in(&Store::new(Memory::new(store::Limits::default())))
}

fn approvals_in(store: &Store) -> Approvals {
    Approvals::new(store.clone(), Duration::from_secs(60))
}

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments})
}

async fn agent(host: &Host) -> Wire {
    Wire::connected(Transport::Memory, host).await
}

/// A node that signs with nothing: these tests are about what is on record, not about its proof.
struct NoKeys;

impl audit::Signer for NoKeys {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let Checkpoint {
            log_id,
            seq,
            head_hash,
            timestamp,
        } = checkpoint;
        Ok(format!("{log_id}.{seq}.{head_hash}.{timestamp}"))
    }
}

impl KeyCheck for NoKeys {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let parts: Vec<&str> = jws.split('.').collect();
        let [log_id, seq, head_hash, timestamp] = parts.as_slice() else {
            return Err(Refusal::Invalid(jws.to_owned()));
        };
        Ok(Checkpoint {
            log_id: (*log_id).to_owned(),
            seq: seq.parse().unwrap(),
            head_hash: head_hash.parse().unwrap(),
            timestamp: timestamp.parse().unwrap(),
        })
    }
}

pub(crate) fn log(folder: &Path) -> Log {
    let mut count = 0;
    let parts = Parts {
        signer: Box::new(NoKeys),
        keys: Box::new(NoKeys),
        random: Box::new(move |bytes: &mut [u8]| {
            count += 1;
            bytes.fill(count);
            Ok(())
        }),
        clock: Box::new(|| UnixMillis(1_770_000_000_000)),
        alarm: Box::new(|_| {}),
    };
    Log::open(folder, Settings::default(), parts).unwrap()
}

/// The requests on record.
fn recorded(folder: &Path) -> Vec<Value> {
    of_type(folder, "request_received")
}

/// What is on record of one type.
fn of_type(folder: &Path, event_type: &str) -> Vec<Value> {
    let (_, lines) = audit::Follower::new(folder, 1000).unwrap();
    lines
        .iter()
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter(|record| record["event_type"] == event_type)
        .collect()
}
