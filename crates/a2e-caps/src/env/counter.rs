//! The environment `counter`: counts to five.

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
struct Count(u32);

/// Where it ends.
const GOAL: u32 = 5;
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
        let Self(count) = self;
        state(format!("{{\"count\":{count}}}"))
    }
}

impl World for Count {
    fn step<'a>(&'a mut self, action: &'a Action) -> BoxFuture<'a, Result<Change, EnvError>> {
        let stepped = action.choose(&VERBS).map(|verb| {
            self.0 = self.0.saturating_add(u32::from(verb == 1));
            let done = self.0 >= GOAL;
            Change {
                state: self.state(),
                reward: f64::from(u8::from(done)),
                done,
            }
        });
        Box::pin(std::future::ready(stepped))
    }

    fn text(&self) -> Option<String> {
        Some(format!("{} of {GOAL}", self.0))
    }

    fn plan(&self, _state: Option<&Object<'_>>) -> Vec<Object<'static>> {
        vec![state(r#"{"type":"inc"}"#)]
    }
}
