//! Conditions of rules: JMESPath over the arguments of a call. The only file that knows the library.

use std::sync::LazyLock;

use jpx_core::ast::Ast;
use jpx_core::{Expression, JmespathError, Runtime};
use serde_json::{Map, Value};

use crate::{Problem, limits};

/// JMESPath as specified: its 26 functions, and an order for numbers only.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(Runtime::strict);

/// An expression that was checked: what it makes of any value has a bounded size.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    expression: Expression<'static>,
    growth: u64,
}

/// A query that answers yes or no.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition(Query);

/// Why a condition says neither yes nor no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConditionFailure {
    /// The arguments cannot be read.
    #[error("the arguments cannot be read")]
    Arguments,
    /// Evaluating it failed: mostly a function that was given another type than it takes.
    #[error("the condition cannot be evaluated for these arguments")]
    Evaluation,
    /// The result is neither true nor false.
    #[error("the condition gives {0} instead of true or false")]
    NotBoolean(&'static str),
}

impl Query {
    /// Reads an expression in JMESPath.
    ///
    /// # Errors
    /// If it is none, or could make too much of what it is given.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > limits::CONDITION {
            let limit = limits::CONDITION;
            return Err(Problem::TooMany {
                limit,
                unit: "bytes",
            });
        }
        let expression = RUNTIME.compile(text).map_err(problem)?;
        let growth = Check::default().growth(expression.as_ast())?;
        match growth > limits::CONDITION_GROWTH {
            true => Err(TOO_COSTLY),
            false => Ok(Self { expression, growth }),
        }
    }

    /// How many times as large as what it is given the result can be: who gives it something large must
    /// reckon with it.
    #[must_use]
    pub const fn growth(&self) -> u64 {
        self.growth
    }

    /// What it finds.
    ///
    /// # Errors
    /// If it cannot be evaluated for this value.
    pub fn search(&self, value: &Value) -> Result<Value, ConditionFailure> {
        // What the library says may quote the value.
        let found = self.expression.search(value);
        found.map_err(|_| ConditionFailure::Evaluation)
    }
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        Query::parse(text).map(Self)
    }

    /// Whether it is met.
    pub(crate) fn holds(&self, arguments: &Value) -> Result<bool, ConditionFailure> {
        let found = self.0.search(arguments)?;
        let met = found.as_bool();
        met.ok_or_else(|| ConditionFailure::NotBoolean(describe(&found)))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.expression.as_str()
    }
}

/// What a condition can give for arguments of which only some members are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Possible {
    pub(crate) yes: bool,
    pub(crate) no: bool,
}

/// What a part of a condition gives for such arguments.
enum Outcome {
    /// It reads known members only.
    Known(Value),
    /// It reads others, so it may be true or false as far as this says.
    Open(Possible),
}

impl Condition {
    /// What it can give for arguments that have these members, and perhaps others. Neither if it cannot
    /// be evaluated for any of them.
    pub(crate) fn possible(&self, known: &Map<String, Value>) -> Possible {
        let found = possible(self.0.expression.as_ast(), known);
        match found {
            Ok(Outcome::Open(possible)) => possible,
            Ok(Outcome::Known(value)) => Possible {
                yes: value == Value::Bool(true),
                no: value == Value::Bool(false),
            },
            Err(_) => Possible::NEITHER,
        }
    }
}

impl Possible {
    const NEITHER: Self = Self {
        yes: false,
        no: false,
    };
    const EITHER: Self = Self {
        yes: true,
        no: true,
    };
}

impl Outcome {
    fn truth(&self) -> Possible {
        match self {
            Self::Known(value) => Possible {
                yes: is_true(value),
                no: !is_true(value),
            },
            Self::Open(possible) => *possible,
        }
    }
}

/// What a part of an expression can give. Its depth was checked when it was parsed.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the value of anything else is not known"
)]
fn possible(node: &Ast, known: &Map<String, Value>) -> Result<Outcome, JmespathError> {
    if reads_only(node, known) {
        let part = Expression::new("", node.clone(), &RUNTIME);
        return part
            .search(&Value::Object(known.clone()))
            .map(Outcome::Known);
    }
    match node {
        Ast::And { lhs, rhs, .. } => {
            let lhs = possible(lhs, known)?;
            match lhs {
                Outcome::Known(value) if is_true(&value) => possible(rhs, known),
                Outcome::Known(value) => Ok(Outcome::Known(value)),
                Outcome::Open(left) => {
                    let right = possible(rhs, known).map_or(Possible::NEITHER, |it| it.truth());
                    Ok(Outcome::Open(Possible {
                        yes: left.yes && right.yes,
                        no: left.no || (left.yes && right.no),
                    }))
                }
            }
        }
        Ast::Or { lhs, rhs, .. } => {
            let lhs = possible(lhs, known)?;
            match lhs {
                Outcome::Known(value) if is_true(&value) => Ok(Outcome::Known(value)),
                Outcome::Known(_) => possible(rhs, known),
                Outcome::Open(left) => {
                    let right = possible(rhs, known).map_or(Possible::NEITHER, |it| it.truth());
                    Ok(Outcome::Open(Possible {
                        yes: left.yes || (left.no && right.yes),
                        no: left.no && right.no,
                    }))
                }
            }
        }
        Ast::Not { node, .. } => {
            let inner = possible(node, known)?.truth();
            Ok(Outcome::Open(Possible {
                yes: inner.no,
                no: inner.yes,
            }))
        }
        _ => Ok(Outcome::Open(Possible::EITHER)),
    }
}

