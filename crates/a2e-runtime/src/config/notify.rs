//! The list `notify`: who is told that a call waits for approval.

use super::read::Field;
use super::sections::{Reader, set_some};
use super::telemetry::is_for_everybody;
use crate::secret::Secret;

/// Who is told that a call waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notify {
    /// The desktop of the user who runs the node.
    Desktop,
    /// A program and its arguments, which gets JSON on its standard input.
    Command(Vec<String>),
    /// A server, which gets the same as the body of a request.
    Webhook {
        /// Where it is.
        url: String,
        /// What the body is signed with.
        secret: Option<Secret>,
    },
}

/// The most of them.
const MAX: usize = 16;

impl Reader<'_> {
    pub(super) fn notify(&self, field: &Field<'_>) -> Option<Vec<Notify>> {
        let all: Vec<Notify> = field.list()?.filter_map(|it| self.hook(&it)).collect();
        match all.len() {
            ..=MAX => Some(all),
            _ => field.wrong(&format!("may have {MAX} entries")),
        }
    }

    fn hook(&self, field: &Field<'_>) -> Option<Notify> {
        #[derive(Clone, Copy)]
        enum Kind {
            Desktop,
            Command,
            Webhook,
        }
        let mut section = field.section()?;
        let kind = section.required("type", field.at())?;
        let kinds = [
            ("desktop", Kind::Desktop),
            ("command", Kind::Command),
            ("webhook", Kind::Webhook),
        ];
        let hook = match kind.choice(&kinds)? {
            Kind::Desktop => Some(Notify::Desktop),
            Kind::Command => section.required("command", field.at()).and_then(|it| {
                let words = it.words()?;
                match words.is_empty() {
                    false => Some(Notify::Command(words)),
                    true => it.wrong("needs a program, and then its arguments"),
                }
            }),
            Kind::Webhook => {
                let mut secret = None;
                set_some(&mut secret, section.field("secret"), |it| self.secret(it));
                let url = section.required("url", field.at());
                url.and_then(|it| address(&it))
                    .map(|url| Notify::Webhook { url, secret })
            }
        };
        section.finish();
        hook
    }
}

/// Where a server is that nobody on the way can read along with.
fn address(field: &Field<'_>) -> Option<String> {
    let url = field.word()?;
    let parsed: Option<hyper::Uri> = url.parse().ok();
    let is_good = parsed.is_some_and(|it| {
        let scheme = it
            .scheme_str()
            .is_some_and(|it| matches!(it, "http" | "https"));
        scheme && it.authority().is_some_and(|it| !it.as_str().contains('@'))
    });
    match is_good {
        false => field.wrong("must be https://NAME/PATH, without a user name"),
        true if is_for_everybody(&url) => {
            field.wrong("would be readable on the network: it must begin with https://")
        }
        true => Some(url),
    }
}
