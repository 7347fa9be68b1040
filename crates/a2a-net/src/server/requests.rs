//! Requests at the server: let in, worked on, answered, in the order of profile §10.3.

use std::sync::Arc;

use a2a_session::{Binding, Ended, Failure, Handled, Incoming, Now, Refusal, Start, Token, Work};
use a2a_wire::{ErrorCode, Phase, Reason};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::live::{Inside, Live, ReplyTo, Running};
use super::work::{Job, Joining};
use super::{Inner, retry_after};
use crate::carry::oversized::ids_of;
use crate::record::{Room, Way, Written};
use crate::standing::lock;
use crate::transport::{Answer, Arrived, Ids, Oversized, Place};

/// What a message came to.
enum Admitted {
    /// It needs no work.
    Answer {
        live: Arc<Live>,
        answer: a2a_session::Answer,
        ended: Vec<Ended>,
        room: Room,
    },
    /// It does.
    Start { job: Box<Job>, from: Awaited },
    /// It is signed with a key that its sender is not known to have.
    UnknownKey(Arc<Live>),
}

/// Whether the keys of a peer may be looked up again for a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    AsKnown,
    LookUp,
}

/// Where the answer comes from.
enum Awaited {
    One(oneshot::Receiver<Answer>),
    Stream(mpsc::Receiver<Bytes>),
}

/// A message that is refused, with room for a record of its own if its sender is known.
struct Refusing {
    refusal: Box<Refusal>,
    room: Option<Room>,
}

impl From<Box<Refusal>> for Refusing {
    fn from(refusal: Box<Refusal>) -> Self {
        Self {
            refusal,
            room: None,
        }
    }
}

impl Inner {
    /// Takes a message of a session.
    pub(super) async fn request(self: &Arc<Self>, arrived: &Arrived) -> Answer {
        let _running = self.tasks.token();
        let way = Way {
            carrier: arrived.carrier,
            source: arrived.source.ip(),
        };
        let mut admitted = self.admit(arrived, way, Keys::LookUp);
        if let Ok(Admitted::UnknownKey(live)) = &admitted {
            self.renew_keys(live).await;
            admitted = self.admit(arrived, way, Keys::AsKnown);
        }
        match admitted {
            Ok(Admitted::UnknownKey(_)) => {
                self.unsigned(&Failure::unavailable("the keys were looked up"))
            }
            Ok(Admitted::Start { job, from }) => self.answer_of(job, from).await,
            Ok(Admitted::Answer {
                live,
                answer,
                ended,
                room,
            }) => {
                self.deliver_all(&live, ended);
                let now = self.home.clock.now();
                let over = lock(&live.inside).session.is_over();
                if let Some(reason) = over {
                    self.end(&live, reason);
                }
                let record = &answer.record;
                let written = self.home.recorder.request(room, record, way, now.monotonic);
                match settled(written).await {
                    Ok(()) => finished(answer),
                    Err(failure) => self.unsigned(&failure),
                }
            }
            // On a transport with one place it may belong to a handshake.
            Err(refusing)
                if arrived.place == Place::Any
                    && refusing.refusal.failure.reason == Some(Reason::UnknownType) =>
            {
                self.handshake(arrived).await
            }
            Err(refusing) => self.refuse(refusing, way).await,
        }
    }