/// Whether a part of an expression reads no members but these. Of members of members only the names are
/// looked at, so it may do so although this says no.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what else there is may read anything"
)]
fn reads_only(node: &Ast, known: &Map<String, Value>) -> bool {
    let is_known = |node: &Ast| reads_only(node, known);
    match node {
        Ast::Field { name, .. } => known.contains_key(name),
        Ast::Literal { .. } => true,
        Ast::Comparison { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => {
            is_known(lhs) && is_known(rhs)
        }
        Ast::Not { node, .. } => is_known(node),
        Ast::Function { args: nodes, .. }
        | Ast::MultiList {
            elements: nodes, ..
        } => nodes.iter().all(is_known),
        // What else there is may read all members.
        _ => false,
    }
}

/// Whether a value counts as true in JMESPath.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(it) => *it,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Looks through an expression before it is ever evaluated.
#[derive(Default)]
struct Check {
    depth: usize,
    /// Whether this part is evaluated once for each element of something.
    repeated: bool,
}

impl Check {
    /// How many times as large as what it is given, and the expression itself, the result can be.
    fn growth(&mut self, node: &Ast) -> Result<u64, Problem> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > limits::CONDITION_DEPTH {
            return Err(TOO_DEEP);
        }
        let growth = self.growth_of(node)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(growth)
    }

    fn growth_of(&mut self, node: &Ast) -> Result<u64, Problem> {
        match node {
            Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } => Ok(1),
            Ast::Slice { step, .. } => slice(*step),
            Ast::Literal { value, .. } => Ok(size(value)),
            Ast::Not { node, .. } | Ast::Flatten { node, .. } | Ast::ObjectValues { node, .. } => {
                self.growth(node)
            }
            Ast::Comparison { lhs, rhs, .. }
            | Ast::And { lhs, rhs, .. }
            | Ast::Or { lhs, rhs, .. } => Ok(self.growth(lhs)?.saturating_add(self.growth(rhs)?)),
            Ast::Condition {
                predicate, then, ..
            } => Ok(self.growth(predicate)?.saturating_add(self.growth(then)?)),
            Ast::Subexpr { lhs, rhs, .. } => {
                Ok(self.growth(lhs)?.saturating_mul(self.growth(rhs)?))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let each = self.growth(lhs)?;
                Ok(each.saturating_mul(self.for_each(rhs)?))
            }
            Ast::MultiList { elements, .. } => self.sum(elements.iter()),
            Ast::MultiHash { elements, .. } => self.sum(elements.iter().map(|pair| &pair.value)),
            Ast::Function { name, args, .. } => self.function(name, args),
            Ast::Expref { .. } => Err(STRAY),
        }
    }

    fn function(&mut self, name: &str, arguments: &[Ast]) -> Result<u64, Problem> {
        if RUNTIME.get_function(name).is_none() {
            let name = name.to_owned();
            let what = "function";
            return Err(Problem::Unknown { what, name });
        }
        let (mut sum, mut product) = (1_u64, 1_u64);
        for argument in arguments {
            if let Ast::Expref { ast, .. } = argument {
                // The library keeps a copy of a reference for every time it meets it.
                if self.repeated {
                    return Err(NESTED);
                }
                product = product.saturating_mul(self.for_each(ast)?);
            } else {
                sum = sum.saturating_add(self.growth(argument)?);
            }
        }
        // A control character becomes six.
        let escaped = if name == "to_string" { 6 } else { 1 };
        Ok(sum.saturating_mul(product).saturating_mul(escaped))
    }

    fn for_each(&mut self, node: &Ast) -> Result<u64, Problem> {
        let outside = std::mem::replace(&mut self.repeated, true);
        let growth = self.growth(node);
        self.repeated = outside;
        growth
    }

    fn sum<'a>(&mut self, nodes: impl Iterator<Item = &'a Ast>) -> Result<u64, Problem> {
        let mut sum = 1_u64;
        for node in nodes {
            sum = sum.saturating_add(self.growth(node)?);
        }
        Ok(sum)
    }
}

/// The library adds the step to an index of 32 bits.
fn slice(step: i32) -> Result<u64, Problem> {
    match step.unsigned_abs() {
        1..=limits::CONDITION_STEP => Ok(1),
        _ => Err(STEP),
    }
}

/// Values in a literal, where a long text counts as several.
fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => u64::try_from(text.len() / 64)
            .unwrap_or(u64::MAX)
            .saturating_add(1),
        Value::Array(list) => list.iter().fold(1, |sum, it| sum.saturating_add(size(it))),
        Value::Object(members) => members
            .values()
            .fold(1, |sum, it| sum.saturating_add(size(it))),
    }
}

fn problem(error: JmespathError) -> Problem {
    let text = error.reason.to_string();
    let message = text.strip_prefix("Parse error: ").unwrap_or(&text);
    Problem::Expression {
        message: message.to_owned(),
        offset: error.offset,
    }
}

const fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

const TOO_COSTLY: Problem =
    Problem::Form("a condition that cannot multiply the size of its arguments by more than 1000");
const TOO_DEEP: Problem = Problem::TooMany {
    limit: limits::CONDITION_DEPTH,
    unit: "parts within each other",
};
const STEP: Problem = Problem::Form("a condition whose slices have steps of 1 to 1000000");
const STRAY: Problem = Problem::Form("a condition with `&` only in the arguments of functions");
const NESTED: Problem =
    Problem::Form("a condition without `&` inside of projections, filters and other `&`");
