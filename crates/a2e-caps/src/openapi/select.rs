//! Which operations are tools.

use super::operation::{MAX_OPERATIONS, Operation};

/// The operations that are included, or all, without those that are excluded.
pub(super) fn select<'a, 'd>(
    all: &'a [Operation<'d>],
    include: &[String],
    exclude: &[String],
) -> Result<Vec<&'a Operation<'d>>, String> {
    for (key, patterns) in [("include", include), ("exclude", exclude)] {
        for pattern in patterns {
            if !all.iter().any(|operation| is_meant(pattern, operation)) {
                return Err(format!(
                    "`{key}` names `{pattern}`, which it does not have; an operation is named by \
                     its operationId (`*` stands for anything), as `GET /path`, or by `tag:NAME`"
                ));
            }
        }
    }
    let any = |patterns: &[String], operation: &Operation<'_>| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| is_meant(pattern, operation))
    };
    let chosen = all.iter().filter(|operation| {
        (include.is_empty() || any(include, operation)) && !any(exclude, operation)
    });
    let chosen: Vec<_> = chosen.collect();
    match chosen.len() {
        0 => Err("`include` and `exclude` leave nothing of it".to_owned()),
        1..=MAX_OPERATIONS => Ok(chosen),
        more => Err(format!(
            "{more} of its operations are tools, more than {MAX_OPERATIONS}; name those that are \
             needed in `include`, or others in `exclude`"
        )),
    }
}

fn is_meant(pattern: &str, operation: &Operation<'_>) -> bool {
    if let Some(tag) = pattern.strip_prefix("tag:") {
        return operation.tags.contains(&tag);
    }
    let route = format!("{} {}", operation.method, operation.path);
    let has_id = operation.id.is_some_and(|id| fits(pattern, id));
    has_id || fits(pattern, &route)
}

/// Whether a text is as a pattern says, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axc", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("", "", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
