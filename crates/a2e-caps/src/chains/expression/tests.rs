use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Condition, Expression, Inputs};
use crate::chains::plan::Limits;
use crate::chains::scope::Scope;

/// Asks with one node `read-1` and these inputs.
fn scoped<T>(item: Option<&Value>, ask: impl FnOnce(&Scope<'_>) -> T) -> T {
    let input = json!({"name": "ada", "list": [1, 2, 3], "n": 5, "zero": 0, "none": null});
    let ids = HashMap::from([("read-1".to_owned(), 0), ("later".to_owned(), 1)]);
    let outputs = [
        Some(Arc::new(
            json!({"text": "hi", "rows": [{"a": 1}, {"a": 2}]}),
        )),
        None,
    ];
    ask(&Scope {
        input: &input,
        ids: &ids,
        outputs: &outputs,
        seen: None,
        item,
        limits: Limits {
            output_bytes: 1000,
            input_bytes: 100,
            ..Limits::default()
        },
    })
}

fn is_known(name: &str) -> bool {
    ["name", "list", "n", "input", "read-1", "later"].contains(&name)
}

fn mapped(value: Value) -> Value {
    let expression = Expression::mapped(value, is_known).unwrap();
    scoped(None, |scope| expression.value(scope).unwrap().into_owned())
}

fn holds(condition: &str) -> bool {
    let condition = Condition::parse(condition).unwrap();
    scoped(None, |scope| condition.holds(scope).unwrap())
}

/// Conflicts 147 and 148.
#[test]
fn paths_literals_and_bare_paths_are_told_apart() {
    for (value, expected) in [
        (json!("$.name"), json!("ada")),
        (json!("$.input.name"), json!("ada")),
        (json!("$.read-1.text"), json!("hi")),
        (json!("$.read-1.rows[-1].a"), json!(2)),
        (json!("$.nowhere.to.be.found"), Value::Null),
        (json!("$.later.text"), Value::Null),
        (json!("read-1.rows[0]"), json!({"a": 1})),
        (json!("name"), json!("ada")),
        (json!("list[1]"), json!(2)),
        (json!("names"), json!("names")),
        (json!("name of the thing"), json!("name of the thing")),
        (json!("name. Of the thing"), json!("name. Of the thing")),
        (json!("'$.name'"), json!("$.name")),
        (json!("\"name\""), json!("name")),
        (json!("$5.00"), json!("$5.00")),
        (json!("$HOME"), json!("$HOME")),
        (json!(7), json!(7)),
        (json!(["$.name"]), json!(["$.name"])),
        (json!("$ | length(list)"), json!(3)),
        (json!("list[?@ > `1`]"), json!([2, 3])),
    ] {
        assert_eq!(mapped(value.clone()), expected, "{value}");
    }
}

#[test]
fn the_whole_has_inputs_and_outputs() {
    let whole = mapped(json!("$"));
    assert_eq!(whole["input"]["name"], "ada");
    assert_eq!(
        (&whole["name"], &whole["read-1"]["text"]),
        (&json!("ada"), &json!("hi"))
    );
    assert_eq!(whole.get("later"), None);
}

#[test]
fn what_is_marked_and_no_path_is_a_problem() {
    let problem = Expression::mapped(json!("$.a[?"), is_known).unwrap_err();
    assert!(problem.contains("a[?"), "{problem}");
    // There is no word for the whole where `@` is an element.
    assert!(Expression::evaluated("list[?@ > $.n]").is_err());
}

/// a2e-behaviour, section 4, chains: branch.
#[test]
fn conditions_compare_and_ask_for_truth() {
    for (condition, expected) in [
        ("", true),
        ("$.n == 5", true),
        ("n==5.0", true),
        ("$.n != 5", false),
        ("$.n >= 5", true),
        ("$.n > 5", false),
        ("$.n <= 4.5", false),
        ("$.name == 'ada'", true),
        ("$.name == \"bob\"", false),
        ("$.name < 'b'", true),
        ("$.none < 1", false),
        ("$.none >= null", false),
        ("$.none == null", true),
        ("$.n > 'a'", false),
        ("$.n != 'a'", true),
        ("$.list", true),
        ("zero", false),
        ("$.nothing", false),
        ("n > `4` && name == 'ada'", true),
        ("length(list) == `3`", true),
        ("!none", true),
    ] {
        assert_eq!(holds(condition), expected, "{condition}");
    }
    assert!(Condition::parse("n = 5").is_err());
}

/// Conflicts 149 and 151.
#[test]
fn inputs_are_merged_and_items_go_along_unless_somebody_says_how() {
    let item = json!({"k": 1});
    let inputs = |fixed: Value, map: Value| {
        let Value::Object(map) = map else {
            panic!("{map}")
        };
        let mapped = map.into_iter().map(|(name, value)| {
            let known = |name: &str| is_known(name) || name == "item" || name == "_item";
            (name, Expression::mapped(value, known).unwrap())
        });
        Inputs {
            fixed: fixed.as_object().unwrap().clone(),
            mapped: mapped.collect(),
        }
    };
    let compose =
        |inputs: &Inputs, item| Value::Object(scoped(item, |scope| inputs.compose(scope)).unwrap());
    let both = inputs(json!({"a": 1, "b": 2}), json!({"b": "$.name"}));
    assert_eq!(compose(&both, None), json!({"a": 1, "b": "ada"}));
    assert_eq!(compose(&both, Some(&item)), json!({"a": 1, "b": "ada"}));
    let plain = inputs(json!({"a": 1}), json!({}));
    assert_eq!(
        compose(&plain, Some(&item)),
        json!({"a": 1, "item": {"k": 1}})
    );
    let named = inputs(json!({}), json!({"x": "item.k", "y": "$._item"}));
    assert_eq!(compose(&named, Some(&item)), json!({"x": 1, "y": {"k": 1}}));
}

/// What an expression makes of something is in memory at once, so it is not made if it could be too much.
#[test]
fn an_expression_cannot_make_much_of_little() {
    let item = json!("x".repeat(40));
    let value = |text: &str| {
        let expression = Expression::evaluated(text).unwrap();
        scoped(Some(&item), |scope| expression.value(scope).map(drop))
    };
    assert_eq!(value("[item, item]"), Ok(()));
    let many = vec!["item"; 30].join(",");
    assert!(
        value(&format!("[{many}]"))
            .unwrap_err()
            .contains("could make")
    );
    assert!(
        value(&format!("@ | [{many}]"))
            .unwrap_err()
            .contains("could make")
    );
    let condition = Condition::parse(&format!("length([{many}]) > `3`")).unwrap();
    assert!(scoped(Some(&item), |scope| condition.holds(scope)).is_err());
    let large = json!("x".repeat(2000));
    let whole = scoped(Some(&large), |scope| {
        Expression::Whole.value(scope).map(drop)
    });
    assert!(whole.unwrap_err().contains("could make"));
}

/// Many names that stand for one value make a call as large as many values.
#[test]
fn what_a_call_is_made_with_has_a_size() {
    let item = json!("x".repeat(50));
    let inputs = |names: usize| Inputs {
        mapped: (0..names)
            .map(|name| (name.to_string(), Expression::evaluated("$.item").unwrap()))
            .collect(),
        ..Inputs::default()
    };
    let composed = |names: usize| scoped(Some(&item), |scope| inputs(names).compose(scope));
    assert_eq!(composed(2).unwrap().len(), 2);
    assert!(composed(3).unwrap_err().contains("more than 100 bytes"));
}
