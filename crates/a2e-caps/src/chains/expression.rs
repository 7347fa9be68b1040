//! What stands in a chain for something that is known only when it runs.
//!
//! A path begins with `$`, or with the name of a node or of an input. What is more than a path is
//! JMESPath over the same names.

use std::borrow::Cow;
use std::cmp::Ordering;

use policy::Query;
use serde_json::{Map, Value};

use super::scope::{Scope, weight};

/// Stands for a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Literal(Value),
    /// All names.
    Whole,
    Path(Vec<Step>),
    Query(Search),
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    /// From the end if it is negative.
    Index(i64),
}

/// An expression in JMESPath.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    query: Query,
    /// The words in it: of the names, it can reach no other.
    words: Vec<String>,
    /// Whether it can reach all names.
    is_whole: bool,
}

/// Stands for yes or no.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Always,
    Compare(Expression, Operator, Value),
    /// Whether it is something at all.
    Truth(Expression),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    AtLeast,
    AtMost,
    More,
    Less,
}

/// Longer ones first: `>=` begins as `>` does.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">", Operator::More),
    ("<", Operator::Less),
];

impl Expression {
    /// What a value of an `input_map` stands for; `is_known` tells the names of nodes and inputs.
    pub(super) fn mapped(value: Value, is_known: impl Fn(&str) -> bool) -> Result<Self, String> {
        let Value::String(text) = value else {
            return Ok(Self::Literal(value));
        };
        if is_marked(&text) {
            return Self::evaluated(&text);
        }
        if let Some(text) = quoted(&text) {
            return Ok(Self::Literal(text.into()));
        }
        let first = text.split(['.', '[']).next().unwrap_or_default();
        match is_known(first) {
            // A sentence may begin with such a name.
            true => Ok(Self::evaluated(&text).unwrap_or(Self::Literal(Value::String(text)))),
            false => Ok(Self::Literal(Value::String(text))),
        }
    }

    /// What a text stands for that cannot be meant literally.
    pub(super) fn evaluated(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "$" {
            return Ok(Self::Whole);
        }
        let bare = text.strip_prefix("$.").unwrap_or(text);
        let bare = bare.strip_prefix('$').unwrap_or(bare);
        match path(bare) {
            Some(steps) => Ok(Self::Path(steps)),
            None => Search::parse(text).map(Self::Query),
        }
    }

    /// The names that it reaches.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let (step, words) = match self {
            Self::Literal(_) | Self::Whole => (None, &[][..]),
            Self::Path(steps) => (steps.first(), &[][..]),
            Self::Query(search) => (None, search.words.as_slice()),
        };
        let name = step.and_then(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::Index(_) => None,
        });
        name.into_iter().chain(words.iter().map(String::as_str))
    }

    /// What it stands for.
    pub(super) fn value<'s>(&'s self, scope: &Scope<'s>) -> Result<Cow<'s, Value>, String> {
        Ok(match self {
            Self::Literal(value) => Cow::Borrowed(value),
            Self::Whole => {
                room(scope.weight(), 1, scope)?;
                Cow::Owned(scope.all())
            }
            Self::Path(steps) => Cow::Borrowed(follow(steps, scope)),
            Self::Query(search) => {
                let growth = search.query.growth();
                let names = match search.is_whole {
                    true => {
                        room(scope.weight(), growth, scope)?;
                        scope.all()
                    }
                    false => {
                        room(scope.weight_of(&search.words), growth, scope)?;
                        scope.these(&search.words)
                    }
                };
                let found = search.query.search(&names);
                Cow::Owned(found.map_err(|error| error.to_string())?)
            }
        })
    }
}

/// Whether there is room for what an expression can make of so many bytes. It is asked before, for
/// what is made is in memory at once.
fn room(bytes: usize, growth: u64, scope: &Scope<'_>) -> Result<(), String> {
    let growth = usize::try_from(growth).unwrap_or(usize::MAX);
    let most = scope.limits.output_bytes;
    match bytes.saturating_mul(growth) > most {
        true => Err(format!(
            "an expression could make {growth} times as much of {bytes} bytes, which is more than \
             {most}; have it say less, or look at less"
        )),
        false => Ok(()),
    }
}

impl Search {
    fn parse(text: &str) -> Result<Self, String> {
        let text = rewritten(text);
        let query = Query::parse(&text).map_err(|problem| format!("`{text}`: {problem}"))?;
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let mut words: Vec<String> = text
            .split(|c| !is_word(c))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        words.sort_unstable();
        words.dedup();
        Ok(Self {
            query,
            words,
            is_whole: text.contains(['@', '*']),
        })
    }
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Always);
        }
        if let Some(comparison) = comparison(text) {
            return Ok(comparison);
        }
        Expression::evaluated(text).map(Self::Truth)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let expression = match self {
            Self::Always => None,
            Self::Compare(expression, ..) | Self::Truth(expression) => Some(expression),
        };
        expression.into_iter().flat_map(Expression::names)
    }

    pub(super) fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        Ok(match self {
            Self::Always => true,
            Self::Compare(left, operator, right) => operator.holds(&*left.value(scope)?, right),
            Self::Truth(expression) => is_true(&*expression.value(scope)?),
        })
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left
                .as_f64()
                .zip(right.as_f64())
                .and_then(|(left, right)| left.partial_cmp(&right)),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) if left == right => Some(Ordering::Equal),
            _ => None,
        };
        let has_order = matches!(left, Value::Number(_) | Value::String(_));
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Unequal => order != Some(Ordering::Equal),
            Self::AtLeast => has_order && order.is_some_and(Ordering::is_ge),
            Self::AtMost => has_order && order.is_some_and(Ordering::is_le),
            Self::More => order == Some(Ordering::Greater),
            Self::Less => order == Some(Ordering::Less),
        }
    }
}

