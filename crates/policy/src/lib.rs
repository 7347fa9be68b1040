//! What an agent may do and how often: one model for A2E and A2A.
//!
//! Three things, none of which knows the others' protocol:
//!
//! - the **policy object** of A2A (profile §11): [`Policy`] is what an agent states,
//!   [`EffectivePolicy`] what is in force after a client's wishes tightened it, [`Demands`] what a
//!   client accepts; [`IntentName`] and [`IntentPattern`] are the one way to name an intent;
//! - **how often**: [`Rate`], [`TokenBucket`], and [`Buckets`], which takes from several or none;
//!   [`RepeatBreaker`] stops an agent that makes the same call again and again;
//! - **rules** for the one decision point of a node: [`Rules`] says of each [`Call`] whether it is
//!   allowed, held for approval, or denied, and which rule says so; [`tightens`] says whether new
//!   rules may replace old ones without an operator.
//!
//! It is deliberately without a clock, randomness, files and tasks: time is an argument, and whoever
//! shares a value between tasks locks it. It enforces nothing by itself and writes no records; it
//! answers, and others act on the answer.
//!
//! Reading order: `intent`, `pattern`, `patterns`, [`object`](Policy), `accept`; `rate`, `buckets`, `repeat`;
//! `call`, [`rules`](Rules), `rules/config`, `rules/tighten`; `glob` and `condition` are what rules
//! are made of.
//!
//! ```
//! use policy::{Agent, Call, Effect, Layer, Rules, RulesConfig};
//!
//! let text = br#"{"rules": [
//!     {"id": "no-keys", "capability": "tools", "when": "contains(path, '.ssh')", "action": "deny"},
//!     {"capability": "tools", "name": "write*", "action": "require_approval"}
//! ]}"#;
//! let config: RulesConfig = canonical::Value::parse(text)?.deserialize_into()?;
//! let layer = Layer { place: "policy", config: &config };
//! let rules = Rules::compile(&[layer], &[("tools", Effect::Allow)]).unwrap();
//!
//! let arguments = serde_json::json!({"path": "notes.txt"});
//! let agent = Agent { id: "default", did: None, trust: None };
//! let call = Call { agent, capability: "tools", name: "write_file", arguments: &arguments };
//! let decision = rules.decide(&call);
//! assert_eq!((decision.effect, decision.rule), (Effect::RequireApproval, "policy.rules[1]"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod accept;
mod buckets;
mod call;
mod condition;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod glob;
mod intent;
pub mod limits;
mod object;
mod pattern;
mod pattern_index;
mod patterns;
mod rate;
mod repeat;
mod retention;
mod rules;
mod trust;

pub use accept::{Demands, Encryption, Unacceptable};
pub use buckets::{Buckets, Limited, Refused};
pub use call::{Agent, Arguments, Call, UnreadableArguments};
pub use condition::{ConditionFailure, Query};
pub use error::{Error, Problem};
pub use glob::Glob;
pub use intent::IntentName;
pub use object::{EffectivePolicy, IntentRefused, Policy};
pub use pattern::{IntentList, IntentPattern};
pub use rate::{Exceeded, Rate, TokenBucket};
pub use repeat::{Repeat, RepeatBreaker};
pub use retention::{Lifetime, Retention};
pub use rules::{
    Calls, Decision, Effect, Layer, Loosening, PartialCall, PartialName, Possible, Reason,
    RepeatConfig, RuleConfig, Rules, RulesConfig, tightens, tightens_listing,
};
pub use trust::TrustLevel;
