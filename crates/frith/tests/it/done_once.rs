//! What may have had an effect is never done again by the node itself: every way in which work ends, for
//! every class of work, as docs/done-once.md has it.
#![expect(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail as tests do, and name what is special"
)]

mod agent;
mod cells;
mod clock;
mod disk;
mod faults;
mod panics;
mod peer;
mod power;
mod scene;
mod site;
mod table;

use serde_json::Value;

use scene::{Place, Scene};

/// A class of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    ToolCall,
    Intent,
    ChainNode,
    Approval,
    MemoryWrite,
}

/// A way in which work ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Response,
    Cancel,
    Deadline,
    SessionEnd,
    Revocation,
    Panic,
    Drain,
    PastDrain,
    SecondSigterm,
    Kill,
    PowerLoss,
    RestoredBackup,
    FullDisk,
    ClockBack,
    ClockAhead,
}

/// What a retry with the same id gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gets {
    /// The response that there was.
    Response,
    /// That the work was interrupted.
    Interrupted,
    /// What came of the chain, which went on after its node was interrupted.
    ChainFailed,
    /// Why the chain does not go on, or has failed.
    ChainStopped,
    /// The work is executed, since nothing was done.
    Executed,
}

/// What work was answered with.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Response(Value),
    Failed {
        code: String,
        reason: String,
        is_retryable: bool,
    },
}

/// Walks a cell of the table.
fn walk(ending: Ending, class: Class) {
    let (mut scene, gate) = Scene::begin(ending, class);
    scene.end(ending, gate);
    let expected = table::gets(ending, class);
    scene.check(expected, Place::Session);
    // Another process knows it as well.
    scene.crash();
    scene.check(expected, Place::Elsewhere);
    scene.check_records(ending);
}

impl Answer {
    /// What a message of a host is, without what each sending changes.
    fn of(mut message: Value) -> Self {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        if message["type"] == "error" {
            return Self::Failed {
                code: text(&message["code"]),
                reason: text(&message["detail"]["reason"]),
                is_retryable: message["retryable"] == true,
            };
        }
        for name in ["id", "ts", "eid"] {
            message.as_object_mut().unwrap().remove(name);
        }
        Self::Response(message)
    }

    /// As audit records have it.
    fn status(&self) -> String {
        match self {
            Self::Response(_) => "success".to_owned(),
            Self::Failed { code, .. } => code.clone(),
        }
    }

    fn expect_interrupted(&self) {
        let Self::Failed {
            code,
            reason,
            is_retryable: false,
        } = self
        else {
            panic!("{self:?}");
        };
        let is_known = match &**code {
            "runtime_error" => reason == "host_restarted",
            other => other == "REPLAY_DETECTED",
        };
        assert!(is_known, "{self:?}");
    }

    fn expect_failed_chain(&self, codes: &[&str]) {
        let Self::Response(chain) = self else {
            panic!("{self:?}");
        };
        let code = chain["error"]["code"].as_str().unwrap();
        let is_known = codes.contains(&code);
        assert!(is_known && chain["success"] == false, "{chain}");
    }
}
