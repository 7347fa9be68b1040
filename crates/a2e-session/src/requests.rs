//! The requests of a session: waiting, running, held, and those whose events outlive their response.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use a2e_wire::{Body, Message, MessageId, Namespace, Tag};

use crate::Limits;
use crate::event::{Request, Token};
use crate::order::Touches;

/// The requests of one session.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: VecDeque<Waiting>,
    /// Oldest first. They are few, and most are gone as soon as they are there.
    running: Vec<Running>,
    /// Started and held back, until somebody lets them go on.
    held: Vec<Held>,
    /// Answered, but still sending events (a process that goes on).
    streams: BTreeMap<Token, Stream>,
    last_token: u64,
}

/// A request that waits for its turn.
#[derive(Debug)]
struct Waiting {
    request: Request,
    /// The number of its next event: one that was held may have had some.
    next_seq: i64,
    /// What decides which others it waits for.
    touches: Option<Touches>,
}

/// A request that waits for somebody's consent. It takes no place and has no time limit, and later ones
/// that touch the same state do not wait for it.
#[derive(Debug)]
struct Held {
    request: Request,
    running: Running,
}

/// A request that was started and not yet answered.
#[derive(Debug)]
pub(crate) struct Running {
    token: Token,
    pub(crate) stream: Stream,
    pub(crate) namespace: Namespace,
    /// How the response's type is to be spelled, if not as in the catalogue.
    pub(crate) spelling: Option<Cow<'static, str>>,
    /// When it has taken too long.
    pub(crate) deadline: Duration,
    /// Of a tool call: how long it may be without progress, and when it must end in any case.
    patience: Option<(Duration, Duration)>,
    /// Its events go on after its response.
    pub(crate) keep_stream: bool,
    /// It is not decided yet whether it is done.
    is_undecided: bool,
    touches: Option<Touches>,
    /// Bytes of memory, about, that the request takes.
    bytes: usize,
}

/// Where the events of a request go.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) req_id: MessageId<'static>,
    pub(crate) next_seq: i64,
}

impl Requests {
    /// A new request behind those that wait.
    pub(crate) fn enqueue(&mut self, message: Box<Message<'static>>, line: Arc<[u8]>) {
        self.last_token = self.last_token.saturating_add(1);
        let touches = Touches::of(&message.body);
        let request = Request {
            token: Token(self.last_token),
            message,
            line,
        };
        self.waiting.push_back(Waiting {
            request,
            next_seq: 0,
            touches,
        });
    }

    /// The first request that waits for no earlier one.
    fn next(&self) -> Option<usize> {
        let mut waiting = self.waiting.iter().enumerate();
        let next = waiting.find(|(index, later)| {
            let running = self.running.iter().map(|running| &running.touches);
            let before = self.waiting.iter().take(*index);
            let earlier = running.chain(before.map(|waiting| &waiting.touches));
            let is_blocked = |touches: &Touches| {
                let mut earlier = earlier.flatten();
                earlier.any(|earlier| touches.waits_for(earlier))
            };
            !later.touches.as_ref().is_some_and(is_blocked)
        });
        next.map(|(index, _)| index)
    }

    /// Starts the next request; `limits` has the time of one that sets none.
    pub(crate) fn start(&mut self, now: Duration, limits: &Limits) -> Option<Request> {
        let Waiting {
            request,
            next_seq,
            touches,
        } = self.waiting.remove(self.next()?)?;
        let tag = request.message.body.tag();
        let asked = request.message.envelope.spelling.as_deref();
        let spelling = match (tag, asked) {
            (Some(tag), Some(asked)) => tag.response_spelling(asked),
            _ => None,
        };
        let wait = time_limit(&request.message.body).unwrap_or(limits.request);
        let is_call = tag == Some(Tag::ToolCallRequest);
        let end = now.saturating_add(wait.max(limits.progress));
        self.running.push(Running {
            token: request.token,
            stream: Stream {
                req_id: request.message.envelope.id.clone(),
                next_seq,
            },
            namespace: tag.map_or(Namespace::Base, Tag::namespace),
            spelling: spelling.map(Cow::Borrowed),
            deadline: now.saturating_add(wait),
            patience: is_call.then_some((wait, end)),
            keep_stream: false,
            is_undecided: false,
            touches,
            bytes: request.bytes(),
        });
        Some(request)
    }

    /// Holds back a request that was started; says whether it was.
    pub(crate) fn hold(&mut self, request: Request) -> bool {
        let running = self.take_running(request.token);
        let held = running.map(|running| Held { request, running });
        let is_held = held.is_some();
        self.held.extend(held);
        is_held
    }

    /// Lets a request that was held back start again, before those that wait.
    pub(crate) fn release(&mut self, token: Token) {
        if let Some(Held { request, running }) = self.take_held(token) {
            self.waiting.push_front(Waiting {
                request,
                next_seq: running.stream.next_seq,
                touches: running.touches,
            });
        }
    }

