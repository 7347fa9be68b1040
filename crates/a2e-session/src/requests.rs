//! The requests of a session: waiting, running, and those whose events outlive their response.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use a2e_wire::{Body, Message, MessageId, Namespace, Tag};

use crate::event::{Request, Token};

/// The requests of one session.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: VecDeque<Request>,
    /// Oldest first. They are few, and most are gone as soon as they are there.
    running: Vec<Running>,
    /// Answered, but still sending events (a process that goes on).
    streams: BTreeMap<Token, Stream>,
    last_token: u64,
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
    /// Its events go on after its response.
    pub(crate) keep_stream: bool,
}

/// Where the events of a request go.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) req_id: MessageId<'static>,
    pub(crate) next_seq: i64,
}

impl Requests {
    /// A new request behind those that wait.
    pub(crate) fn enqueue(&mut self, message: Box<Message<'static>>, line: Box<[u8]>) {
        self.last_token = self.last_token.saturating_add(1);
        self.waiting.push_back(Request {
            token: Token(self.last_token),
            message,
            line,
        });
    }

    /// Starts the next request; `limit` is the time of one that sets none.
    pub(crate) fn start(&mut self, now: Duration, limit: Duration) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        let tag = request.message.body.tag();
        let asked = request.message.envelope.spelling.as_deref();
        let spelling = match (tag, asked) {
            (Some(tag), Some(asked)) => tag.response_spelling(asked),
            _ => None,
        };
        let wait = time_limit(&request.message.body).unwrap_or(limit);
        self.running.push(Running {
            token: request.token,
            stream: Stream {
                req_id: request.message.envelope.id.clone(),
                next_seq: 0,
            },
            namespace: tag.map_or(Namespace::Base, Tag::namespace),
            spelling: spelling.map(Cow::Borrowed),
            deadline: now.saturating_add(wait),
            keep_stream: false,
        });
        Some(request)
    }

    /// Ends a request: it is answered now, whatever comes.
    pub(crate) fn finish(&mut self, token: Token) -> Option<Running> {
        let index = self
            .running
            .iter()
            .position(|running| running.token == token)?;
        let running = self.running.remove(index);
        if running.keep_stream {
            self.streams.insert(token, running.stream.clone());
        }
        Some(running)
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
        let running = self
            .running
            .iter_mut()
            .find(|running| running.token == token);
        match running {
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

    /// All that run.
    pub(crate) fn running(&self) -> Vec<Token> {
        self.running.iter().map(|running| running.token).collect()
    }

    /// Takes all that wait.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes all that still send events.
    pub(crate) fn take_streams(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.streams).into_keys().collect()
    }

    /// All that wait or run, oldest first.
    pub(crate) fn open(&self) -> impl Iterator<Item = (Token, &MessageId<'static>)> {
        let running = self.running.iter();
        let waiting = self.waiting.iter();
        running
            .map(|running| (running.token, &running.stream.req_id))
            .chain(waiting.map(|request| (request.token, &request.message.envelope.id)))
    }

    pub(crate) fn count_running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits or runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
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
