//! The section `audit`: the record of what agents did.

use std::time::Duration;

use ::audit::{Retention, Settings, SyncWhen};

use super::read::Field;
use super::sections::{DAY, set};

/// The record of what agents did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Whether there is one.
    pub enabled: bool,
    /// When it goes to the disk.
    pub sync: SyncWhen,
    /// For how long it is kept.
    pub retention: Retention,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: true,
            sync: Settings::default().sync,
            retention: Retention::default(),
        }
    }
}

/// `audit: false`, or a section.
pub(super) fn audit(field: &Field<'_>) -> Option<Audit> {
    let mut audit = Audit::default();
    if field.is_boolean() {
        audit.enabled = field.boolean()?;
        return Some(audit);
    }
    let mut section = field.section()?;
    set(&mut audit.enabled, section.field("enabled"), |it| {
        it.boolean()
    });
    set(&mut audit.sync, section.field("sync"), |it| {
        match it.text()?.parse() {
            Ok(sync) => Some(sync),
            Err(error) => it.wrong(&format!("{error}")),
        }
    });
    let (mut records, mut addresses) = (90, 7);
    set(&mut records, section.field("keep_days"), |it| {
        it.count(7..=36_500)
    });
    set(&mut addresses, section.field("keep_address_days"), |it| {
        it.count(0..=36_500)
    });
    let days = |days: usize| Duration::from_secs(u64::from(DAY).saturating_mul(days as u64));
    if let Ok(retention) = Retention::new(days(records), days(addresses)) {
        audit.retention = retention;
    }
    section.finish();
    Some(audit)
}
