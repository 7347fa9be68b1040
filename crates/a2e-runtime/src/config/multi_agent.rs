//! The keys of a plugin of `type: multi_agent`.

use std::time::Duration;

use super::commands::command;
use super::read::Section;
use super::sections::{DAY, set};

/// Agents that agents have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiAgent {
    /// Programs that are agents, by the name that a sub-agent's `model` has.
    pub commands: Vec<AgentCommand>,
    /// How deep sub-agents may have sub-agents.
    pub max_depth: usize,
    /// How many one agent may have in all its sessions, with those of its sub-agents.
    pub max_agents: usize,
    /// Steps that all tasks of one agent may take.
    pub max_steps: usize,
    /// Tokens that all tasks of one agent may use.
    pub max_tokens: usize,
    /// How long a task may take, unless the sub-agent's own limit is less.
    pub timeout: Duration,
}

/// A program that is an agent: it speaks A2E over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// What it is called.
    pub name: String,
    /// The program and its arguments.
    pub words: Vec<String>,
}

impl Default for MultiAgent {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            max_depth: 3,
            max_agents: 10,
            max_steps: 1_000,
            max_tokens: 2_000_000,
            timeout: Duration::from_secs(3600),
        }
    }
}

pub(super) fn multi_agent(section: &mut Section<'_>) -> MultiAgent {
    let mut agents = MultiAgent::default();
    set(&mut agents.commands, section.field("commands"), |it| {
        let commands = it.entries()?.filter_map(|(name, it)| {
            let words = command(&it)?;
            let name = name.to_owned();
            Some(AgentCommand { name, words })
        });
        Some(commands.collect())
    });
    let counts = [
        ("max_depth", 1..=8, &mut agents.max_depth),
        ("max_agents", 1..=1000, &mut agents.max_agents),
        ("max_steps", 1..=1_000_000, &mut agents.max_steps),
        ("max_tokens", 1..=1_000_000_000, &mut agents.max_tokens),
    ];
    for (name, allowed, slot) in counts {
        set(slot, section.field(name), |it| it.count(allowed));
    }
    set(
        &mut agents.timeout,
        section.field("timeout_seconds"),
        |it| it.seconds(1..=DAY),
    );
    agents
}
