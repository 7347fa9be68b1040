//! The decision about a request, and the operator's word on those that are held.

use std::sync::Arc;

use a2e_session::{Failure, Request, Token};
use a2e_wire::messages::chain::ChainEvent;
use a2e_wire::messages::skill::SkillEvent;
use a2e_wire::messages::tool::ToolEvent;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, ErrorCode, Object, Tag};
use audit::{Check, Verdict as Outcome};
use canonical::Digest;

use super::work::Work;
use super::{Command, Driver};
use crate::approvals::{MAX_SHOWN, Question, Word};
use crate::decision::{Asked, Verdict, not_approved, unrecorded};

impl Driver {
    /// Decides about a request, and does what follows.
    pub(super) fn decide(&mut self, mut work: Work, request: Request) {
        let Some(known) = &self.known else {
            return;
        };
        let session = Arc::clone(&known.session);
        let asked = Asked {
            agent: &session.identity().agent,
            message: &request.message,
            line: &request.line,
        };
        match self.note(asked) {
            Ok(note) => work.note = note,
            Err(error) => {
                tracing::debug!(%error, "a request is refused");
                return self.refuse(work, unrecorded(asked.namespace()));
            }
        }
        let policies = self.host.policies();
        let rules = policies.of(asked.agent);
        let ruling = self.host.inner.counters.decide(rules, self.now, asked);
        if let Some(note) = &mut work.note {
            ruling.rule.clone_into(&mut note.rule);
            let limit = rules.rate().map(|_| Check::Passed);
            (note.checks.rate_limit, note.checks.rule_allowed) = match ruling.verdict {
                Verdict::Limited(_) => (Some(Check::Failed), Some(Check::Skipped)),
                Verdict::Deny(_) => (limit, Some(Check::Failed)),
                Verdict::Allow | Verdict::Hold(_) => (limit, Some(Check::Passed)),
            };
        }
        match ruling.verdict {
            Verdict::Allow => self.dispatch(work, *request.message),
            Verdict::Deny(failure) | Verdict::Limited(failure) => self.refuse(work, failure),
            Verdict::Hold(hash) => self.hold(work, request, hash, ruling.rule),
        }
    }

    /// Answers a request that goes no further.
    pub(super) fn refuse(&mut self, mut work: Work, failure: Failure) {
        if let Some(note) = &mut work.note {
            note.verdict = Outcome::Rejected;
        }
        let token = work.token();
        self.add_work(work);
        self.finish_work(token, Err(failure));
    }

    /// Holds a request and asks the operator.
    fn hold(&mut self, mut work: Work, request: Request, hash: Digest, rule: &str) {
        let namespace = work.namespace();
        let (Some(approvals), Some(known)) = (&self.host.inner.approvals, &self.known) else {
            return self.refuse(work, not_approved(namespace, rule, None));
        };
        // Who approves of a call must have seen all of it.
        if request.line.len() > MAX_SHOWN {
            return self.refuse(work, not_approved(namespace, rule, None));
        }
        let question = Question {
            agent: known.session.identity().agent.clone(),
            hash,
            rule: rule.to_owned(),
            line: Arc::clone(&request.line),
        };
        let (token, commands, approvals) = (work.token(), self.commands.clone(), approvals.clone());
        let task = tokio::spawn(async move {
            let held = |id| commands.send(Command::Held(token, id));
            let word = approvals.ask(question, held).await;
            let _ = commands.send(Command::Decided(token, Box::new(word))).await;
        });
        work.task = Some(task.abort_handle());
        work.held = Some((hash, rule.to_owned()));
        if let Some(note) = &mut work.note {
            note.set_aside();
        }
        self.add_work(work);
        let _ = self.session.hold(self.now, request);
    }

    /// Tells an agent that wants events that its call waits for the operator.
    pub(super) fn tell_held(&mut self, token: Token, approval: &str) {
        let Some(work) = self.work.iter_mut().find(|work| work.token() == token) else {
            return;
        };
        if let Some(note) = &mut work.note {
            note.approval = Some(approval.to_owned());
        }
        let text = format!(r#"{{"status":"held","approval_id":"{approval}"}}"#);
        let data = Object::parse(&text).map(ToStatic::to_static);
        let data = data.unwrap_or_default();
        let kind = || "status".into();
        let event: Body<'static> = match work.streams() {
            Some(Tag::ToolCallRequest) => ToolEvent {
                kind: kind(),
                data,
                ..ToolEvent::new()
            }
            .into(),
            Some(Tag::SkillCallRequest) => SkillEvent {
                kind: kind(),
                data,
                ..SkillEvent::new()
            }
            .into(),
            Some(Tag::ChainRequest) => ChainEvent {
                kind: kind(),
                data,
                ..ChainEvent::new()
            }
            .into(),
            _ => return,
        };
        // One that is too far behind hears of it with the answer.
        let _ = self.session.event(self.now, token, event);
    }

    /// The operator has spoken.
    pub(super) fn decided(&mut self, token: Token, word: Result<Word, store::Error>) {
        let Some(work) = self.work.iter_mut().find(|work| work.token() == token) else {
            return;
        };
        let namespace = work.namespace();
        let Some((hash, rule)) = work.held.take() else {
            return;
        };
        work.task = None;
        match word {
            Ok(Word { id, is_granted }) => {
                if let Some(note) = &mut work.note {
                    note.checks.approval = Some(match is_granted {
                        true => Check::Passed,
                        false => Check::Failed,
                    });
                    note.approval = Some(id.clone());
                    if !is_granted {
                        note.verdict = Outcome::Rejected;
                    }
                }
                if !is_granted {
                    let failure = not_approved(namespace, &rule, Some(&id));
                    return self.finish_work(token, Err(failure));
                }
                if let Some(known) = &self.known {
                    let agent = &known.session.identity().agent;
                    self.host.inner.counters.approved(agent, &hash);
                }
                self.session.release(self.now, token);
            }
            Err(error) => {
                tracing::error!(%error, "a held call cannot be kept");
                let text = "the host cannot ask its operator at the moment; try again later";
                let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
                failure.retryable = true;
                self.finish_work(token, Err(failure));
            }
        }
    }
}
