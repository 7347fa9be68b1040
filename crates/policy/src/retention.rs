//! How long payload data is kept (profile §11.4).

use std::fmt;
use std::time::Duration;

/// `data_retention`. A shorter one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retention {
    /// Gone when the answer is sent.
    None,
    /// Gone when the session is closed or expires.
    Session,
    /// Gone a day after receipt.
    Day,
    /// Gone a week after receipt.
    Week,
    /// Gone 30 days after receipt.
    Month,
    /// May stay.
    Permanent,
}

/// Until when payload data may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the answer is sent.
    Answer,
    /// Until the session is closed or expires.
    Session,
    /// For this long after receipt; it must be gone [`Retention::GRACE`] later.
    After(Duration),
    /// For ever.
    Unlimited,
}

impl Retention {
    /// How much longer than its time data may exist, for purges to run.
    pub const GRACE: Duration = Duration::from_secs(3600);

    const WORDS: [(Self, &'static str); 6] = [
        (Self::None, "none"),
        (Self::Session, "session"),
        (Self::Day, "24h"),
        (Self::Week, "7d"),
        (Self::Month, "30d"),
        (Self::Permanent, "permanent"),
    ];

    /// The retention of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let known = Self::WORDS.iter().find(|(_, word)| *word == name);
        known.map(|(retention, _)| *retention)
    }

    /// The name, as a policy has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(retention, _)| *retention == self);
        known.map_or("none", |(_, word)| word)
    }

    /// Until when data may be kept.
    #[must_use]
    pub const fn lifetime(self) -> Lifetime {
        const DAY: u64 = 24 * 60 * 60;
        match self {
            Self::None => Lifetime::Answer,
            Self::Session => Lifetime::Session,
            Self::Day => Lifetime::After(Duration::from_secs(DAY)),
            Self::Week => Lifetime::After(Duration::from_secs(7 * DAY)),
            Self::Month => Lifetime::After(Duration::from_secs(30 * DAY)),
            Self::Permanent => Lifetime::Unlimited,
        }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
