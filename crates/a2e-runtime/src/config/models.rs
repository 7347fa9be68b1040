//! The section `models`: language models that skills and sub-agents are run with.

use std::time::Duration;

use super::read::Field;
use super::sections::{Reader, set, set_some};
use crate::secret::Secret;

/// A language model behind an endpoint as OpenAI has it: `POST URL/chat/completions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// What it is called here; `default` is the one that is meant where none is named.
    pub name: String,
    /// Where it begins, such as `https://api.example/v1`.
    pub url: String,
    /// Its name there.
    pub model: String,
    /// The credential it asks for.
    pub api_key: Option<Secret>,
    /// Hosts that it may be at although their addresses are not public.
    pub private_hosts: Vec<String>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// Tokens of one answer.
    pub max_answer_tokens: usize,
    /// Tokens of all that one skill or one task reads and writes.
    pub max_tokens: usize,
    /// Whether agents may use it with credentials of their own (`llm_override`).
    pub allow_override: bool,
}

impl Reader<'_> {
    pub(super) fn models(&self, field: &Field<'_>) -> Option<Vec<Model>> {
        let models = field.entries()?;
        Some(
            models
                .filter_map(|(name, it)| self.model(name, &it))
                .collect(),
        )
    }

    fn model(&self, name: &str, field: &Field<'_>) -> Option<Model> {
        let mut section = field.section()?;
        let url = section.required("url", field.at());
        let model = section.required("model", field.at());
        let mut read = Model {
            name: name.to_owned(),
            url: String::new(),
            model: String::new(),
            api_key: None,
            private_hosts: Vec::new(),
            timeout: Duration::from_secs(120),
            max_answer_tokens: 4_096,
            max_tokens: 200_000,
            allow_override: false,
        };
        set_some(&mut read.api_key, section.field("api_key"), |it| {
            self.secret(it)
        });
        set(
            &mut read.private_hosts,
            section.field("private_hosts"),
            |it| it.words(),
        );
        set(&mut read.timeout, section.field("timeout_seconds"), |it| {
            it.seconds(1..=3600)
        });
        let counts = [
            ("max_answer_tokens", &mut read.max_answer_tokens),
            ("max_tokens", &mut read.max_tokens),
        ];
        for (name, slot) in counts {
            set(slot, section.field(name), |it| it.count(1..=100_000_000));
        }
        set(
            &mut read.allow_override,
            section.field("allow_override"),
            |it| it.boolean(),
        );
        section.finish();
        read.url = url?.word()?;
        read.model = model?.word()?;
        Some(read)
    }
}
