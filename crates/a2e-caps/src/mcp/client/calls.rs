//! Calls that are under way at a server: who waits for them, and who hears of their progress.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Waiting, Poll, Waker};
use std::time::Duration;

use a2e_runtime::Session;
use base::{Class, Limits, Quota};
use rmcp::model::{
    CancelledNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
};
use rmcp::{Peer, RoleClient};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::streams::{Answer, Begun};
use crate::tool::{Progress, ToolFailure};

/// The calls under way.
#[derive(Debug)]
pub(super) struct Calls(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    last: u64,
    /// Oldest first.
    callers: Vec<Caller>,
    by_agent: Quota<Arc<str>>,
    listeners: HashMap<ProgressToken, Listener>,
}

/// Whose call it is.
#[derive(Debug)]
struct Caller {
    number: u64,
    agent: Arc<str>,
    /// None of a call that was cancelled: the server may still work on it.
    session: Option<Arc<Session>>,
}

/// How many calls, reads and the like one agent may have under way at one server. What it has cancelled
/// counts until the server has ended it.
pub(super) const MAX_CALLS: usize = 64;

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
pub(super) struct Place {
    calls: Arc<Calls>,
    number: u64,
}

/// A call that hears of its progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    calls: Arc<Calls>,
    token: ProgressToken,
}

/// A request that a server works on. If it is dropped before its answer, it is cancelled there, and it
/// counts on until the server has ended it: until its late answer or the end of the connection, or until
/// nothing was heard of it for as long as a request may take.
pub(super) struct RequestGuard(Option<AbandonedRequest>);

/// A request whose caller was dropped, until the server has ended it.
struct AbandonedRequest {
    place: Arc<Place>,
    timeout: Duration,
    /// The connection has ended.
    ended: CancellationToken,
    /// How it is cancelled, if that is not done by rmcp.
    cancel: Option<(Peer<RoleClient>, RequestId)>,
    listening: Option<Listening>,
    /// Where a late answer comes, if that can be seen.
    begun: Option<Begun>,
}

/// Who has calls under way.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// Those who wait, the latest last.
    pub(super) sessions: Vec<Arc<Session>>,
    /// The agents of all calls, also of those that were cancelled.
    pub(super) agents: BTreeSet<Arc<str>>,
}

impl Default for Calls {
    fn default() -> Self {
        // Each agent is one that the operator has let in; what all have together is bounded by how many
        // agents there are.
        let limits = Limits {
            total: usize::MAX,
            per_holder: MAX_CALLS,
            reserved: 0,
        };
        Self(Mutex::new(Inner {
            last: 0,
            callers: Vec::new(),
            by_agent: Quota::new(limits),
            listeners: HashMap::new(),
        }))
    }
}

impl Calls {
    /// A call of a session begins; one of the node itself is not counted.
    ///
    /// # Errors
    /// If its agent has as many under way as it may.
    pub(super) fn enter(
        self: &Arc<Self>,
        session: Option<&Arc<Session>>,
    ) -> Result<Arc<Place>, ToolFailure> {
        let caller = session.map(|session| {
            let agent: Arc<str> = session.identity().agent.as_str().into();
            (agent, Some(Arc::clone(session)))
        });
        self.add(caller)
    }

    fn add(
        self: &Arc<Self>,
        caller: Option<(Arc<str>, Option<Arc<Session>>)>,
    ) -> Result<Arc<Place>, ToolFailure> {
        let mut inner = self.lock();
        inner.last = inner.last.saturating_add(1);
        let number = inner.last;
        if let Some((agent, session)) = caller {
            let taken = inner.by_agent.take(Arc::clone(&agent), Class::Known, 1);
            taken.map_err(|_| too_many())?;
            inner.callers.push(Caller {
                number,
                agent,
                session,
            });
        }
        drop(inner);
        Ok(Arc::new(Place {
            calls: Arc::clone(self),
            number,
        }))
    }

