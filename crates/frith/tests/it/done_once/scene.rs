//! Work that is begun, ends, and is sent again.

use serde_json::Value;

use super::agent::Agent;
use super::clock::Clock;
use super::peer::{self, Peer};
use super::site::{Gate, Settings, Site};
use super::{Answer, Class, Ending, Gets, table};

/// Who asks for work.
enum Caller {
    Agent(Agent),
    Peer(Peer),
}

/// Work of a class that was begun on a node.
pub(super) struct Scene {
    class: Class,
    site: Site,
    caller: Caller,
    /// The response that there was before anything was sent again.
    response: Option<Answer>,
    /// Whether something else was written where a memory write has written.
    is_overwritten: bool,
    /// Whether the database is a copy of before the response.
    is_restored: bool,
    /// What it was answered with when it was sent again, as audit records have it.
    retries: Vec<String>,
}

/// How long a session lasts that is to end: longer than its request takes to begin.
const SESSION_SECONDS: u64 = 5;

/// Where work is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the session of an agent that it was sent in first.
    Session,
    Elsewhere,
}

impl Scene {
    /// Begins work that is to end in this way.
    pub(super) fn begin(ending: Ending, class: Class) -> (Self, Gate) {
        let is_late = ending == Ending::Deadline;
        let loses_power = ending == Ending::PowerLoss;
        let loses_session = ending == Ending::SessionEnd && class == Class::Intent;
        let site = Site::start(Settings {
            asks: class == Class::Approval,
            drain_seconds: (ending == Ending::PastDrain).then_some(1),
            request_seconds: is_late.then_some(1),
            sync: loses_power.then_some("commit"),
            has_disk: loses_power || ending == Ending::FullDisk,
            session_seconds: loses_session.then_some(SESSION_SECONDS),
            is_old: ending == Ending::ClockBack,
            has_faults: false,
        });
        let timeout = if is_late { 1 } else { 60 };
        let (caller, gate) = if class == Class::Intent {
            let (peer, gate) = Peer::begin(&site, timeout);
            (Caller::Peer(peer), gate)
        } else {
            let (agent, gate) = Agent::begin(class, &site, timeout);
            (Caller::Agent(agent), gate)
        };
        let scene = Self {
            class,
            site,
            caller,
            response: None,
            is_overwritten: false,
            is_restored: false,
            retries: Vec::new(),
        };
        (scene, gate)
    }

    /// Has the work end.
    pub(super) fn end(&mut self, ending: Ending, gate: Gate) {
        match ending {
            Ending::Response => {
                gate.open();
                self.hear_response();
            }
            Ending::Cancel => self.cancel(gate),
            Ending::Deadline => {
                self.hear_timeout();
                gate.open();
            }
            Ending::SessionEnd => self.end_session(gate),
            Ending::Revocation => self.revoke(gate),
            Ending::Panic => panic!("no handler of a node panics"),
            Ending::Drain => {
                self.site.drain();
                gate.open();
                self.hear_response();
                self.site.wait_for_end();
                self.restart();
            }
            Ending::PastDrain => {
                self.site.drain();
                self.site.wait_for_end();
                self.restart_after(gate);
            }
            Ending::SecondSigterm => {
                self.site.drain();
                self.site.node().signal("-TERM");
                self.site.wait_for_end();
                self.restart_after(gate);
            }
            Ending::Kill => {
                self.site.kill();
                self.restart_after(gate);
            }
            Ending::PowerLoss => {
                self.site.cut_power();
                self.restart_after(gate);
            }
            // Agents refuse manifests of the future.
            Ending::ClockBack if self.class == Class::Intent => self.restart_at(gate, "-100s"),
            Ending::ClockBack => self.restart_at(gate, "-1d"),
            Ending::ClockAhead => self.restart_at(gate, "+5d"),
            Ending::FullDisk => {
                self.site.fill_disk();
                gate.open();
                // The response of an intent waits until its result is stored.
                let waits = self.class == Class::Intent;
                if waits {
                    self.site.free_disk();
                }
                match table::gets(ending, self.class) {
                    Gets::Executed => self.hear_refusal(),
                    _ => self.hear_response(),
                }
                if !waits {
                    self.site.free_disk();
                }
            }
            Ending::RestoredBackup => {
                let backup = self.site.beside("backup.db");
                let path = backup.to_str().unwrap();
                self.site.operator(&["store", "backup", path]);
                gate.open();
                self.hear_response();
                self.site.drain();
                self.site.wait_for_end();
                self.site.restore(&backup);
                self.is_restored = true;
                self.restart();
            }
        }
    }

