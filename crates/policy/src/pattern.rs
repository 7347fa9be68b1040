//! Patterns for names of intents (profile §11.3), and the two lists of them.

use std::fmt;

use crate::intent::{base_length, check_labels, is_version};
use crate::{Error, IntentName, Problem, limits};

/// A pattern of `allowed_intents` or `blocked_intents`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentPattern<T = String> {
    text: T,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    /// `*`
    All,
    /// `a.b.*`: the bytes of `a.b`.
    Under(usize),
    /// A name: the bytes of its base.
    Name(usize),
}

/// Which list a pattern stands in: `a.*` blocks `a` too, but does not allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentList {
    /// `allowed_intents`
    Allowed,
    /// `blocked_intents`
    Blocked,
}

impl Form {
    /// That of a text which is a pattern.
    fn of(text: &str) -> Self {
        match text.strip_suffix(".*") {
            _ if text == "*" => Self::All,
            Some(prefix) => Self::Under(prefix.len()),
            None => Self::Name(base_length(text).unwrap_or(text.len())),
        }
    }
}

impl IntentPattern {
    /// Reads a pattern: `*`, `a.b.*`, or a name with or without a version.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > limits::INTENT {
            let limit = limits::INTENT;
            return Err(Problem::TooMany {
                limit,
                unit: "bytes",
            }
            .into());
        }
        let text = text.to_ascii_lowercase();
        match text.strip_suffix(".*") {
            _ if text == "*" => {}
            Some(prefix) if check_labels(prefix).is_ok() => {}
            None if check_labels(&text).is_ok() => drop(base_length(&text)?),
            Some(_) | None => return Err(FORM.into()),
        }
        let form = Form::of(&text);
        Ok(Self { text, form })
    }
}

impl<'a> IntentPattern<&'a str> {
    /// A pattern that was read before.
    pub(crate) fn known(text: &'a str) -> Self {
        let form = Form::of(text);
        Self { text, form }
    }
}

impl<T: AsRef<str>> IntentPattern<T> {
    /// Whether a name fits, if the pattern stands in this list.
    #[must_use]
    pub fn matches(&self, name: &IntentName, list: IntentList) -> bool {
        match self.form {
            Form::All => true,
            Form::Under(_) => match name.base().strip_prefix(self.base()) {
                Some("") => list == IntentList::Blocked,
                Some(rest) => rest.starts_with('.'),
                None => false,
            },
            Form::Name(_) => {
                let version = self.version();
                (version.is_none() || version == name.version()) && self.fits_base(name.base())
            }
        }
    }

    /// The pattern in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_ref()
    }

    /// What both patterns allow, as one pattern; less where no pattern says it (`a.*` and `b` allow
    /// both `a.b` and `a.x.b`; `a.b` is the answer).
    pub(crate) fn intersection(&self, other: &Self) -> Option<IntentPattern> {
        match (self.form, other.form) {
            (Form::All, _) => Some(other.owned()),
            (_, Form::All) => Some(self.owned()),
            (Form::Under(_), Form::Under(_)) => {
                if self.base() == other.base() || is_under(self.base(), other.base()) {
                    return Some(self.owned());
                }
                is_under(other.base(), self.base()).then(|| other.owned())
            }
            (Form::Under(_), Form::Name(_)) => other.name_under(self.base()),
            (Form::Name(_), Form::Under(_)) => self.name_under(other.base()),
            (Form::Name(_), Form::Name(_)) => self.shared_name(other),
        }
    }

    fn owned(&self) -> IntentPattern {
        IntentPattern {
            text: self.as_str().to_owned(),
            form: self.form,
        }
    }

    /// The part of a pattern that is a name which lies under a prefix.
    fn name_under(&self, prefix: &str) -> Option<IntentPattern> {
        if is_under(self.base(), prefix) {
            return Some(self.owned());
        }
        // A single label fits the last label of any name; of those under the prefix one is named.
        // But one such as `v2` would become its version, and another intent.
        if self.base().contains('.') || is_version(self.base()) {
            return None;
        }
        IntentPattern::parse(&format!("{prefix}.{}", self.as_str())).ok()
    }

    fn shared_name(&self, other: &Self) -> Option<IntentPattern> {
        let base = match (self.fits_base(other.base()), other.fits_base(self.base())) {
            (true, _) => other.base(),
            (false, true) => self.base(),
            (false, false) => return None,
        };
        let version = match (self.version(), other.version()) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        let text = version.map_or_else(|| base.to_owned(), |version| format!("{base}.{version}"));
        IntentPattern::parse(&text).ok()
    }

    fn fits_base(&self, base: &str) -> bool {
        let own = self.base();
        base == own
            || !own.contains('.') && base.rsplit_once('.').is_some_and(|(_, last)| last == own)
    }

    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn base(&self) -> &str {
        match self.form {
            Form::All => "",
            Form::Under(length) | Form::Name(length) => {
                self.as_str().get(..length).unwrap_or_default()
            }
        }
    }

    pub(crate) fn version(&self) -> Option<&str> {
        match self.form {
            Form::All | Form::Under(_) => None,
            Form::Name(length) => self.as_str().get(length..)?.strip_prefix('.'),
        }
    }
}

impl fmt::Display for IntentPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_under(base: &str, prefix: &str) -> bool {
    base.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('.'))
}

const FORM: Problem = Problem::Form("`*`, labels followed by `.*`, or the name of an intent");
