//! The load: so many requests in flight, a new one for each reply.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use benches::client::Slice;
use benches::echo::Arguments;
use benches::turns::Load;
use serde::Deserialize;

/// A connection, or several, over which an echo tool is called.
pub(crate) trait Channel {
    /// Sends so many requests.
    fn send(&mut self, requests: usize) -> io::Result<()>;

    /// Waits for replies, reads and checks each; says how many came.
    fn receive(&mut self) -> io::Result<usize>;
}

/// What is to be echoed; with it, an A2E call has 222 bytes.
pub(crate) const TEXT: &str = "grey fox";

/// Calls with unique ids, and what is known of their answers.
#[derive(Debug)]
pub(crate) struct Calls {
    text: Vec<u8>,
    /// Where the number of the call stands: at the end of its id.
    number: usize,
    next: u64,
    /// The numbers of those without an answer.
    open: VecDeque<u64>,
    read: fn(&[u8]) -> serde_json::Result<Reply<'_>>,
}

/// What a client takes from an answer.
#[derive(Debug)]
struct Reply<'a> {
    id: Cow<'a, str>,
    text: Cow<'a, str>,
}

/// The answer of an A2E host, as a typed client reads it.
#[derive(Deserialize)]
struct A2eAnswer<'a> {
    #[serde(borrow)]
    req_id: Cow<'a, str>,
    data: ToolResult<'a>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow)]
    data: Arguments<'a>,
}

/// The answer of an MCP server.
#[derive(Deserialize)]
struct McpAnswer<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    result: CallResult<'a>,
}

#[derive(Deserialize)]
struct CallResult<'a> {
    #[serde(borrow)]
    content: Vec<Arguments<'a>>,
}

const DIGITS: usize = 16;

impl Calls {
    /// A2E calls. All of an agent's need different ids, whatever the connection: `line` tells them apart.
    pub(crate) fn a2e(line: u64) -> Self {
        let text = format!(
            r#"{{"a2e":"1.0","version":"1.0","type":"tool/call/req","id":"{line:016x}@@@@@@@@@@@@@@@@","ts":1716123456.789,"tool_name":"echo","arguments":{{"text":"{TEXT}"}},"correlation_id":"1f2e3d4c","streaming":false,"timeout":30}}"#
        );
        Self::new(&text, |reply| {
            let answer: A2eAnswer<'_> = serde_json::from_slice(reply)?;
            Ok(Reply {
                id: answer.req_id,
                text: answer.data.data.text,
            })
        })
    }

    /// MCP calls.
    pub(crate) fn mcp() -> Self {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"@@@@@@@@@@@@@@@@","method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{TEXT}"}}}}}}"#
        );
        Self::new(&text, |reply| {
            let answer: McpAnswer<'_> = serde_json::from_slice(reply)?;
            let content = answer.result.content.into_iter().next();
            Ok(Reply {
                id: answer.id,
                text: content.map(|content| content.text).unwrap_or_default(),
            })
        })
    }

    fn new(text: &str, read: fn(&[u8]) -> serde_json::Result<Reply<'_>>) -> Self {
        Self {
            number: text.find("@@@@@@@@@@@@@@@@").unwrap_or_default(),
            text: text.as_bytes().to_vec(),
            next: 0,
            open: VecDeque::new(),
            read,
        }
    }

    /// The size of each call.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends the next call.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>) {
        self.next += 1;
        self.open.push_back(self.next);
        let mut rest = self.next;
        let digits = self.text.get_mut(self.number..self.number + DIGITS);
        for digit in digits.unwrap_or_default().iter_mut().rev() {
            let value = (rest & 15) as u8;
            *digit = value + if value < 10 { b'0' } else { b'a' - 10 };
            rest >>= 4;
        }
        out.extend_from_slice(&self.text);
    }

    /// Takes a reply: it must answer an open call, with what was to be echoed.
    pub(crate) fn answered(&mut self, reply: &[u8]) -> io::Result<()> {
        self.close(reply).ok_or_else(|| {
            let reply = String::from_utf8_lossy(reply);
            io::Error::other(format!("no answer to an open call: {reply}"))
        })
    }

    fn close(&mut self, reply: &[u8]) -> Option<()> {
        let reply = (self.read)(reply).ok()?;
        let digits = reply.id.get(reply.id.len().checked_sub(DIGITS)?..)?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        let index = self.open.iter().position(|open| *open == number)?;
        self.open.remove(index)?;
        (reply.text == TEXT).then_some(())
    }
}

/// Calls over a channel.
pub(crate) struct Over<C>(pub(crate) C);

impl<C: Channel> Load for Over<C> {
    fn drive(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice> {
        drive(&mut self.0, in_flight, slice)
    }
}

fn drive(channel: &mut dyn Channel, in_flight: usize, slice: Duration) -> io::Result<Slice> {
    let mut latencies = Vec::new();
    let mut trips = 0_u32;
    let start = Instant::now();
    let mut sent_at = start;
    channel.send(in_flight)?;
    let mut waiting = in_flight;
    let elapsed = loop {
        let replies = channel.receive()?;
        trips += u32::try_from(replies).unwrap_or_default();
        waiting = waiting.saturating_sub(replies);
        let now = Instant::now();
        if in_flight == 1 {
            latencies.push(now.duration_since(sent_at).as_secs_f64());
        }
        let elapsed = now.duration_since(start);
        if elapsed < slice {
            sent_at = now;
            channel.send(replies)?;
            waiting += replies;
        } else if waiting == 0 {
            break elapsed;
        }
    };
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize);
    Ok(Slice {
        rate: f64::from(trips) / elapsed.as_secs_f64(),
        latency: at(0.5).copied().zip(at(0.99).copied()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_unique_ids_and_one_size() {
        let mut calls = Calls::a2e(3);
        let mut texts = [Vec::new(), Vec::new()];
        for text in &mut texts {
            calls.append(text);
            assert_eq!(text.len(), 222);
            assert_eq!(calls.len(), 222);
        }
        let [first, second] = texts.map(|text| String::from_utf8(text).unwrap_or_default());
        assert!(first.contains(r#""id":"00000000000000030000000000000001""#));
        assert!(second.contains(r#""id":"00000000000000030000000000000002""#));
    }

    #[test]
    fn an_answer_counts_once_and_only_with_the_text() -> io::Result<()> {
        let mut calls = Calls::a2e(3);
        calls.append(&mut Vec::new());
        calls.append(&mut Vec::new());
        let answer = |number, text| {
            format!(
                r#"{{"req_id":"0000000000000003000000000000000{number}","data":{{"data":{{"text":"{text}"}}}}}}"#
            )
        };
        calls.answered(answer(2, TEXT).as_bytes())?;
        assert!(calls.answered(answer(2, TEXT).as_bytes()).is_err());
        assert!(calls.answered(answer(1, "red fox").as_bytes()).is_err());
        Ok(())
    }
}
