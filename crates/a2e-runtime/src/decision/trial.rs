//! Trying rules without doing anything: on a request that is given, or on one of which the audit log has
//! the type and the name.

use std::borrow::Cow;

use a2e_wire::{DecodeError, Decoder, Sender, Tag, Timestamp};
use policy::{Effect, PartialCall, PartialName, Possible};
use serde_json::{Map, Value};

use super::asked::Asked;
use super::listing::{CALLS, LISTINGS, capability};
use super::{agent, ask, rule_name};
use crate::auth::Identity;
use crate::policies::Policies;
use crate::registry::Registry;
use crate::resolution::Resolution;

/// Why rules cannot be tried on a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It is no message that an agent may send.
    #[error("this is no A2E message: {0}")]
    Message(Cow<'static, str>),
    /// Only a running node knows what it stands for.
    #[error(
        "the request names no `{0}`, so it stands for all that a node has, and its rules decide about \
         each of them; name a `{0}`"
    )]
    Open(&'static str),
}

/// Requests that start a program, about which rules decide too; which one the node's configuration says.
const STARTS_PROGRAMS: [Tag; 3] = [
    Tag::SubagentSpawnRequest,
    Tag::MultiAgentSpawnRequest,
    Tag::McpServerRegisterRequest,
];

/// What the nodes of a chain call.
const CALLED_BY_CHAINS: [&str; 3] = ["tools", "skill", "proc"];

impl Policies {
    /// What the rules say of a request as if an agent had sent it. More than one decision is possible if
    /// the request starts a program that it does not name. Rates and repetitions are not counted.
    ///
    /// # Errors
    /// If it is no request, or only a running node can say what it stands for.
    pub fn try_request(
        &self,
        identity: &Identity,
        line: &[u8],
    ) -> Result<Vec<Possible<'_>>, TrialError> {
        let mut decoder = Decoder::default();
        let message = decoder.decode(line, Sender::Agent, Timestamp::default());
        let message =
            message.map_err(|error: DecodeError| TrialError::Message(error.to_string().into()))?;
        let (registry, resolution) = (Registry::default(), Resolution::default());
        let asked = Asked::alone(identity, &message, line, &registry, &resolution);
        if let Some(member) = asked.left_out() {
            return Err(TrialError::Open(member));
        }
        let decision = ask(self.of(&identity.agent), asked);
        let mut all = vec![Possible {
            decision,
            when: None,
        }];
        if message
            .body
            .tag()
            .is_some_and(|tag| STARTS_PROGRAMS.contains(&tag))
        {
            self.add_stricter(&mut all, identity, &["proc"], |_| true);
        }
        Ok(all)
    }

    /// All decisions that the rules may make about a request of this type and name, whatever its arguments
    /// are.
    #[must_use]
    pub fn possible(&self, identity: &Identity, type_name: &str, name: &str) -> Vec<Possible<'_>> {
        let tag = Tag::parse(type_name, Sender::Agent);
        let rules = self.of(&identity.agent);
        let mut arguments = Map::new();
        // Of calls of tools and skills, conditions see the arguments alone.
        if !tag.is_some_and(|tag| CALLS.contains(&tag)) {
            arguments.insert("type".to_owned(), Value::from(type_name));
        }
        let mut all = rules.possible(&PartialCall {
            agent: agent(identity),
            capability: rule_name(capability(type_name).as_ref()),
            name: PartialName::Exact(name),
            arguments: &arguments,
        });
        match tag {
            // A default does not stand against a list.
            Some(tag) if LISTINGS.contains(&tag) => {
                for possible in &mut all {
                    possible.decision = possible.decision.of_listing();
                }
            }
            Some(Tag::ChainRequest) => {
                let is_counted = |effect| effect == Effect::Deny;
                self.add_stricter(&mut all, identity, &CALLED_BY_CHAINS, is_counted);
            }
            Some(tag) if STARTS_PROGRAMS.contains(&tag) => {
                self.add_stricter(&mut all, identity, &["proc"], |_| true);
            }
            Some(_) | None => {}
        }
        all
    }

    /// Adds the decisions about calls inside a request that would be stricter than those about itself.
    fn add_stricter<'r>(
        &'r self,
        all: &mut Vec<Possible<'r>>,
        identity: &Identity,
        capabilities: &[&str],
        is_counted: impl Fn(Effect) -> bool,
    ) {
        let Some(mildest) = all.iter().map(|it| it.decision.effect).min() else {
            return;
        };
        for capability in capabilities {
            let inside = self.of(&identity.agent).possible(&PartialCall {
                agent: agent(identity),
                capability,
                name: PartialName::Prefix(""),
                arguments: &Map::new(),
            });
            let counts = |it: &Possible<'_>| {
                let effect = it.decision.effect;
                effect > mildest && is_counted(effect)
            };
            all.extend(inside.into_iter().filter(counts));
        }
    }
}
