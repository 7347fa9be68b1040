//! Work on a disk that fails: no response without its audit record, no second execution.

use std::time::Duration;

use testkit::{DiskCall, Fault};

use super::agent::Agent;
use super::peer::{self, Peer};
use super::site::{Settings, Site};
use super::{Answer, Class};

/// The audit log.
const AUDIT: &str = "/data/audit/";
/// The database.
const STORE: &str = "/data/store.db";
/// The requests of agents.
const REQUESTS: &str = "/data/idempotency/";

/// Longer than a response takes that is not held up.
const SLOW: Duration = Duration::from_millis(300);

/// When the disk begins to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    BeforeTheWork,
    BeforeItsEnd,
}

/// What follows once a call has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The disk is well again.
    Recovers,
    /// The node is killed, and the next finds a disk that is well.
    Restarts,
}

/// A disk that fails while work is done.
struct Case {
    class: Class,
    begins: Begins,
    file: &'static str,
    call: DiskCall,
    fault: Fault,
    then: Then,
}

/// Who asked for the work.
enum Caller {
    Agent(Agent),
    Peer(Peer),
}

impl Caller {
    /// What the work was answered with; nothing if its connection ended before that. A peer asks again
    /// by itself.
    fn answer(&mut self) -> Option<Answer> {
        match self {
            Self::Agent(agent) => agent.answer_or_end(),
            Self::Peer(peer) => Some(peer.answer()),
        }
    }

    fn retry(&mut self, site: &Site) -> Answer {
        match self {
            Self::Agent(agent) => agent.retry_elsewhere(site),
            Self::Peer(peer) => peer.retry(),
        }
    }

    fn is_its_record(&self, record: &serde_json::Value) -> bool {
        match self {
            Self::Agent(agent) => agent.is_its_record(record),
            Self::Peer(_) => peer::is_its_record(record),
        }
    }
}

impl Case {
    /// Has work done on a disk that fails, and sends it again until it has its answer.
    fn walk(&self) {
        // What is promised for power losses is promised for failed syncs.
        let mut site = Site::start(Settings {
            has_faults: true,
            sync: Some("commit"),
            ..Settings::default()
        });
        let mut caller = self.fail(&site);
        let mut heard = Vec::new();
        match self.then {
            Then::Recovers => {
                site.faults().end();
                heard.extend(caller.answer());
            }
            Then::Restarts => {
                site.kill();
                site.faults().end();
                if let Caller::Agent(_) = caller {
                    heard.extend(caller.answer());
                }
                site.up();
                if let Caller::Peer(_) = caller {
                    heard.extend(caller.answer());
                }
            }
        }
        heard.push(caller.retry(&site));
        // Another process knows it as well.
        site.kill();
        site.up();
        let last = caller.retry(&site);
        // Of an intent whose record failed the error is final.
        match &last {
            Answer::Response(_) => {}
            Answer::Failed { code, .. } if code == "INTERNAL_ERROR" => {}
            other => other.expect_interrupted(),
        }
        heard.push(last);
        self.check(&site, &caller, &heard);
    }

    /// Has work done until a call to the disk has failed.
    fn fail(&self, site: &Site) -> Caller {
        let begin = || site.faults().begin(self.call, self.file, self.fault);
        let caller = match (self.begins, self.class) {
            (Begins::BeforeTheWork, Class::Intent) => {
                let mut peer = Peer::in_session(site);
                begin();
                peer.ask();
                Caller::Peer(peer)
            }
            (Begins::BeforeTheWork, class) => {
                let mut agent = Agent::in_session(class, site);
                begin();
                agent.ask();
                Caller::Agent(agent)
            }
            (Begins::BeforeItsEnd, Class::Intent) => {
                let (peer, gate) = Peer::begin(site, 60);
                begin();
                gate.open();
                Caller::Peer(peer)
            }
            (Begins::BeforeItsEnd, class) => {
                let (agent, gate) = Agent::begin(class, site, 60);
                begin();
                gate.open();
                Caller::Agent(agent)
            }
        };
        while site.faults().hits() == 0 {
            std::thread::yield_now();
        }
        caller
    }

    /// Asserts that the work was done at most once, that all responses are the same, and that the audit
    /// log has their record.
    fn check(&self, site: &Site, caller: &Caller, heard: &[Answer]) {
        let mut responses = heard.iter().filter(|it| matches!(it, Answer::Response(_)));
        let runs = site.runs();
        if let Some(first) = responses.next() {
            assert_eq!(runs, 1, "{heard:?}");
            assert!(responses.all(|other| other == first), "{heard:?}");
            let records = site.records();
            let mut its = records.iter().filter(|it| caller.is_its_record(it));
            assert!(
                its.any(|it| it["response_status"] == "success"),
                "{heard:?}"
            );
        }
        assert!(runs <= 1, "{heard:?}");
        assert!(runs == 1 || self.begins == Begins::BeforeTheWork);
        site.operator(&["audit", "verify"]);
    }
}

