//! Queries, each in a process of its own.
//!
//! SQLite bounds its memory for a whole process, and the store of the node is in the process of the node.
//! So a query has its own: this program, started again. What needs too much memory, blocks, or crashes
//! there ends with that process. It is told what to do over a socket that is its standard input, in the
//! folder of its database, and ends when that socket does.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::confine;
use super::query::{BUSY, Query, QueryError, Rows};
use crate::shares::Share;
use crate::tool::ToolFailure;

/// The name under which this program is started for a query.
const NAME: &str = "frith: sqlite query";

/// Where the running program is, whatever has become of its file.
const MYSELF: &str = "/proc/self/exe";

/// Whether this program began with [`enter_if_asked`].
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Queries that run at once, of all agents. Each may have [`MAX_HEAP`](super::query::MAX_HEAP) in memory;
/// others wait in turn, and an agent has only so many among them.
static RUNNING: Semaphore = Semaphore::const_new(8);

/// How much longer than a statement its process may take: to start, to wait for a lock, to answer.
const MARGIN: Duration = BUSY.saturating_add(Duration::from_secs(5));

/// How long a process may take to end when nothing waits for it any more.
const ENDING: Duration = Duration::from_secs(2);

/// Bytes of an answer: more than the values of a query can be as JSON.
const MAX_ANSWER: u64 = 32 << 20;

/// What comes of a query.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Rows(Rows),
    Error(QueryError),
}

/// Becomes the process of a query, if that is what the program was started as; otherwise returns at once.
///
/// To be called first thing in `main`, before there is a second thread.
pub fn enter_if_asked() {
    PREPARED.store(true, Ordering::Relaxed);
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        // If nothing reads the answer there is nothing to tell.
        let _ = serve();
        exit();
    }
}

/// Runs a query in a process of its own; it ends, and is undone, when this is dropped. `share` is held
/// until the process has ended.
pub(super) async fn run(
    share: Share,
    folder: OwnedFd,
    query: Query,
    arguments: &[OsString],
) -> Result<Rows, ToolFailure> {
    if !PREPARED.load(Ordering::Relaxed) {
        return Err(ToolFailure::new(
            "queries need a program that calls toolkits::enter_if_asked() first thing in main",
        ));
    }
    // It never closes.
    let _turn = RUNNING.acquire().await;
    let limit = query.limits.time;
    let failed = |error: io::Error| ToolFailure::new(format!("no process for the query: {error}"));
    let (mut child, socket) = start(&folder, arguments).map_err(failed)?;
    let dropped = CancellationToken::new();
    let _guard = dropped.clone().drop_guard();
    let process = tokio::spawn(async move {
        let answer = tokio::select! {
            () = dropped.cancelled() => Ok(None),
            answer = tokio::time::timeout(limit.saturating_add(MARGIN), ask(socket, &query)) => {
                answer.unwrap_or(Ok(None))
            }
        };
        // The socket is closed: it ends, and what it has begun is undone, unless something blocks it.
        if tokio::time::timeout(ENDING, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
        drop(share);
        answer
    });
    let answer = process.await.map_err(|_| ToolFailure::crashed())?;
    match answer {
        Ok(Some(Answer::Rows(rows))) => Ok(rows),
        Ok(Some(Answer::Error(error))) => Err(error.into()),
        Ok(None) => Err(QueryError::too_long(limit).into()),
        Err(error) => {
            tracing::warn!(%error, "the process of a query gave no answer");
            Err(ToolFailure::new(
                "the query ended without an answer; the database may be damaged, or was changed by \
                 something else meanwhile",
            ))
        }
    }
}

fn start(folder: &OwnedFd, arguments: &[OsString]) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(MYSELF)
        .arg0(NAME)
        .args(arguments)
        .env_clear()
        // By its descriptor, wherever the folder is by now.
        .current_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))
        // Keys of the host's terminal are not for it.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, ours))
}

/// Sends a query and reads what comes of it.
async fn ask(socket: UnixStream, query: &Query) -> io::Result<Option<Answer>> {
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;
    let mut line = serde_json::to_vec(query)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    let mut answer = Vec::new();
    socket.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(Some(serde_json::from_slice(&answer)?))
}

/// Reads a query, runs it and answers.
fn serve() -> io::Result<()> {
    let mut socket = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut input = BufReader::new(socket.try_clone()?);
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    let query: Query = serde_json::from_slice(&line)?;
    let over = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&over);
    // Nothing more is sent: this is the end of the node, or nothing waits for the answer.
    std::thread::spawn(move || {
        let _ = input.read(&mut [0]);
        ending.store(true, Ordering::Relaxed);
        std::thread::sleep(ENDING);
        exit();
    });
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // A crash must not leave its memory in the folder.
    setrlimit(Resource::Core, none)?;
    let answer = match served(query, over) {
        Ok(rows) => Answer::Rows(rows),
        Err(error) => Answer::Error(error),
    };
    socket.write_all(&serde_json::to_vec(&answer)?)
}

fn served(query: Query, over: Arc<AtomicBool>) -> Result<Rows, QueryError> {
    confine::stay_in_folder()?;
    confine::check_beside(&query.file())?;
    query.run(over)
}

#[expect(
    clippy::exit,
    reason = "the process of a query has nothing to return to"
)]
fn exit() -> ! {
    std::process::exit(0)
}
