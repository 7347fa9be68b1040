//! What a process writes, as events.

use std::sync::Arc;

use a2e_runtime::{Context, SendError};
use a2e_wire::Object;
use a2e_wire::lenient::ProcOutput;
use a2e_wire::messages::base::EventKind;
use a2e_wire::messages::proc::{ProcReadEvent, ProcStreamType};
use sandbox::{Child, Output};
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::process::Process;
use crate::shares::Share;

/// Bytes of a line in one event; a longer one comes in several.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// A process that runs, and with it one of those that the agent may have.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) share: Option<Share>,
}

/// Tells the agent what a process writes, and how it ends. If nobody listens any more it is killed:
/// it is dropped.
pub(super) async fn follow(mut running: Running, process: Arc<Process>, context: Context) {
    let revoked = context.session().access().revoked().clone();
    let told = tokio::select! {
        told = tell(&mut running, &process, &context) => told.is_ok(),
        () = revoked.cancelled() => false,
    };
    if !told {
        running.child.kill_tree();
        process.end(running.child.wait().await);
    }
    process.set_ended();
    let _ = context.end_stream().await;
}

async fn tell(
    Running { child, share }: &mut Running,
    process: &Process,
    context: &Context,
) -> Result<(), SendError> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let teller = |stream_type| Teller {
        process,
        context,
        stream_type,
    };
    let (out, err) = (
        teller(ProcStreamType::Stdout),
        teller(ProcStreamType::Stderr),
    );
    tokio::try_join!(out.tell(stdout), err.tell(stderr))?;
    let exit = child.wait().await;
    // Whoever is told that it has ended can have another.
    drop(share.take());
    let (code, killed) = process.end(exit);
    if killed {
        teller(ProcStreamType::Killed).event(Object::EMPTY).await?;
    }
    let stream = match code {
        0 => ProcStreamType::Stdout,
        _ => ProcStreamType::Stderr,
    };
    let data = Object::from_serialize(&json!({ "code": code }));
    teller(stream).event(data.unwrap_or_default()).await
}

/// Tells what comes over one stream.
struct Teller<'a> {
    process: &'a Process,
    context: &'a Context,
    stream_type: ProcStreamType<'static>,
}

impl Teller<'_> {
    async fn tell(&self, output: Option<Output>) -> Result<(), SendError> {
        let Some(mut output) = output else {
            return Ok(());
        };
        let mut lines = Lines::default();
        loop {
            lines.bytes.reserve(CHUNK);
            // One that can no longer be read has ended.
            let read = output.read_buf(&mut lines.bytes).await.unwrap_or_default();
            while let Some(text) = lines.next() {
                self.text(&text).await?;
            }
            // Who sits before a terminal waits for no line to end.
            if read == 0 || self.process.is_terminal() {
                let rest = lines.rest(read == 0);
                if !rest.is_empty() {
                    self.text(&rest).await?;
                }
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    async fn text(&self, text: &str) -> Result<(), SendError> {
        let data = Object::from_serialize(&json!({ "text": text }));
        self.event(data.unwrap_or_default()).await
    }

    async fn event(&self, data: Object<'static>) -> Result<(), SendError> {
        let event = ProcReadEvent {
            kind: EventKind::Status,
            data: ProcOutput(data),
            proc_id: self.process.id.clone(),
            stream_type: self.stream_type.clone(),
            ..ProcReadEvent::new()
        };
        self.context.event(event).await
    }
}

/// Cuts bytes into lines. What is no UTF-8 is replaced; a character is never cut in two.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    /// So many have no end of line in them.
    looked_at: usize,
}

impl Lines {
    /// The next whole line with its end, or as much as one event has.
    pub(super) fn next(&mut self) -> Option<String> {
        let new = self.bytes.get(self.looked_at..).unwrap_or_default();
        let end = new.iter().position(|byte| *byte == b'\n');
        let end = end.map(|at| self.looked_at.saturating_add(at).saturating_add(1));
        match end {
            Some(end) if end <= MAX_LINE => Some(self.take(end)),
            _ if self.bytes.len() >= MAX_LINE => Some(self.take(boundary(&self.bytes, MAX_LINE))),
            _ => {
                self.looked_at = self.bytes.len();
                None
            }
        }
    }

    /// What there is; at the end, all of it.
    pub(super) fn rest(&mut self, at_end: bool) -> String {
        let length = self.bytes.len();
        let end = match at_end {
            true => length,
            false => boundary(&self.bytes, length),
        };
        self.take(end)
    }

    fn take(&mut self, end: usize) -> String {
        self.looked_at = 0;
        let rest = self.bytes.split_off(end.min(self.bytes.len()));
        let taken = std::mem::replace(&mut self.bytes, rest);
        String::from_utf8(taken)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// The last place up to there at which no character is cut in two, if these are characters.
fn boundary(bytes: &[u8], end: usize) -> usize {
    let from = end.saturating_sub(3);
    let tail = bytes.get(from..end).unwrap_or_default();
    let Some(lead) = tail.iter().rposition(|byte| *byte >= 0xC0) else {
        return end;
    };
    let last = tail.get(lead..).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => from.saturating_add(lead),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for chunk in chunks {
            lines.bytes.extend_from_slice(chunk);
            all.extend(std::iter::from_fn(|| lines.next()));
        }
        let rest = lines.rest(true);
        all.extend((!rest.is_empty()).then_some(rest));
        all
    }

    #[test]
    fn lines_keep_their_ends() {
        assert_eq!(lines(&[b"a\nb", b"c\n\nd"]), ["a\n", "bc\n", "\n", "d"]);
        assert_eq!(lines(&[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}\n"]);
        assert_eq!(lines(&[]), [""; 0]);
    }

    #[test]
    fn a_line_at_the_limit_and_past_it() {
        let line = |length: usize| [vec![b'x'; length - 1], b"\n".to_vec()].concat();
        assert_eq!(lines(&[&line(MAX_LINE)]).len(), 1);
        let cut = lines(&[&line(MAX_LINE + 1)]);
        assert_eq!(
            cut.iter().map(String::len).collect::<Vec<_>>(),
            [MAX_LINE, 1]
        );
    }

    /// Whatever the chunks, no character is cut.
    #[test]
    fn characters_stay_whole() {
        for text in ["é", "€", "😀", "a😀é€"] {
            for at in 0..text.len() {
                let mut lines = Lines::default();
                let (first, second) = text.as_bytes().split_at(at);
                lines.bytes.extend_from_slice(first);
                let mut all = lines.rest(false);
                lines.bytes.extend_from_slice(second);
                all.push_str(&lines.rest(true));
                assert_eq!(all, text, "{at}");
            }
        }
        let long = "é".repeat(MAX_LINE);
        let cut = lines(&[b"x", long.as_bytes()]);
        assert_eq!(cut.concat(), format!("x{long}"));
    }
}
