//! The tools `artifact_read` and `artifact_search`.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use grep_searcher::SearcherBuilder;
use grep_searcher::sinks::UTF8;
use serde::Deserialize;
use serde_json::{Value, json};
use store::json_length;

use super::Artifacts;
use crate::expressions;
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure, blocking};

/// Gives pieces of an artifact.
struct Read {
    definition: Definition,
    artifacts: Arc<Artifacts>,
}

/// Finds lines of an artifact.
struct Search {
    definition: Definition,
    artifacts: Arc<Artifacts>,
}

/// How many bytes a piece has at most, also as JSON: it is sent whole, unless the host sends less.
const PIECE: usize = 16_000;

/// How many lines are found at most, and how much of each is shown.
const MAX_FOUND: usize = 200;
const MAX_SHOWN: usize = 200;

pub(super) fn tools(artifacts: &Arc<Artifacts>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let id = json!({"type": "string", "description": "The id of the artifact"});
    let read = json!({
        "type": "object", "additionalProperties": false, "required": ["id"],
        "properties": {
            "id": id,
            "offset": {"type": "integer", "minimum": 0,
                "description": "The byte to begin at; 0 unless given"},
            "limit": {"type": "integer", "minimum": 1, "maximum": PIECE,
                "description": "How many bytes at most; 16000 unless given"},
        },
    });
    let search = json!({
        "type": "object", "additionalProperties": false, "required": ["id", "pattern"],
        "properties": {
            "id": id,
            "pattern": {"type": "string", "description": "A regular expression"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND,
                "description": "How many lines at most; 50 unless given"},
        },
    });
    let tags = ["artifact"];
    let read = Definition::own(
        "artifact_read",
        "Reads a piece of a result that was too large",
        &read,
    )?;
    let search = Definition::own(
        "artifact_search",
        "Finds lines in a result that was too large, with the offsets to read on from",
        &search,
    )?;
    let (first, second) = (Arc::clone(artifacts), Arc::clone(artifacts));
    Ok(vec![
        Arc::new(Read {
            definition: read.read_only().volatile().tags(tags),
            artifacts: first,
        }),
        Arc::new(Search {
            definition: search.read_only().volatile().tags(tags),
            artifacts: second,
        }),
    ])
}

#[derive(Deserialize)]
struct ReadArguments {
    id: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct SearchArguments {
    id: String,
    pattern: String,
    limit: Option<usize>,
}

impl Tool for Read {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let asked: ReadArguments = call.arguments.read()?;
            let text = find(&self.artifacts, &call, &asked.id)?;
            Output::new(&piece(&text, asked.offset, asked.limit.unwrap_or(PIECE)))
        })
    }
}

impl Tool for Search {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let asked: SearchArguments = call.arguments.read()?;
            let text = find(&self.artifacts, &call, &asked.id)?;
            blocking(move || search(&text, &asked)).await
        })
    }
}

fn find(artifacts: &Artifacts, call: &Call, id: &str) -> Result<Arc<str>, ToolFailure> {
    artifacts.get(&call.caller, id).ok_or_else(|| {
        let text = "there is no such artifact: they last as long as their session, and the oldest \
                    go when there are too many; call the tool again that made it";
        ToolFailure::new(text)
    })
}

/// A piece of a text, whole characters, and where the next one begins.
fn piece(text: &str, offset: usize, limit: usize) -> Value {
    let from = text.ceil_char_boundary(offset);
    let rest = text.get(from..).unwrap_or_default();
    let (mut length, mut size) = (0_usize, 0_usize);
    for (at, letter) in rest.char_indices() {
        let end = at.saturating_add(letter.len_utf8());
        size = size.saturating_add(json_length(letter.encode_utf8(&mut [0; 4])));
        if at > 0 && (end > limit || size > PIECE) {
            break;
        }
        length = end;
    }
    let content = rest.get(..length).unwrap_or_default();
    let next = from.saturating_add(length);
    json!({
        "content": content,
        "offset": from,
        "next_offset": (next < text.len()).then_some(next),
        "bytes": text.len(),
    })
}

fn search(text: &str, asked: &SearchArguments) -> Result<Output, ToolFailure> {
    let limit = asked.limit.unwrap_or(50);
    let matcher = expressions::regex(&asked.pattern, |_| {});
    let matcher =
        matcher.map_err(|why| ToolFailure::new(format!("`pattern` cannot be used: {why}")))?;
    let mut found = Vec::new();
    let mut truncated = false;
    let mut offsets = Offsets::new(text);
    let sink = UTF8(|number, line| {
        if found.len() == limit {
            truncated = true;
            return Ok(false);
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let shown = line
            .get(..line.floor_char_boundary(MAX_SHOWN))
            .unwrap_or(line);
        found.push(json!({"line": number, "offset": offsets.of(number), "text": shown}));
        Ok(true)
    });
    SearcherBuilder::new()
        .build()
        .search_slice(&matcher, text.as_bytes(), sink)
        .map_err(|error| ToolFailure::new(format!("the search failed: {error}")))?;
    let output = Output::new(&json!({"matches": found, "truncated": truncated}))?;
    Ok(output.truncated(truncated))
}

/// Where lines begin, asked for in their order.
struct Offsets<'t> {
    text: &'t str,
    line: u64,
    at: usize,
}

impl<'t> Offsets<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            line: 1,
            at: 0,
        }
    }

    fn of(&mut self, line: u64) -> usize {
        while self.line < line {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let end = rest
                .find('\n')
                .map_or(rest.len(), |end| end.saturating_add(1));
            self.at = self.at.saturating_add(end);
            self.line = self.line.saturating_add(1);
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_characters_and_join_to_the_text() {
        let text = "aé€😀".repeat(50);
        for limit in [1, 2, 3, 4, 5, 7, 1000] {
            let (mut joined, mut offset) = (String::new(), Some(0));
            while let Some(at) = offset {
                let piece = piece(&text, usize::try_from(at).unwrap(), limit);
                joined += piece["content"].as_str().unwrap();
                offset = piece["next_offset"].as_u64();
            }
            assert_eq!(joined, text, "{limit}");
        }
        assert_eq!(piece(&text, 10_000, 5)["content"], "");
        let escaped = piece(&"\u{1}".repeat(PIECE), 0, PIECE);
        assert_eq!(escaped["next_offset"], PIECE / 6);
    }

    #[test]
    fn a_search_tells_where_to_read_on() {
        let text = "one\ntwo é\nthree two\n";
        let asked = |limit| SearchArguments {
            id: String::new(),
            pattern: "two".into(),
            limit: Some(limit),
        };
        let output = search(text, &asked(2)).unwrap();
        let data: Value = output.data.deserialize().unwrap();
        assert_eq!(
            data["matches"][0],
            json!({"line": 2, "offset": 4, "text": "two é"})
        );
        assert_eq!(data["matches"][1]["offset"], text.find("three").unwrap());
        assert!(!output.truncated);
        assert!(search(text, &asked(1)).unwrap().truncated);
    }
}