/// Tests of cases: the class, when it begins, the file, the call, the fault, and what follows.
macro_rules! cases {
    (EVERY_DAY: $($name:ident $class:ident $begins:ident $file:ident $call:ident $fault:expr, $then:ident;)*) => {
        $(
            #[test]
            fn $name() {
                cases!(@ $class $begins $file $call $fault, $then);
            }
        )*
    };
    (IN_FULL: $($name:ident $class:ident $begins:ident $file:ident $call:ident $fault:expr, $then:ident;)*) => {
        $(
            #[test]
            #[ignore = "takes a minute with the others: `cargo xtask full` runs it"]
            fn $name() {
                cases!(@ $class $begins $file $call $fault, $then);
            }
        )*
    };
    (@ $class:ident $begins:ident $file:ident $call:ident $fault:expr, $then:ident) => {
        let case = Case {
            class: Class::$class,
            begins: Begins::$begins,
            file: $file,
            call: DiskCall::$call,
            fault: $fault,
            then: Then::$then,
        };
        case.walk();
    };
}

cases! {
    EVERY_DAY:
    tool_call_whose_record_fails ToolCall BeforeItsEnd AUDIT Write Fault::Fail, Restarts;
    tool_call_whose_record_is_torn ToolCall BeforeItsEnd AUDIT Write Fault::Tear, Restarts;
    intent_whose_record_is_not_synced Intent BeforeItsEnd AUDIT Sync Fault::Fail, Recovers;
    tool_call_that_cannot_begin ToolCall BeforeTheWork REQUESTS Write Fault::Fail, Recovers;
    intent_that_cannot_begin Intent BeforeTheWork STORE Write Fault::Fail, Recovers;
    intent_whose_outcome_is_torn Intent BeforeItsEnd STORE Write Fault::Tear, Recovers;
    intent_whose_outcome_is_not_synced Intent BeforeItsEnd STORE Sync Fault::Fail, Restarts;
    intent_whose_record_is_slow Intent BeforeItsEnd AUDIT Write Fault::Delay(SLOW), Restarts;
}

cases! {
    IN_FULL:
    tool_call_whose_record_is_short ToolCall BeforeItsEnd AUDIT Write Fault::Short, Recovers;
    tool_call_whose_record_is_slow ToolCall BeforeItsEnd AUDIT Write Fault::Delay(SLOW), Restarts;
    tool_call_whose_record_is_not_synced_before_a_restart ToolCall BeforeItsEnd AUDIT Sync Fault::Fail, Restarts;
    tool_call_whose_record_is_synced_slowly ToolCall BeforeItsEnd AUDIT Sync Fault::Delay(SLOW), Restarts;
    tool_call_whose_beginning_is_torn ToolCall BeforeTheWork REQUESTS Write Fault::Tear, Restarts;
    tool_call_whose_beginning_is_short ToolCall BeforeTheWork REQUESTS Write Fault::Short, Recovers;
    tool_call_whose_beginning_is_not_synced ToolCall BeforeTheWork REQUESTS Sync Fault::Fail, Recovers;
    tool_call_whose_beginning_is_slow ToolCall BeforeTheWork REQUESTS Sync Fault::Delay(SLOW), Restarts;
    tool_call_whose_end_is_not_written ToolCall BeforeItsEnd REQUESTS Write Fault::Fail, Recovers;
    tool_call_whose_end_is_torn ToolCall BeforeItsEnd REQUESTS Write Fault::Tear, Restarts;
    intent_whose_record_fails Intent BeforeItsEnd AUDIT Write Fault::Fail, Recovers;
    intent_whose_record_is_torn Intent BeforeItsEnd AUDIT Write Fault::Tear, Restarts;
    intent_whose_record_is_short Intent BeforeItsEnd AUDIT Write Fault::Short, Recovers;
    intent_whose_beginning_is_torn Intent BeforeTheWork STORE Write Fault::Tear, Restarts;
    intent_whose_beginning_is_short Intent BeforeTheWork STORE Write Fault::Short, Recovers;
    intent_whose_beginning_is_not_synced Intent BeforeTheWork STORE Sync Fault::Fail, Restarts;
    intent_whose_outcome_fails Intent BeforeItsEnd STORE Write Fault::Fail, Recovers;
    intent_whose_outcome_fails_before_a_restart Intent BeforeItsEnd STORE Write Fault::Fail, Restarts;
    intent_whose_outcome_is_short Intent BeforeItsEnd STORE Write Fault::Short, Recovers;
    intent_whose_outcome_is_slow Intent BeforeItsEnd STORE Sync Fault::Delay(SLOW), Restarts;
}