/// Whether a text says of itself that it is no literal. A price is none.
fn is_marked(text: &str) -> bool {
    let after = text.strip_prefix('$');
    after.is_some_and(|after| after.is_empty() || after.starts_with(['.', '[', ' ', '|']))
}

/// The text in quotes, if it is one and nothing more.
fn quoted(text: &str) -> Option<&str> {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let found = inside('\'').map(|text| (text, '\''));
    let (text, quote) = found.or_else(|| inside('"').map(|text| (text, '"')))?;
    (!text.contains(quote)).then_some(text)
}

/// `a.b[0].c-d`; nothing for what is more than a path.
fn path(text: &str) -> Option<Vec<Step>> {
    const MORE: &[char] = &[
        '|', ' ', '\t', '\n', '\'', '"', '`', '(', ')', '&', '!', '=', '<', '>', ',', ':', '@',
        '*', '{', '}', '?', '#', '$', ']',
    ];
    let mut steps = Vec::new();
    for (position, part) in text.split('.').enumerate() {
        let mut pieces = part.split('[');
        let name = pieces.next()?;
        if name.contains(MORE) {
            return None;
        }
        match (name.is_empty(), position) {
            (false, _) => steps.push(Step::Name(name.to_owned())),
            (true, 0) if part.starts_with('[') => {}
            (true, _) => return None,
        }
        for piece in pieces {
            steps.push(Step::Index(piece.strip_suffix(']')?.parse().ok()?));
        }
    }
    Some(steps)
}

fn follow<'s>(steps: &[Step], scope: &Scope<'s>) -> &'s Value {
    const NOTHING: &Value = &Value::Null;
    let Some((Step::Name(first), rest)) = steps.split_first() else {
        return NOTHING;
    };
    let mut found = scope.name(first);
    for step in rest {
        found = match (found, step) {
            (Some(Value::Object(members)), Step::Name(name)) => members.get(name),
            (Some(Value::Array(list)), Step::Index(index)) => at(list, *index),
            _ => None,
        };
    }
    found.unwrap_or(NOTHING)
}

fn at(list: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    match index < 0 {
        true => list.get(list.len().checked_sub(distance)?),
        false => list.get(distance),
    }
}

/// `$` as JMESPath says it, outside of quotes and of what is evaluated for each element: there `@` is
/// the element, and there is no word for the whole.
fn rewritten(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quote, mut depth) = (None, 0_usize);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"' | '`', None) => quote = Some(c),
            ('[', None) => depth = depth.saturating_add(1),
            (']', None) => depth = depth.saturating_sub(1),
            ('$', None) if depth == 0 => {
                match rest.next_if_eq(&'.') {
                    Some(_) => {}
                    None => out.push('@'),
                }
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// `<path> op <literal>`.
fn comparison(text: &str) -> Option<Condition> {
    let (at, _) = text.char_indices().find(|(_, c)| "=!<>".contains(*c))?;
    let (left, rest) = text.split_at_checked(at)?;
    let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    let right = literal(rest.get(sign.len()..)?.trim())?;
    let left = match left.trim() {
        "$" => Expression::Whole,
        left => Expression::Path(path(left.strip_prefix("$.").unwrap_or(left))?),
    };
    Some(Condition::Compare(left, *operator, right))
}

fn literal(text: &str) -> Option<Value> {
    if let Some(text) = quoted(text) {
        return Some(text.into());
    }
    match text {
        "true" | "True" => Some(true.into()),
        "false" | "False" => Some(false.into()),
        "null" | "None" => Some(Value::Null),
        number => {
            let value: Value = serde_json::from_str(number).ok()?;
            value.is_number().then_some(value)
        }
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// What a node is called with.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Inputs {
    pub(super) fixed: Map<String, Value>,
    pub(super) mapped: Vec<(String, Expression)>,
}

impl Inputs {
    /// The item goes along where nobody says what becomes of it.
    pub(super) fn compose(&self, scope: &Scope<'_>) -> Result<Map<String, Value>, String> {
        let mut input = self.fixed.clone();
        let mut bytes = 0_usize;
        if let (Some(item), true) = (scope.item, self.mapped.is_empty()) {
            input.insert("item".to_owned(), item.clone());
        }
        for (name, expression) in &self.mapped {
            let value = expression.value(scope)?;
            // Before there is one more: many names may stand for one large value.
            bytes = bytes.saturating_add(weight(&value));
            if bytes > scope.limits.input_bytes {
                let most = scope.limits.input_bytes;
                return Err(format!("its input has more than {most} bytes"));
            }
            input.insert(name.clone(), value.into_owned());
        }
        Ok(input)
    }
}

#[cfg(test)]
mod tests;