    /// Steps 0 to 6a. No lock is held while a signature is verified.
    fn admit(
        self: &Arc<Self>,
        arrived: &Arrived,
        way: Way,
        keys: Keys,
    ) -> Result<Admitted, Refusing> {
        let now = self.home.clock.now();
        let limit = self.home.standing.rules().request_bytes();
        let hint = arrived.session_hint.as_deref();
        let incoming = Incoming::read(now, &arrived.message, limit, hint);
        let incoming = incoming.map_err(|refusal| self.unread(now, arrived, refusal))?;
        let live = self.sessions.get(incoming.session_id());
        let live = live.ok_or_else(|| incoming.no_session(now))?;
        let recorded = |refusal| self.recorded(now, &live, refusal);
        let look = lock(&live.inside).session.look(now, &incoming);
        let look = look.map_err(recorded)?;
        let refuse = |failure| lock(&live.inside).session.refuse(now, &incoming, failure);
        let signed = look.verify(now, &incoming);
        if keys == Keys::LookUp && signed.as_ref().is_err_and(Failure::is_unknown_key) {
            return Ok(Admitted::UnknownKey(live));
        }
        let signed = signed.map_err(|failure| recorded(refuse(failure)))?;
        if self.stopping.is_cancelled() {
            return Err(refuse(Failure::unavailable("the node is stopping")).into());
        }
        let room = self.home.recorder.reserve();
        let room = room.map_err(|error| refuse(Failure::unavailable(error.to_string())))?;

        let mut inside = lock(&live.inside);
        let mut agents = lock(&self.agents);
        let admitted = inside
            .session
            .admit(now, &incoming, signed, &mut agents, &**self);
        match admitted {
            Ok(Handled::Start(start)) => {
                // While nobody can finish this work yet.
                let joining = self.joining(&start.work);
                drop(agents);
                let patience = arrived.patience;
                let (job, from) =
                    self.begin_work(now, &live, &mut inside, (*start, joining), (room, way));
                drop(inside);
                let job = Box::new(job.within(patience.map(|it| now.monotonic.saturating_add(it))));
                Ok(Admitted::Start { job, from })
            }
            Ok(Handled::Answer { answer, ended }) => {
                drop((agents, inside));
                Ok(Admitted::Answer {
                    live,
                    answer,
                    ended,
                    room,
                })
            }
            Err(refusal) => Err(Refusing {
                refusal,
                room: Some(room),
            }),
        }
    }

    /// A refusal in a session that is known, so that it is on record by itself, as far as the session's
    /// rate goes.
    fn recorded(&self, now: Now, live: &Live, refusal: Box<Refusal>) -> Refusing {
        let is_recorded = lock(&live.inside).session.may_record_refusal(now);
        let room = is_recorded.then(|| self.home.recorder.reserve().ok());
        Refusing {
            refusal,
            room: room.flatten(),
        }
    }

    /// A message that could not be read. A baseline peer that is known by the session it names gets a
    /// signed answer with a code that it knows.
    fn unread(&self, now: Now, arrived: &Arrived, refusal: Box<Refusal>) -> Refusing {
        let reason = refusal.failure.reason;
        if matches!(reason, Some(Reason::UnknownType | Reason::HeaderMismatch)) {
            return refusal.into();
        }
        let ids = ids_of(&arrived.message);
        let live = self.session_named(arrived.session_hint.as_deref(), Some(&ids));
        let live = live.filter(|live| live.peer.binding == Binding::Baseline);
        let refused = live.and_then(|live| {
            let failure = refusal.failure.clone();
            let refused = refuse_unread(now, &live, &ids, failure)?;
            Some(self.recorded(now, &live, refused))
        });
        refused.unwrap_or_else(|| refusal.into())
    }

    /// Refuses a message that is too large to be read: on record and, to a baseline peer, signed, if its
    /// session is known and it has come to its end.
    pub(super) async fn refuse_oversized(&self, oversized: &Oversized) -> Answer {
        let now = self.home.clock.now();
        let failure = Failure::too_large(oversized.limit, oversized.size);
        let live = match oversized.place {
            Place::Handshake => None,
            Place::Request | Place::Any => {
                let hint = oversized.session_hint.as_deref();
                self.session_named(hint, oversized.ids.as_ref())
            }
        };
        let refused = live.as_ref().zip(oversized.ids.as_ref());
        let refused =
            refused.and_then(|(live, ids)| refuse_unread(now, live, ids, failure.clone()));
        let source = oversized.source.ip();
        if let (Some(live), Some(refused)) = (&live, refused) {
            let way = Way {
                carrier: oversized.carrier,
                source,
            };
            return self.refuse(self.recorded(now, live, refused), way).await;
        }
        let peer = live.as_ref().map(|live| &live.peer);
        let agent = peer.map(|peer| peer.did.as_str());
        self.home.recorder.reject(Some(source), agent, &failure);
        let binding = peer.map_or(Binding::Baseline, |peer| peer.binding);
        self.unsigned_to(binding, &failure)
    }

