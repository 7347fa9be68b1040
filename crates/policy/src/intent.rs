//! Names of intents (profile §11.3): one canonical name for filter and dispatch.

use std::cmp::Ordering;
use std::fmt;

use crate::{Error, Problem, limits};

/// The canonical name of an intent: lower case, domain and goal in one, with or without a version.
///
/// ```
/// use policy::IntentName;
///
/// let name = IntentName::of("NLP", "Translate.v2")?;
/// assert_eq!(name.as_str(), "nlp.translate.v2");
/// assert_eq!((name.base(), name.version()), ("nlp.translate", Some("v2")));
/// assert_eq!(name, IntentName::of("", "nlp.translate.v2")?);
/// # Ok::<(), policy::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentName {
    text: String,
    /// Bytes of the base; the version, if any, follows after a dot.
    base: usize,
}

impl IntentName {
    /// The name of an intent with this domain, which may be empty, and this goal.
    ///
    /// # Errors
    /// Names the member that is malformed; to a peer this is `INVALID_INTENT`.
    pub fn of(domain: &str, goal: &str) -> Result<Self, Error> {
        if !domain.is_empty() {
            check_labels(domain).map_err(|problem| Error::at("domain", problem))?;
        }
        check_labels(goal).map_err(|problem| Error::at("goal", problem))?;
        // Without regard to case: `NLP` + `nlp.translate` must not become a name of its own.
        let (start, rest) = goal.split_at_checked(domain.len()).unwrap_or_default();
        let qualified = start.eq_ignore_ascii_case(domain) && rest.starts_with('.');
        let mut text =
            String::with_capacity(domain.len().saturating_add(goal.len()).saturating_add(1));
        if !domain.is_empty() && !qualified {
            text.push_str(domain);
            text.push('.');
        }
        text.push_str(goal);
        text.make_ascii_lowercase();
        if text.len() > limits::INTENT {
            return Err(Error::at("goal", TOO_LONG));
        }
        let base = base_length(&text).map_err(|problem| Error::at("goal", problem))?;
        Ok(Self { text, base })
    }

    /// A whole name, as a handler or a capability of a manifest has it.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(name: &str) -> Result<Self, Error> {
        Self::of("", name).map_err(|error| Error::from(error.problem))
    }

    /// The handler that serves a request for this name: exact base and version, or without a version
    /// the highest one offered. An offer without a version is lower than every version.
    pub fn resolve<'a>(&self, offered: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        let fits = |offer: &&Self| match self.version() {
            Some(_) => **offer == *self,
            None => offer.base() == self.base(),
        };
        let offered = offered.into_iter().filter(fits);
        offered.max_by(|a, b| compare_versions(a.version(), b.version()))
    }

    /// Splits a name into the domain and the goal that it is sent as. Without a domain all labels before
    /// the last one are it; a version belongs to the goal. An empty domain leaves the name to the goal.
    ///
    /// ```
    /// use policy::IntentName;
    ///
    /// assert_eq!(IntentName::split("nlp.translate.v2", None), ("nlp", "translate.v2"));
    /// assert_eq!(IntentName::split("com.example.nlp.translate", None), ("com.example.nlp", "translate"));
    /// assert_eq!(IntentName::split("com.example.nlp.translate", Some("com.example")), ("com.example", "nlp.translate"));
    /// assert_eq!(IntentName::split("translate", Some("nlp")), ("nlp", "translate"));
    /// assert_eq!(IntentName::split("nlp.translate", Some("")), ("", "nlp.translate"));
    /// ```
    #[must_use]
    pub fn split<'a>(name: &'a str, domain: Option<&'a str>) -> (&'a str, &'a str) {
        let Some(domain) = domain else {
            let base = base_length(name).unwrap_or(name.len());
            let labels = name.get(..base).unwrap_or(name);
            let Some((domain, _)) = labels.rsplit_once('.') else {
                return ("", name);
            };
            return Self::split(name, Some(domain));
        };
        let rest = name.split_at_checked(domain.len());
        let rest = rest.filter(|(start, _)| start.eq_ignore_ascii_case(domain));
        let goal = rest.and_then(|(_, rest)| rest.strip_prefix('.'));
        (domain, goal.unwrap_or(name))
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name without its version.
    #[must_use]
    pub fn base(&self) -> &str {
        self.text.get(..self.base).unwrap_or(&self.text)
    }

    /// The version: `v` and digits.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.text.get(self.base..)?.strip_prefix('.')
    }
}

impl fmt::Display for IntentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Labels joined by dots.
pub(crate) fn check_labels(text: &str) -> Result<(), Problem> {
    if text.len() > limits::INTENT {
        return Err(TOO_LONG);
    }
    let label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=limits::LABEL).contains(&label.len()) && label.bytes().all(allowed)
    };
    match text.split('.').all(label) {
        true => Ok(()),
        false => Err(LABELS),
    }
}

/// Bytes before the version; all of them if there is none.
pub(crate) fn base_length(text: &str) -> Result<usize, Problem> {
    match text.rsplit_once('.') {
        Some((base, last)) if is_version(last) => {
            let second = base.rsplit_once('.').is_some_and(|(_, it)| is_version(it));
            match second {
                true => Err(Problem::Form("a name with one version at most")),
                false => Ok(base.len()),
            }
        }
        _ => Ok(text.len()),
    }
}

pub(crate) fn is_version(label: &str) -> bool {
    label.strip_prefix('v').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// By number, of any length; those that differ in leading zeros only, by text.
fn compare_versions(a: Option<&str>, b: Option<&str>) -> Ordering {
    version_key(a).cmp(&version_key(b))
}

fn version_key(version: Option<&str>) -> Option<(usize, &str, &str)> {
    let version = version?;
    let number = version.trim_start_matches('v').trim_start_matches('0');
    Some((number.len(), number, version))
}

const TOO_LONG: Problem = Problem::TooMany {
    limit: limits::INTENT,
    unit: "bytes",
};
const LABELS: Problem =
    Problem::Form("labels of 1 to 63 letters, digits, `_` and `-`, joined by dots");
