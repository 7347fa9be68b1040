//! What the host costs when nothing happens: memory, threads, and the time until it answers.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use benches::arguments::Programs;
use benches::median;
use benches::report::Figure;
use benches::server::{Server, Usage};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::contest::open_http;
use crate::http::{Connection, connect};
use crate::lines::Lines;
use crate::load::Calls;
use crate::servers::{Node, hello};

/// How much of it to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Sessions that are open at once.
    pub(crate) sessions: usize,
    /// Starts of the program.
    pub(crate) starts: usize,
}

/// Files of this process that are not sessions.
const OTHER_FILES: u64 = 100;

pub(crate) fn measure(programs: &Programs, extent: Extent) -> io::Result<Vec<Figure>> {
    let frith = programs.own.join("frith");
    let mut figures = starts(&frith, extent.starts)?;
    let sessions = extent.sessions.min(raise_open_files()?);

    let node = Node::start(&frith)?;
    let idle = node.node.server.usage()?;
    figures.push(Figure::new(
        "idle process",
        idle.resident / 1024.0,
        "MiB",
        Some(12.0),
    ));
    let held = (0..sessions)
        .map(|_| open_tcp(&node))
        .collect::<io::Result<Vec<_>>>()?;
    figures.extend(growth(
        "NDJSON over TCP",
        &idle,
        &node.node.server.usage()?,
        sessions,
        10.0,
    ));
    drop((held, node));

    let node = Node::start(&frith)?;
    let idle = node.node.server.usage()?;
    let mut posts = Connection::open(node.http)?;
    let held = (0..sessions)
        .map(|_| open_http(&node, &mut posts))
        .collect::<io::Result<Vec<_>>>()?;
    figures.extend(growth(
        "HTTP + SSE",
        &idle,
        &node.node.server.usage()?,
        sessions,
        25.0,
    ));
    drop((held, node));
    Ok(figures)
}

/// From the start of the program to its first answer.
fn starts(frith: &Path, starts: usize) -> io::Result<Vec<Figure>> {
    let mut stdio = Vec::new();
    let mut node = Vec::new();
    for _ in 0..starts {
        let start = Instant::now();
        let (server, input, output) = Server::piped(Command::new(frith).arg("stdio"))?;
        Lines::new(input, output, Calls::a2e(0)).ask(&hello(""))?;
        stdio.push(start.elapsed().as_secs_f64() * 1e3);
        drop(server);

        let start = Instant::now();
        let up = Node::start(frith)?;
        let request = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", up.http);
        Connection::open(up.http)?.ask(&request)?;
        node.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![
        Figure::new(
            "start of `frith stdio` to its handshake",
            median(stdio),
            "ms",
            Some(15.0),
        ),
        Figure::new(
            "start of `frith up` to /health",
            median(node),
            "ms",
            Some(15.0),
        ),
    ])
}

fn open_tcp(node: &Node) -> io::Result<TcpStream> {
    let stream = connect(node.tcp)?;
    Lines::new(&stream, &stream, Calls::a2e(0)).ask(&node.hello())?;
    Ok(stream)
}

fn growth(name: &str, before: &Usage, after: &Usage, sessions: usize, most: f64) -> [Figure; 2] {
    let each = (after.resident - before.resident) / sessions as f64;
    let name = format!("{sessions} idle sessions, {name}");
    [
        Figure::new(&format!("{name}: each"), each, "KiB", Some(most)),
        // As many threads as before, and a few for files.
        Figure::new(
            &format!("{name}: threads"),
            after.threads,
            "",
            Some(before.threads + 4.0),
        ),
    ]
}

/// Takes as many files as the system allows; says how many sessions that is enough for.
fn raise_open_files() -> io::Result<usize> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, most)?;
    let files = maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES);
    Ok(usize::try_from(files).unwrap_or(usize::MAX))
}
