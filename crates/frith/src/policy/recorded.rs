//! The calls in an audit log, and what was decided about them.

use std::path::Path;

use anyhow::{Context, Result};
use audit::{End, Entry, Lines, segments};
use canonical::Value;
use policy::Effect;

use super::Shown;
use crate::keystore::cannot;

/// A call that rules decided about.
pub(super) struct Recorded {
    pub(super) entry: Entry,
    pub(super) decided: Shown,
    /// Whether it was approved, if it waited for the operator.
    pub(super) approved: Option<bool>,
}

/// The rule of calls that were stopped as repetitions: no rule decides so by itself.
pub(super) const REPEAT: &str = "policy.repeat";

impl Recorded {
    /// Reads a record; none if it is no call, or rules did not decide about it.
    pub(super) fn read(entry: Entry) -> Option<Self> {
        entry.text("message_type")?;
        let check = |name: &str| {
            let checks = entry.body.as_ref()?.get("policy_checks")?.as_object()?;
            let Value::String(outcome) = checks.get(name)? else {
                return None;
            };
            Some(outcome == "passed")
        };
        let approved = check("approval");
        let decision = match (check("rule_allowed")?, approved) {
            (false, _) => Effect::Deny,
            (true, Some(_)) => Effect::RequireApproval,
            (true, None) => Effect::Allow,
        };
        let decided = Shown {
            hash: entry.text("rule_hash").and_then(|hash| hash.parse().ok()),
            ..Shown::recorded(decision, entry.text("rule").unwrap_or_default())
        };
        Some(Self {
            entry,
            decided,
            approved,
        })
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.entry.text(name).unwrap_or_default()
    }
}

/// Reads all records of a log, the oldest first. Lines that are none are for `frith audit verify`.
pub(super) fn each(folder: &Path, mut of: impl FnMut(Entry)) -> Result<()> {
    let mut line = Vec::new();
    for segment in segments(folder).with_context(|| cannot("read", folder))? {
        let mut lines = Lines::open(&segment).with_context(|| cannot("read", folder))?;
        while let Some((_, end)) = lines.next_line(&mut line)? {
            if let (End::Newline, Ok(entry)) = (end, Entry::parse(&line)) {
                of(entry);
            }
        }
    }
    Ok(())
}
