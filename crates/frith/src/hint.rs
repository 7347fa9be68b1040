//! What to do about what went wrong: a host that cannot be spoken to, a file that is not there.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use a2e_runtime::{Address, ClientError};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where a token came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenFrom {
    /// There is none.
    Nowhere,
    Option,
    Environment,
    /// The file of the data directory.
    File(PathBuf),
}

/// How a host went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its connection ended.
    Away,
    /// It said that it stops.
    Stopped,
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Http,
    Ndjson,
    Tls,
}

/// What agents ask a host for, and the commands that people have for it.
const COMMANDS: [(&str, &str); 6] = [
    ("`chain/list/req`", "`frith chain list`"),
    ("`env/list/req`", "`frith env list`"),
    ("`learn/refinement/history/req`", "`frith learn history`"),
    ("`skill/discover/req`", "`frith skill list`"),
    ("`tool/list`", "`frith tools`"),
    (
        "only the operator of this node can change its rules",
        "to allow it, the operator changes `policy` in the node's configuration (or that of the agent, \
         under `agents`) and runs `frith config apply`",
    ),
];

/// What a host tells an agent, for people: where it names a request, the command that makes it.
pub(crate) fn for_people(text: &str) -> String {
    let put = |text: String, (request, command): (&str, &str)| text.replace(request, command);
    COMMANDS.into_iter().fold(text.to_owned(), put)
}

/// What to do about a file that somebody has named and that cannot be used.
pub(crate) fn of_file(error: &anyhow::Error) -> Option<String> {
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>())?
        .kind();
    let told = error.to_string();
    let is_read = told.starts_with("cannot read ");
    if !is_read && !told.starts_with("cannot write ") {
        return None;
    }
    match (kind, is_read) {
        (io::ErrorKind::NotFound, true) => {
            let folder = std::env::current_dir().ok()?;
            Some(format!(
                "is the path right? paths begin in {}, and --help of the command says what it takes",
                folder.display()
            ))
        }
        (io::ErrorKind::NotFound, false) => Some("make its folder first (mkdir -p)".to_owned()),
        (io::ErrorKind::AlreadyExists, false) => {
            Some("it is not overwritten: name another file, or remove that one first".to_owned())
        }
        (io::ErrorKind::PermissionDenied, _) => Some(
            "you may not do that there: `ls -ld` shows who may, or name another place".to_owned(),
        ),
        _ => None,
    }
}

/// What to do about a host that went away with something unanswered.
pub(crate) fn of_host(error: &anyhow::Error) -> Option<String> {
    let error = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<ClientError>())?;
    let text = match gone(error)? {
        Gone::Away => {
            "the host went away before it answered, and may have done some of what was asked. \
             `frith status` says whether the node runs, its log why it ended, and `frith up` starts it again"
        }
        Gone::Stopped => {
            "the host ended the session before this was done: the node was stopped, or the access was revoked. \
             `frith status` says whether it runs, and `frith up` starts it again"
        }
    };
    Some(text.to_owned())
}

/// How a host went away, if that is why something failed.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else fails, the host is there"
)]
pub(crate) fn gone(error: &ClientError) -> Option<Gone> {
    match error {
        ClientError::Closed | ClientError::Lost | ClientError::Io(_) => Some(Gone::Away),
        ClientError::Host(error) => {
            let detail: Value = error.detail.raw().deserialize().unwrap_or_default();
            (detail["reason"] == "closing").then_some(Gone::Stopped)
        }
        _ => None,
    }
}

/// What to do about a node that does not serve what a command is about.
pub(crate) fn no_plugin(capabilities: &[&str]) -> String {
    let names: Vec<String> = capabilities
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    format!(
        "this node has no plugin for {}: name it in `plugins` of its configuration, a list that replaces the \
         built-in one, and restart the node or have it read the file (`frith config apply`)",
        names.join(", ")
    )
}

/// What to do when nobody answers at an address.
pub(crate) fn unreachable(address: &Address) -> &'static str {
    match address.to_string().starts_with("cmd:") {
        true => "the words after `cmd:` must be a program, and then what it is started with",
        false => {
            "`frith up` starts a node and prints where it is; `frith status` shows one that runs"
        }
    }
}

/// How long a port may take to show what it speaks.
const PATIENCE: Duration = Duration::from_secs(2);

impl TokenFrom {
    /// What to do when the token is refused.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Nowhere => "no token was sent; pass one with --token or the environment variable \
                              FRITH_TOKEN. A node keeps one in the file `token` of its data directory, \
                              which `frith up` prints; `frith token new NAME` makes others"
                .to_owned(),
            Self::Option => "the token of --token is not, or no longer, one of that host; \
                             `frith token list` shows which there are, `frith token new NAME` makes one"
                .to_owned(),
            Self::Environment => "the token came from the environment variable FRITH_TOKEN and is not, \
                                  or no longer, one of that host; unset FRITH_TOKEN or pass the right one \
                                  with --token"
                .to_owned(),
            Self::File(file) => format!(
                "the token in {} is not one of that node; if its configuration has an `auth_token`, pass \
                 that with --token or the environment variable FRITH_TOKEN",
                file.display()
            ),
        }
    }
}

