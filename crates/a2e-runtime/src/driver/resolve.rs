//! Requests that are resolved: before they are decided about, before the operator is asked, and before
//! they go on.

use std::sync::Arc;
use std::task::{Context as Waiting, Poll, Waker};

use a2e_session::{Failure, Request, Token};
use canonical::Digest;

use super::work::{Work, poll_caught};
use super::{Command, Driver};
use crate::decision::{Repetition, RuleName, changed};
use crate::plugin::BoxFuture;
use crate::resolution::Resolution;

/// What follows when it is known what a request stands for.
#[derive(Debug)]
pub(super) enum Next {
    /// The rules decide about it.
    Decide,
    /// This rule has the operator asked about it.
    Hold {
        rule: RuleName,
        repetition: Repetition,
    },
    /// It goes on, if this is what the operator has approved.
    Release(Digest),
}

/// A request of which it is not known yet what it stands for.
pub(super) struct Resolving {
    request: Request,
    next: Next,
}

impl Driver {
    /// Finds what a request stands for, and goes on with what follows.
    pub(super) fn resolve(&mut self, mut work: Work, request: Request, next: Next) {
        let (token, message) = (request.token, request.message.clone());
        let (settings, session) = (Arc::clone(&self.settings), Arc::clone(work.session()));
        let mut job: BoxFuture<'static, _> =
            Box::pin(async move { settings.registry.resolve(&message, &session).await });
        let mut nobody = Waiting::from_waker(Waker::noop());
        let resolving = Resolving { request, next };
        if let Poll::Ready(caught) = poll_caught(&mut job, &mut nobody) {
            let resolved = caught.unwrap_or_else(|crashed| Err(crashed.into()));
            return self.go_on_resolved(work, resolving, resolved);
        }
        let commands = self.commands.clone();
        let task = tokio::spawn(async move {
            let caught = std::future::poll_fn(|cx| poll_caught(&mut job, cx)).await;
            let resolved = caught.unwrap_or_else(|crashed| Err(crashed.into()));
            let _ = commands
                .send(Command::Resolved(token, Box::new(resolved)))
                .await;
        });
        work.task = Some(task.abort_handle());
        work.resolving = Some(resolving);
        self.session.set_undecided(token, true);
        self.add_work(work);
    }

    /// It was found what a request stands for.
    pub(super) fn resolved(&mut self, token: Token, resolved: Result<Resolution, Failure>) {
        if let Some(mut work) = self.take_work(token)
            && let Some(resolving) = work.resolving.take()
        {
            work.task = None;
            self.session.set_undecided(token, false);
            self.go_on_resolved(work, resolving, resolved);
        }
    }

    fn go_on_resolved(
        &mut self,
        mut work: Work,
        resolving: Resolving,
        resolved: Result<Resolution, Failure>,
    ) {
        let Resolving { request, next } = resolving;
        let resolution = match resolved {
            Ok(resolution) => resolution,
            Err(failure) => {
                if work.note.is_none() {
                    let unresolved = Resolution::default();
                    let asked = work.asked(&request.message, &request.line, &unresolved);
                    work.note = self.note(asked).unwrap_or_default();
                }
                return self.refuse(work, failure);
            }
        };
        match next {
            Next::Decide => self.decide(work, request, resolution),
            Next::Hold { rule, repetition } => {
                self.hold(work, request, &resolution, repetition, &rule);
            }
            Next::Release(approved) => {
                let asked = work.asked(&request.message, &request.line, &resolution);
                let outcome = match asked.hash() == Some(approved) {
                    true => self.is_still_allowed(asked),
                    false => Err(changed(work.namespace())),
                };
                match outcome {
                    Ok(()) => self.dispatch(work, request.message, resolution),
                    Err(failure) => self.refuse(work, failure),
                }
            }
        }
    }
}
