//! Edits of the learned state: what they may be, and what they do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Edit {
    pub(super) target: String,
    pub(super) op: String,
    /// Names of members, with dots between them.
    pub(super) path: String,
    #[serde(default)]
    pub(super) old_value: Value,
    #[serde(default)]
    pub(super) new_value: Value,
    #[serde(default)]
    pub(super) reason: String,
}

/// What came of edits.
#[derive(Debug, PartialEq)]
pub(super) struct Applied {
    pub(super) state: Value,
    pub(super) applied: usize,
    /// Why the others were not.
    pub(super) failed: Vec<String>,
}

/// Edits of one proposal.
pub const MAX_EDITS: usize = 256;
/// Bytes of a path.
pub const MAX_PATH: usize = 512;
/// Names in a path.
pub const MAX_DEPTH: usize = 16;
/// Bytes of a new value, as JSON.
pub const MAX_NEW_VALUE: usize = 32 * 1024;

/// The names of components below this may have dots in them.
pub(super) const WEIGHTS: &str = "router.weights.";

const TARGETS: [&str; 5] = ["prompt", "tool", "router_weight", "verifier", "router"];
const OPS: [&str; 4] = ["replace", "insert", "delete", "update"];
/// What no path may begin with: others have taken such paths for code.
const REFUSED: [&str; 4] = ["__", "os.", "sys.", "subprocess"];

impl Edit {
    /// Whether another changes the same.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        self.target == other.target && self.path == other.path
    }

    /// Whether it can be made and leaves something else than there is. That is asked of thousands at a
    /// time, so the state is only looked at.
    pub(super) fn would_change(&self, state: &Value) -> bool {
        let names = self.names();
        let leads_through = |count: usize| {
            let parent = names.get(..count).and_then(|names| find(state, names));
            parent.is_none_or(Value::is_object)
        };
        if self.check().is_err() || !(0..names.len()).all(leads_through) {
            return false;
        }
        match (&*self.op, find(state, &names), &self.new_value) {
            ("delete", there, _) => there.is_some(),
            ("insert", there, _) => there.is_none(),
            ("update", Some(Value::Object(old)), Value::Object(new)) => {
                new.iter().any(|(name, value)| old.get(name) != Some(value))
            }
            (_, there, new) => there != Some(new),
        }
    }

    fn check(&self) -> Result<(), String> {
        let shown: String = self.path.chars().take(64).collect();
        if !TARGETS.contains(&&*self.target) {
            return Err(format!("`target` must be one of {}", TARGETS.join(", ")));
        }
        if !OPS.contains(&&*self.op) {
            return Err(format!("`op` must be one of {}", OPS.join(", ")));
        }
        if REFUSED.iter().any(|start| self.path.starts_with(start)) {
            return Err(format!("no path may begin as `{shown}` does"));
        }
        let names = self.names();
        if self.path.len() > MAX_PATH || names.len() > MAX_DEPTH {
            return Err(format!("the path `{shown}` is too long"));
        }
        if names.iter().any(|name| name.is_empty()) {
            return Err(format!("the path `{shown}` has an empty name in it"));
        }
        if self.op != "delete" && self.new_value.is_null() {
            return Err(format!("`{shown}` needs a `new_value`"));
        }
        match self.new_value.to_string().len() > MAX_NEW_VALUE {
            true => Err(format!(
                "the new value of `{shown}` has more than {MAX_NEW_VALUE} bytes"
            )),
            false => Ok(()),
        }
    }

    fn names(&self) -> Vec<&str> {
        match self.path.strip_prefix(WEIGHTS) {
            Some(component) => vec!["router", "weights", component],
            None => self.path.split('.').collect(),
        }
    }
}

/// Makes the edits that can be made.
pub(super) fn apply(state: &Value, edits: &[Edit]) -> Applied {
    let mut applied = Applied {
        state: state.clone(),
        applied: 0,
        failed: Vec::new(),
    };
    for (index, edit) in edits.iter().enumerate() {
        let made = match index < MAX_EDITS {
            true => edit.check().and_then(|()| make(&mut applied.state, edit)),
            false => Err(format!("a proposal may have {MAX_EDITS} edits")),
        };
        match made {
            Ok(()) => applied.applied += 1,
            Err(why) => applied.failed.push(why),
        }
    }
    applied
}

