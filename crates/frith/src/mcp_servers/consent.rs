//! Who says that something may be done.

use std::io::IsTerminal as _;
use std::thread;

use tokio::sync::oneshot;

use crate::screen::message;

/// Who says that something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Whoever started this, to what is known before a start.
    Given,
    /// Somebody at the terminal, to each question.
    Terminal,
    /// Nobody.
    Missing,
}

impl Consent {
    /// By the option `--yes`, or by the terminal there is.
    pub(crate) fn of(yes: bool) -> Self {
        match yes {
            true => Self::Given,
            false if is_terminal() => Self::Terminal,
            false => Self::Missing,
        }
    }

    /// Asks for what `--yes` does not cover: somebody at the terminal says it, or nobody.
    pub(crate) async fn ask_beyond(self, question: &str) -> bool {
        match self {
            Self::Given if !is_terminal() => {
                tell!("  {}: no, `--yes` does not cover it", message(question));
                false
            }
            Self::Given => Self::Terminal.ask(question).await,
            Self::Missing | Self::Terminal => self.ask(question).await,
        }
    }

    /// Asks, and waits for the answer; what is asked is shown in each case.
    pub(crate) async fn ask(self, question: &str) -> bool {
        match self {
            Self::Given => {
                tell!("  {}: yes", message(question));
                true
            }
            Self::Missing => false,
            Self::Terminal => {
                tell!("  {}? [y/N]", message(question));
                let (answer, heard) = oneshot::channel();
                // Nobody waits for it when this command is interrupted.
                thread::spawn(move || {
                    let mut line = String::new();
                    let _ = std::io::stdin().read_line(&mut line);
                    let _ = answer.send(line);
                });
                let line = heard.await.unwrap_or_default();
                matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
            }
        }
    }
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
