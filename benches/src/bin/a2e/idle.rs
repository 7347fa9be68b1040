//! What the host costs when nothing happens: memory, threads, and the time until it answers.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use benches::arguments::Programs;
use benches::median;
use benches::report::Figure;
use benches::server::{Server, Usage};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::contest::open_http;
use crate::http::{Connection, connect};
use crate::lines::Lines;
use crate::load::Calls;
use crate::servers::{self, Node, hello};

/// How much of it to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Sessions that are open at once.
    pub(crate) sessions: usize,
    /// Starts of the program.
    pub(crate) starts: usize,
}

/// How long a node may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let own = idle.own / 1024.0;
    figures.push(Figure::new(
        "of it its own, not the program's",
        own,
        "MiB",
        None,
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
    let [mut stdio, mut first, mut again] = [(); 3].map(|()| Vec::new());
    for _ in 0..starts {
        let start = Instant::now();
        let (server, input, output) = Server::piped(Command::new(frith).arg("stdio"))?;
        Lines::new(input, output, Calls::a2e(0)).ask(&hello(""))?;
        stdio.push(start.elapsed().as_secs_f64() * 1e3);
        drop(server);

        let folder = tempfile::tempdir()?;
        first.push(first_answer(frith, folder.path())?);
        again.push(first_answer(frith, folder.path())?);
    }
    let figure = |name: &str, times, most| Figure::new(name, median(times), "ms", most);
    Ok(vec![
        figure("start of `frith stdio` to its handshake", stdio, Some(15.0)),
        // Keys and tokens are made and put onto the disk.
        figure("very first start of `frith up` to /health", first, None),
        figure("start of `frith up` to /health", again, Some(15.0)),
    ])
}

/// Milliseconds from the start of a node to its first answer.
fn first_answer(frith: &Path, folder: &Path) -> io::Result<f64> {
    // One that is free, and that nobody takes meanwhile.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("bench.yaml");
    fs::write(&config, servers::configuration(address))?;
    let mut command = Command::new(frith);
    command.arg("up").arg("--config").arg(&config);
    command.arg("--data").arg(folder.join("data"));
    let start = Instant::now();
    let (_server, _output, _) = Server::piped(&mut command)?;
    let mut connection = loop {
        match Connection::open(address) {
            Ok(connection) => break connection,
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => thread::sleep(Duration::from_micros(100)),
        }
    };
    connection.ask(&format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n"))?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
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
