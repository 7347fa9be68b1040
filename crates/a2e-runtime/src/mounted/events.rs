//! Events of a request that a mounted host serves, on their way to our agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_wire::lenient::ProcOutput;
use a2e_wire::messages::base::EventKind;
use a2e_wire::messages::proc::{ProcReadEvent, ProcStreamType};
use a2e_wire::{Body, Message, Object, ProcId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::client::{Client, Handler, PausedReading};
use crate::plugin::Context;
use crate::session::Session;
use crate::slots::ByteCharge;

/// Events of one request that wait for our agent to read.
pub(super) struct Events {
    queue: mpsc::UnboundedReceiver<Queued>,
    backlog: Arc<AtomicUsize>,
    /// What the event holds that was taken last, until the next is wanted.
    delivered: Option<Held>,
    /// Whether a process has ended with one of them.
    has_ended: bool,
}

struct Queued {
    body: Body<'static>,
    size: usize,
    held: Held,
}

/// What an event holds until our agent's session has it.
struct Held {
    _charge: Option<ByteCharge>,
    _paused: Option<PausedReading>,
}

/// Bytes of one request's events that wait; beyond that, or when too much waits for the agent or for
/// all, nothing is read from the host until the agent has read.
const MAX_BACKLOG: usize = 1024 * 1024;

/// The handler of a request's events, and where they come out.
pub(super) fn of(client: &Client, session: &Session) -> (Handler, Events) {
    let (queued, queue) = mpsc::unbounded_channel();
    let backlog = Arc::new(AtomicUsize::new(0));
    let events = Events {
        queue,
        backlog: Arc::clone(&backlog),
        delivered: None,
        has_ended: false,
    };
    let (backpressure, bytes) = (client.backpressure(), session.at().bytes.clone());
    let handler = Handler::new(move |message: Message<'static>| {
        let size = Client::encode(&message).len();
        let before = backlog.fetch_add(size, Ordering::Relaxed);
        let charge = bytes.charge(size);
        let is_full = charge.is_none() || before.saturating_add(size) > MAX_BACKLOG;
        // A request that is over needs no events.
        let _ = queued.send(Queued {
            body: message.body,
            size,
            held: Held {
                _charge: charge,
                _paused: is_full.then(|| backpressure.pause()),
            },
        });
    });
    (handler, events)
}

impl Events {
    /// The next event; none when no more will come.
    pub(super) async fn next(&mut self) -> Option<Body<'static>> {
        self.delivered = None;
        let queued = self.queue.recv().await?;
        Some(self.taken(queued))
    }

    /// The next event, if there is one already.
    pub(super) fn take(&mut self) -> Option<Body<'static>> {
        self.delivered = None;
        let queued = self.queue.try_recv().ok()?;
        Some(self.taken(queued))
    }

    fn taken(&mut self, queued: Queued) -> Body<'static> {
        self.backlog.fetch_sub(queued.size, Ordering::Relaxed);
        self.has_ended |= is_end(&queued.body);
        self.delivered = Some(queued.held);
        queued.body
    }

    /// Passes on what a process puts out after the response to the request that started it. Called while
    /// the request runs: its end is told to those alone who have asked for it before.
    pub(super) fn follow(self, process: ProcId<'static>, context: Context) {
        let over = context.over().clone();
        tokio::spawn(async move {
            // Events come after the response, which goes out when the request is over.
            over.cancelled().await;
            self.pass_on_all(process, context).await;
        });
    }

    async fn pass_on_all(self, process: ProcId<'static>, context: Context) {
        let session = context.session();
        let (ended, revoked) = (session.ended().clone(), session.access().revoked().clone());
        tokio::select! {
            () = ended.cancelled() => {}
            () = revoked.cancelled() => {}
            () = self.pass_on(process, &context) => {}
        }
        // A session that has ended has no streams.
        let _ = context.end_stream().await;
    }

    async fn pass_on(mut self, process: ProcId<'static>, context: &Context) {
        while let Some(event) = self.next().await {
            if context.event(event).await.is_err() {
                return;
            }
        }
        if !self.has_ended {
            // The session with the host is lost, and its processes have ended with it.
            let killed = (ProcStreamType::Killed, json!({}));
            for (stream_type, data) in [killed, (ProcStreamType::Stderr, json!({"code": -9}))] {
                let event = ProcReadEvent {
                    kind: EventKind::Status,
                    data: ProcOutput(Object::from_serialize(&data).unwrap_or_default()),
                    proc_id: process.clone(),
                    stream_type,
                    ..ProcReadEvent::new()
                };
                let _ = context.event(event).await;
            }
        }
    }
}

/// Whether a process has ended with this event.
fn is_end(body: &Body<'_>) -> bool {
    let Body::ProcReadEvent(event) = body else {
        return false;
    };
    let data: Value = event.data.0.raw().deserialize().unwrap_or_default();
    data["code"].is_i64()
}
