//! What processes of a session have put out, until it is read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::Handler;
use a2e_wire::{Body, Message};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The output of the processes of a session.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    by_process: Mutex<HashMap<String, Output>>,
    more: Notify,
}

/// What one process has put out since it was last read.
#[derive(Debug, Default)]
struct Output {
    pieces: VecDeque<(String, String)>,
    bytes: usize,
    left_out: usize,
    exit_code: Option<i64>,
    ended: bool,
}

/// How many bytes of a process's output wait to be read; the oldest go first.
pub const MAX_OUTPUT: usize = 256 * 1024;

/// Processes whose output is kept.
const MAX_PROCESSES: usize = 256;

impl Outputs {
    /// Takes the events of a process.
    pub(super) fn handler(self: &Arc<Self>) -> Handler {
        let outputs = Arc::clone(self);
        Handler::new(move |event| outputs.take(&event))
    }

    fn take(&self, event: &Message<'_>) {
        let Body::ProcReadEvent(event) = &event.body else {
            return;
        };
        let data: Value = event.data.0.raw().deserialize().unwrap_or_default();
        let mut outputs = self.lock();
        let id = event.proc_id.as_str();
        if !outputs.contains_key(id) && outputs.len() >= MAX_PROCESSES {
            outputs.retain(|_, output| !output.ended);
        }
        let output = outputs.entry(id.to_owned()).or_default();
        let stream = event.stream_type.as_str();
        match data["text"].as_str() {
            Some(text) => output.add(stream, text),
            None => {
                output.ended = true;
                output.exit_code = data["code"].as_i64();
            }
        }
        drop(outputs);
        self.more.notify_waiters();
    }

    /// What a process has put out since it was last read; waits for something to come.
    pub(super) async fn read(&self, id: &str, wait: Duration) -> Value {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let more = self.more.notified();
            if let Some(output) = self.lock().get_mut(id).and_then(Output::take) {
                return output;
            }
            if tokio::time::timeout_at(deadline, more).await.is_err() {
                return json!({"output": [], "ended": false});
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Output>> {
        self.by_process
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    fn add(&mut self, stream: &str, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        match self.pieces.back_mut() {
            Some((last, pieces)) if last == stream && pieces.len() < PIECE => pieces.push_str(text),
            _ => self.pieces.push_back((stream.to_owned(), text.to_owned())),
        }
        while self.bytes > MAX_OUTPUT
            && let Some((_, oldest)) = self.pieces.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(oldest.len());
            self.left_out = self.left_out.saturating_add(oldest.len());
        }
    }

    /// What there is, if anything.
    fn take(&mut self) -> Option<Value> {
        if self.pieces.is_empty() && !self.ended {
            return None;
        }
        self.bytes = 0;
        let left_out = std::mem::take(&mut self.left_out);
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let pieces: Vec<Value> = pieces
            .map(|(stream, text)| json!({"stream": stream, "text": text}))
            .collect();
        Some(json!({
            "output": pieces,
            "bytes_left_out": left_out,
            "ended": self.ended,
            "exit_code": self.exit_code,
        }))
    }
}

/// Lines of one stream are joined up to this many bytes.
const PIECE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_output_goes_when_nobody_reads() {
        let mut output = Output::default();
        assert_eq!(output.take(), None);
        output.add("stdout", &"x".repeat(MAX_OUTPUT - 1));
        output.add("stderr", "y");
        assert_eq!(output.take().unwrap()["bytes_left_out"], 0);
        output.add("stdout", &"x".repeat(MAX_OUTPUT));
        output.add("stderr", "y");
        let taken = output.take().unwrap();
        assert_eq!(taken["bytes_left_out"], MAX_OUTPUT);
        assert_eq!(taken["output"], json!([{"stream": "stderr", "text": "y"}]));
        output.add("stdout", "a\n");
        output.add("stdout", "b\n");
        let taken = output.take().unwrap();
        assert_eq!(
            taken["output"],
            json!([{"stream": "stdout", "text": "a\nb\n"}])
        );
        assert_eq!(output.take(), None);
    }
}
