//! Reading a line.

use canonical::{Digest, base64url};

use super::{Content, RemoteIp, is_log_id, is_log_id_byte};
use crate::random::Salt;
use crate::{FaultKind, UnixMillis};

/// Reads the one layout there is, from left to right.
pub(super) struct Scan<'a> {
    pub(super) line: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(super) fn takes(&mut self, text: &str) -> bool {
        let is_there = self.rest().starts_with(text.as_bytes());
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    pub(super) fn pass(&mut self, text: &str) -> Result<(), FaultKind> {
        match self.takes(text) {
            true => Ok(()),
            false => Err(FaultKind::Form("it has not the form of a record")),
        }
    }

    pub(super) fn end(&self) -> Result<(), FaultKind> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(FaultKind::Form("something stands behind it")),
        }
    }

    /// A text up to its quotation mark, which is passed.
    fn quoted(&mut self, is_allowed: impl Fn(u8) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let length = rest.iter().position(|byte| *byte == b'"')?;
        let text = rest.get(..length)?;
        self.at += length + 1;
        match text.iter().all(|byte| is_allowed(*byte)) {
            true => std::str::from_utf8(text).ok(),
            false => None,
        }
    }

    pub(super) fn word(&mut self, is_allowed: impl Fn(u8) -> bool) -> Result<&'a str, FaultKind> {
        let word = self.quoted(is_allowed);
        word.filter(|word| (1..=64).contains(&word.len()))
            .ok_or(FaultKind::Form("its event_type is no word"))
    }

    pub(super) fn log_id(&mut self) -> Result<&'a str, FaultKind> {
        let log_id = self.quoted(is_log_id_byte);
        log_id
            .filter(|log_id| is_log_id(log_id))
            .ok_or(FaultKind::Form("its log_id is none"))
    }

    pub(super) fn hash(&mut self) -> Result<Digest, FaultKind> {
        const LENGTH: usize = "sha256:".len() + 64;
        let text = match self.rest().split_at_checked(LENGTH) {
            Some((text, [b'"', ..])) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        self.at += LENGTH + 1;
        text.and_then(|text| text.parse().ok())
            .ok_or(FaultKind::Form("a hash is none"))
    }

    pub(super) fn time(&mut self) -> Result<(UnixMillis, &'a str), FaultKind> {
        let text = self.quoted(|byte| byte.is_ascii());
        text.and_then(|text| Some((UnixMillis::parse(text)?, text)))
            .ok_or(FaultKind::Form("a time is none"))
    }

    fn salt(&mut self) -> Result<Salt, FaultKind> {
        let text = self.quoted(|byte| byte.is_ascii());
        let bytes = text.and_then(|text| base64url::decode(text).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Salt).ok_or(FaultKind::Form("a salt is none"))
    }

    pub(super) fn integer(&mut self) -> Result<u64, FaultKind> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let text = self.rest().get(..digits.count()).unwrap_or_default();
        self.at += text.len();
        let value = match text {
            [b'1'..=b'9', ..] => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok()),
            _ => None,
        };
        value
            .filter(|value| *value < 1 << 53)
            .ok_or(FaultKind::Form("its seq is none"))
    }

    pub(super) fn body(&mut self) -> Result<Content<'a>, FaultKind> {
        self.pass(",\"body_salt\":\"")?;
        let salt = self.salt()?;
        let remote_ip = match self.takes(",\"remote_ip\":\"") {
            true => {
                let text =
                    self.quoted(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':' | b'.'));
                let text = text.filter(|text| text.len() <= 45);
                let text = text.ok_or(FaultKind::Form("its remote_ip is none"))?;
                self.pass(",\"remote_ip_salt\":\"")?;
                let salt = self.salt()?;
                Some(RemoteIp { text, salt })
            }
            false => None,
        };
        if self.rest() != b"}" {
            self.pass(",")?;
            // An empty body has no comma before its end.
            if self.rest() == b"}" {
                return Err(FaultKind::Form("it has not the form of a record"));
            }
        }
        let members = self.rest();
        self.at = self.line.len();
        Ok(Content::Body {
            salt,
            remote_ip,
            members,
        })
    }
}
