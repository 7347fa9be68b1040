//! Reading a policy: types, ranges, words, patterns.

use canonical::{Object, Value};

use super::Policy;
use crate::patterns::IntentPatterns;
use crate::{Error, IntentPattern, Problem, Rate, Retention, limits};

impl Policy {
    /// Reads a policy from its members. Members that are not known are passed over.
    ///
    /// `ceiling` is the largest `max_payload_size` taken; [`limits::PAYLOAD_CEILING`] unless
    /// configured otherwise.
    ///
    /// # Errors
    /// Names the first member that is wrong. To a peer this is `INVALID_MANIFEST` for the policy of
    /// a manifest, and `HANDSHAKE_FAILED` with `policy_invalid` for that of POLICY.
    pub fn read(tree: &Object<'_>, ceiling: u64) -> Result<Self, Error> {
        let mut policy = Self::default();
        let (mut limit, mut period) = (None, None);
        for (name, value) in tree.iter() {
            let read = match name {
                // As if it were not there.
                _ if matches!(value, Value::Null) => Ok(()),
                "rate_limit" => count(value, limits::RATE_LIMIT, &mut limit),
                "rate_period" => count(value, limits::RATE_PERIOD, &mut period),
                "session_timeout" => {
                    count(value, limits::SESSION_TIMEOUT, &mut policy.session_timeout)
                }
                "max_payload_size" => size(value, ceiling, &mut policy.max_payload_size),
                "allowed_intents" => patterns(value, &mut policy.allowed_intents),
                "blocked_intents" => patterns(value, &mut policy.blocked_intents),
                "data_retention" => retention(value, &mut policy.data_retention),
                "require_encryption" => boolean(value, &mut policy.require_encryption),
                "max_concurrent_sessions" => {
                    let slot = &mut policy.max_concurrent_sessions;
                    count(value, limits::CONCURRENT_SESSIONS, slot)
                }
                "extensions" => extensions(value, &mut policy.extensions),
                _ => Ok(()),
            };
            read.map_err(|error| error.within(name))?;
        }
        policy.rate = rate(limit, period);
        check_size(tree)?;
        Ok(policy)
    }
}

/// A policy must fit into what peers take. The order of members does not matter to their length.
pub(super) fn check_size(tree: &Object<'_>) -> Result<(), Error> {
    let mut text = Vec::new();
    for (name, value) in tree.iter() {
        Value::String(name.into()).push_canonical(&mut text);
        text.push(b':');
        value.push_canonical(&mut text);
        text.push(b',');
    }
    // The last comma is none, but there are two braces.
    let bytes = text.len().saturating_add(1).max(2);
    match bytes > limits::POLICY {
        true => Err(TOO_LARGE.into()),
        false => Ok(()),
    }
}

/// One of the two has the default of the other beside it; neither states no limit.
fn rate(limit: Option<u32>, period: Option<u32>) -> Option<Rate> {
    if limit.is_none() && period.is_none() {
        return None;
    }
    let default = Rate::DEFAULT;
    let limit = limit.unwrap_or_else(|| default.limit());
    Rate::new(limit, period.unwrap_or_else(|| default.period()))
}

fn count(value: &Value<'_>, most: u32, slot: &mut Option<u32>) -> Result<(), Error> {
    let value = integer(value, u64::from(most))?;
    *slot = u32::try_from(value).ok();
    Ok(())
}

fn size(value: &Value<'_>, most: u64, slot: &mut Option<u64>) -> Result<(), Error> {
    *slot = Some(integer(value, most)?);
    Ok(())
}

/// An integer from 1, written as one.
fn integer(value: &Value<'_>, most: u64) -> Result<u64, Error> {
    let Value::Number(number) = value else {
        return Err(Problem::mistyped("an integer", value).into());
    };
    let Some(integer) = number.as_i64() else {
        return Err(Problem::Form("written as an integer").into());
    };
    match u64::try_from(integer) {
        Ok(integer) if (1..=most).contains(&integer) => Ok(integer),
        Ok(_) | Err(_) => Err(Problem::Range { least: 1, most }.into()),
    }
}

fn patterns(value: &Value<'_>, slot: &mut Option<IntentPatterns>) -> Result<(), Error> {
    let Value::Array(list) = value else {
        return Err(Problem::mistyped("an array", value).into());
    };
    if list.len() > limits::INTENT_PATTERNS {
        return Err(TOO_MANY_PATTERNS.into());
    }
    let pattern = |(index, value): (usize, &Value<'_>)| {
        let pattern = match value.as_str() {
            Some(text) => IntentPattern::parse(text),
            None => Err(Problem::mistyped("a string", value).into()),
        };
        pattern.map_err(|error| error.within(&format!("[{index}]")))
    };
    *slot = Some(
        list.iter()
            .enumerate()
            .map(pattern)
            .collect::<Result<_, _>>()?,
    );
    Ok(())
}

fn retention(value: &Value<'_>, slot: &mut Option<Retention>) -> Result<(), Error> {
    let Some(word) = value.as_str() else {
        return Err(Problem::mistyped("a string", value).into());
    };
    let Some(retention) = Retention::from_name(word) else {
        return Err(Problem::Form("none, session, 24h, 7d, 30d or permanent").into());
    };
    *slot = Some(retention);
    Ok(())
}

fn boolean(value: &Value<'_>, slot: &mut Option<bool>) -> Result<(), Error> {
    let Value::Bool(value) = value else {
        return Err(Problem::mistyped("a boolean", value).into());
    };
    *slot = Some(*value);
    Ok(())
}

fn extensions(value: &Value<'_>, slot: &mut Option<Object<'static>>) -> Result<(), Error> {
    let Some(object) = value.as_object() else {
        return Err(Problem::mistyped("an object", value).into());
    };
    *slot = Some(object.to_static());
    Ok(())
}

pub(super) const TOO_MANY_PATTERNS: Problem = Problem::TooMany {
    limit: limits::INTENT_PATTERNS,
    unit: "patterns",
};
const TOO_LARGE: Problem = Problem::TooMany {
    limit: limits::POLICY,
    unit: "bytes in canonical form",
};
