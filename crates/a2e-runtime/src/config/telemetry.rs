//! The section `telemetry`: what a node says about itself.

use std::path::PathBuf;

use hyper::header::{HeaderName, HeaderValue};

use super::read::Field;
use super::sections::{MIB, Reader, set, set_some};
use crate::nearest::nearest;
use crate::secret::Secret;

/// What a node says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Which messages are logged: a level, or levels by module as in `info,a2e_runtime=debug`.
    pub log: String,
    /// How they are written.
    pub log_format: LogFormat,
    /// Where they are written, if not to standard error.
    pub log_file: Option<PathBuf>,
    /// So large may the file become; then another is begun.
    pub log_file_bytes: u64,
    /// How many of those before it are kept.
    pub log_files: usize,
    /// Where an OpenTelemetry collector takes spans, as `http://ADDRESS:PORT` or `https://`.
    pub otlp: Option<String>,
    /// What the collector wants to see with each request, such as who sends it.
    pub otlp_headers: Vec<(String, Secret)>,
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
            log_file: None,
            log_file_bytes: 16 << 20,
            log_files: 5,
            otlp: None,
            otlp_headers: Vec::new(),
        }
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl Reader<'_> {
    pub(super) fn telemetry(&self, field: &Field<'_>) -> Option<Telemetry> {
        let mut telemetry = Telemetry::default();
        let mut section = field.section()?;
        set(&mut telemetry.log, section.field("log"), levels);
        set(
            &mut telemetry.log_format,
            section.field("log_format"),
            |it| it.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        );
        set_some(&mut telemetry.log_file, section.field("log_file"), |it| {
            self.path(it)
        });
        let bytes = section.field("log_file_bytes");
        set(&mut telemetry.log_file_bytes, bytes, |it| {
            it.integer(64 * 1024..=1024 * MIB)?.try_into().ok()
        });
        set(&mut telemetry.log_files, section.field("log_files"), |it| {
            it.count(0..=100)
        });
        set_some(&mut telemetry.otlp, section.field("otlp"), collector);
        let headers = section.field("otlp_headers");
        let url = telemetry.otlp.as_deref().unwrap_or_default();
        set(
            &mut telemetry.otlp_headers,
            headers,
            |it| match is_for_everybody(url) {
                true => {
                    it.wrong("would be readable on the network: `otlp` must begin with https://")
                }
                false => self.headers(it),
            },
        );
        section.finish();
        Some(telemetry)
    }
}

impl Reader<'_> {
    /// Headers that can be sent.
    fn headers(&self, field: &Field<'_>) -> Option<Vec<(String, Secret)>> {
        let headers = self.secrets(field)?;
        for (name, value) in &headers {
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                let name: String = name.chars().take(64).collect();
                return field.wrong(&format!("has a name that is no header's: `{name}`"));
            }
            if HeaderValue::from_str(value.reveal()).is_err() {
                return field.wrong(&format!("has a value that no header can have: `{name}`"));
            }
        }
        Some(headers)
    }
}

/// Where a collector is.
fn collector(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let rest = rest.unwrap_or_default();
    let is_place = !rest.is_empty() && !rest.starts_with([':', '/']);
    match is_place
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
    {
        true => Some(text),
        false => field.wrong(
            "must be http://ADDRESS:PORT or https://NAME, such as http://127.0.0.1:4318; \
             credentials belong into `otlp_headers`",
        ),
    }
}

/// Whether others can read what is sent there.
pub(super) fn is_for_everybody(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host
        .parse()
        .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    !is_here && host != "localhost"
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
