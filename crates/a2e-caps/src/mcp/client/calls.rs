//! Calls that are under way at a server: who waits for them, and who hears of their progress.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Waiting, Poll, Waker};
use std::time::Duration;

use a2e_runtime::Session;
use rmcp::model::{
    CancelledNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
};
use rmcp::{Peer, RoleClient};
use tokio::time::Instant;

use crate::tool::Progress;

/// The calls under way.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    /// Oldest first.
    callers: Vec<(u64, Arc<Session>)>,
    listeners: HashMap<ProgressToken, Listener>,
}

/// Where a call hears of its progress.
#[derive(Debug)]
struct Listener {
    /// What was said and not told yet, oldest first.
    news: VecDeque<ProgressNotificationParam>,
    waiting: Option<Waker>,
    /// When the last was heard of the call.
    heard: Instant,
}

/// What a call may not have told its agent yet; of a server that says more, some is passed over.
const MAX_NEWS: usize = 32;

/// A call, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    calls: &'a Calls,
    number: u64,
}

/// A call that hears of its progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Listening<'a> {
    calls: &'a Calls,
    token: ProgressToken,
}

/// A request that is cancelled at the server when nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Asked {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Calls {
    /// A call of a session begins.
    pub(super) fn enter(&self, session: Option<&Arc<Session>>) -> Place<'_> {
        let mut inner = self.lock();
        inner.last = inner.last.saturating_add(1);
        let number = inner.last;
        inner
            .callers
            .extend(session.map(|session| (number, Arc::clone(session))));
        Place {
            calls: self,
            number,
        }
    }

    /// Whose calls are under way, the latest last.
    pub(super) fn callers(&self) -> Vec<Arc<Session>> {
        let inner = self.lock();
        let callers = inner.callers.iter();
        callers.map(|(_, session)| Arc::clone(session)).collect()
    }

    pub(super) fn are_none(&self) -> bool {
        self.lock().callers.is_empty()
    }

    /// A call hears what is said of this token.
    pub(super) fn listen(&self, token: ProgressToken) -> Listening<'_> {
        let listener = Listener {
            news: VecDeque::new(),
            waiting: None,
            heard: Instant::now(),
        };
        self.lock().listeners.insert(token.clone(), listener);
        Listening { calls: self, token }
    }

    /// The server has said how far it is.
    pub(super) fn hear(&self, said: ProgressNotificationParam) {
        let mut inner = self.lock();
        let Some(listener) = inner.listeners.get_mut(&said.progress_token) else {
            return;
        };
        listener.heard = Instant::now();
        if listener.news.len() < MAX_NEWS {
            listener.news.push_back(said);
        }
        let waiting = listener.waiting.take();
        drop(inner);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let number = self.number;
        self.calls
            .lock()
            .callers
            .retain(|(known, _)| *known != number);
    }
}

impl Listening<'_> {
    /// Waits for an answer for as long as the server is not silent for longer than that. What it said
    /// before is told before, in its order.
    pub(super) async fn wait<A>(
        &self,
        answer: impl Future<Output = A>,
        patience: Duration,
        progress: &Progress,
    ) -> Option<A> {
        let mut answer = pin!(answer);
        let mut silence = pin!(tokio::time::sleep(patience));
        let answer = loop {
            tokio::select! {
                biased;
                said = std::future::poll_fn(|cx| self.poll_news(cx)) => tell(progress, said).await,
                answer = &mut answer => break answer,
                () = &mut silence => {
                    let until = self.heard()? + patience;
                    if until <= Instant::now() {
                        return None;
                    }
                    silence.as_mut().reset(until);
                }
            }
        };
        while let Some(said) = self.news() {
            tell(progress, said).await;
        }
        Some(answer)
    }

    fn poll_news(&self, cx: &Waiting<'_>) -> Poll<ProgressNotificationParam> {
        let mut inner = self.calls.lock();
        let Some(listener) = inner.listeners.get_mut(&self.token) else {
            return Poll::Pending;
        };
        match listener.news.pop_front() {
            Some(said) => Poll::Ready(said),
            None => {
                listener.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn news(&self) -> Option<ProgressNotificationParam> {
        let mut inner = self.calls.lock();
        inner.listeners.get_mut(&self.token)?.news.pop_front()
    }

    /// When the last was heard of the call.
    fn heard(&self) -> Option<Instant> {
        let inner = self.calls.lock();
        inner.listeners.get(&self.token).map(|it| it.heard)
    }
}

/// Tells whoever waits for a call how far it is.
async fn tell(progress: &Progress, said: ProgressNotificationParam) {
    let message = said.message.unwrap_or_default();
    match said.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let percent = (said.progress / total * 100.0).clamp(0.0, 100.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is between 0 and 100"
            )]
            let percent = percent as u8;
            progress.progress(percent, &message).await;
        }
        None => progress.status(&message).await,
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.calls.lock().listeners.remove(&self.token);
    }
}

impl Asked {
    pub(super) const fn new(peer: Peer<RoleClient>, id: RequestId) -> Self {
        Self { peer, id: Some(id) }
    }

    /// It was answered.
    pub(super) fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("nobody waits for it any more".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(id), reason);
            // A server that is gone works on nothing.
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::messages::tool::ToolEvent;
    use rmcp::model::NumberOrString;
    use tokio::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn token() -> ProgressToken {
        ProgressToken(NumberOrString::Number(1))
    }

    fn said(number: usize) -> ProgressNotificationParam {
        ProgressNotificationParam::new(token(), 0.0).with_message(number.to_string())
    }

    fn progress() -> (Progress, mpsc::Receiver<ToolEvent<'static>>) {
        let (sender, heard) = mpsc::channel(2 * MAX_NEWS);
        (Progress::heard_by(sender), heard)
    }

    fn told(heard: &mut mpsc::Receiver<ToolEvent<'static>>) -> Vec<String> {
        std::iter::from_fn(|| heard.try_recv().ok())
            .map(|event| event.data.raw().to_string())
            .collect()
    }

    /// Also when all of it came at once; of more than there is room for, the rest is passed over.
    #[tokio::test]
    async fn what_was_said_before_the_answer_is_told_before_it() {
        for count in [MAX_NEWS, MAX_NEWS + 1] {
            let calls = Calls::default();
            let listening = calls.listen(token());
            let (progress, mut heard) = progress();
            (0..count).for_each(|number| calls.hear(said(number)));
            let answer = listening.wait(std::future::ready(5), PATIENCE, &progress);
            assert_eq!(answer.await, Some(5));
            let told = told(&mut heard);
            assert_eq!(told.len(), MAX_NEWS);
            for (number, data) in told.iter().enumerate() {
                assert!(data.contains(&format!("\"{number}\"")), "{data}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_begins_anew_with_each_word() {
        let calls = Calls::default();
        let listening = calls.listen(token());
        let (progress, _heard) = progress();
        let begun = Instant::now();
        let speaking = async {
            for number in 0..3 {
                tokio::time::sleep(PATIENCE * 9 / 10).await;
                calls.hear(said(number));
            }
        };
        let waiting = listening.wait(std::future::pending::<()>(), PATIENCE, &progress);
        let (answer, ()) = tokio::join!(waiting, speaking);
        assert_eq!(answer, None);
        assert_eq!(begun.elapsed().as_secs(), 37);
        drop(listening);
        calls.hear(said(9));
        assert!(calls.lock().listeners.is_empty());
    }
}
