//! The section `telemetry`: what a node says about itself.

use super::read::Field;
use super::sections::{set, set_some};
use crate::nearest::nearest;

/// What a node says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Which messages are logged: a level, or levels by module as in `info,a2e_runtime=debug`.
    pub log: String,
    /// How they are written.
    pub log_format: LogFormat,
    /// Where an OpenTelemetry collector takes spans, as `http://ADDRESS:PORT`.
    pub otlp: Option<String>,
}

/// How log messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            otlp: None,
        }
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn telemetry(field: &Field<'_>) -> Option<Telemetry> {
    let mut telemetry = Telemetry::default();
    let mut section = field.section()?;
    set(&mut telemetry.log, section.field("log"), levels);
    set(
        &mut telemetry.log_format,
        section.field("log_format"),
        |it| it.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
    );
    set_some(&mut telemetry.otlp, section.field("otlp"), collector);
    section.finish();
    Some(telemetry)
}

/// Where a collector is. Spans have no secrets, and a collector beside the node can send them on over TLS.
fn collector(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    let rest = text.strip_prefix("http://").unwrap_or_default();
    let is_place = !rest.is_empty() && !rest.starts_with([':', '/']);
    match is_place
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
    {
        true => Some(text),
        false => field.wrong("must be http://ADDRESS:PORT, such as http://127.0.0.1:4318"),
    }
}

/// A level, or levels by module as in `info,a2e_runtime=debug`.
fn levels(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    for part in text.split(',') {
        let level = part.rsplit('=').next().unwrap_or_default().trim();
        if LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            continue;
        }
        let hint = match nearest(level, LEVELS) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!(
                "known are {}, also by module: info,a2e_runtime=debug",
                LEVELS.join(", ")
            ),
        };
        let level: String = level.chars().take(64).collect();
        return field.wrong(&format!("has an unknown level `{level}`; {hint}"));
    }
    Some(text)
}
