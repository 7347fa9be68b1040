//! `frith audit`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use a2a_identity::{Did, DidKey, SigningKey, sign};
use a2a_wire::{AuditPayload, Count, UnixSeconds};
use audit::{
    Body, Checkpoint, Event, KeyCheck, Log, NotSigned, Parts, Record, Refusal, Settings, Signer,
    UnixMillis, Verdict,
};
use serde_json::{Value, json};

use crate::identity::User;

/// The node's key, taken from the user's identity.
struct NodeKey {
    key: SigningKey,
    kid: String,
}

impl NodeKey {
    fn of(user: &User) -> Self {
        let shown = user.json(&["id", "show"]);
        let kid = shown["keys"][0]["kid"].as_str().unwrap().to_owned();
        let pem = user.ok(&["id", "export", "--secret", &kid]);
        Self {
            key: SigningKey::from_pem(&pem, None).unwrap(),
            kid,
        }
    }
}

impl Signer for NodeKey {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let did = Did::Key(DidKey::new(self.key.verifying_key()));
        let payload = AuditPayload {
            issuer: did.to_text().unwrap(),
            timestamp: UnixSeconds(checkpoint.timestamp),
            log_id: checkpoint.log_id.parse().unwrap(),
            seq: Count::new(checkpoint.seq).unwrap(),
            head_hash: checkpoint.head_hash,
        };
        Ok(sign(&payload, &self.kid.parse().unwrap(), &self.key))
    }
}

/// Only new logs are opened in these tests.
struct NoKeys;

impl KeyCheck for NoKeys {
    fn check(&self, _: &str) -> Result<Checkpoint, Refusal> {
        Err(Refusal::Invalid("not asked for".into()))
    }
}

/// A user with an identity and the log of a node in the data directory.
pub(crate) struct Node {
    pub(crate) user: User,
}

impl Node {
    pub(crate) fn new() -> Self {
        let user = User::new();
        user.ok(&["id", "new"]);
        Self { user }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.user.path("data/audit")
    }

    /// A log of ten requests, one a day, the last of them some time ago.
    pub(crate) fn open_log(&self) -> Log {
        let today = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&today);
        let parts = Parts {
            signer: Box::new(NodeKey::of(&self.user)),
            keys: Box::new(NoKeys),
            random: Box::new(|bytes: &mut [u8]| {
                getrandom::fill(bytes).unwrap();
                Ok(())
            }),
            clock: Box::new(move || {
                let day = clock.load(Ordering::Relaxed);
                UnixMillis(1_770_000_000_000 + day * 86_400_000)
            }),
            alarm: Box::new(|alarm| assert!(alarm.to_string().is_empty(), "{alarm}")),
        };
        let settings = Settings {
            checkpoint_records: 4,
            queue_bytes: 1 << 20,
            ..Settings::default()
        };
        let log = Log::open(&self.folder(), settings, parts).unwrap();
        for number in 0..10 {
            today.store(number, Ordering::Relaxed);
            let name = format!("tool-{number}");
            let status = if number == 3 {
                "tool_denied"
            } else {
                "success"
            };
            log.append(&record(&name, status)).unwrap().wait().unwrap();
        }
        log
    }

    pub(crate) fn with_log() -> Self {
        let node = Self::new();
        node.open_log().close();
        node
    }

    fn key(&self) -> String {
        let shown = self.user.json(&["id", "show"]);
        shown["keys"][0]["key"].as_str().unwrap().to_owned()
    }

    fn did(&self) -> String {
        self.user.json(&["id", "show"])["did"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The segments, in their order.
    fn segments(&self) -> Vec<PathBuf> {
        let segments = audit::segments(&self.folder()).unwrap();
        segments.into_iter().map(|segment| segment.path).collect()
    }

    fn lines(&self) -> Vec<String> {
        let texts = self
            .segments()
            .into_iter()
            .map(|path| fs::read_to_string(path).unwrap());
        let texts: Vec<String> = texts.collect();
        texts.concat().lines().map(str::to_owned).collect()
    }
}

pub(crate) fn record<'a>(name: &'a str, status: &'a str) -> Record<'a> {
    Record {
        event: Event::Request,
        body: Body {
            agent: Some("ada"),
            message_type: Some("tool/call/req"),
            name: Some(name),
            request_id: Some("r"),
            result: Some(Verdict::Approved),
            response_status: Some(status),
            processing_time_ms: Some(12),
            remote_ip: Some(IpAddr::from([127, 0, 0, 1])),
            ..Body::default()
        },
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, target).unwrap()),
        }
    }
}

