//! A list of patterns. A session keeps two of them for its life, and whoever began it may have asked
//! for a thousand patterns: so they are one text, and not a thousand.

use std::sync::Arc;

use crate::IntentPattern;

/// `allowed_intents` or `blocked_intents`. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IntentPatterns {
    /// A pattern a line.
    text: Arc<str>,
}

impl IntentPatterns {
    pub(crate) fn iter(&self) -> impl Iterator<Item = IntentPattern<&str>> {
        self.text.lines().map(IntentPattern::known)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes of the text.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }
}

impl<T: AsRef<str>> FromIterator<IntentPattern<T>> for IntentPatterns {
    fn from_iter<I: IntoIterator<Item = IntentPattern<T>>>(patterns: I) -> Self {
        let mut text = String::new();
        for pattern in patterns {
            text.push_str(pattern.as_str());
            text.push('\n');
        }
        Self { text: text.into() }
    }
}
