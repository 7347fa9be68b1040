//! The sections `policy` and `agents`: what agents may do.

use policy::{Effect, RepeatConfig, RuleConfig, RulesConfig, TrustLevel};

use super::read::{Field, Section};
use super::{AgentPolicy, Policy};

const EFFECTS: [(&str, Effect); 3] = [
    ("allow", Effect::Allow),
    ("require_approval", Effect::RequireApproval),
    ("deny", Effect::Deny),
];

pub(super) const LEVELS: [(&str, TrustLevel); 3] = [
    ("self", TrustLevel::Own),
    ("delegated", TrustLevel::Delegated),
    ("verified", TrustLevel::Verified),
];

/// The section `agents`: rules of single agents, which go before the common ones.
pub(super) fn agents(field: &Field<'_>) -> Option<Vec<AgentPolicy>> {
    let mut agents: Vec<AgentPolicy> = Vec::new();
    for field in field.list()? {
        let Some(mut section) = field.section() else {
            continue;
        };
        let name = section.required("name", field.at());
        let did = section.field("did").map(|it| super::a2a::did(&it));
        let policy = section.given("policy");
        section.finish();
        // A DID is enough to be an agent: the common rules are its own then.
        let rules = match (&policy, &did) {
            (Some(policy), _) => rules(policy),
            (None, Some(_)) => Some(RulesConfig::default()),
            (None, None) => None,
        };
        let name = name.and_then(|name| {
            let text = name.word()?;
            match agents.iter().any(|agent| agent.name == text) {
                true => name.wrong("is there twice"),
                false => Some(text),
            }
        });
        let did = did.flatten();
        let taken = did.as_ref().filter(|did| {
            let mut others = agents.iter().filter_map(|agent| agent.did.as_ref());
            others.any(|other| other == *did)
        });
        if taken.is_some() {
            field.wrong::<()>("has the DID of another agent");
        }
        if let (Some(name), Some(policy)) = (name, rules) {
            agents.push(AgentPolicy { name, did, policy });
        }
    }
    Some(agents)
}

/// The section `policy`.
pub(super) fn rules(field: &Field<'_>) -> Option<RulesConfig> {
    let mut config = RulesConfig::default();
    let mut section = field.section()?;
    config.default = section.given("default").and_then(|it| effect(&it));
    if let Some(defaults) = section.given("defaults") {
        for (name, field) in defaults.entries()? {
            config
                .defaults
                .extend(effect(&field).map(|effect| (name.to_owned(), effect)));
        }
    }
    if let Some(list) = section.given("rules") {
        config.rules = list.list()?.filter_map(|it| rule(&it)).collect();
    }
    config.repeat = section.given("repeat").and_then(|it| repeat(&it));
    config.rate_limit = section.given("rate_limit").and_then(|it| number(&it));
    config.rate_period = section.given("rate_period").and_then(|it| number(&it));
    section.finish();
    Some(config)
}

fn rule(field: &Field<'_>) -> Option<RuleConfig> {
    let mut section = field.section()?;
    let mut words = |name| one_or_many(&mut section, name);
    let (agent, did) = (words("agent")?, words("did")?);
    let (capability, name) = (words("capability")?, words("name")?);
    let trust = trust(&mut section)?;
    let mut word = |name| match section.given(name) {
        Some(field) => field.word().map(Some),
        None => Some(None),
    };
    let (id, when, reason) = (word("id")?, word("when")?, word("reason")?);
    let action = section.required("action", field.at());
    let action = action.and_then(|it| effect(&it));
    section.finish();
    Some(RuleConfig {
        id,
        agent,
        did,
        trust,
        capability,
        name,
        when,
        action: action?,
        reason,
    })
}

/// What may be a single word or a list of them. An outer none is a mistake.
#[expect(clippy::option_option, reason = "a mistake is not the same as nothing")]
fn one_or_many(section: &mut Section<'_>, name: &'static str) -> Option<Option<Vec<String>>> {
    match section.given(name) {
        None => Some(None),
        Some(field) if field.is_text() => Some(Some(vec![field.word()?])),
        Some(field) => field.words().map(Some),
    }
}

#[expect(clippy::option_option, reason = "a mistake is not the same as nothing")]
fn trust(section: &mut Section<'_>) -> Option<Option<Vec<TrustLevel>>> {
    match section.given("trust") {
        None => Some(None),
        Some(field) if field.is_text() => Some(Some(vec![field.choice(&LEVELS)?])),
        Some(field) => {
            let levels: Option<Vec<TrustLevel>> =
                field.list()?.map(|it| it.choice(&LEVELS)).collect();
            levels.map(Some)
        }
    }
}

fn repeat(field: &Field<'_>) -> Option<RepeatConfig> {
    let mut section = field.section()?;
    let calls = section.required("calls", field.at());
    let window = section.required("window", field.at());
    let action = section.required("action", field.at());
    section.finish();
    Some(RepeatConfig {
        calls: number(&calls?)?,
        window: number(&window?)?,
        action: effect(&action?)?,
    })
}

fn effect(field: &Field<'_>) -> Option<Effect> {
    field.choice(&EFFECTS)
}

fn number(field: &Field<'_>) -> Option<u32> {
    field.integer(0..=i64::from(u32::MAX))?.try_into().ok()
}

/// All that the rules say wrong although they are written right.
pub(super) fn problems(policy: &Policy) -> Vec<String> {
    match crate::policies::Policies::compile(policy) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}
