//! The operator's side.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use canonical::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::data_dir::DataDir;

/// Why a node did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody is there.
    #[error("no node is running on {}; start one with `frith up --data {}`", data.display(), word(data))]
    NoNode {
        /// The data directory.
        data: PathBuf,
    },
    /// It cannot be reached.
    #[error("cannot speak to the node on {}: {source}", data.display())]
    Io {
        /// The data directory.
        data: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What it says makes no sense.
    #[error(
        "the node answered with what this program does not understand ({0}); are they of one version?"
    )]
    BadAnswer(String),
    /// It will not.
    #[error("{0}")]
    Refused(String),
}

#[derive(Serialize)]
struct Asked<'a, Q> {
    op: &'a str,
    #[serde(flatten)]
    request: &'a Q,
}

/// How long a node may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer, in bytes: all tokens fit.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;

/// Asks the node that runs on a data directory. The request is an object without `op`.
///
/// # Errors
/// If no node runs there, or it will not.
pub async fn ask<R: DeserializeOwned>(
    dir: &DataDir,
    op: &str,
    request: &impl Serialize,
) -> Result<R, AskError> {
    ask_telling(dir, op, request, PATIENCE, |_| {}).await
}

/// Asks for something that may take so long, and hears how it gets on.
///
/// # Errors
/// As [`ask`].
pub async fn ask_telling<R: DeserializeOwned>(
    dir: &DataDir,
    op: &str,
    request: &impl Serialize,
    patience: Duration,
    told: impl FnMut(Value<'static>),
) -> Result<R, AskError> {
    let data = dir.path().to_owned();
    let mut line = serde_json::to_vec(&Asked { op, request })
        .map_err(|error| AskError::BadAnswer(error.to_string()))?;
    line.push(b'\n');
    match timeout(patience, exchange(dir, &line, told)).await {
        Ok(Ok(answer)) => read(&answer),
        Ok(Err(source)) if is_absence(&source) => Err(AskError::NoNode { data }),
        Ok(Err(source)) => Err(AskError::Io { data, source }),
        Err(_) => Err(AskError::Io {
            data,
            source: io::ErrorKind::TimedOut.into(),
        }),
    }
}

async fn exchange(
    dir: &DataDir,
    line: &[u8],
    mut told: impl FnMut(Value<'static>),
) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(dir.operator_socket()).await?;
    // A node that refuses may do so before it has read everything.
    let written = stream.write_all(line).await;
    let mut answer = Vec::new();
    let mut reader = BufReader::new(stream);
    loop {
        let mut limited = (&mut reader).take(MAX_ANSWER);
        limited.read_until(b'\n', &mut answer).await?;
        if answer.is_empty() {
            written?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match news(&answer) {
            Some(news) => told(news),
            None => return Ok(answer),
        }
        answer.clear();
    }
}

/// What a line tells that is no answer.
fn news(line: &[u8]) -> Option<Value<'static>> {
    // A cheap look first: answers may be long.
    if !line.starts_with(br#"{"news":"#) {
        return None;
    }
    let Value::Object(mut members) = Value::parse(line.trim_ascii()).ok()?.into_owned() else {
        return None;
    };
    members.remove("news")
}

/// No socket, or one that nobody listens on any more.
fn is_absence(error: &io::Error) -> bool {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    absent.contains(&error.kind())
}

fn read<R: DeserializeOwned>(answer: &[u8]) -> Result<R, AskError> {
    let bad = |text: String| AskError::BadAnswer(text);
    let mut limits = canonical::LIMITS;
    limits.values = 1_000_000;
    let answer =
        Value::parse_within(answer.trim_ascii(), limits).map_err(|fault| bad(fault.to_string()))?;
    let Value::Object(mut members) = answer else {
        return Err(bad("not an object".to_owned()));
    };
    match (members.remove("ok"), members.get("error")) {
        (Some(Value::Bool(true)), _) => Value::Object(members)
            .deserialize_into()
            .map_err(|error| bad(error.to_string())),
        (Some(Value::Bool(false)), Some(Value::String(error))) => {
            Err(AskError::Refused(error.to_string()))
        }
        _ => Err(bad("neither done nor refused".to_owned())),
    }
}

/// A path as one word of a command that somebody will paste into a shell.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+,".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Status;

    #[test]
    fn an_answer_is_done_or_refused() {
        let read = |answer: &str| read::<Status>(answer.as_bytes()).map_err(|e| e.to_string());
        let status = read("{\"ok\":true,\"pid\":1,\"version\":\"x\",\"more\":1}\n").unwrap();
        assert_eq!((status.pid, status.version.as_str()), (1, "x"));
        assert_eq!(
            read("{\"ok\":false,\"error\":\"why\"}"),
            Err("why".to_owned())
        );
        for bad in [
            "",
            "[]",
            "{}",
            "{\"ok\":1}",
            "{\"ok\":false}",
            "{\"ok\":true}",
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains("are they of one version?"), "{error}");
        }
    }

    #[test]
    fn the_command_that_starts_a_node_can_be_pasted() {
        let data = PathBuf::from("/a b");
        let text = AskError::NoNode { data }.to_string();
        assert!(text.ends_with("`frith up --data '/a b'`"), "{text}");
    }
}
