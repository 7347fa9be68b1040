//! One session: a task that moves lines between its link and its state machine, and runs its
//! requests. It outlives a link that breaks, and is given the next one.

mod alarm;
mod chronicle;
mod decide;
mod job;
mod limits;
mod login;
mod record;
mod resolve;
mod span;
mod work;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, Waker, ready};
use std::time::Duration;

use a2e_session::{CloseReason, Failure, HostEvent, HostSession, Now, Token};
use a2e_wire::messages::base::{HandshakeReason, Resume};
use a2e_wire::{Body, LineTooLong, Message, MessageId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::access::Revocations;
use crate::approvals::Word;
use crate::auth::{Identity, Source};
use crate::host::{Admission, Host, Settings};
use crate::idempotency::Piece;
use crate::journal::Journal;
use crate::link::{Link, Reader, Received};
use crate::metrics::{add, subtract};
use crate::newcomers::Newcomer;
use crate::plugin::SendError;
use crate::resolution::Resolution;
use crate::slots::Slot;

use alarm::Alarm;
use job::{Bell, JobWaker};
use login::{HandOver, Known};
use record::Unrecorded;
use work::{Finished, Work};

pub(crate) use chronicle::RATE_LIMITED;
pub(crate) use record::{CANCELLED, Note, SUCCESS};
pub(crate) use span::{note_failure, span_of};
pub(crate) use work::poll_caught;

/// What others ask of a session's task.
pub(crate) enum Command {
    /// A token was checked.
    LoggedIn(Box<Result<Identity, HandshakeReason<'static>>>),
    /// A request is finished.
    Finished(Token, Box<Finished>),
    /// An event is to be sent.
    Event {
        token: Token,
        body: Box<Body<'static>>,
        done: oneshot::Sender<Result<(), SendError>>,
    },
    /// Something of a request that was sent again.
    Again(Token, Piece),
    /// Something the agent did not ask for is to be sent.
    Push {
        body: Box<Body<'static>>,
        /// Another spelling of its type, in which it is said as well.
        also: Option<&'static str>,
        done: oneshot::Sender<Result<(), SendError>>,
    },
    /// The agent is to be asked for something.
    Ask {
        body: Box<Body<'static>>,
        /// Only if it has negotiated the capability that this belongs to.
        if_negotiated: bool,
        answered: oneshot::Sender<Message<'static>>,
    },
    /// A request gets on, with nothing to send.
    Progress(Token),
    /// The events of a request go on after its response.
    KeepStream(Token),
    /// They have ended.
    EndStream(Token),
    /// A request is held; the operator sees it under this id.
    Held(Token, String),
    /// It was found what a request stands for.
    Resolved(Token, Box<Result<Resolution, Failure>>),
    /// The operator has spoken, or has not in time.
    Decided(Token, Box<Result<Word, store::Error>>),
    /// The agent is back, over another link.
    Attach(Box<Attach>),
}

/// An agent that is back.
pub(crate) struct Attach {
    link: Box<dyn Link>,
    source: Source,
    /// The id of its handshake.
    request: MessageId<'static>,
    last_eid: u64,
    /// What it sent behind the handshake.
    lines: Vec<Vec<u8>>,
}

/// Drives one session.
pub(crate) struct Driver {
    host: Host,
    settings: Arc<Settings>,
    session: HostSession,
    /// The time of this turn: looked at once, not for each message.
    now: Now,
    source: Source,
    /// What the last link is called.
    transport: &'static str,
    link: Option<Box<dyn Link>>,
    input: Input,
    /// Whether the link has messages to send.
    unsent: bool,
    /// Whether it took no more when it was last given some.
    lacks_room: bool,
    /// The session that the handshake under way wants to go on with.
    wants: Option<Resume<'static>>,
    /// Who was let in by the handshake that is being answered.
    identity: Option<Identity>,
    /// The revocations since its credential is checked.
    revocations: Revocations,
    /// The agent, after its handshake.
    known: Option<Known>,
    hand_over: Option<HandOver>,
    work: Vec<Work>,
    /// Wakes this task for the sake of that work.
    bell: Arc<Bell>,
    /// What woke the last job that never waited.
    spare_waker: Option<JobWaker>,
    /// How many requests wait for their turn, as it was last counted.
    waiting: usize,
    /// What waits until the peer has caught up.
    held: Vec<Command>,
    /// Requests of the host's that wait for the agent's answer.
    asked: HashMap<MessageId<'static>, oneshot::Sender<Message<'static>>>,
    commands: mpsc::Sender<Command>,
    inbox: mpsc::Receiver<Command>,
    journal: Option<Journal>,
    /// Records that are on their way: nothing is sent before they are written.
    unrecorded: VecDeque<Unrecorded>,
    /// Room for the record of the handshake that is being answered.
    room: Option<audit::Permit>,
    /// Why the session has ended.
    closed: Option<CloseReason>,
    alarm: Alarm,
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The access of the agent is revoked.
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Counted until the agent is known.
    newcomer: Option<Newcomer>,
    /// The agent has become known, and the link was not told.
    greets: bool,
    slot: Slot,
    /// Until when a paused session may take to have fewer bytes waiting.
    paused_until: Option<Duration>,
}

/// Whether more can come from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    /// It has ended; the peer may still wait for answers, until then.
    Ended(Duration),
}

/// Time for requests to finish when the peer has closed its side.
const AFTER_END: Duration = Duration::from_secs(2);

/// Commands that wait; who sends more waits too.
const INBOX: usize = 16;

/// Answers of agents that are waited for at once.
const MAX_ASKED: usize = 1000;

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

impl Driver {
    pub(crate) fn new(
        host: Host,
        settings: Arc<Settings>,
        session: HostSession,
        source: Source,
        admission: Admission,
    ) -> Box<Self> {
        let (commands, inbox) = mpsc::channel(INBOX);
        let stopping = host.inner.stopping.clone().cancelled_owned();
        Box::new(Self {
            now: host.inner.clock.now(),
            host,
            settings,
            session,
            source,
            transport: "",
            link: None,
            input: Input::Open,
            unsent: false,
            lacks_room: false,
            wants: None,
            identity: None,
            revocations: Revocations::default(),
            known: None,
            hand_over: None,
            work: Vec::new(),
            bell: Arc::default(),
            spare_waker: None,
            waiting: 0,
            held: Vec::new(),
            asked: HashMap::new(),
            commands,
            inbox,
            journal: None,
            unrecorded: VecDeque::new(),
            room: None,
            closed: None,
            alarm: Alarm::default(),
            stopping: Some(Box::pin(stopping)),
            revoked: None,
            newcomer: admission.newcomer,
            greets: false,
            slot: admission.slot,
            paused_until: None,
        })
    }

    /// Runs until the session has ended. It fails if its last link broke.
    pub(crate) async fn run(mut self: Box<Self>, link: Option<Box<dyn Link>>) -> io::Result<()> {
        if let Some(link) = link {
            self.set_link(link);
        }
        let mut broken = Ok(());
        loop {
            self.settle();
            if let Some(hand_over) = self.hand_over.take() {
                if self.give_away(hand_over).await {
                    return Ok(());
                }
                continue;
            }
            if self.session.is_closed() {
                break;
            }
            let turn = std::future::poll_fn(|cx| self.poll(cx)).await;
            if turn.is_err() || self.link.is_some() {
                broken = turn;
            }
        }
        self.finish().await;
        broken
    }

    /// Waits until something has happened; an error is the end of the link.
    fn poll(&mut self, cx: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        self.now = self.host.inner.clock.now();
        let mut happened = false;
        if let Poll::Ready(outcome) = self.poll_link(cx) {
            if let Err(error) = outcome {
                self.detach();
                return Poll::Ready(Err(error));
            }
            happened = true;
        }
        if !self.unrecorded.is_empty() && self.poll_recorded(cx).is_ready() {
            happened = true;
        }
        while let Poll::Ready(Some(command)) = self.inbox.poll_recv(cx) {
            self.take_command(command);
            happened = true;
        }
        if !self.work.is_empty() {
            self.bell.wakes(cx.waker());
            happened |= self.go_on();
        }
        let now = self.now;
        self.count_bytes();
        happened |= self.poll_limits(cx.waker());
        if self.alarm.poll(cx, &self.host, self.deadline()).is_ready() {
            self.session.handle_timeout(now);
            self.end_paused();
            let is_over = matches!(self.input, Input::Ended(until) if until <= now.monotonic);
            // One that cannot be gone on with drains instead, and answers for what it cuts off.
            if is_over && self.can_return() {
                self.detach();
            }
            happened = true;
        }
        if let Some(stopping) = &mut self.stopping
            && stopping.as_mut().poll(cx).is_ready()
        {
            self.stopping = None;
            self.session.shutdown(now, self.settings.drain);
            happened = true;
        }
        if let Some(revoked) = &mut self.revoked
            && revoked.as_mut().poll(cx).is_ready()
        {
            self.revoked = None;
            self.session.shutdown(now, Duration::ZERO);
            happened = true;
        }
        match happened {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn poll_link(&mut self, cx: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        // Taken, so that each line can be acted on at once.
        let Some(mut link) = self.link.take() else {
            return Poll::Pending;
        };
        if link.poll_evicted(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let mut happened = false;
        if self.unsent
            && let Poll::Ready(sent) = link.poll_flush(cx)
        {
            sent?;
            self.unsent = false;
            // If nothing waits for that, nothing is to be done because of it.
            let awaited = self.lacks_room || self.input != Input::Open || !self.held.is_empty();
            happened = awaited || !self.session.is_idle();
        }
        if self.input == Input::Open
            && let Poll::Ready(change) = link.poll_change(cx)
        {
            self.take_received(change);
            happened = true;
        }
        if self.input == Input::Open && self.session.wants_input() {
            let received = link.poll_receive(cx, self);
            if let Poll::Ready(received) = received {
                self.take_received(received?);
                happened = true;
            }
        }
        self.slot.set_attached(link.is_connected());
        self.link = Some(link);
        match happened {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn take_received(&mut self, received: Received) {
        match received {
            Received::Lines => {}
            Received::Rewind(last_eid) => {
                self.session.rewind(self.now, last_eid);
                // The link may have something to send again that has no number.
                self.unsent = true;
            }
            Received::End => {
                let until = self.now.monotonic.saturating_add(AFTER_END);
                self.input = Input::Ended(until);
            }
        }
    }

    /// Does what the session asks for, puts on record what it has written, and gives that to the
    /// link.
    fn settle(&mut self) {
        self.take_events();
        for command in std::mem::take(&mut self.held) {
            self.take_command(command);
        }
        self.take_events();
        self.end_input();
        // What is not on record must not be seen by anybody.
        self.commit_records();
        let mut nobody = Waiting::from_waker(Waker::noop());
        if self.poll_recorded(&mut nobody).is_ready() {
            self.keep_session();
            self.transmit();
        }
        self.take_events();
        self.count_waiting(self.session.requests_waiting());
    }

    /// Puts on record what a restarted host needs to go on with the session.
    fn keep_session(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let recorded = journal.record(&mut self.session);
        self.has_recorded(recorded);
    }

    /// A session that could not be put on record goes on without.
    fn has_recorded(&mut self, recorded: io::Result<()>) {
        if let Err(error) = recorded
            && let Some(journal) = self.journal.take()
        {
            tracing::error!(%error, "a session cannot be put on record and will not survive a restart");
            // What is there already would bring back a session that was not.
            let _ = journal.remove();
        }
    }

    /// Gives the link what the session has written.
    fn transmit(&mut self) {
        let now = self.now;
        let known = self.known.as_ref().filter(|_| self.greets);
        let agent = known.map(|known| self.holder(known.session.identity()));
        let Some(link) = &mut self.link else {
            return;
        };
        if let Some((agent, class)) = agent {
            self.greets = false;
            link.welcome((&agent, class), self.settings.max_line);
        }
        let mut bytes = 0_u64;
        while link.has_room() {
            let Some(message) = self.session.poll_transmit(now) else {
                break;
            };
            bytes = bytes.saturating_add(message.line.len() as u64);
            link.queue(message);
            self.unsent = true;
        }
        self.lacks_room = !link.has_room();
        // The link has it: a large answer should be in memory once while it is sent.
        self.session.release_sent();
        add(&self.host.inner.metrics.sent_bytes, bytes);
    }

    fn count_waiting(&mut self, waiting: usize) {
        let count = &self.host.inner.metrics.waiting;
        add(count, waiting.saturating_sub(self.waiting) as u64);
        subtract(count, self.waiting.saturating_sub(waiting) as u64);
        self.waiting = waiting;
    }

    fn take_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                HostEvent::Login(login) => self.check_login(login),
                HostEvent::Opened(id) => self.open(id),
                HostEvent::Start(request) => self.start(request),
                HostEvent::Cancel(token, _) => self.cancel(token),
                HostEvent::Reply(message) => {
                    if let Some(answered) = self.asked.remove(&message.envelope.req_id) {
                        let _ = answered.send(*message);
                    }
                }
                HostEvent::HandshakeRefused(reason) => self.handshake_refused(&reason),
                HostEvent::Refused(refused) => self.request_refused(&refused),
                HostEvent::Closed(reason) => {
                    tracing::debug!(reason = reason.as_str(), "a session has ended");
                    self.closed = Some(reason);
                }
            }
        }
    }

    /// A peer that has said all it wants to say may still wait for answers.
    fn end_input(&mut self) {
        if self.input == Input::Open || self.session.is_logging_in() {
            return;
        }
        if !self.can_return() {
            self.session.shutdown(self.now, AFTER_END);
        } else if !self.unsent && self.session.is_idle() {
            self.detach();
        }
    }

    fn can_return(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.can_return)
    }

    fn set_link(&mut self, link: Box<dyn Link>) {
        self.transport = link.transport(self.source);
        self.link = Some(link);
    }

    /// The link is gone.
    fn detach(&mut self) {
        self.link = None;
        self.unsent = false;
        self.input = Input::Open;
        self.session.disconnected(self.now);
        if !self.session.is_closed() {
            self.slot.set_attached(false);
        }
    }

    /// Writes the rest, and ends what was kept for the session.
    async fn finish(mut self: Box<Self>) {
        self.commit_records();
        std::future::poll_fn(|cx| self.poll_recorded(cx)).await;
        self.keep_session();
        if let Some(mut link) = self.link.take() {
            let now = self.host.inner.clock.now();
            let close = std::future::poll_fn(|cx| {
                if link.poll_evicted(cx).is_ready() {
                    return Poll::Ready(Ok(()));
                }
                loop {
                    while link.has_room() {
                        let Some(message) = self.session.poll_transmit(now) else {
                            return link.poll_close(cx);
                        };
                        link.queue(message);
                    }
                    ready!(link.poll_flush(cx))?;
                    if !link.has_room() {
                        // It has no connection at the moment.
                        return link.poll_close(cx);
                    }
                }
            });
            let _ = tokio::time::timeout(AFTER_END, close).await;
        }
        self.take_events();
        self.forget();
        self.commit_records();
        // Who comes back just now is told so.
        self.inbox.close();
        while let Ok(command) = self.inbox.try_recv() {
            if let Command::Attach(attach) = command {
                attach.refuse(self.now, HandshakeReason::AuthFailed);
            }
        }
    }

    /// When to look again at the latest.
    fn deadline(&self) -> Option<Duration> {
        let input = match self.input {
            Input::Open => None,
            Input::Ended(until) => self.can_return().then_some(until),
        };
        let deadlines = [self.session.poll_timeout(), input, self.paused_until];
        deadlines.into_iter().flatten().min()
    }
}

impl Reader for Driver {
    fn take_line(&mut self, line: Result<&[u8], LineTooLong>) {
        let size = line.map_or(0, <[u8]>::len);
        add(&self.host.inner.metrics.received_bytes, size as u64);
        self.session.handle_line(self.now, line);
        self.take_events();
    }
}

impl Drop for Driver {
    /// Requests end with their session, however it ends.
    fn drop(&mut self) {
        while let Some(token) = self.work.last().map(Work::token) {
            self.cancel(token);
        }
        self.commit_records();
        let mut nobody = Waiting::from_waker(Waker::noop());
        let _ = self.poll_recorded(&mut nobody);
        self.drop_unrecorded();
        self.count_waiting(0);
    }
}
