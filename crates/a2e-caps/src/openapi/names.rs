//! What the tools of a document are called.

use std::collections::HashMap;

use canonical::Digest;

use super::operation::Operation;

/// Letters of the name of a tool: what models take.
pub const MAX_TOOL_NAME: usize = 64;

/// Letters of the hash that tells names apart.
const HASH: usize = 8;

/// A name for each operation: its id, or its method and path. It depends on nothing but the operation
/// and whether others would have the same: what is in common gets a hash of method and path behind it.
pub(super) fn names(prefix: &str, operations: &[&Operation<'_>]) -> Result<Vec<String>, String> {
    let mut ids = HashMap::new();
    for operation in operations {
        if let Some(id) = operation.id
            && let Some(other) = ids.insert(id, operation)
        {
            return Err(format!("{operation} and {other} have the same operationId"));
        }
    }
    let plain: Vec<String> = operations.iter().map(|it| plain(prefix, it)).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *counts.entry(name).or_default() += 1;
    }
    let named = operations.iter().zip(&plain).map(|(operation, name)| {
        let is_alone = counts.get(name.as_str()) == Some(&1);
        match is_alone && name.len() <= MAX_TOOL_NAME {
            true => name.clone(),
            false => {
                let route = format!("{} {}", operation.method, operation.path);
                let hash = hex::encode(Digest::of(route.as_bytes()).as_bytes());
                let head = MAX_TOOL_NAME - HASH - 1;
                let head = name.get(..head.min(name.len())).unwrap_or(name);
                format!("{head}_{}", hash.get(..HASH).unwrap_or_default())
            }
        }
    });
    Ok(named.collect())
}

/// Letters, digits, `_` and `-`; everything else between them is one `_`.
fn plain(prefix: &str, operation: &Operation<'_>) -> String {
    let route = || {
        format!(
            "{} {}",
            operation.method.to_ascii_lowercase(),
            operation.path
        )
    };
    // An id without any letter that a name may have says nothing.
    let id = operation
        .id
        .filter(|id| id.contains(|it: char| it.is_ascii_alphanumeric()));
    let id = id.map_or_else(route, str::to_owned);
    let mut name = prefix.to_owned();
    let mut is_gap = false;
    for letter in id.chars() {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') {
            if is_gap && name.len() > prefix.len() {
                name.push('_');
            }
            is_gap = false;
            name.push(letter);
        } else {
            is_gap = true;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn operation<'d>(method: &str, path: &'d str, id: Option<&'d str>) -> Operation<'d> {
        static NOTHING: Value = Value::Null;
        Operation {
            method: method.into(),
            path,
            item: &NOTHING,
            value: &NOTHING,
            id,
            tags: Vec::new(),
        }
    }

    fn of(operations: &[Operation<'_>]) -> Vec<String> {
        let operations: Vec<_> = operations.iter().collect();
        names("p_", &operations).unwrap()
    }

    #[test]
    fn ids_and_routes() {
        let found = of(&[
            operation("GET", "/a", Some("listPets")),
            operation("GET", "/users/{id}/posts", None),
            operation("PUT", "/b", Some("pets.update one!")),
            operation("GET", "/c", Some("查询")),
        ]);
        assert_eq!(
            found,
            [
                "p_listPets",
                "p_get_users_id_posts",
                "p_pets_update_one",
                "p_get_c"
            ]
        );
    }

    /// Another operation, or another order, changes no name of those that were alone.
    #[test]
    fn what_two_would_have_neither_has() {
        let (one, other) = (
            operation("GET", "/a", Some("a.b")),
            operation("GET", "/b", Some("a b")),
        );
        let names = of(&[one, other]);
        assert_ne!(names[0], names[1]);
        assert!(
            names.iter().all(|name| name.starts_with("p_a_b_")),
            "{names:?}"
        );
        let turned = of(&[
            operation("GET", "/b", Some("a b")),
            operation("GET", "/a", Some("a.b")),
        ]);
        assert_eq!((&names[0], &names[1]), (&turned[1], &turned[0]));
    }

    #[test]
    fn names_have_a_length() {
        let long = |size: usize| "n".repeat(size - "p_".len());
        let (fits, over) = (long(MAX_TOOL_NAME), long(MAX_TOOL_NAME + 1));
        let names = of(&[
            operation("GET", "/a", Some(&fits)),
            operation("GET", "/b", Some(&over)),
        ]);
        assert_eq!(names[0], format!("p_{fits}"));
        assert_eq!(names[1].len(), MAX_TOOL_NAME);
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn an_id_is_one_operations() {
        let value = json!({});
        let mut same = [
            operation("GET", "/a", Some("x")),
            operation("GET", "/b", Some("x")),
        ];
        same[0].value = &value;
        let same: Vec<_> = same.iter().collect();
        assert!(names("", &same).unwrap_err().contains("same operationId"));
    }
}