/// The address that was probably meant, if what is at an address speaks something else.
pub(crate) async fn other_address(address: &Address) -> Option<String> {
    let text = address.to_string();
    let (scheme, rest) = text.split_once(':')?;
    let expected = match scheme {
        "http" | "ws" => Spoken::Http,
        "https" | "wss" | "tls" => Spoken::Tls,
        "tcp" => Spoken::Ndjson,
        _ => return None,
    };
    let rest = rest.trim_start_matches('/');
    let authority = rest.split('/').next()?;
    let found = tokio::time::timeout(PATIENCE, spoken(authority)).await;
    let found = found.ok().flatten().filter(|found| *found != expected)?;
    let (what, scheme) = match (found, scheme) {
        (Spoken::Http, "wss") => ("HTTP without TLS", "ws://"),
        (Spoken::Http, _) => ("HTTP without TLS", "http://"),
        (Spoken::Ndjson, _) => ("NDJSON over TCP without TLS", "tcp:"),
        (Spoken::Tls, "http") => ("TLS", "https://"),
        (Spoken::Tls, "ws") => ("TLS", "wss://"),
        (Spoken::Tls, _) => ("TLS", "tls:"),
    };
    let place = match found {
        Spoken::Ndjson => authority,
        Spoken::Http | Spoken::Tls => rest,
    };
    // What is inside cannot be seen from outside.
    let or = match (found, scheme) {
        (Spoken::Tls, "tls:") => format!(", or https://{authority}"),
        (Spoken::Tls, _) => format!(", or tls:{authority}"),
        (Spoken::Http | Spoken::Ndjson, _) => String::new(),
    };
    Some(format!(
        "that port speaks {what}; try --host {scheme}{place}{or}"
    ))
}

/// Asks a port something that everybody answers in his own way.
async fn spoken(authority: &str) -> Option<Spoken> {
    let mut stream = TcpStream::connect(authority).await.ok()?;
    let question =
        format!("GET /health HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut answer = [0; 16];
    let size = stream.read(&mut answer).await.ok()?;
    match answer.get(..size)? {
        [0x15, 0x03, ..] => Some(Spoken::Tls),
        [b'{', ..] => Some(Spoken::Ndjson),
        answer if answer.starts_with(b"HTTP/1.") => Some(Spoken::Http),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one connection with these bytes.
    async fn says(answer: &'static [u8]) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            stream.write_all(answer).await.unwrap();
        });
        address
    }

    #[test]
    fn people_are_told_commands() {
        let said = for_people("there is no chain 7; `chain/list/req` has those there are");
        assert_eq!(
            said,
            "there is no chain 7; `frith chain list` has those there are"
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_has_a_next_step() {
        use anyhow::Context as _;
        let failed = |kind: io::ErrorKind, text: &'static str| {
            let error: Result<(), io::Error> = Err(kind.into());
            of_file(&error.context(text).unwrap_err())
        };
        let missing = failed(io::ErrorKind::NotFound, "cannot read x").unwrap();
        assert!(missing.contains("is the path right?"), "{missing}");
        let missing = failed(io::ErrorKind::NotFound, "cannot write x").unwrap();
        assert!(missing.contains("mkdir -p"), "{missing}");
        let there = failed(io::ErrorKind::AlreadyExists, "cannot write x").unwrap();
        assert!(there.contains("name another file"), "{there}");
        assert!(failed(io::ErrorKind::PermissionDenied, "cannot read x").is_some());
        assert_eq!(failed(io::ErrorKind::NotFound, "cannot reach x"), None);
        assert_eq!(failed(io::ErrorKind::OutOfMemory, "cannot read x"), None);
    }

    #[tokio::test]
    async fn the_address_that_was_meant() {
        let (http, lines, tls) = (
            b"HTTP/1.1 200 OK\r\n",
            b"{\"a2e\":\"1.0\"}\n",
            b"\x15\x03\x03\0\x02",
        );
        let cases: [(&[u8], &str, Option<&str>); 9] = [
            (http, "https://A", Some("http://A")),
            (http, "wss://A/ws", Some("ws://A/ws")),
            (http, "tcp:A", Some("http://A")),
            (http, "http://A", None),
            (lines, "http://A/x", Some("tcp:A")),
            (lines, "tls:A", Some("tcp:A")),
            (tls, "http://A", Some("https://A")),
            (tls, "tcp:A", Some("tls:A")),
            (b"220 mail\r\n", "tcp:A", None),
        ];
        for (answer, asked, meant) in cases {
            let place = says(answer).await;
            let address = asked.replace('A', &place).parse().unwrap();
            let hint = other_address(&address).await;
            let meant = meant.map(|meant| meant.replace('A', &place));
            let hint = hint
                .as_deref()
                .and_then(|hint| hint.split("--host ").nth(1));
            let first = hint.and_then(|hint| hint.split(", or ").next());
            assert_eq!(first, meant.as_deref(), "{asked}");
        }
    }
}
