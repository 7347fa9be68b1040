//! Results cut to a size that can be sent; what is cut out is kept as artifacts.

use a2e_wire::Raw;
use serde_json::{Map, Value, json};

/// How many bytes of JSON a result may have, unless configured otherwise.
pub const INLINE_LIMIT: usize = 32_000;

/// A result that can be sent.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) data: Raw<'static>,
    pub(super) truncated: bool,
    pub(super) summary: Option<String>,
}

/// Texts shorter than this stay whole.
const WORTH_CUTTING: usize = 1024;

/// How often pieces are made smaller, until a result fits. Escaping can make six bytes of one.
const ATTEMPTS: u32 = 8;

const SUMMARY: usize = 500;

/// Cuts a result that is larger than the limit. The long texts of an object become heads and tails
/// where they stand, and the rest of it stays; anything else becomes a head and a tail as a whole.
/// `keep` keeps a text and gives its id.
pub(super) fn cut(
    data: Raw<'static>,
    limit: usize,
    mut keep: impl FnMut(String) -> Option<String>,
) -> Cut {
    let size = data.as_str().len();
    if size <= limit {
        return Cut {
            data,
            truncated: false,
            summary: None,
        };
    }
    let value = data.deserialize().unwrap_or(Value::Null);
    if let Value::Object(members) = &value
        && let Some(long) = texts(members, size, limit)
    {
        return cut_texts(members, &long, limit, keep);
    }
    let is_text = value.is_string();
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None => format!("{value:#}"),
    };
    let media = if is_text {
        "text/plain"
    } else {
        "application/json"
    };
    let summary = head(&text, SUMMARY).to_owned();
    let id = keep(text.clone());
    let whole = |piece: usize| {
        let artifact = json!({"id": id, "bytes": text.len(), "media_type": media});
        json!({
            "artifact": artifact,
            "head": head(&text, piece),
            "tail": tail(&text, piece),
            "hint": hint(id.as_deref()),
        })
    };
    Cut {
        data: fitting(limit, limit / 3, whole),
        truncated: true,
        summary: Some(summary),
    }
}

/// The long texts of an object, if the rest of it is small enough.
fn texts(members: &Map<String, Value>, size: usize, limit: usize) -> Option<Vec<String>> {
    let mut long: Vec<(&String, usize)> = members
        .iter()
        .filter(|(_, value)| value.is_string())
        // As it is sent, with its escapes.
        .map(|(name, value)| (name, value.to_string().len()))
        .filter(|(_, length)| *length >= WORTH_CUTTING)
        .collect();
    long.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    let cut: usize = long.iter().map(|(_, length)| length).sum();
    let rest = size.saturating_sub(cut);
    (rest <= limit / 2).then(|| long.into_iter().map(|(name, _)| name.clone()).collect())
}

fn cut_texts(
    members: &Map<String, Value>,
    long: &[String],
    limit: usize,
    mut keep: impl FnMut(String) -> Option<String>,
) -> Cut {
    let mut artifacts = Map::new();
    let mut ids = Vec::new();
    let share = limit / 3 / long.len().max(1);
    for name in long {
        let Some(text) = members.get(name).and_then(Value::as_str) else {
            continue;
        };
        // The shorter ones may fit as they are.
        if text.len() <= share {
            continue;
        }
        let id = keep(text.to_owned());
        artifacts.insert(name.clone(), json!({"id": id, "bytes": text.len()}));
        ids.push((name, id));
    }
    let whole = |piece: usize| {
        let mut members = members.clone();
        for (name, id) in &ids {
            let Some(Value::String(text)) = members.get_mut(*name) else {
                continue;
            };
            let (begin, end) = (head(text, piece), tail(text, piece));
            let left_out = text
                .len()
                .saturating_sub(begin.len())
                .saturating_sub(end.len());
            if left_out > 0 {
                let hint = hint(id.as_deref());
                *text = format!("{begin}\n… {left_out} bytes left out; {hint} …\n{end}");
            }
        }
        members.insert("artifacts".into(), artifacts.clone().into());
        Value::Object(members)
    };
    let longest = long.first().and_then(|name| members.get(name)?.as_str());
    Cut {
        data: fitting(limit, share, whole),
        truncated: true,
        summary: longest.map(|text| head(text, SUMMARY).to_owned()),
    }
}

