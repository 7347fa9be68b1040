//! The A2E wire against plain `serde_json` into an owned struct, and framing against `memchr`.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::hint::black_box;

use a2e_wire::{Charset, Decoder, Framer, Message, Sender, Timestamp};
use benches::{Contestant, Effort, compare};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool call as most programs would declare it.
#[derive(Debug, Serialize, Deserialize)]
struct OwnedToolCall {
    a2e: String,
    version: String,
    #[serde(rename = "type")]
    type_name: String,
    id: String,
    ts: f64,
    session_id: String,
    tool_name: String,
    arguments: Value,
    correlation_id: String,
    streaming: bool,
    timeout: i64,
}

struct Case {
    name: &'static str,
    line: Vec<u8>,
}

const STREAM: usize = 64 * 1024 * 1024;
const LINE: usize = 220;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => report(Effort::FULL, STREAM),
        ["--smoke"] => report(Effort::SMOKE, STREAM / 64),
        ["--cases"] => {
            for case in cases() {
                println!("decode {}", case.name);
                println!("encode {}", case.name);
            }
        }
        ["--count", case, side, runs] => count(case, side, runs.parse().unwrap_or_default()),
        _ => println!("usage: wire [--smoke | --cases | --count CASE ours|theirs RUNS]"),
    }
}

fn cases() -> Vec<Case> {
    vec![
        case("200 B tool call", json!({"path": "notes/today.md"})),
        case("4 KiB tool call", arguments(4 * 1024)),
        case("200 KiB tool call", arguments(200 * 1024)),
    ]
}

/// Half a text with escapes, half structured data.
fn arguments(size: usize) -> Value {
    let text = "fn main() {\n\tprintln!(\"hello\");\n}\n".repeat(size / 2 / 40);
    let rows: Vec<Value> = (0..size / 2 / 62)
        .map(|n| json!({"id": n, "name": "row of data", "ok": true, "score": 0.5, "tags": ["a"]}))
        .collect();
    json!({"path": "src/main.rs", "content": text, "rows": rows})
}

fn case(name: &'static str, arguments: Value) -> Case {
    let call = OwnedToolCall {
        a2e: "1.0".into(),
        version: "1.0".into(),
        type_name: "tool/call/req".into(),
        id: "0af7651916cd43dd8448eb211c80319c".into(),
        ts: 1_716_123_456.789,
        session_id: String::new(),
        tool_name: "read_file".into(),
        arguments,
        correlation_id: "1f2e3d4c".into(),
        streaming: false,
        timeout: 30,
    };
    Case {
        name,
        line: serde_json::to_vec(&call).unwrap_or_default(),
    }
}

fn ours(decoder: &mut Decoder, line: &[u8]) -> Option<Message<'static>> {
    decoder
        .decode(line, Sender::Agent, Timestamp::default())
        .ok()
        .map(Message::into_owned)
}

fn decoders(line: &[u8]) -> [Contestant<'_>; 2] {
    let mut decoder = Decoder::default();
    [
        Contestant::new("serde_json", || {
            serde_json::from_slice::<OwnedToolCall>(line).is_ok()
        }),
        Contestant::new("a2e-wire", move || {
            let message = decoder.decode(black_box(line), Sender::Agent, Timestamp::default());
            black_box(message).is_ok()
        }),
    ]
}

fn encoders<'a>(
    owned: &'a OwnedToolCall,
    message: &'a Message<'static>,
    buffers: &'a mut [Vec<u8>; 2],
) -> [Contestant<'a>; 2] {
    let [theirs, ours] = buffers;
    [
        Contestant::new("serde_json", move || {
            theirs.clear();
            serde_json::to_writer(&mut *theirs, black_box(owned)).is_ok()
        }),
        Contestant::new("a2e-wire", move || {
            ours.clear();
            black_box(message).encode_to(ours, Charset::Utf8);
            ours.len()
        }),
    ]
}

fn report(effort: Effort, stream: usize) {
    println!(
        "{:34} {:>12} {:>12} {:>7} {:>7}",
        "", "serde_json", "a2e-wire", "ratio", "target"
    );
    for case in cases() {
        let line = case.line.as_slice();
        let times = compare(&mut decoders(line), effort);
        row(&format!("decode {}", case.name), &times, 2.0);
        let Ok(owned) = serde_json::from_slice(line) else {
            continue;
        };
        let Some(message) = ours(&mut Decoder::default(), line) else {
            continue;
        };
        let mut buffers = [Vec::new(), Vec::new()];
        let times = compare(&mut encoders(&owned, &message, &mut buffers), effort);
        row(&format!("encode {}", case.name), &times, 1.5);
    }
    framing(effort, stream);
}

fn row(name: &str, times: &[f64], target: f64) {
    let [theirs, ours] = times else { return };
    let micro = |seconds: f64| format!("{:.3} us", seconds * 1e6);
    println!(
        "{name:34} {:>12} {:>12} {:6.2}x {target:6.2}x",
        micro(*theirs),
        micro(*ours),
        theirs / ours
    );
}

/// A stream in the chunks that a socket would give.
fn framing(effort: Effort, size: usize) {
    const CHUNK: usize = 64 * 1024;
    let line = [vec![b'x'; LINE], b"\n".to_vec()].concat();
    let stream = line.repeat(size / line.len());
    let mut contestants = [
        Contestant::new("memchr", || {
            stream
                .chunks(CHUNK)
                .map(|chunk| memchr::memchr_iter(b'\n', chunk).count())
                .sum::<usize>()
        }),
        Contestant::new("a2e-wire", || {
            let mut framer = Framer::new(a2e_wire::MAX_LINE);
            let mut count = 0;
            for chunk in stream.chunks(CHUNK) {
                let mut lines = framer.feed(chunk);
                while let Some(line) = lines.next() {
                    count += usize::from(black_box(line).is_ok());
                }
            }
            count
        }),
    ];
    let times = compare(&mut contestants, effort);
    let [limit, ours] = times.as_slice() else {
        return;
    };
    let rate = |seconds: f64| format!("{:.1} GB/s", stream.len() as f64 / seconds / 1e9);
    println!(
        "\n{:34} {:>12} {:>12} {:>7} {:>7}",
        "", "bare memchr", "a2e-wire", "ratio", "target"
    );
    println!(
        "{:34} {:>12} {:>12} {:6.2}x {:6.2}x",
        format!("framing of {} MiB", size / 1024 / 1024),
        rate(*limit),
        rate(*ours),
        limit / ours,
        0.5
    );
}

/// Runs one side of one case a number of times, for an instruction counter around this program.
fn count(case: &str, side: &str, runs: u32) {
    let Some((verb, name)) = case.split_once(' ') else {
        return;
    };
    let Some(found) = cases().into_iter().find(|case| case.name == name) else {
        return;
    };
    let line = found.line.as_slice();
    let side = usize::from(side == "ours");
    let mut buffers = [Vec::new(), Vec::new()];
    let Ok(owned) = serde_json::from_slice(line) else {
        return;
    };
    let Some(message) = ours(&mut Decoder::default(), line) else {
        return;
    };
    let mut contestants = match verb {
        "decode" => decoders(line),
        _ => encoders(&owned, &message, &mut buffers),
    };
    if let Some(contestant) = contestants.get_mut(side) {
        contestant.repeat(runs);
    }
}
