//! One WebSocket for all messages to a peer.

mod driver;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::dial::Dialer;
use super::http::Targets;
use crate::carry::peek::peek;
use crate::carry::{SUBPROTOCOL, ws};
use crate::transport::{CarryError, Reply};

/// The socket, if there is one. Who finds none makes it, and the others wait.
#[derive(Default)]
pub(super) struct Sockets(Mutex<Option<Socket>>);

/// A way to what drives a socket.
#[derive(Clone)]
struct Socket {
    outgoing: mpsc::Sender<Outgoing>,
    requests: Arc<Semaphore>,
    /// Answers in a handshake have no id: they come in the order of what they answer.
    shaking: Arc<Semaphore>,
    state: Arc<State>,
}

/// Why nothing more is sent over a socket.
#[derive(Default)]
struct State {
    /// A stream comes over it. If nobody reads that, all behind it waits.
    is_streaming: AtomicBool,
    /// It is about to end; or somebody gave a handshake up, whose answer could be taken for that of the next.
    is_retired: AtomicBool,
}

/// Retires a socket, unless the answer came.
struct Retire {
    state: Arc<State>,
    has_answer: bool,
}

/// A message, and who waits for what comes back.
struct Outgoing {
    text: Utf8Bytes,
    /// The request that an answer must name; without one it is the next answer that names none.
    id: Option<Box<str>>,
    /// Nobody, if there will be no answer.
    waiter: Option<Waiter>,
}

/// Who waits for an answer. The place is taken until it came, whether somebody still waits or not: the peer counts likewise.
struct Waiter {
    reply: oneshot::Sender<Result<Reply, CarryError>>,
    place: OwnedSemaphorePermit,
}

/// Messages that wait to be written.
const QUEUE: usize = 32;

/// Messages of handshakes that wait for their answers.
const SHAKING: usize = 32;

impl Sockets {
    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        targets: &Targets,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        let text = Utf8Bytes::try_from(message);
        let mut text = text.map_err(|_| CarryError::Connect("a message is text".into()))?;
        loop {
            let (socket, is_fresh) = self.socket(dialer, targets).await?;
            let seen = peek(&text);
            let id: Option<Box<str>> = match seen.is_request() {
                true => seen.request_id.map(Box::from),
                false => None,
            };
            // Nobody answers who is told that a handshake is given up.
            let is_goodbye = seen.kind == Some("error");
            let is_handshake = id.is_none();
            let places = match is_handshake {
                true => &socket.shaking,
                false => &socket.requests,
            };
            let place = Arc::clone(places).acquire_owned().await;
            let place = place.map_err(|_| CarryError::Broken)?;
            let (reply, replied) = oneshot::channel();
            let waiter = (!is_goodbye).then_some(Waiter { reply, place });
            let again = text.clone();
            match socket.outgoing.send(Outgoing { text, id, waiter }).await {
                Ok(()) if is_goodbye => return Ok(Reply::Nothing),
                Ok(()) => {
                    let retire = is_handshake.then(|| Retire::new(&socket));
                    let reply = replied.await.unwrap_or(Err(CarryError::Broken));
                    if let Some(mut retire) = retire {
                        retire.has_answer = true;
                    }
                    match reply {
                        Err(CarryError::Connect(_)) if !is_fresh => text = again,
                        reply => return reply,
                    }
                }
                // It ended before it took the message.
                Err(unsent) if !is_fresh => text = unsent.0.text,
                Err(_) => {
                    let text = format!("{}: the WebSocket ended at once", dialer.peer());
                    return Err(CarryError::Connect(text));
                }
            }
        }
    }

    async fn socket(
        &self,
        dialer: &Dialer,
        targets: &Targets,
    ) -> Result<(Socket, bool), CarryError> {
        let mut shared = self.0.lock().await;
        if let Some(socket) = shared.as_ref().filter(|socket| socket.is_usable()) {
            return Ok((socket.clone(), false));
        }
        let socket = Box::pin(open(dialer, targets)).await?;
        *shared = Some(socket.clone());
        Ok((socket, true))
    }
}

impl Socket {
    fn is_usable(&self) -> bool {
        let State {
            is_streaming,
            is_retired,
        } = &*self.state;
        !self.outgoing.is_closed() && !is_streaming.load(Relaxed) && !is_retired.load(Relaxed)
    }
}

impl Retire {
    fn new(socket: &Socket) -> Self {
        Self {
            state: Arc::clone(&socket.state),
            has_answer: false,
        }
    }
}

impl Drop for Retire {
    fn drop(&mut self) {
        if !self.has_answer {
            self.state.is_retired.store(true, Relaxed);
        }
    }
}

async fn open(dialer: &Dialer, targets: &Targets) -> Result<Socket, CarryError> {
    let stream = dialer.http1().await?;
    let request = targets.websocket.clone().into_client_request();
    let mut request = request.map_err(|error| dialer.failed(&error))?;
    let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
    let headers = request.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    let reach = Arc::clone(dialer.reach());
    let config = Some(ws::config(reach.answer_bytes));
    let opening = client_async_with_config(request, stream, config);
    let Ok(opened) = tokio::time::timeout(reach.connect, opening).await else {
        let text = format!("{}: it took too long", dialer.peer());
        return Err(CarryError::Connect(text));
    };
    let (stream, _) = opened.map_err(|error| dialer.failed(&error))?;
    let (outgoing, queue) = mpsc::channel(QUEUE);
    let state = Arc::new(State::default());
    let socket = Socket {
        outgoing,
        requests: Arc::new(Semaphore::new(reach.websocket_requests)),
        shaking: Arc::new(Semaphore::new(SHAKING)),
        state: Arc::clone(&state),
    };
    tokio::spawn(driver::drive(stream, queue, reach, state));
    Ok(socket)
}