    /// The session that a message and its head name, if they do not name two.
    fn session_named(&self, hint: Option<&str>, ids: Option<&Ids>) -> Option<Arc<Live>> {
        let named = ids.and_then(|ids| ids.session_id.as_deref());
        match (hint, named) {
            (Some(hint), Some(named)) if hint != named => None,
            (hint, named) => self.sessions.get(hint.or(named)?),
        }
    }

    /// Enters a request among those that run.
    fn begin_work(
        &self,
        now: Now,
        live: &Arc<Live>,
        inside: &mut Inside,
        (start, joining): (Start, Option<Joining>),
        (room, way): (Room, Way),
    ) -> (Job, Awaited) {
        let cancel = CancellationToken::new();
        let (reply, from, chunks) = match start.stream {
            false => {
                let (reply, from) = oneshot::channel();
                (Some(ReplyTo::One(reply)), Awaited::One(from), None)
            }
            true => {
                let (to, from) = mpsc::channel(self.settings.stream_window.saturating_add(1));
                let end = to.clone().try_reserve_owned().ok();
                (end.map(ReplyTo::Stream), Awaited::Stream(from), Some(to))
            }
        };
        if let Some(reply) = reply {
            let running = Running {
                cancel: cancel.clone(),
                room,
                way,
                reply,
            };
            if inside.begin(start.token, running) {
                self.set_in_use(live, true);
            }
        }
        let job = Job {
            live: Arc::clone(live),
            deadline: start.deadline.max(now.monotonic),
            start,
            joining,
            cancel,
            chunks,
        };
        (job, from)
    }

    /// Has the work done, and waits for its answer. Work without a name ends when nobody waits.
    async fn answer_of(self: &Arc<Self>, job: Box<Job>, from: Awaited) -> Answer {
        let from = match from {
            Awaited::Stream(from) => {
                self.spawn(job);
                return Answer::Stream(from);
            }
            Awaited::One(from) => from,
        };
        let has_name = job.start.intent.intent_id.is_some();
        let mut waiting = Waiting {
            inner: self,
            live: Arc::clone(&job.live),
            token: Some(job.start.token),
        };
        match has_name {
            true => self.spawn(job),
            // It ends with this future anyway, so it needs no task of its own.
            false => self.work(*job).await,
        }
        let answer = from.await;
        waiting.token = None;
        let lost = |_| self.unsigned(&Failure::unavailable("the answer was lost"));
        answer.unwrap_or_else(lost)
    }

    /// Takes out a request that is over; of several that do so at once one has it.
    pub(super) fn end_request(
        &self,
        live: &Live,
        inside: &mut Inside,
        token: Token,
    ) -> Option<Running> {
        let ended = inside.end(token)?;
        if inside.is_idle() {
            self.set_in_use(live, false);
        }
        Some(ended)
    }

    /// Called while the session is locked, so that the last call is the one that is true.
    fn set_in_use(&self, live: &Live, in_use: bool) {
        if live.slot.is_evictable() {
            lock(&self.handshakes).set_session_in_use(&live.slot, in_use);
        }
    }

