//! The two streams of a program: messages of rmcp, and calls of tools beside them.
//!
//! rmcp makes a tree of every message and tries to read one type after another from it. What a tool
//! answers is passed on as it is, so for calls, which are most of the traffic, that is left out.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use rmcp::RoleClient;
use rmcp::model::ErrorData;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use sandbox::{Output, Stdin};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;

use super::answer::{Reply, reply};
use super::http::MAX_MESSAGE;
use super::pages::{Arrived, MAX_PAGE, Pages};

/// The streams as rmcp has them.
pub(super) struct Streams {
    input: BufReader<Output>,
    /// A line as far as it has come.
    line: Vec<u8>,
    /// The line is too long, and the rest of it is passed over.
    is_too_long: bool,
    /// What stands for the line, if it is a page that is too long.
    refusal: Option<Box<RxJsonRpcMessage<RoleClient>>>,
    direct: Arc<Direct>,
    pages: Pages,
}

/// The streams as calls of tools have them.
pub(super) struct Direct {
    output: tokio::sync::Mutex<Option<Stdin>>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    calls: HashMap<u64, oneshot::Sender<Answer>>,
    is_over: bool,
}

/// The `result` of a call, as it was written, or why there is none.
pub(super) type Answer = Result<String, ErrorData>;

/// A call. It is forgotten when it is dropped.
pub(super) struct Begun {
    direct: Arc<Direct>,
    number: u64,
    answer: oneshot::Receiver<Answer>,
}

/// What the ids of calls begin with; those of rmcp are numbers.
pub(super) const PREFIX: &str = "frith-";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Streams {
    pub(super) fn new(output: Output, input: Stdin) -> Self {
        Self {
            input: BufReader::new(output),
            line: Vec::new(),
            is_too_long: false,
            refusal: None,
            direct: Arc::new(Direct {
                output: tokio::sync::Mutex::new(Some(input)),
                waiting: Mutex::default(),
            }),
            pages: Pages::default(),
        }
    }

    pub(super) fn direct(&self) -> &Arc<Direct> {
        &self.direct
    }

    pub(super) fn send(
        &self,
        message: &TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static + use<> {
        self.pages.sent(message);
        let direct = Arc::clone(&self.direct);
        let line = serde_json::to_vec(message);
        async move { direct.write(line?).await }
    }

    /// The next message that is none of a call's. What has come of a line stays when this is dropped.
    pub(super) async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while matches!(self.read_line().await, Ok(true)) {
            if let Some(refusal) = self.refusal.take() {
                return Some(*refusal);
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line);
            if self.direct.take(line) {
                continue;
            }
            match self.pages.look(line) {
                Arrived::Readable => {}
                Arrived::TooLong(answer) => return Some(*answer),
                Arrived::Unclear => continue,
            }
            match serde_json::from_slice(line) {
                Ok(message) => return Some(message),
                // As other programs do: who is answered that he is not understood may answer that.
                Err(error) if !error.is_data() => tracing::debug!(%error, "no JSON is passed over"),
                Err(error) => {
                    tracing::debug!(%error, "a message is no MCP");
                    self.refuse(line).await.ok()?;
                }
            }
        }
        self.direct.end();
        None
    }

    /// Says that a message is not understood; what is no request and no answer is passed over.
    async fn refuse(&self, line: &[u8]) -> io::Result<()> {
        let has_id = |value: &Value| value.get("id").is_some();
        if !serde_json::from_slice(line).is_ok_and(|value| has_id(&value)) {
            return Ok(());
        }
        let wrong = ErrorData::invalid_request("Invalid request", None);
        self.send(&TxJsonRpcMessage::<RoleClient>::error(wrong, None))
            .await
    }

    /// Reads on until there is a line; says whether there is one.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let some = self.input.fill_buf().await?;
            if some.is_empty() {
                return Ok(false);
            }
            let end = some.iter().position(|byte| *byte == b'\n');
            let part = some.get(..end.unwrap_or(some.len())).unwrap_or_default();
            if !self.is_too_long {
                let (before, after) = (self.line.len(), self.line.len().saturating_add(part.len()));
                self.is_too_long = after > MAX_MESSAGE;
                if before <= MAX_PAGE && after > MAX_PAGE {
                    self.refusal = self.pages.look_at_beginning(&self.line);
                    self.is_too_long |= self.refusal.is_some();
                }
            }
            match self.is_too_long {
                true => self.line = Vec::new(),
                false => self.line.extend_from_slice(part),
            }
            let taken = part.len().saturating_add(usize::from(end.is_some()));
            self.input.consume(taken);
            if end.is_none() {
                continue;
            }
            if !std::mem::take(&mut self.is_too_long) || self.refusal.is_some() {
                return Ok(true);
            }
            tracing::error!("a message of over {MAX_MESSAGE} bytes is passed over");
        }
    }

    pub(super) async fn close(&self) {
        drop(self.direct.output.lock().await.take());
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.direct.end();
    }
}

impl Direct {
    /// Begins a call; nothing if the program answers nothing any more.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Begun> {
        let (sender, answer) = oneshot::channel();
        let number = self.add(sender)?;
        Some(Begun {
            direct: Arc::clone(self),
            number,
            answer,
        })
    }

    fn add(&self, sender: oneshot::Sender<Answer>) -> Option<u64> {
        let mut waiting = self.waiting();
        if waiting.is_over {
            return None;
        }
        waiting.last = waiting.last.saturating_add(1);
        let number = waiting.last;
        waiting.calls.insert(number, sender);
        Some(number)
    }

    async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut output = self.output.lock().await;
        let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        output.write_all(&line).await?;
        output.flush().await
    }

    /// Takes a line that answers a call, also one that nobody waits for any more.
    fn take(&self, line: &[u8]) -> bool {
        let Some(Reply { id, answer }) = reply(line) else {
            return false;
        };
        let sender = self.waiting().calls.remove(&id);
        if let Some(sender) = sender {
            let _ = sender.send(answer);
        }
        true
    }

    /// Nothing will be answered any more.
    fn end(&self) {
        let mut waiting = self.waiting();
        waiting.is_over = true;
        waiting.calls.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    pub(super) fn id(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }

    /// Sends its message.
    ///
    /// # Errors
    /// If the program takes nothing any more; then nothing was done.
    pub(super) fn send(
        &self,
        line: Vec<u8>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static + use<> {
        let direct = Arc::clone(&self.direct);
        async move {
            let mut writing = Box::pin(async move { direct.write(line).await });
            // A call that is dropped must not leave half of its line behind.
            match std::future::poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await {
                Poll::Ready(written) => written,
                Poll::Pending => tokio::spawn(writing).await.map_err(io::Error::other)?,
            }
        }
    }

    /// What the program answers; nothing if it has ended. Cancel safe.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.direct.waiting().calls.remove(&self.number);
    }
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Direct")
    }
}
