//! Capabilities: the names that are negotiated.

use crate::open_enum::open_enum;

open_enum! {
    /// A capability, in the spelling that is sent.
    Capability as "A2ECapability" {
        Skill = "skill",
        Tools = "tools",
        Toolkits = "toolkits",
        Env = "env",
        Proc = "proc",
        Memory = "memory",
        Learning = "learning",
        Chains = "chains",
        Mcp = "mcp",
        MultiAgent = "multi_agent",
        Planning = "planning",
        /// For tests of other implementations; nothing here serves it.
        Test = "test",
    }
}

/// Other spellings that peers use in `agent_caps` and in configuration files.
pub const CAPABILITY_ALIASES: &[(&str, Capability<'static>)] = &[
    ("learn", Capability::Learning),
    ("skills", Capability::Skill),
    ("procs", Capability::Proc),
    ("subagents", Capability::MultiAgent),
    ("subagent", Capability::MultiAgent),
    ("chain", Capability::Chains),
    ("tool", Capability::Tools),
    ("toolkit", Capability::Toolkits),
];

impl Capability<'_> {
    /// The capability a peer means by a name; `None` for a foreign one, which is to be ignored.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Capability<'static>> {
        Capability::known(name).or_else(|| {
            CAPABILITY_ALIASES
                .iter()
                .find(|(alias, _)| *alias == name)
                .map(|(_, capability)| capability.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        assert_eq!(Capability::from_name("skills"), Some(Capability::Skill));
        assert_eq!(Capability::from_name("skill"), Some(Capability::Skill));
        assert_eq!(Capability::from_name("streaming"), None);
    }
}