fn make(state: &mut Value, edit: &Edit) -> Result<(), String> {
    let names = edit.names();
    let Some((last, parents)) = names.split_last() else {
        return Err("the path is empty".to_owned());
    };
    if edit.op == "delete" || edit.op == "insert" {
        // Before anything is made on the way.
        let there = find(state, &names).is_some();
        match (&*edit.op, there) {
            ("delete", false) => return Err(format!("there is no `{}`", edit.path)),
            ("insert", true) => return Err(format!("there is a `{}` already", edit.path)),
            _ => {}
        }
    }
    let mut at = state;
    for name in parents {
        let members = members(at, &edit.path)?;
        at = members
            .entry((*name).to_owned())
            .or_insert_with(|| Value::Object(Map::new()));
    }
    let members = members(at, &edit.path)?;
    if edit.op == "delete" {
        members.remove(*last);
        return Ok(());
    }
    let slot = members.entry((*last).to_owned()).or_insert(Value::Null);
    match (slot, &edit.new_value) {
        (Value::Object(old), Value::Object(new)) if edit.op == "update" => {
            old.extend(new.clone());
        }
        (slot, new) => slot.clone_from(new),
    }
    Ok(())
}

fn members<'v>(value: &'v mut Value, path: &str) -> Result<&'v mut Map<String, Value>, String> {
    let members = value.as_object_mut();
    members.ok_or_else(|| format!("`{path}` leads through something that is no object"))
}

fn find<'v>(state: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().try_fold(state, |at, name| at.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edit(op: &str, path: &str, new_value: Value) -> Edit {
        Edit {
            target: "router".to_owned(),
            op: op.to_owned(),
            path: path.to_owned(),
            old_value: Value::Null,
            new_value,
            reason: String::new(),
        }
    }

    #[test]
    fn each_op_does_what_it_is_called() {
        let state = json!({"a": {"b": 1, "c": {"x": 1}}});
        let edits = [
            edit("replace", "a.b", json!(2)),
            edit("insert", "a.d.e", json!("new")),
            edit("update", "a.c", json!({"y": 2})),
            edit("delete", "a.c.x", Value::Null),
            edit("update", "router.weights.git.commit", json!(0.5)),
        ];
        let applied = apply(&state, &edits);
        let expected = json!({"a": {"b": 2, "c": {"y": 2}, "d": {"e": "new"}},
            "router": {"weights": {"git.commit": 0.5}}});
        assert_eq!((applied.state, applied.applied), (expected, 5));
        assert_eq!(applied.failed, [""; 0]);
    }

    #[test]
    fn what_would_change_is_known_before() {
        let state = json!({"a": {"b": 1, "c": {"x": 1}}, "n": 1});
        for edit in [
            edit("replace", "a.b", json!(1)),
            edit("replace", "a.b", json!(2)),
            edit("replace", "a.c", json!({"x": 1})),
            edit("replace", "a.c", json!({})),
            edit("update", "a.c", json!({"x": 1})),
            edit("update", "a.c", json!({"y": 1})),
            edit("update", "a.c", json!({})),
            edit("update", "a.b", json!({})),
            edit("update", "new.path", json!(1)),
            edit("update", "n.path", json!(1)),
            edit("insert", "a.b", json!(1)),
            edit("insert", "a.d", json!(1)),
            edit("delete", "a.b", Value::Null),
            edit("delete", "a.d", Value::Null),
        ] {
            let changed = apply(&state, std::slice::from_ref(&edit)).state != state;
            assert_eq!(edit.would_change(&state), changed, "{edit:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_changes_nothing() {
        let state = json!({"a": 1});
        let mut target = edit("replace", "a", json!(2));
        target.target = "os".to_owned();
        let edits = [
            target,
            edit("insert", "a", json!(2)),
            edit("delete", "b.c", Value::Null),
            edit("replace", "a.b", json!(2)),
            edit("replace", "a", Value::Null),
            edit("rename", "a", json!(2)),
            edit("replace", "__class__", json!(2)),
            edit("replace", "os.system", json!(2)),
            edit("replace", "sys.path", json!(2)),
            edit("replace", "subprocess", json!(2)),
            edit("replace", "", json!(2)),
            edit("replace", "a..b", json!(2)),
            edit("replace", &["a"; MAX_DEPTH + 1].join("."), json!(2)),
            edit("replace", &"x".repeat(MAX_PATH + 1), json!(2)),
            edit("replace", "b", json!("x".repeat(MAX_NEW_VALUE - 1))),
        ];
        let count = edits.len();
        let applied = apply(&state, &edits);
        assert_eq!((applied.state, applied.applied), (state, 0));
        assert_eq!(applied.failed.len(), count);
        assert!(
            edits
                .iter()
                .all(|edit| !edit.would_change(&json!({"a": 1})))
        );
        // At the limits.
        let edits = [
            edit("replace", &["b"; MAX_DEPTH].join("."), json!(2)),
            edit("replace", &"x".repeat(MAX_PATH), json!(2)),
            edit("replace", "c", json!("x".repeat(MAX_NEW_VALUE - 2))),
        ];
        assert_eq!(apply(&json!({}), &edits).applied, 3);
        let many = vec![edit("replace", "a", json!(2)); MAX_EDITS + 1];
        assert_eq!(apply(&json!({}), &many).applied, MAX_EDITS);
    }
}