    fn restart_after(&mut self, gate: Gate) {
        gate.open();
        self.restart();
    }

    /// Goes on in another process, whose clock is off by this.
    fn restart_at(&mut self, gate: Gate, offset: &str) {
        self.site.kill();
        gate.open();
        let clock = Clock::off_by(offset);
        if let Caller::Peer(peer) = &mut self.caller {
            peer.restart_at(&clock);
        }
        self.site.set_clock(clock);
        self.restart();
    }

    /// Kills the node and goes on in another process.
    pub(super) fn crash(&mut self) {
        self.site.kill();
        self.restart();
    }

    /// Goes on in another process.
    fn restart(&mut self) {
        self.site.up();
        if let Caller::Agent(agent) = &mut self.caller {
            agent.resume(&self.site);
        }
    }

    fn answer(&mut self) -> Answer {
        match &mut self.caller {
            Caller::Agent(agent) => agent.answer(),
            Caller::Peer(peer) => peer.answer(),
        }
    }

    fn hear_response(&mut self) {
        let answer = self.answer();
        assert!(matches!(answer, Answer::Response(_)), "{answer:?}");
        self.response = Some(answer);
    }

    /// Hears that nothing was done.
    fn hear_refusal(&mut self) {
        let answer = self.answer();
        let is_retryable = matches!(
            answer,
            Answer::Failed {
                is_retryable: true,
                ..
            }
        );
        assert!(is_retryable, "{answer:?}");
    }

    /// Hears that the time was over. A chain has a response that says so.
    fn hear_timeout(&mut self) {
        match self.answer() {
            answer @ Answer::Response(_) if self.class == Class::ChainNode => {
                self.response = Some(answer);
            }
            Answer::Failed { code, .. } => {
                // The client of a node sends an intent again that was late, and learns that it is
                // interrupted.
                let lower = code.to_lowercase();
                assert!(matches!(&*lower, "timeout" | "replay_detected"), "{code}");
                if lower == "replay_detected" {
                    self.retries.push(code.to_uppercase());
                }
            }
            answer @ Answer::Response(_) => panic!("{answer:?}"),
        }
    }

    fn cancel(&mut self, gate: Gate) {
        match &mut self.caller {
            Caller::Agent(agent) => {
                agent.cancel();
                let answer = agent.answer();
                let is_withdrawn =
                    matches!(&answer, Answer::Failed { reason, .. } if reason == "withdrawn");
                assert!(is_withdrawn, "{answer:?}");
            }
            Caller::Peer(peer) => {
                peer.cancel();
                while self.records().is_empty() {}
            }
        }
        gate.open();
    }

    fn end_session(&mut self, gate: Gate) {
        match &mut self.caller {
            Caller::Agent(agent) => agent.change_session(&self.site),
            // It is as old as it may get.
            Caller::Peer(_) => while self.records().is_empty() {},
        }
        gate.open();
    }

    fn revoke(&mut self, gate: Gate) {
        match &mut self.caller {
            Caller::Agent(agent) => {
                self.site.operator(&["token", "revoke", "eve"]);
                agent.come_back(&self.site);
            }
            Caller::Peer(peer) => {
                self.site.operator(&["trust", "block", peer.did()]);
                let answer = peer.answer();
                let is_refused =
                    matches!(&answer, Answer::Failed { code, .. } if code == "POLICY_VIOLATION");
                assert!(is_refused, "{answer:?}");
                self.site.operator(&["trust", "unblock", peer.did()]);
            }
        }
        gate.open();
    }

