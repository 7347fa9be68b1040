//! The path and the query of a URL, with places for arguments.

use serde_json::Value;

use crate::http::{Kept, encode};
use crate::template::{Piece, each, parse, places};
use crate::tool::ToolFailure;

/// What follows the host of a URL.
#[derive(Debug)]
pub(super) struct UrlTemplate {
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
}

impl UrlTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !is_url_text(text) {
            return Err("it must be ASCII without spaces; percent-encode the rest".to_owned());
        }
        if text.contains('#') {
            return Err("it must not have a fragment (`#`), which is never sent".to_owned());
        }
        let apart = |text: &str| {
            parse(text).ok_or("a brace is not closed; a brace itself is written {{ or }}")
        };
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(apart(query)?)),
            None => (text, None),
        };
        let path = match path {
            "" => "/",
            path => path,
        };
        Ok(Self {
            path: apart(path)?,
            query,
        })
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        places(self.path.iter().chain(self.query.iter().flatten()))
    }

    /// Path and query, with arguments in their places and more of the query behind it.
    pub(super) fn fill<'q>(
        &self,
        arguments: &Value,
        more: impl Iterator<Item = (&'q str, String)>,
    ) -> Result<String, ToolFailure> {
        let mut filled = String::new();
        for piece in &self.path {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place(name) => filled.push_str(&segment(name, arguments)?),
            }
        }
        check_dots(&filled)?;
        let mut begin = '?';
        if let Some(query) = &self.query {
            filled.push(begin);
            begin = '&';
            for piece in query {
                match piece {
                    Piece::Text(text) => filled.push_str(text),
                    Piece::Place(name) => {
                        let value = each(arguments.get(name)).join(",");
                        filled.push_str(&encode(&value, Kept::Unreserved));
                    }
                }
            }
        }
        for (name, value) in more {
            filled.push(begin);
            begin = '&';
            filled.push_str(&encode(name, Kept::Unreserved));
            filled.push('=');
            filled.push_str(&encode(&value, Kept::Unreserved));
        }
        Ok(filled)
    }
}

/// Whether a text has nothing in it that a URL cannot have.
pub(crate) fn is_url_text(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An argument as a part of a path. One that is empty would make another path of it.
fn segment(name: &str, arguments: &Value) -> Result<String, ToolFailure> {
    let value = each(arguments.get(name)).join(",");
    match value.is_empty() {
        true => Err(ToolFailure::new(format!(
            "`{name}` must not be empty: it is a part of a path"
        ))),
        false => Ok(encode(&value, Kept::Unreserved)),
    }
}

/// No argument may lead upwards: servers take `..` for the folder above.
pub(crate) fn check_dots(path: &str) -> Result<(), ToolFailure> {
    match path.split('/').any(|part| matches!(part, "." | "..")) {
        true => Err(ToolFailure::denied(
            "path",
            "a part of the path must be neither `.` nor `..`",
        )),
        false => Ok(()),
    }
}
