//! The node's side of the operator's socket.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::LogLimit;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{NEWS, News, Operations, refusal};
use crate::data_dir::{Claim, DataError, at};
use crate::listen::is_too_many;

/// The longest request, in bytes.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// Connections at once; the next one waits to be accepted.
pub(super) const MAX_CONNECTIONS: usize = 32;

/// How long a request may take to come, and an answer to be taken.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Descriptors that are reserved: for a connection, and for what answering it opens.
const RESERVED: usize = 4;

/// After the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that cannot be accepted.
static REFUSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));

/// Answers the operator.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    operations: Arc<Operations>,
    reserve: Reserve,
    /// As long as it is held, no other process takes the socket away.
    _claim: Claim,
}

impl Server {
    /// Opens the socket in a data directory. What a dead process left there is replaced; that it
    /// is dead is what the claim says.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn bind(claim: &Claim, operations: Operations) -> Result<Self, DataError> {
        let path = claim.dir().operator_socket();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.file_type().is_socket() => {
                fs::remove_file(&path).map_err(at("remove", &path))?;
            }
            Ok(_) => {
                return Err(DataError::WrongKind {
                    path,
                    wanted: "socket",
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at("look at", &path)(error)),
        }
        let listener = UnixListener::bind(&path).map_err(at("listen on", &path))?;
        // Until here the mode of the data directory keeps others out.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(at("close", &path))?;
        Ok(Self {
            listener,
            path,
            operations: Arc::new(operations),
            reserve: Reserve::default(),
            _claim: claim.clone(),
        })
    }

    /// Answers until it is to stop; what is being done then is finished first.
    pub async fn run(mut self, stop: CancellationToken) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            if connections.is_empty() {
                self.reserve.fill();
            }
            let accepted = async {
                let place = free.clone().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (operations, stop) = (self.operations.clone(), stop.clone());
                    connections.spawn(async move {
                        serve_checked(stream, &operations, &stop).await;
                        drop(place);
                    });
                }
                Err(error) if is_too_many(&error) && self.reserve.release() => {}
                Err(error) => {
                    if let Some(more) = REFUSED.admit(Instant::now()) {
                        tracing::warn!(%error, "cannot accept a connection of the operator{more}");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        while connections.join_next().await.is_some() {}
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove the operator's socket");
        }
    }
}

/// Descriptors that are open only to be closed for the operator when no others are left.
#[derive(Debug, Default)]
struct Reserve(Vec<File>);

impl Reserve {
    /// Opens what is missing, as far as there are descriptors.
    fn fill(&mut self) {
        while self.0.len() < RESERVED
            && let Ok(file) = File::open("/dev/null")
        {
            self.0.push(file);
        }
    }

    /// Closes all of them; says whether there were any.
    fn release(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }
}

async fn serve_checked(mut stream: UnixStream, operations: &Operations, stop: &CancellationToken) {
    let own = rustix::process::geteuid().as_raw();
    let result = match stream.peer_cred() {
        Ok(peer) if may_operate(peer.uid(), own) => serve(stream, operations, stop).await,
        Ok(_) => {
            let text = "only the user who runs the node, and root, may operate it";
            write(&mut stream, &refusal(text)).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection of the operator broke");
    }
}

pub(super) const fn may_operate(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// Answers line by line, until the peer ends, is silent for too long or sends too much.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    operations: &Operations,
    stop: &CancellationToken,
) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut reader).take(MAX_LINE as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        let read = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            read = timeout(PATIENCE, read) => read,
        };
        if read.map_err(|_| io::ErrorKind::TimedOut)?? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() > MAX_LINE {
            let text = format!("a request has at most {MAX_LINE} bytes");
            return write(&mut writer, &refusal(&text)).await;
        }
        let line = line.trim_ascii();
        let answered = answer(&mut writer, operations, line);
        match operations.ends_with_operator(line) {
            false => answered.await?,
            true => tokio::select! {
                answered = answered => answered?,
                () = gone(&mut reader) => return Ok(()),
            },
        }
    }
}

/// Waits until the peer is gone. One that asks for something else meanwhile is not.
async fn gone(reader: &mut (impl AsyncBufRead + Unpin)) {
    match reader.fill_buf().await {
        Ok([]) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// Answers a line; what the operation tells meanwhile goes before.
async fn answer(
    writer: &mut (impl AsyncWrite + Unpin),
    operations: &Operations,
    line: &[u8],
) -> io::Result<()> {
    let (news, mut told) = mpsc::channel(NEWS);
    let answer = operations.answer(line, News(news));
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            Some(news) = told.recv() => write(writer, &news).await?,
            answer = &mut answer => {
                while let Ok(news) = told.try_recv() {
                    write(writer, &news).await?;
                }
                return write(writer, &answer).await;
            }
        }
    }
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), answer: &[u8]) -> io::Result<()> {
    let written = async {
        writer.write_all(answer).await?;
        writer.flush().await
    };
    timeout(PATIENCE, written)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}
