//! How values are written into requests (OpenAPI 3.1, section 4.8.12.3, "Style Values").

use serde_json::Value;

use crate::http::{Kept, encode};
use crate::template::text;

/// How a parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    /// As JSON: the parameter has `content`.
    Json,
}

/// A way to write values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) style: Style,
    pub(super) explode: bool,
    /// What stays as it is in a URL.
    pub(super) kept: Kept,
}

impl Style {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }
}

/// A value, taken apart: what stands alone has no names.
enum Parts {
    One(String),
    List(Vec<String>),
    Object(Vec<(String, String)>),
}

fn parts(value: &Value, write: impl Fn(&str) -> String) -> Parts {
    match value {
        Value::Array(list) => Parts::List(list.iter().map(|it| write(&text(it))).collect()),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let pair = |(name, value): (&String, &Value)| (write(name), write(&text(value)));
            Parts::Object(members.map(pair).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Parts::One(write(&text(value)))
        }
    }
}

/// Names and values one after the other.
fn flat(pairs: Vec<(String, String)>) -> Vec<String> {
    let flat = pairs.into_iter().flat_map(|(name, value)| [name, value]);
    flat.collect()
}

fn equal(pairs: Vec<(String, String)>) -> Vec<String> {
    let equal = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"));
    equal.collect()
}

impl Writing {
    /// As a part of a path.
    pub(super) fn path(self, name: &str, value: &Value) -> String {
        if self.style == Style::Json {
            return encode(&value.to_string(), self.kept);
        }
        let parts = parts(value, |text| encode(text, Kept::Unreserved));
        if self.style == Style::Label {
            label(parts, self.explode)
        } else if self.style == Style::Matrix {
            matrix(&encode(name, Kept::Unreserved), parts, self.explode)
        } else {
            simple(parts, self.explode)
        }
    }

    /// As a header.
    pub(super) fn header(self, value: &Value) -> String {
        match self.style == Style::Json {
            true => value.to_string(),
            false => simple(parts(value, str::to_owned), self.explode),
        }
    }

    /// As parts of a query or as cookies: names and values that are encoded already.
    pub(super) fn pairs(self, name: &str, value: &Value) -> Vec<(String, String)> {
        let write = |text: &str| encode(text, self.kept);
        let key = encode(name, Kept::Unreserved);
        if self.style == Style::Json {
            return vec![(key, write(&value.to_string()))];
        }
        let between = match self.style {
            Style::SpaceDelimited => "%20",
            Style::PipeDelimited => "%7C",
            Style::Simple
            | Style::Label
            | Style::Matrix
            | Style::Form
            | Style::DeepObject
            | Style::Json => ",",
        };
        match (parts(value, write), self.style) {
            (Parts::One(one), _) => vec![(key, one)],
            (Parts::List(list), _) if self.explode => {
                list.into_iter().map(|it| (key.clone(), it)).collect()
            }
            (Parts::List(list), _) => vec![(key, list.join(between))],
            (Parts::Object(pairs), Style::DeepObject) => {
                let deep = |(inner, value)| (format!("{key}%5B{inner}%5D"), value);
                pairs.into_iter().map(deep).collect()
            }
            (Parts::Object(pairs), _) if self.explode => pairs,
            (Parts::Object(pairs), _) => vec![(key, flat(pairs).join(between))],
        }
    }
}

fn simple(parts: Parts, explode: bool) -> String {
    match (parts, explode) {
        (Parts::One(one), _) => one,
        (Parts::List(list), _) => list.join(","),
        (Parts::Object(pairs), true) => equal(pairs).join(","),
        (Parts::Object(pairs), false) => flat(pairs).join(","),
    }
}

fn label(parts: Parts, explode: bool) -> String {
    match (parts, explode) {
        (Parts::One(one), _) => format!(".{one}"),
        (Parts::List(list), true) => format!(".{}", list.join(".")),
        (Parts::List(list), false) => format!(".{}", list.join(",")),
        (Parts::Object(pairs), true) => format!(".{}", equal(pairs).join(".")),
        (Parts::Object(pairs), false) => format!(".{}", flat(pairs).join(",")),
    }
}