#[test]
fn a_log_verifies_with_the_identity_of_its_node() {
    let node = Node::with_log();
    let out = node.user.ok(&["audit", "verify"]);
    assert!(out.starts_with("intact: "), "{out}");
    let report = node.user.json(&["audit", "verify"]);
    assert_eq!(
        (&report["intact"], &report["unsigned"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(report["records"], node.lines().len());
}

/// Offline, from a copy of the folder, with nothing but the public key.
#[test]
fn a_copy_verifies_with_the_public_key_alone() {
    let node = Node::with_log();
    let auditor = User::new();
    let copied = auditor.path("copy");
    copy(&node.folder(), &copied);
    let folder = copied.to_str().unwrap();
    auditor.ok(&["audit", "verify", folder, "--key", &node.key()]);
    auditor.ok(&["audit", "verify", folder, "--did", &node.did()]);
    let kid = node.user.json(&["id", "show"])["keys"][0]["kid"]
        .as_str()
        .unwrap()
        .to_owned();
    auditor.ok(&[
        "audit",
        "verify",
        folder,
        "--key",
        &format!("{kid}={}", node.key()),
    ]);
    let (status, _, error) = auditor.run(&["audit", "verify", folder]);
    assert_eq!(status, 1);
    assert!(
        error.contains("--key") && error.contains("--did"),
        "{error}"
    );
    // Somebody else's key is not the node's.
    auditor.ok(&["id", "new"]);
    let other = auditor.json(&["id", "show"]);
    for options in [
        ["--key", other["keys"][0]["key"].as_str().unwrap()],
        ["--did", other["did"].as_str().unwrap()],
        ["--key", &format!("other={}", node.key())],
    ] {
        let (status, out, _) = auditor.run(&[&["audit", "verify", folder], &options[..]].concat());
        assert_eq!(status, 1, "{options:?}: {out}");
    }
    for wrong in [
        ["--key", "x"],
        ["--did", "did:key:x"],
        ["--did", "did:web:a.example.com"],
    ] {
        let (status, _, error) = auditor.run(&[&["audit", "verify", folder], &wrong[..]].concat());
        assert_eq!(status, 2, "{error}");
    }
}

#[test]
fn a_changed_record_is_named() {
    let node = Node::with_log();
    let lines = node.lines();
    let seq = 1 + lines
        .iter()
        .position(|line| line.contains("tool-0"))
        .unwrap();
    let has_it = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("tool-0");
    let path = &node.segments().into_iter().find(has_it).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let line = 1 + text
        .lines()
        .position(|line| line.contains("tool-0"))
        .unwrap();
    fs::write(path, text.replace("tool-0", "tool-X")).unwrap();
    let (status, out, _) = node.user.run(&["audit", "verify"]);
    assert_eq!(status, 1);
    let first = out.lines().next().unwrap();
    let file = path.file_name().unwrap().to_str().unwrap();
    assert!(
        first.starts_with(&format!(
            "broken   {file} line {line} (record {seq} of log-1-"
        )),
        "{out}"
    );
    assert!(
        first.ends_with("the body was changed: it does not fit `body_hash`"),
        "{out}"
    );
    assert!(out.contains("not intact"), "{out}");
    let (status, out, _) = node.user.run(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, 1);
    assert_eq!(report["faults"][0]["code"], "body_changed");
    assert_eq!(
        (&report["faults"][0]["line"], &report["faults"][0]["seq"]),
        (&json!(line), &json!(seq))
    );
    let (status, _, error) = node.user.run(&["audit", "export"]);
    assert_eq!(status, 1, "{error}");
    let out = node.user.ok(&["audit", "tail", "-n", "100"]);
    assert!(out.contains("? the body was changed"), "{out}");
}

/// Checkpoints that are kept elsewhere show that a log was replaced as a whole.
#[test]
fn exported_checkpoints_show_what_is_missing() {
    let node = Node::with_log();
    let exported = node
        .user
        .ok(&["audit", "export", "--format", "checkpoints"]);
    assert!(exported.lines().count() > 3 && exported.lines().all(|jws| jws.starts_with("ey")));
    fs::write(node.user.path("kept"), &exported).unwrap();
    node.user.ok(&["audit", "verify", "--checkpoints", "kept"]);
    fs::remove_dir_all(node.folder()).unwrap();
    node.open_log().close();
    node.user.ok(&["audit", "verify"]);
    let (status, out, _) = node.user.run(&["audit", "verify", "--checkpoints", "kept"]);
    assert_eq!(status, 1);
    assert!(
        out.starts_with("missing  the log does not have record"),
        "{out}"
    );
}

#[test]
fn the_tail_is_shown_for_people_and_for_programs() {
    let node = Node::with_log();
    let out = node.user.ok(&["audit", "tail", "-n", "3"]);
    assert_eq!(out.lines().count(), 3);
    assert!(out.lines().last().unwrap().contains("stop"), "{out}");
    let out = node.user.ok(&["audit", "tail", "-n", "100"]);
    let denied = out.lines().find(|line| line.contains("tool-3")).unwrap();
    for word in [
        "request_received",
        "ada",
        "tool/call/req",
        "tool_denied",
        "12 ms",
    ] {
        assert!(denied.contains(word), "{denied}");
    }
    let out = node.user.ok(&["audit", "tail", "-n", "2", "--json"]);
    let lines = node.lines();
    assert_eq!(out.lines().collect::<Vec<_>>(), lines[lines.len() - 2..]);
}

#[test]
fn the_tail_follows_a_log_that_grows() {
    let node = Node::new();
    let log = node.open_log();
    let mut child = node
        .user
        .command(&["audit", "tail", "-n", "1", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines.next().unwrap().unwrap();
    assert!(
        last.contains("tool-9") || last.contains("checkpoint"),
        "{last}"
    );
    log.append(&record("later", "success"))
        .unwrap()
        .wait()
        .unwrap();
    log.rotate().wait().unwrap();
    log.append(&record("much later", "success"))
        .unwrap()
        .wait()
        .unwrap();
    let mut next = |word: &str| {
        let mut found = lines.by_ref().map(Result::unwrap);
        assert!(found.any(|line| line.contains(word)), "{word}");
    };
    next("\"later\"");
    next("\"much later\"");
    child.kill().unwrap();
    child.wait().unwrap();
    log.close();
}

#[test]
fn records_are_exported_as_they_are_and_for_a2e() {
    let node = Node::with_log();
    let out = node.user.ok(&["audit", "export"]);
    assert_eq!(out.lines().collect::<Vec<_>>(), node.lines());
    let out = node.user.ok(&["audit", "export", "--format", "a2e"]);
    let entries: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[3]["error_code"], "tool_denied");
    assert_eq!(
        (&entries[3]["success"], &entries[4]["success"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(entries[4]["duration_ms"], 12);
}

#[test]
fn statistics_are_shown() {
    let node = Node::with_log();
    let out = node.user.ok(&["audit", "stats"]);
    assert!(
        out.contains("request_received") && out.contains("tool_denied"),
        "{out}"
    );
    let stats = node.user.json(&["audit", "stats"]);
    assert_eq!(stats["events"]["request_received"], 10);
    assert_eq!(
        (&stats["logs"], &stats["unreadable"]),
        (&json!(1), &json!(0))
    );
}

/// A log that another process writes, but no node that could be asked, is left alone.
#[test]
fn a_purge_needs_the_log_for_itself() {
    let node = Node::new();
    let log = node.open_log();
    let (status, _, error) = node.user.run(&["audit", "purge", "--before", "90d"]);
    assert_eq!(status, 1);
    let pid = format!(
        "in use by process {}: stop the node first",
        std::process::id()
    );
    assert!(error.contains(&pid), "{error}");
    log.close();
    let before = node.lines();
    let purged = node
        .user
        .json(&["audit", "purge", "--before", "2026-02-07"]);
    assert!(purged["records"].as_u64().unwrap() >= 4, "{purged}");
    node.user.ok(&["audit", "verify"]);
    let after = node.lines();
    assert!(!after.contains(&before[0]) && after.iter().any(|line| line.contains("tool-9")));
    let out = node.user.ok(&[
        "audit",
        "purge",
        "--before",
        "2026-02-09",
        "--only",
        "bodies",
    ]);
    assert!(out.contains("dropped no records"), "{out}");
    let out = node
        .user
        .ok(&["audit", "purge", "--before", "1h", "--only", "addresses"]);
    assert!(out.contains("erased 0 bodies and "), "{out}");
    let report = node.user.json(&["audit", "verify"]);
    assert_eq!(report["intact"], true, "{report}");
    assert!(!node.lines().concat().contains("127.0.0.1"));
}

#[test]
fn what_cannot_be_purged_is_said() {
    let node = Node::with_log();
    let (status, _, error) = node.user.run(&["audit", "purge", "--before", "yesterday"]);
    assert_eq!(status, 2, "{error}");
    let (status, _, error) = node.user.run(&["audit", "purge", "--before", "6d"]);
    assert_eq!(status, 1);
    assert!(error.contains("at least 7 days"), "{error}");
    let empty = User::new();
    for arguments in [
        &["audit", "tail"][..],
        &["audit", "stats"],
        &["audit", "export"],
        &["audit", "purge", "--before", "90d"],
    ] {
        let (status, _, error) = empty.run(arguments);
        assert_eq!(status, 1, "{arguments:?}");
        assert!(error.contains("audit"), "{error}");
    }
    assert!(!empty.path("data/audit").exists());
}