    /// Sends the work again, in every way there is, and asserts that it gets this and is not done again.
    /// The session of an agent is tried first, or last.
    pub(super) fn check(&mut self, expected: Gets, first: Place) {
        if expected != Gets::Executed || self.response.is_some() {
            self.count_runs();
        }
        for (place, answer) in self.retry(first) {
            self.retries.push(answer.status());
            match expected {
                // For the first time.
                Gets::Executed if self.response.is_none() => self.response = Some(answer),
                Gets::Executed | Gets::Response => {
                    assert_eq!(Some(&answer), self.response.as_ref(), "{place:?}");
                }
                Gets::Interrupted => answer.expect_interrupted(),
                Gets::ChainFailed => answer.expect_failed_chain(&["chain_node_error"]),
                Gets::ChainStopped => {
                    answer.expect_failed_chain(&["chain_node_error", "chain_error"]);
                }
            }
        }
        self.count_runs();
    }

    /// Sends the work again, everywhere.
    fn retry(&mut self, first: Place) -> Vec<(Place, Answer)> {
        match &mut self.caller {
            Caller::Agent(agent) => {
                let mut places = [Place::Session, Place::Elsewhere];
                if first == Place::Elsewhere {
                    places.reverse();
                }
                let retry = |place| match place {
                    Place::Session => (place, agent.retry()),
                    Place::Elsewhere => (place, agent.retry_elsewhere(&self.site)),
                };
                places.map(retry).into()
            }
            Caller::Peer(peer) => {
                // A client sends work again by itself if its connection breaks.
                let first = peer.is_asking().then(|| peer.answer());
                let retries = first.into_iter().chain([peer.retry()]);
                retries.map(|answer| (Place::Elsewhere, answer)).collect()
            }
        }
    }

    /// Asserts that the work was not done again since it ended.
    fn count_runs(&mut self) {
        match &self.caller {
            Caller::Agent(agent) if self.class == Class::MemoryWrite => {
                // What the work writes again would be seen.
                if self.is_overwritten {
                    assert!(agent.is_overwritten(&self.site));
                    return;
                }
                let is_done = agent.overwrite(&self.site);
                assert!(is_done || self.response.is_none() || self.is_restored);
                self.is_overwritten = true;
            }
            Caller::Agent(_) | Caller::Peer(_) => assert_eq!(self.site.runs(), 1),
        }
    }

    fn records(&self) -> Vec<Value> {
        let all = self.site.records().into_iter();
        let its = all.filter(|record| match &self.caller {
            Caller::Agent(agent) => agent.is_its_record(record),
            Caller::Peer(_) => peer::is_its_record(record),
        });
        its.collect()
    }

    /// Asserts what the audit log has: the end of the work, and what each retry was answered with.
    pub(super) fn check_records(&self, ending: Ending) {
        let records = self.records();
        let statuses = records
            .iter()
            .map(|it| it["response_status"].as_str().unwrap());
        let mut statuses: Vec<&str> = statuses.collect();
        // The process may have had the time to write it.
        let is_end = |status: &&&str| status.eq_ignore_ascii_case("cancelled");
        if ending == Ending::SecondSigterm && statuses.first().filter(is_end).is_some() {
            statuses.remove(0);
        }
        // A call of an agent that is revoked meanwhile is refused or cut off.
        if let Some(first) = statuses
            .first_mut()
            .filter(|_| ending == Ending::Revocation)
            && *first == "unauthorized"
        {
            *first = "cancelled";
        }
        let retries = self.retries.iter().map(String::as_str);
        let first = table::recorded(ending, self.class).into_iter();
        assert_eq!(statuses, first.chain(retries).collect::<Vec<_>>());
        self.site.operator(&["audit", "verify"]);
        if let (Caller::Agent(agent), Class::Approval) = (&self.caller, self.class) {
            agent.check_approval_is_used(&self.site);
        }
    }
}
