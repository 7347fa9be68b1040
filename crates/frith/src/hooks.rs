//! `notify`: tells people that a call waits for approval. What happens here decides nothing, and nothing
//! waits for it.

use std::io;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2a_identity::hmac_sha256;
use a2e_runtime::config::{Config, Notify};
use a2e_runtime::{ApprovalRequest, Secret};
use anyhow::Result;
use audit::UnixMillis;
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::post::Destination;
use crate::screen::{cut, one_line};

/// Someone who is told.
pub(crate) struct Hook {
    /// As it is called in the log.
    name: String,
    way: Way,
}

enum Way {
    Program {
        words: Vec<String>,
        /// Whether what is said stands in its arguments, as `notify-send` takes it, and not on its
        /// standard input.
        is_desktop: bool,
    },
    Webhook {
        destination: Destination,
        secret: Option<Secret>,
    },
}

/// How long a hook may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Characters of what a desktop shows.
const DESKTOP: usize = 300;

impl Hook {
    /// Those that a configuration names.
    pub(crate) fn all(config: &Config) -> Result<Vec<Self>> {
        config.notify.iter().map(Self::new).collect()
    }

    fn new(notify: &Notify) -> Result<Self> {
        Ok(match notify {
            Notify::Desktop => Self {
                name: "desktop".to_owned(),
                way: Way::Program {
                    words: ["notify-send", "--app-name=frith"]
                        .map(str::to_owned)
                        .into(),
                    is_desktop: true,
                },
            },
            Notify::Command(words) => Self {
                name: words.first().cloned().unwrap_or_default(),
                way: Way::Program {
                    words: words.clone(),
                    is_desktop: false,
                },
            },
            Notify::Webhook { url, secret } => Self {
                // The rest of the address may be a secret.
                name: url.split('/').take(3).collect::<Vec<_>>().join("/"),
                way: Way::Webhook {
                    destination: Destination::new(url)?,
                    secret: secret.clone(),
                },
            },
        })
    }

    /// Tells of calls as they become pending. One that is slow misses calls and holds up nothing.
    pub(crate) async fn run(self, mut requests: Receiver<ApprovalRequest>, host: String) {
        loop {
            let request = match requests.recv().await {
                Ok(request) => request,
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(
                        "`notify`: {} was not told of {missed} calls: it is too slow",
                        self.name
                    );
                    continue;
                }
                Err(RecvError::Closed) => return,
            };
            let told = timeout(PATIENCE, self.tell(&request, &host)).await;
            let told = told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = told {
                tracing::warn!(%error, "`notify`: {} was not told of a call", self.name);
            }
        }
    }

    async fn tell(&self, request: &ApprovalRequest, host: &str) -> io::Result<()> {
        match &self.way {
            Way::Program { words, is_desktop } => {
                let (more, input) = match is_desktop {
                    true => (desktop(request), None),
                    false => (Vec::new(), Some(message(request, host))),
                };
                run_program(words, &more, input).await
            }
            Way::Webhook {
                destination,
                secret,
            } => {
                let value = message(request, host);
                let headers = signed(secret.as_ref(), &value, SystemTime::now())?;
                destination.post(headers, &value).await
            }
        }
    }
}

/// What a desktop is given: a title, and a text that is no option and no markup. Other users can see the
/// arguments of a program, so those of the call are not in it.
fn desktop(request: &ApprovalRequest) -> Vec<String> {
    let name = request
        .summary
        .split(['{', '[', '"'])
        .next()
        .unwrap_or_default();
    let text = format!("{}: {}", one_line(&request.agent), one_line(name));
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    ["--", "A call waits for approval", &cut(&text, DESKTOP)]
        .map(str::to_owned)
        .into()
}

/// What everybody else is given.
fn message(request: &ApprovalRequest, host: &str) -> Value {
    json!({
        "event": "approval_pending", "host_id": host, "id": request.id, "agent": request.agent,
        "rule": request.rule, "summary": request.summary,
        "expires": UnixMillis(request.until).to_string(),
    })
}

/// The headers that prove where a body comes from, and when it was sent.
fn signed(secret: Option<&Secret>, value: &Value, now: SystemTime) -> io::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let Some(secret) = secret else {
        return Ok(headers);
    };
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let time = seconds.to_string();
    let body = value.to_string();
    let parts = [time.as_bytes(), b".", body.as_bytes()];
    let mac = hmac_sha256(secret.reveal().as_bytes(), &parts);
    let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let header = |text: &str| HeaderValue::from_str(text).map_err(io::Error::other);
    headers.insert("x-frith-timestamp", header(&time)?);
    headers.insert("x-frith-signature", header(&format!("sha256={hex}"))?);
    Ok(headers)
}

/// Runs a program to its end. It is killed if it takes too long.
async fn run_program(words: &[String], more: &[String], input: Option<Value>) -> io::Result<()> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .args(more)
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // One that does not want to know is no error.
        let _ = stdin.write_all(format!("{input}\n").as_bytes()).await;
    }
    match child.wait().await? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ApprovalRequest {
        ApprovalRequest {
            id: "1".to_owned(),
            agent: "--icon=x".to_owned(),
            rule: "ask".to_owned(),
            summary: format!("<b>\u{1b}]2;{} {{\"path\":\"secret\"}}", "x".repeat(500)),
            until: 0,
        }
    }

    #[test]
    fn desktop_gets_a_text_and_no_options_or_markup() {
        let words = desktop(&request());
        assert_eq!(words[0], "--");
        assert!(
            words[2].starts_with(r"--icon=x: &lt;b&gt;\u{1b}]2;xx"),
            "{words:?}"
        );
        let short = ApprovalRequest {
            summary: "write_file {\"path\":\"secret\"}".to_owned(),
            ..request()
        };
        assert_eq!(desktop(&short)[2], "--icon=x: write_file");
        assert_eq!(words[2].chars().count(), DESKTOP);
    }

    /// As `openssl dgst -sha256 -hmac key` has it of `7.` and the body.
    #[test]
    fn body_is_signed_with_its_time() {
        let value = json!({"a": 1});
        let now = UNIX_EPOCH + Duration::from_secs(7);
        let headers = signed(Some(&Secret::new("key")), &value, now).unwrap();
        assert_eq!(headers["x-frith-timestamp"], "7");
        assert_eq!(headers["x-frith-signature"], SIGNATURE);
        assert!(signed(None, &value, now).unwrap().is_empty());
    }

    const SIGNATURE: &str =
        "sha256=ad368b5d28884a4e90ca5d5d9c7ac043bebf143c241daa6764403e9fa356551e";
}