    fn spawn(self: &Arc<Self>, job: Box<Job>) {
        let this = Arc::clone(self);
        let work = async move { this.work(*job).await };
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Answers requests that ended before they were done. Whoever waits for them is not whoever
    /// ended them, so this goes on by itself.
    pub(super) fn deliver_all(self: &Arc<Self>, live: &Arc<Live>, ended: Vec<Ended>) {
        for ended in ended {
            let (this, live) = (Arc::clone(self), Arc::clone(live));
            // What is taken out now is told to stop now.
            let running = self.end_request(&live, &mut lock(&live.inside), ended.token);
            if let Some(running) = running {
                running.cancel.cancel();
                let delivery = async move { this.deliver(running, ended.answer).await };
                self.tasks.spawn_on(delivery, &self.runtime);
            }
        }
    }

    /// Puts an answer on record, then sends it.
    pub(super) async fn deliver(&self, running: Running, answer: a2a_session::Answer) {
        let now = self.home.clock.now().monotonic;
        let recorder = &self.home.recorder;
        let written = recorder.request(running.room, &answer.record, running.way, now);
        let answer = match settled(written).await {
            Ok(()) => finished(answer),
            Err(failure) => self.unsigned(&failure),
        };
        match running.reply {
            // Nobody may be waiting any more.
            ReplyTo::One(reply) => drop(reply.send(answer)),
            ReplyTo::Stream(end) => match answer {
                Answer::Message(message) | Answer::Error { message, .. } => {
                    end.send(message);
                }
                Answer::Nothing | Answer::Stream(_) => {}
            },
        }
    }

    /// Answers what is refused: on record by itself if its sender is known, else counted.
    async fn refuse(&self, refusing: Refusing, way: Way) -> Answer {
        let Refusing { refusal, room } = refusing;
        let Refusal {
            failure,
            message,
            record,
        } = *refusal;
        match room {
            Some(room) => {
                let now = self.home.clock.now().monotonic;
                let written = self.home.recorder.request(room, &record, way, now);
                if let Err(failure) = settled(written).await {
                    return self.unsigned(&failure);
                }
            }
            None => {
                let agent = record.remote_agent_did.as_ref().map(|did| did.as_str());
                let recorder = &self.home.recorder;
                recorder.reject(Some(way.source), agent, &failure);
            }
        }
        Answer::Error {
            code: match record.binding {
                Some(Binding::Baseline) => failure.code.for_baseline(Phase::Session),
                Some(Binding::Profile) | None => failure.code.clone(),
            },
            retry_after: retry_after(&failure, self.home.clock.now().unix),
            message: Bytes::from(message),
        }
    }

    /// Who joins work, or does it for those who join.
    fn joining(&self, work: &Work) -> Option<Joining> {
        match work {
            Work::Do(Some(id)) => Some(Joining::of(&self.joins, *id)),
            Work::Join(id) => Some(Joining::of(&self.joins, *id)),
            Work::Do(None) | Work::Done(_) => None,
        }
    }
}

fn refuse_unread(now: Now, live: &Live, ids: &Ids, failure: Failure) -> Option<Box<Refusal>> {
    let request_id = ids.request_id.as_ref().and_then(|id| id.parse().ok());
    let session = &mut lock(&live.inside).session;
    session.refuse_unread(now, request_id, failure)
}

/// Somebody who waits for an answer. If it goes, work without a name is over.
struct Waiting<'a> {
    inner: &'a Arc<Inner>,
    live: Arc<Live>,
    token: Option<Token>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(token) = self.token else {
            return;
        };
        let now = self.inner.home.clock.now();
        let ended = lock(&self.live.inside).session.disconnected(now, token);
        self.inner
            .deliver_all(&self.live, ended.into_iter().collect());
    }
}

/// An answer as transports take it.
pub(super) fn finished(answer: a2a_session::Answer) -> Answer {
    let message = Bytes::from(answer.message);
    let status = &answer.record.response_status;
    if status == "success" {
        return Answer::Message(message);
    }
    let code = ErrorCode::from(status.as_str());
    Answer::Error {
        code: match answer.record.binding {
            Some(Binding::Baseline) => code.for_baseline(Phase::Session),
            Some(Binding::Profile) | None => code,
        },
        message,
        retry_after: None,
    }
}

async fn settled(written: Result<Written, audit::Error>) -> Result<(), Failure> {
    let written = match written {
        Ok(written) => written.settled().await,
        Err(error) => Err(error),
    };
    written.map_err(|error| Failure::unavailable(error.to_string()))
}
