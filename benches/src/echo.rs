//! What every bare limit does: read a typed call, write a typed answer.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A call of the echo tool.
#[derive(Debug, Deserialize)]
pub struct Call<'a> {
    /// The version of the protocol.
    pub a2e: Cow<'a, str>,
    /// The same again.
    pub version: Cow<'a, str>,
    /// The type of message.
    #[serde(rename = "type")]
    pub type_name: Cow<'a, str>,
    /// The request.
    pub id: Cow<'a, str>,
    /// When it was sent.
    pub ts: f64,
    /// The tool.
    pub tool_name: Cow<'a, str>,
    /// What to give back.
    pub arguments: Arguments<'a>,
    /// The caller's own mark.
    pub correlation_id: Cow<'a, str>,
    /// Whether events are wanted.
    pub streaming: bool,
    /// How long it may take, in seconds.
    pub timeout: i64,
}

/// The arguments of the echo tool.
#[derive(Debug, Serialize, Deserialize)]
pub struct Arguments<'a> {
    /// What to give back.
    pub text: Cow<'a, str>,
}

/// The answer, with every field that an A2E host sends.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    a2e: &'a str,
    version: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    id: &'a str,
    ts: f64,
    req_id: &'a str,
    eid: u64,
    data: Outcome<'a>,
    timestamp: f64,
}

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    success: bool,
    tool_name: &'a str,
    data: &'a Arguments<'a>,
    error: Option<&'a str>,
    duration_ms: u64,
    metadata: Empty,
    artifacts: [u8; 0],
}

#[derive(Debug, Serialize)]
struct Empty {}

/// Reads a call and appends its answer, without a line end.
///
/// # Errors
/// If the line is not a call.
pub fn answer(line: &[u8], eid: u64, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let call: Call<'_> = serde_json::from_slice(line)?;
    let answer = Answer {
        a2e: "1.0",
        version: "1.0",
        type_name: "tool/call/resp",
        id: "0af7651916cd43dd8448eb211c80319c",
        ts: call.ts,
        req_id: &call.id,
        eid,
        data: Outcome {
            success: true,
            tool_name: &call.tool_name,
            data: &call.arguments,
            error: None,
            duration_ms: 0,
            metadata: Empty {},
            artifacts: [],
        },
        timestamp: call.ts,
    };
    serde_json::to_writer(out, &answer)
}
