//! What a component prints.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, DuplexStream};
use wasmtime_wasi::cli::AsyncStdoutStream;

use super::error::WasmError;
use super::event::{Event, Level, Listener};
use super::host::Budget;

/// So much waits to be told; a component that prints more waits.
const BUFFER: usize = 8 * 1024;

/// Text without the end of a line is told of when there is so much of it.
const LONGEST_LINE: usize = 16 * 1024;

/// What a component prints, on its way to the listener.
pub(super) struct Printing(Option<Forwarding>);

/// Ends when the component is gone, or has printed too much.
type Forwarding = Pin<Box<dyn Future<Output = Result<(), WasmError>> + Send>>;

impl Printing {
    /// That of a component that cannot print.
    pub(super) const fn nothing() -> Self {
        Self(None)
    }

    /// That of two streams, and the ends that the component has of them.
    pub(super) fn new(
        listener: Arc<dyn Listener>,
        budget: Arc<Budget>,
    ) -> (Self, AsyncStdoutStream, AsyncStdoutStream) {
        let (output, its_output) = tokio::io::duplex(BUFFER);
        let (errors, its_errors) = tokio::io::duplex(BUFFER);
        let forwarding = async move {
            tokio::try_join!(
                lines(output, Level::Info, &*listener, &budget),
                lines(errors, Level::Error, &*listener, &budget),
            )?;
            Ok(())
        };
        let stream = |end| AsyncStdoutStream::new(BUFFER, end);
        let printing = Self(Some(Box::pin(forwarding)));
        (printing, stream(its_output), stream(its_errors))
    }

    /// Tells of what is printed; ends only if that is too much.
    pub(super) async fn too_much(&mut self) -> WasmError {
        if let Some(forwarding) = &mut self.0 {
            let ended = forwarding.await;
            self.0 = None;
            if let Err(error) = ended {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Tells of what is left, when the component is gone.
    ///
    /// # Errors
    /// If that is too much.
    pub(super) async fn rest(self) -> Result<(), WasmError> {
        match self.0 {
            Some(forwarding) => forwarding.await,
            None => Ok(()),
        }
    }
}

async fn lines(
    mut stream: DuplexStream,
    level: Level,
    listener: &dyn Listener,
    budget: &Budget,
) -> Result<(), WasmError> {
    let mut pending = Vec::new();
    loop {
        // One that can no longer be read has ended.
        let count = stream.read_buf(&mut pending).await.unwrap_or_default();
        let complete = match pending.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end.saturating_add(1),
            None if count == 0 || pending.len() >= LONGEST_LINE => pending.len(),
            None => 0,
        };
        if complete > 0 {
            let told: Vec<u8> = pending.drain(..complete).collect();
            let text = String::from_utf8_lossy(&told);
            let message = text.strip_suffix('\n').unwrap_or(&text).to_owned();
            let event = Event::Log { level, message };
            budget.take(&event)?;
            listener.tell(event).await;
        }
        if count == 0 {
            return Ok(());
        }
    }
}