    /// Ends a request: it is answered now, whatever comes.
    pub(crate) fn finish(&mut self, token: Token) -> Option<Running> {
        let held = |requests: &mut Self| requests.take_held(token).map(|held| held.running);
        let running = self.take_running(token).or_else(|| held(self))?;
        if running.keep_stream {
            self.streams.insert(token, running.stream.clone());
        }
        Some(running)
    }

    /// A request gets on: if it is a tool call, its time begins anew.
    pub(crate) fn progress(&mut self, now: Duration, token: Token) {
        let mut running = self.running.iter_mut();
        if let Some(running) = running.find(|running| running.token == token)
            && let Some((wait, end)) = running.patience
        {
            running.deadline = now.saturating_add(wait).min(end);
        }
    }

    /// Lets a request's events go on after its response.
    pub(crate) fn keep_stream(&mut self, token: Token) {
        let running = self
            .running
            .iter_mut()
            .find(|running| running.token == token);
        if let Some(running) = running {
            running.keep_stream = true;
        }
    }

    pub(crate) fn end_stream(&mut self, token: Token) {
        self.streams.remove(&token);
    }

    /// Where a request's next event goes.
    pub(crate) fn stream(&mut self, token: Token) -> Option<&mut Stream> {
        let held = self.held.iter_mut().map(|held| &mut held.running);
        let mut unanswered = self.running.iter_mut().chain(held);
        match unanswered.find(|running| running.token == token) {
            Some(running) => Some(&mut running.stream),
            None => self.streams.get_mut(&token),
        }
    }

    /// The requests whose time has passed.
    pub(crate) fn overdue(&self, now: Duration) -> Vec<Token> {
        let overdue = |running: &Running| (running.deadline <= now).then_some(running.token);
        self.running.iter().filter_map(overdue).collect()
    }

    /// The earliest moment at which one takes too long.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.running.iter().map(|running| running.deadline).min()
    }

    fn take_running(&mut self, token: Token) -> Option<Running> {
        let is_it = |running: &Running| running.token == token;
        let index = self.running.iter().position(is_it)?;
        Some(self.running.remove(index))
    }

    fn take_held(&mut self, token: Token) -> Option<Held> {
        let is_it = |held: &Held| held.running.token == token;
        let index = self.held.iter().position(is_it)?;
        Some(self.held.remove(index))
    }

    /// Those that were started and have no answer, held or not.
    fn unanswered(&self) -> impl Iterator<Item = &Running> {
        self.running
            .iter()
            .chain(self.held.iter().map(|held| &held.running))
    }

    /// All that run or are held.
    pub(crate) fn started(&self) -> Vec<Token> {
        self.unanswered().map(|running| running.token).collect()
    }

    /// Sets whether it is still to be decided if a request that was started is done.
    pub(crate) fn set_undecided(&mut self, token: Token, is_undecided: bool) {
        let mut running = self.running.iter_mut();
        if let Some(running) = running.find(|running| running.token == token) {
            running.is_undecided = is_undecided;
        }
    }

    /// All that were started and of which nothing is done yet: held, or undecided.
    pub(crate) fn not_begun(&self) -> Vec<Token> {
        let undecided = self.running.iter().filter(|running| running.is_undecided);
        let held = self.held.iter().map(|held| &held.running);
        held.chain(undecided).map(|running| running.token).collect()
    }

    /// Takes all that wait.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = Request> + use<> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|waiting| waiting.request)
    }

    /// Takes one that waits.
    pub(crate) fn take_waiting_one(&mut self, token: Token) -> Option<Request> {
        let is_it = |waiting: &Waiting| waiting.request.token == token;
        let index = self.waiting.iter().position(is_it)?;
        self.waiting.remove(index).map(|waiting| waiting.request)
    }

    /// Takes all that still send events.
    pub(crate) fn take_streams(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.streams).into_keys().collect()
    }

    /// All that have no answer.
    pub(crate) fn open(&self) -> impl Iterator<Item = (Token, &MessageId<'static>)> {
        let started = self.unanswered();
        let waiting = self.waiting.iter().map(|waiting| &waiting.request);
        started
            .map(|running| (running.token, &running.stream.req_id))
            .chain(waiting.map(|request| (request.token, &request.message.envelope.id)))
    }

    /// Bytes of memory, about, that all requests take which have no answer.
    pub(crate) fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|waiting| waiting.request.bytes());
        let sizes = waiting.chain(self.unanswered().map(|running| running.bytes));
        sizes.fold(0, usize::saturating_add)
    }

    pub(crate) fn count_running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn count_held(&self) -> usize {
        self.held.len()
    }

    /// Whether every request is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.held.is_empty()
    }
}

/// The time limit a request sets itself, in seconds; zero or less sets none.
fn time_limit(body: &Body<'_>) -> Option<Duration> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other message has a time limit"
    )]
    let seconds = match body {
        Body::ToolCallRequest(call) => call.timeout,
        Body::SkillCallRequest(call) => call.timeout,
        Body::ChainRequest(chain) => chain.timeout,
        _ => return None,
    };
    u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}