    pub(super) fn callers(&self) -> Callers {
        let inner = self.lock();
        let all = inner.callers.iter();
        Callers {
            sessions: all.clone().filter_map(|it| it.session.clone()).collect(),
            agents: all.map(|it| Arc::clone(&it.agent)).collect(),
        }
    }

    /// Whether no caller waits for an answer.
    pub(super) fn are_none(&self) -> bool {
        let inner = self.lock();
        inner.callers.iter().all(|it| it.session.is_none())
    }

    /// A call hears what is said of this token.
    pub(super) fn listen(self: &Arc<Self>, token: ProgressToken) -> Listening {
        let listener = Listener {
            news: VecDeque::new(),
            waiting: None,
            heard: Instant::now(),
        };
        self.lock().listeners.insert(token.clone(), listener);
        Listening {
            calls: Arc::clone(self),
            token,
        }
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

/// An agent has as many calls under way as it may.
fn too_many() -> ToolFailure {
    ToolFailure::busy(
        "agent_limit",
        format!(
            "this agent has {MAX_CALLS} calls under way at this MCP server, which is as many as it may; \
             cancelled ones count until the server has ended them. Wait for one of them to end and try \
             again"
        ),
    )
}

impl Place {
    /// Its caller was cancelled, and the server may still work on it.
    fn abandon(&self) {
        let mut inner = self.calls.lock();
        let mut callers = inner.callers.iter_mut();
        if let Some(caller) = callers.find(|it| it.number == self.number) {
            caller.session = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        let index = inner.callers.iter().position(|it| it.number == self.number);
        if let Some(index) = index {
            let caller = inner.callers.remove(index);
            inner.by_agent.give_back(&caller.agent, Class::Known, 1);
        }
    }
}

impl Listening {
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

    /// Waits until no progress was reported for this time, from now on.
    async fn silence(&self, timeout: Duration) {
        let mut until = Instant::now() + timeout;
        while until > Instant::now() {
            tokio::time::sleep_until(until).await;
            match self.heard() {
                Some(heard) => until = until.max(heard + timeout),
                None => return,
            }
        }
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

impl Drop for Listening {
    fn drop(&mut self) {
        self.calls.lock().listeners.remove(&self.token);
    }
}

impl RequestGuard {
    /// A request of a call: with the longest silence of the server, and the end of the connection.
    pub(super) fn new(place: &Arc<Place>, timeout: Duration, ended: &CancellationToken) -> Self {
        Self(Some(AbandonedRequest {
            place: Arc::clone(place),
            timeout,
            ended: ended.clone(),
            cancel: None,
            listening: None,
            begun: None,
        }))
    }

    /// The same, which has this id and hears of its progress.
    pub(super) fn heard_by(
        mut self,
        listening: Listening,
        peer: &Peer<RoleClient>,
        id: RequestId,
    ) -> Self {
        if let Some(abandoned) = &mut self.0 {
            abandoned.listening = Some(listening);
            abandoned.cancel = Some((peer.clone(), id));
        }
        self
    }

    /// The same, which was begun over the streams of a program.
    pub(super) fn begun(mut self, begun: Begun) -> Self {
        if let Some(abandoned) = &mut self.0 {
            abandoned.begun = Some(begun);
        }
        self
    }

    /// Waits for an answer for as long as the server is not silent for too long.
    pub(super) async fn wait<A>(
        &self,
        answer: impl Future<Output = A>,
        progress: &Progress,
    ) -> Option<A> {
        let abandoned = self.0.as_ref()?;
        let listening = abandoned.listening.as_ref()?;
        listening.wait(answer, abandoned.timeout, progress).await
    }

    /// The same, for the answer that a program writes.
    pub(super) async fn wait_begun(&mut self, progress: &Progress) -> Option<Option<Answer>> {
        let abandoned = self.0.as_mut()?;
        let (listening, begun) = (abandoned.listening.as_ref()?, abandoned.begun.as_mut()?);
        let answer = begun.answer();
        listening.wait(answer, abandoned.timeout, progress).await
    }

    /// It was answered, or never reached the server.
    pub(super) fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let Some(abandoned) = self.0.take() else {
            return;
        };
        abandoned.place.abandon();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(abandoned.cancelled());
        }
    }
}

impl AbandonedRequest {
    /// Cancels it, and waits until the server has ended it.
    async fn cancelled(mut self) {
        if let Some((peer, id)) = self.cancel.take() {
            let reason = Some("nobody waits for it any more".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(id), reason);
            // A server that is gone works on nothing.
            let _ = peer.notify_cancelled(cancelled).await;
        }
        let late = async {
            match &mut self.begun {
                Some(begun) => drop(begun.answer().await),
                None => std::future::pending().await,
            }
        };
        let silence = async {
            match &self.listening {
                Some(listening) => listening.silence(self.timeout).await,
                None => tokio::time::sleep(self.timeout).await,
            }
        };
        tokio::select! {
            () = late => {}
            () = self.ended.cancelled() => {}
            () = silence => {}
        }
        drop(self.place);
    }
}

#[cfg(test)]
mod tests {
    use a2e_runtime::Failure;
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
            let calls = Arc::new(Calls::default());
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
        let calls = Arc::new(Calls::default());
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

    /// What an agent has under way, cancelled or not.
    fn of(calls: &Calls, agent: &str) -> usize {
        let inner = calls.lock();
        let callers = inner.callers.iter();
        callers.filter(|it| *it.agent == *agent).count()
    }

    fn enter(calls: &Arc<Calls>, agent: &str) -> Result<Arc<Place>, ToolFailure> {
        calls.add(Some((agent.into(), None)))
    }

    #[tokio::test]
    async fn an_agent_has_so_many_calls_and_no_more() {
        let calls = Arc::new(Calls::default());
        let mut places: Vec<_> = (0..MAX_CALLS)
            .map(|_| enter(&calls, "ada").unwrap())
            .collect();
        let refused = Failure::from(enter(&calls, "ada").unwrap_err());
        assert!(refused.retryable && refused.message.contains("64 calls"));
        // Others have theirs, and the node's own are not counted.
        let other = enter(&calls, "bob").unwrap();
        let own = calls.enter(None).unwrap();
        places.pop();
        places.push(enter(&calls, "ada").unwrap());
        assert!(enter(&calls, "ada").is_err());
        drop((places, other, own));
        assert!(calls.lock().callers.is_empty());
        assert_eq!(calls.lock().by_agent.total(), 0);
    }

    /// Until nothing was heard of it for as long as a request may take, or its connection has ended.
    #[tokio::test(start_paused = true)]
    async fn cancelled_request_counts_as_long_as_the_server_may_be_at_it() {
        let calls = Arc::new(Calls::default());
        let ended = CancellationToken::new();
        let abandon = || {
            let place = enter(&calls, "ada").unwrap();
            let mut guard = RequestGuard::new(&place, PATIENCE, &ended);
            guard.0.as_mut().unwrap().listening = Some(calls.listen(token()));
            drop((place, guard));
        };
        let settle = || tokio::time::sleep(Duration::from_millis(1));
        abandon();
        settle().await;
        assert_eq!(of(&calls, "ada"), 1);
        // The server goes on with it.
        for number in 0..3 {
            tokio::time::sleep(PATIENCE * 9 / 10).await;
            calls.hear(said(number));
            assert_eq!(of(&calls, "ada"), 1);
        }
        tokio::time::sleep(PATIENCE).await;
        settle().await;
        assert_eq!(of(&calls, "ada"), 0);
        assert!(calls.lock().listeners.is_empty());
        abandon();
        ended.cancel();
        settle().await;
        assert_eq!(of(&calls, "ada"), 0);
        // One that was answered is over at once.
        let place = enter(&calls, "ada").unwrap();
        RequestGuard::new(&place, PATIENCE, &CancellationToken::new()).finish();
        drop(place);
        assert_eq!(of(&calls, "ada"), 0);
    }
}