fn matrix(name: &str, parts: Parts, explode: bool) -> String {
    match (parts, explode) {
        (Parts::One(one), _) => format!(";{name}={one}"),
        (Parts::List(list), true) => {
            let each = list.iter().map(|it| format!(";{name}={it}"));
            each.collect()
        }
        (Parts::List(list), false) => format!(";{name}={}", list.join(",")),
        (Parts::Object(pairs), true) => {
            let each = equal(pairs).into_iter().map(|pair| format!(";{pair}"));
            each.collect()
        }
        (Parts::Object(pairs), false) => format!(";{name}={}", flat(pairs).join(",")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writing(style: Style, explode: bool) -> Writing {
        Writing {
            style,
            explode,
            kept: Kept::Unreserved,
        }
    }

    fn query(style: Style, explode: bool, value: &Value) -> String {
        let pairs = writing(style, explode).pairs("color", value);
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// The values of the table "Style Examples" in the specification.
    fn examples() -> [Value; 3] {
        let object = json!({"R": 100, "G": 200, "B": 150});
        [json!("blue"), json!(["blue", "black", "brown"]), object]
    }

    #[test]
    fn paths_as_in_the_specification() {
        const FLAT: &str = "B,150,G,200,R,100";
        const EQUAL: &str = "B=150,G=200,R=100";
        let list = "blue,black,brown";
        for (style, explode, expected) in [
            (
                Style::Matrix,
                false,
                [
                    ";color=blue",
                    ";color=blue,black,brown",
                    ";color=B,150,G,200,R,100",
                ],
            ),
            (
                Style::Matrix,
                true,
                [
                    ";color=blue",
                    ";color=blue;color=black;color=brown",
                    ";B=150;G=200;R=100",
                ],
            ),
            (
                Style::Label,
                false,
                [".blue", ".blue,black,brown", ".B,150,G,200,R,100"],
            ),
            (
                Style::Label,
                true,
                [".blue", ".blue.black.brown", ".B=150.G=200.R=100"],
            ),
            (Style::Simple, false, ["blue", list, FLAT]),
            (Style::Simple, true, ["blue", list, EQUAL]),
        ] {
            let written = examples().map(|value| writing(style, explode).path("color", &value));
            assert_eq!(written, expected);
        }
        let [.., object] = examples();
        assert_eq!(writing(Style::Simple, true).header(&object), EQUAL);
    }

    #[test]
    fn queries_as_in_the_specification() {
        let [one, list, object] = examples();
        let deep = "color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100";
        let json = "color=%5B%22blue%22%2C%22black%22%2C%22brown%22%5D";
        for (style, explode, value, expected) in [
            (Style::Form, false, &one, "color=blue"),
            (Style::Form, false, &list, "color=blue,black,brown"),
            (Style::Form, false, &object, "color=B,150,G,200,R,100"),
            (
                Style::Form,
                true,
                &list,
                "color=blue&color=black&color=brown",
            ),
            (Style::Form, true, &object, "B=150&G=200&R=100"),
            (
                Style::SpaceDelimited,
                false,
                &list,
                "color=blue%20black%20brown",
            ),
            (
                Style::PipeDelimited,
                false,
                &list,
                "color=blue%7Cblack%7Cbrown",
            ),
            (Style::DeepObject, true, &object, deep),
            (Style::Json, false, &list, json),
        ] {
            assert_eq!(query(style, explode, value), expected);
        }
    }

    #[test]
    fn values_do_not_leave_their_place() {
        let bad = json!("a/../b?c&d=e;f,g");
        let path = writing(Style::Simple, false).path("p", &bad);
        assert_eq!(path, "a%2F..%2Fb%3Fc%26d%3De%3Bf%2Cg");
        let form = query(Style::Form, true, &json!({"a&b": "c=d"}));
        assert_eq!(form, "a%26b=c%3Dd");
    }
}
