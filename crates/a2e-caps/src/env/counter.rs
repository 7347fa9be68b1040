//! The environment `counter`: counts to five.

use std::sync::LazyLock;

use a2e_runtime::BoxFuture;
use a2e_wire::Object;
use serde_json::json;

use super::environment::{
    Action, Change, EnvError, Environment, Opened, Opening, Spaces, World, state,
};

/// The environment.
#[derive(Debug)]
pub struct Counter {
    spaces: Spaces,
}

#[derive(Debug, Default)]
struct Count(usize);

/// Where it ends.
const GOAL: usize = TEXTS.len() - 1;
/// How it looks, by how far it has counted.
static STATES: LazyLock<[Object<'static>; TEXTS.len()]> = LazyLock::new(|| TEXTS.map(state));
const TEXTS: [&str; 6] = [
    r#"{"count":0}"#,
    r#"{"count":1}"#,
    r#"{"count":2}"#,
    r#"{"count":3}"#,
    r#"{"count":4}"#,
    r#"{"count":5}"#,
];
const VERBS: [&str; 2] = ["noop", "inc"];

impl Default for Counter {
    fn default() -> Self {
        let action = json!({
            "type": "object",
            "properties": {
                "type": {"enum": VERBS},
                "action": {"type": "integer", "minimum": 0, "maximum": 1},
            },
            "anyOf": [{"required": ["type"]}, {"required": ["action"]}],
        });
        let state = json!({
            "type": "object",
            "properties": {"count": {"type": "integer", "minimum": 0, "maximum": GOAL}},
            "required": ["count"],
        });
        Self {
            spaces: Spaces::new(&action, &state),
        }
    }
}

impl Environment for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn description(&self) -> &str {
        "Counts up on `inc`; at 5 it is done, with a reward of 1"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn open(&self, _opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        let count = Count::default();
        let state = count.state();
        let world = Box::new(count);
        Box::pin(std::future::ready(Ok(Opened { world, state })))
    }
}

impl Count {
    fn state(&self) -> Object<'static> {
        STATES.get(self.0).cloned().unwrap_or_default()
    }
}

impl World for Count {
    fn step_at_once(&mut self, action: &Action) -> Option<Result<Change, EnvError>> {
        let stepped = action.choose(&VERBS).map(|verb| {
            self.0 = self.0.saturating_add(usize::from(verb == 1)).min(GOAL);
            let done = self.0 >= GOAL;
            Change {
                state: self.state(),
                reward: f64::from(u8::from(done)),
                done,
            }
        });
        Some(stepped)
    }

    fn text(&self) -> Option<String> {
        Some(format!("{} of {GOAL}", self.0))
    }

    fn plan(&self, _state: Option<&Object<'_>>) -> Vec<Object<'static>> {
        vec![state(r#"{"type":"inc"}"#)]
    }
}