/// The result with pieces as large as fit.
fn fitting(limit: usize, piece: usize, whole: impl Fn(usize) -> Value) -> Raw<'static> {
    let pieces = (0..ATTEMPTS).map(|attempt| piece >> attempt);
    let results = pieces.map(|piece| Raw::from_serialize(&whole(piece)));
    let mut last = Raw::NULL;
    for result in results.flatten() {
        let fits = result.as_str().len() <= limit;
        last = result;
        if fits {
            break;
        }
    }
    last
}

fn hint(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("artifact_read and artifact_search have it all as `{id}`"),
        None => "it was not kept; ask for less".into(),
    }
}

/// The beginning of a text, whole characters.
fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// The end of a text that is not in its head.
fn tail(text: &str, bytes: usize) -> &str {
    let rest = text.get(head(text, bytes).len()..).unwrap_or_default();
    let from = rest.len().saturating_sub(bytes);
    rest.get(rest.ceil_char_boundary(from)..)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 8000;

    fn cut_of(value: &Value) -> (Cut, Vec<String>) {
        let mut kept = Vec::new();
        let raw = Raw::from_serialize(value).unwrap();
        let cut = cut(raw, LIMIT, |text| {
            kept.push(text);
            Some(format!("id{}", kept.len()))
        });
        assert!(
            cut.data.as_str().len() <= LIMIT,
            "{}",
            cut.data.as_str().len()
        );
        (cut, kept)
    }

    /// A JSON string of exactly so many bytes.
    fn of_size(bytes: usize) -> Value {
        Value::String("x".repeat(bytes - 2))
    }

    #[test]
    fn what_fits_stays() {
        let (cut, kept) = cut_of(&of_size(LIMIT));
        assert!(!cut.truncated && kept.is_empty());
        let (cut, kept) = cut_of(&of_size(LIMIT + 1));
        assert!(cut.truncated);
        assert_eq!(kept, ["x".repeat(LIMIT - 1)]);
    }

    #[test]
    fn long_texts_of_an_object_are_cut_where_they_stand() {
        let long = "é".repeat(20_000);
        let (cut, kept) = cut_of(&json!({"stdout": long, "stderr": "short", "exit_code": 3}));
        let data: Value = cut.data.deserialize().unwrap();
        assert_eq!(data["exit_code"], 3);
        assert_eq!(data["stderr"], "short");
        let shown = data["stdout"].as_str().unwrap();
        assert!(shown.starts_with("éé") && shown.ends_with("éé") && shown.contains("id1"));
        assert_eq!(
            data["artifacts"]["stdout"],
            json!({"id": "id1", "bytes": 40_000})
        );
        assert_eq!(kept, [long]);
    }

    #[test]
    fn anything_else_is_cut_as_a_whole() {
        let list: Vec<_> = (0..5000).map(|number| json!({"number": number})).collect();
        let (cut, kept) = cut_of(&json!({ "list": list }));
        let data: Value = cut.data.deserialize().unwrap();
        assert_eq!(data["artifact"]["media_type"], "application/json");
        assert!(data["head"].as_str().unwrap().starts_with("{\n  \"list\""));
        let back: Value = serde_json::from_str(&kept[0]).unwrap();
        assert_eq!(back, json!({ "list": list }));
    }

    #[test]
    fn escapes_do_not_make_it_too_large() {
        cut_of(&json!("\u{1}".repeat(20_000)));
        cut_of(&json!({"a": "\u{1}".repeat(20_000), "b": "\"".repeat(9000), "c": 1}));
        cut_of(&json!({"a": "é\u{1}".repeat(9000), "b": ["x".repeat(9000)]}));
    }
}
