//! Texts with places for arguments: `{name}` is one, `{{` and `}}` are braces.

use serde_json::Value;

/// A part of such a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Place(String),
}

/// Takes a text apart; nothing if a brace has no partner.
pub(crate) fn parse(word: &str) -> Option<Vec<Piece>> {
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.peek() == Some(&letter) => {
                letters.next();
                text.push(letter);
            }
            '{' => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                let mut name = String::new();
                loop {
                    match letters.next()? {
                        '}' => break,
                        letter => name.push(letter),
                    }
                }
                pieces.push(Piece::Place(name));
            }
            '}' => return None,
            letter => text.push(letter),
        }
    }
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Some(pieces)
}

/// The arguments that there are places for.
pub(crate) fn places<'p>(
    pieces: impl IntoIterator<Item = &'p Piece>,
) -> impl Iterator<Item = &'p String> {
    pieces.into_iter().filter_map(|piece| match piece {
        Piece::Place(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// The text, with arguments in their places; the items of a list stand with commas between them.
pub(crate) fn join(pieces: &[Piece], arguments: &Value) -> String {
    let fill = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Place(name) => each(arguments.get(name)).join(","),
    };
    pieces.iter().map(fill).collect()
}

/// A value as texts: each item of a list is one, and nothing is none.
pub(crate) fn each(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    }
}

/// A value as one text: a string as it is, anything else as JSON.
pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn braces() {
        assert_eq!(
            parse("a{b}c"),
            Some(vec![
                Piece::Text("a".into()),
                Piece::Place("b".into()),
                Piece::Text("c".into()),
            ])
        );
        assert_eq!(parse(""), Some(vec![Piece::Text(String::new())]));
        for wrong in ["{", "}", "{a", "a}b"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn values_are_texts() {
        let arguments = json!({"a": [1, "b", true], "c": "d", "e": null});
        let pieces = parse("{a}-{c}-{e}-{f}").unwrap();
        assert_eq!(join(&pieces, &arguments), "1,b,true-d--");
        assert_eq!(places(&pieces).collect::<Vec<_>>(), ["a", "c", "e", "f"]);
    }
}
