//! What a sub-agent may do: no more than the agent that has it.

use std::collections::BTreeSet;

use a2e_runtime::Failure;
use a2e_wire::messages::subagent::{MemoryScope, ToolScope};
use a2e_wire::{Body, Capability, ErrorCode, Namespace, Tag};

/// What a sub-agent may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    /// The tools it may call; all if there is no list.
    tools: Option<BTreeSet<String>>,
    /// The capabilities it may use; all if there is no list.
    capabilities: Option<BTreeSet<String>>,
}

/// Whose memory a sub-agent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// That of the agent that has it.
    Shared,
    /// One of its own, empty at first.
    Isolated,
    /// One of its own, which begins as a copy.
    Snapshot,
}

impl Memory {
    pub(super) fn of(scope: &MemoryScope<'_>) -> Self {
        match scope {
            MemoryScope::Shared => Self::Shared,
            MemoryScope::Snapshot => Self::Snapshot,
            // Who asks for something that nobody knows gets the least.
            MemoryScope::Isolated | MemoryScope::Other(_) => Self::Isolated,
        }
    }
}

impl Scope {
    /// What the agent itself may do.
    pub(super) const ALL: Self = Self {
        tools: None,
        capabilities: None,
    };

    /// What is asked for: `words` are capabilities, or tools.
    pub(super) fn asked(scope: &ToolScope<'_>, words: &[String]) -> Self {
        if *scope == ToolScope::Shared {
            return Self::ALL;
        }
        let (mut tools, mut capabilities) = (BTreeSet::new(), BTreeSet::new());
        for word in words {
            match Capability::from_name(word) {
                Some(known) => drop(capabilities.insert(known.as_str().to_owned())),
                None => drop(tools.insert(word.clone())),
            }
        }
        let has_all_tools = capabilities.contains(Capability::Tools.as_str());
        if *scope == ToolScope::Restricted {
            if !tools.is_empty() {
                capabilities.insert(Capability::Tools.as_str().to_owned());
            }
            return Self {
                tools: (!has_all_tools || !tools.is_empty()).then_some(tools),
                capabilities: Some(capabilities),
            };
        }
        // Isolated, or something that nobody knows: no tools, whatever is asked for.
        capabilities.remove(Capability::Tools.as_str());
        Self {
            tools: Some(BTreeSet::new()),
            capabilities: Some(capabilities),
        }
    }

    /// As much of it as another has.
    pub(super) fn within(self, other: &Self) -> Self {
        Self {
            tools: both(self.tools, &other.tools),
            capabilities: both(self.capabilities, &other.capabilities),
        }
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        let has = |list: &Option<BTreeSet<String>>, word: &str| {
            list.as_ref().is_none_or(|list| list.contains(word))
        };
        has(&self.capabilities, Capability::Tools.as_str()) && has(&self.tools, name)
    }

    pub(super) fn has(&self, capability: &Capability<'_>) -> bool {
        let list = self.capabilities.as_ref();
        let is_listed = list.is_none_or(|list| list.contains(capability.as_str()));
        // These reach tools by ways that know nothing of this list.
        let reaches_tools = [Capability::Chains, Capability::Skill, Capability::Mcp];
        is_listed && (self.tools.is_none() || !reaches_tools.contains(capability))
    }

    /// Whether a request may be made at all.
    pub(super) fn permit(&self, body: &Body<'_>) -> Result<(), Failure> {
        let namespace = body.tag().map_or(Namespace::Base, Tag::namespace);
        let is_in = match (body, namespace.capability()) {
            (Body::ToolCallRequest(call), _) => self.has_tool(&call.tool_name),
            (_, Some(capability)) => self.has(&capability),
            (_, None) => false,
        };
        match is_in {
            true => Ok(()),
            false => {
                let text = "the agent that has this one has not given it that";
                Err(Failure::new(ErrorCode::ToolDenied, namespace, text))
            }
        }
    }
}

fn both(
    list: Option<BTreeSet<String>>,
    other: &Option<BTreeSet<String>>,
) -> Option<BTreeSet<String>> {
    match (list, other) {
        (None, other) => other.clone(),
        (list, None) => list,
        (Some(list), Some(other)) => Some(list.intersection(other).cloned().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(kind: ToolScope<'_>, words: &[&str]) -> Scope {
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        Scope::asked(&kind, &words)
    }

    #[test]
    fn nobody_gives_more_than_it_has() {
        let parent = scope(ToolScope::Restricted, &["grep", "glob", "memory"]);
        assert!(parent.has_tool("grep") && !parent.has_tool("run_command"));
        assert!(parent.has(&Capability::Memory) && !parent.has(&Capability::Proc));
        let child = scope(ToolScope::Shared, &[]).within(&parent);
        assert_eq!(child, parent);
        let child = scope(ToolScope::Restricted, &["grep", "run_command", "proc"]).within(&parent);
        assert!(child.has_tool("grep") && !child.has_tool("run_command"));
        assert!(!child.has(&Capability::Proc) && !child.has(&Capability::Memory));
    }

    #[test]
    fn words_are_tools_or_capabilities() {
        let all = scope(ToolScope::Restricted, &["tools", "skills"]);
        assert!(all.has_tool("anything") && all.has(&Capability::Skill));
        let none = scope(ToolScope::Restricted, &[]);
        assert!(!none.has_tool("grep") && !none.has(&Capability::Tools));
        let isolated = scope(ToolScope::Isolated, &["tools", "grep", "memory"]);
        assert!(!isolated.has_tool("grep") && isolated.has(&Capability::Memory));
        let odd = scope(ToolScope::Other("everything".into()), &["tools"]);
        assert!(!odd.has_tool("grep"));
    }

    /// What runs tools by itself is not for who has only some of them.
    #[test]
    fn there_is_no_way_around_the_list() {
        let some = scope(ToolScope::Restricted, &["grep", "chains", "skill", "mcp"]);
        for capability in [Capability::Chains, Capability::Skill, Capability::Mcp] {
            assert!(!some.has(&capability), "{}", capability.as_str());
        }
    }
}
