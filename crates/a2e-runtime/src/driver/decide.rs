//! The decision about a request, and the operator's word on those that are held.

use std::sync::Arc;

use a2e_session::{Failure, Request, Token};
use a2e_wire::messages::chain::ChainEvent;
use a2e_wire::messages::skill::SkillEvent;
use a2e_wire::messages::tool::ToolEvent;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, ErrorCode, Object, Tag};
use audit::{Check, Verdict as Outcome};

use super::resolve::Next;
use super::work::{Finished, Held, Work};
use super::{Command, Driver};
use crate::approvals::{ApprovalDecision, Question, Word};
use crate::decision::{
    Asked, Repetition, RuleName, Verdict, no_operator, not_approved, revoked, still, unrecorded,
};
use crate::resolution::Resolution;

impl Driver {
    /// Decides about a request, and does what follows.
    pub(super) fn decide(&mut self, mut work: Work, request: Request, resolution: Resolution) {
        let session = Arc::clone(work.session());
        let asked = Asked::new(&session, &request.message, &request.line, &resolution);
        match self.note(asked) {
            Ok(note) => work.note = note,
            Err(error) => {
                tracing::debug!(%error, "a request is refused");
                return self.refuse(work, unrecorded(asked.namespace()));
            }
        }
        let policies = self.host.policies();
        let rules = policies.of(asked.agent());
        let ruling = self.host.inner.counters.decide(rules, self.now, asked);
        if let Some(note) = &mut work.note {
            note.ruled(rules, &ruling);
        }
        match ruling.verdict {
            Verdict::Allow => self.dispatch(work, request.message, resolution),
            Verdict::Deny(failure) => self.refuse(work, failure),
            Verdict::Hold(repetition) => {
                let rule = ruling.rule_name();
                self.resolve(work, request, Next::Hold { rule, repetition });
            }
        }
    }

    /// Whether the rules of now let a call be done that was approved under those of then.
    pub(super) fn is_still_allowed(&self, asked: Asked<'_>) -> Result<(), Failure> {
        let policies = self.host.policies();
        still(policies.of(asked.agent()), asked)
    }

    /// Answers a request that goes no further.
    pub(super) fn refuse(&mut self, mut work: Work, failure: Failure) {
        if let Some(note) = &mut work.note {
            note.verdict = Outcome::Rejected;
        }
        let token = work.token();
        self.end_work(token, Some(work), Finished::refused(failure));
    }

    /// Holds a request and asks the operator.
    pub(super) fn hold(
        &mut self,
        mut work: Work,
        request: Request,
        resolution: &Resolution,
        repetition: Repetition,
        rule: &RuleName,
    ) {
        let namespace = work.namespace();
        let Some(approvals) = &self.host.inner.approvals else {
            return self.refuse(work, no_operator(namespace, rule));
        };
        let asked = work.asked(&request.message, &request.line, resolution);
        let question = match Question::new(work.session(), asked, rule, true) {
            Ok(question) => question,
            Err(failure) => return self.refuse(work, failure),
        };
        let call = question.hash;
        let (token, commands, approvals) = (work.token(), self.commands.clone(), approvals.clone());
        let task = tokio::spawn(async move {
            let held = |id| commands.send(Command::Held(token, id));
            let word = approvals.ask(question, held).await;
            let _ = commands.send(Command::Decided(token, Box::new(word))).await;
        });
        work.task = Some(task.abort_handle());
        work.held = Some(Held {
            call,
            repetition,
            rule: rule.clone(),
        });
        if let Some(note) = &mut work.note {
            note.set_aside();
        }
        self.add_work(work);
        let _ = self.session.hold(self.now, request);
    }

    /// Tells an agent that wants events that its call waits for the operator, or something that is
    /// done for it.
    pub(super) fn tell_held(&mut self, token: Token, approval: &str) {
        let Some(work) = self.work.iter_mut().find(|work| work.token() == token) else {
            return;
        };
        // What is done for it has a note of its own.
        if let (Some(note), Some(_)) = (&mut work.note, &work.held) {
            note.approval = Some(approval.to_owned());
        }
        let text = format!(r#"{{"status":"approval_pending","approval_id":"{approval}"}}"#);
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
        let Some(Held {
            call,
            repetition,
            rule,
        }) = work.held.take()
        else {
            return;
        };
        work.task = None;
        match word {
            Ok(word) => {
                let is_granted = word.decision == ApprovalDecision::Approved;
                if let Some(note) = &mut work.note {
                    note.checks.approval = Some(match is_granted {
                        true => Check::Passed,
                        false => Check::Failed,
                    });
                    note.approval = Some(word.id.clone());
                    if !is_granted {
                        note.verdict = Outcome::Rejected;
                    }
                }
                if !is_granted {
                    let failure = match work.session().access().is_revoked() {
                        true => revoked(namespace),
                        false => not_approved(namespace, &rule, &word),
                    };
                    return self.finish_work(token, Finished::refused(failure));
                }
                work.approved = Some(call);
                let agent = &work.session().identity().agent;
                self.host.inner.counters.approved(agent, repetition);
                self.session.release(self.now, token);
            }
            Err(error) => {
                tracing::error!(%error, "a held call cannot be kept");
                let text = "the host cannot ask its operator at the moment; try again later";
                let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
                failure.retryable = true;
                self.finish_work(token, Finished::refused(failure));
            }
        }
    }
}
