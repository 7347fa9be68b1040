//! What a component tells while it works.

use std::future::Future;
use std::pin::Pin;

/// Something a component tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// So much is done.
    Progress {
        /// In per cent, as the component says; it need not be below 100.
        percent: u8,
        /// In words.
        message: String,
    },
    /// What is done now.
    Status(String),
    /// A line for a log, or lines that it printed.
    Log {
        /// How it is meant.
        level: Level,
        /// The text.
        message: String,
    },
    /// A piece of something that it makes.
    Artifact {
        /// What that is called.
        name: String,
        /// What kind of thing it is.
        mime: String,
        /// The piece.
        chunk: Vec<u8>,
        /// Whether there are no more.
        last: bool,
    },
}

/// How a line of a log is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For whoever looks for a mistake.
    Debug,
    /// As usual; also what it prints to its standard output.
    Info,
    /// Something may be wrong.
    Warn,
    /// Something is wrong; also what it prints to its standard errors.
    Error,
}

/// When an event has been taken. The component waits until then.
pub type Told<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Takes the events of one call.
pub trait Listener: Send + Sync + 'static {
    /// Takes an event; the component goes on when this is done.
    fn tell(&self, event: Event) -> Told<'_>;
}

/// Nobody listens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nobody;

impl Listener for Nobody {
    fn tell(&self, _: Event) -> Told<'_> {
        Box::pin(std::future::ready(()))
    }
}

impl Level {
    /// As logs have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// By its name in the interface.
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Self::Debug, Self::Info, Self::Warn, Self::Error];
        all.into_iter().find(|level| level.as_str() == name)
    }
}

impl Event {
    /// How many bytes the component chose in it.
    pub(super) const fn size(&self) -> usize {
        match self {
            Self::Progress { message, .. } | Self::Status(message) | Self::Log { message, .. } => {
                message.len()
            }
            Self::Artifact {
                name, mime, chunk, ..
            } => name
                .len()
                .saturating_add(mime.len())
                .saturating_add(chunk.len()),
        }
    }
}
