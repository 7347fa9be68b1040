//! `frith memory`: what the agent of a token remembers on a node.

mod copy;

use std::io::Read;
use std::path::PathBuf;

use a2e_runtime::Client;
use a2e_wire::lenient::{MemoryKey, Ttl};
use a2e_wire::messages::memory::{
    MemoryEntry, MemoryForgetRequest, MemoryInitRequest, MemoryRetrieveRequest, MemoryStoreRequest,
    MemoryTier,
};
use a2e_wire::{MemoryId, OWN_VALUES, Object, Raw, Real};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::connect;
use crate::screen::plain;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// The memory: what one namespace has, no other sees
    #[arg(long, global = true, default_value = "default")]
    namespace: String,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Look for entries by words, tags or both; the best first, or else the latest
    Search {
        /// What they say
        words: Vec<String>,

        #[command(flatten)]
        which: Which,

        /// How many to show
        #[arg(long, default_value_t = 10)]
        limit: u16,

        /// Only those that fit so well: from 0 to 1
        #[arg(long, default_value_t = 0.0)]
        min_score: f64,
    },
    /// Show one entry, whole
    Get {
        /// Its key: a JSON object, or any text
        key: String,
    },
    /// Remember something, in place of what has the same key
    Put {
        /// Its key: a JSON object, or any text
        key: String,

        /// JSON, or any text; `-` reads it from standard input
        content: String,

        #[command(flatten)]
        which: Which,

        /// Seconds after which it is forgotten
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        ttl: u32,

        /// Where it is from
        #[arg(long, default_value = "", hide_default_value = true)]
        source: String,
    },
    /// Forget entries for good: by key, by tag, or a whole tier
    Forget {
        /// Their keys
        keys: Vec<String>,

        #[command(flatten)]
        which: Which,

        /// Forget everything in the tier
        #[arg(long, requires = "tier", conflicts_with_all = ["keys", "tags"])]
        all: bool,
    },
    /// Show how much there is in each tier
    Stats,
    /// Write all entries as JSON, one on a line
    Export {
        /// Where to, a new file; without it, or as `-`, standard output
        file: Option<PathBuf>,

        /// Only those of this tier
        #[arg(long)]
        tier: Option<Tier>,
    },
    /// Remember what `export` wrote, or other such lines: `key` and `content`, and what else there is
    Import {
        /// Where from; `-` is standard input
        file: PathBuf,

        /// Put all of it into this tier
        #[arg(long)]
        tier: Option<Tier>,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// In this tier
    #[arg(long)]
    tier: Option<Tier>,

    /// With this tag; any of several will do
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tier {
    /// Lives with its session
    Working,
    /// Lives with its agent
    Episodic,
    /// Shared by all agents
    Semantic,
}

impl Tier {
    const fn to_wire(self) -> MemoryTier<'static> {
        match self {
            Self::Working => MemoryTier::Working,
            Self::Episodic => MemoryTier::Episodic,
            Self::Semantic => MemoryTier::Semantic,
        }
    }
}

/// Why nothing is put into a tier.
const OF_SESSION: &str = "the tier `working` lives with its session, and that of this command ends with it: \
                          what you put there would be forgotten at once; choose `episodic` or `semantic`";

/// A memory of a host.
struct Opened<'c> {
    client: &'c Client,
    id: MemoryId<'static>,
    tiers: Value,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let into = match &arguments.action {
        Action::Put { which, .. } => which.tier,
        Action::Import { tier, .. } => *tier,
        Action::Search { .. }
        | Action::Get { .. }
        | Action::Forget { .. }
        | Action::Stats
        | Action::Export { .. } => None,
    };
    if into == Some(Tier::Working) {
        return Ok(Outcome::WrongArguments(OF_SESSION.to_owned()));
    }
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&["memory"]).await?;
        let opened = Opened::new(&connection.client, &arguments.namespace).await?;
        let outcome = act(&arguments.action, &opened, as_json).await;
        connection.close().await;
        outcome
    })
}

async fn act(action: &Action, opened: &Opened<'_>, as_json: bool) -> Result<Outcome> {
    match action {
        Action::Search {
            words,
            which,
            limit,
            min_score,
        } => {
            let request = MemoryRetrieveRequest {
                query: words.join(" ").into(),
                limit: (*limit).into(),
                min_score: Real::new(*min_score).context("--min-score must be a number")?,
                ..opened.request(which)
            };
            opened.search(request, as_json).await
        }
        Action::Get { key } => opened.get(key, as_json).await,
        Action::Put {
            key,
            content,
            which,
            ttl,
            source,
        } => {
            let tier = which.tier.unwrap_or(Tier::Episodic).to_wire();
            let now = copy::now();
            let entry = MemoryEntry {
                tags: which.tags.iter().map(|tag| tag.clone().into()).collect(),
                ttl: Ttl((*ttl).into()),
                source: source.clone().into(),
                ..MemoryEntry::new(self::key(key)?, self::content(content)?, tier, now, now)
            };
            opened.put(entry, as_json).await
        }
        Action::Forget { keys, which, all } => {
            if keys.is_empty() && which.tags.is_empty() && !all {
                let text = "name keys or --tag, or --tier and --all to forget a whole tier";
                return Ok(Outcome::WrongArguments(text.to_owned()));
            }
            opened.forget(keys, which, as_json).await
        }
        Action::Stats => opened.stats(as_json),
        Action::Export { file, tier } => {
            let tiers = tier.map_or_else(|| vec![Tier::Episodic, Tier::Semantic], |it| vec![it]);
            copy::export(opened, file.as_deref(), &tiers).await
        }
        Action::Import { file, tier } => copy::import(opened, file, *tier, as_json).await,
    }
}

impl<'c> Opened<'c> {
    async fn new(client: &'c Client, namespace: &str) -> Result<Self> {
        let request = MemoryInitRequest {
            namespace: namespace.to_owned().into(),
            ..MemoryInitRequest::new()
        };
        let answer = client
            .request(request)
            .await
            .context("cannot open the memory")?;
        let tiers = answer.tiers.as_ref().map(|tiers| tiers.raw().deserialize());
        Ok(Self {
            client,
            id: answer.memory_id.clone(),
            tiers: tiers.transpose()?.unwrap_or_default(),
        })
    }

    fn request(&self, which: &Which) -> MemoryRetrieveRequest<'static> {
        MemoryRetrieveRequest {
            memory_id: self.id.clone(),
            tags: which.tags.iter().map(|tag| tag.clone().into()).collect(),
            tier: which
                .tier
                .map_or_else(|| MemoryTier::Other("".into()), Tier::to_wire),
            ..MemoryRetrieveRequest::new()
        }
    }

    async fn search(
        &self,
        request: MemoryRetrieveRequest<'static>,
        as_json: bool,
    ) -> Result<Outcome> {
        let asked = self.client.request(request).await;
        let found = asked.context("cannot look into the memory")?;
        if as_json {
            let entries: Result<Vec<_>> = found.entries.iter().map(told).collect();
            print_json(&entries?)?;
            return Ok(Outcome::Good);
        }
        for entry in &found.entries {
            print(&line(entry))?;
        }
        let shown = found.entries.len();
        let more = if found.more == Some(true) {
            "more than "
        } else {
            ""
        };
        print(&match (shown, found.total) {
            (0, 0) => "nothing fits".to_owned(),
            (shown, total) => format!("{shown} of {more}{total}"),
        })?;
        Ok(Outcome::Good)
    }

    async fn get(&self, key: &str, as_json: bool) -> Result<Outcome> {
        let with = |key| MemoryRetrieveRequest {
            memory_id: self.id.clone(),
            keys: vec![key],
            ..MemoryRetrieveRequest::new()
        };
        let asked = self.client.request(with(self::key(key)?)).await;
        let mut found = asked.context("cannot look into the memory")?;
        if found.entries.is_empty()
            && let Some(key) = as_string(key)
            && let Ok(other) = self.client.request(with(key)).await
        {
            found = other;
        }
        if found.entries.is_empty() {
            bail!(
                "nothing has the key {}; `frith memory search` looks for words",
                plain(key)
            );
        }
        for entry in &found.entries {
            let all = told(entry)?;
            match as_json {
                true => print(&all)?,
                false => print(&serde_json::to_string_pretty(&all)?)?,
            }
        }
        Ok(Outcome::Good)
    }

    async fn put(&self, entry: MemoryEntry<'static>, as_json: bool) -> Result<Outcome> {
        let request = MemoryStoreRequest {
            memory_id: self.id.clone(),
            entries: vec![entry],
        };
        let answer = self.client.request(request).await;
        let answer = answer.context("it cannot be remembered")?;
        match answer.errors.first() {
            Some(why) => Err(anyhow!("it cannot be remembered: {}", plain(why))),
            None => {
                if as_json {
                    print(&json!({"stored": answer.stored.len()}))?;
                }
                Ok(Outcome::Good)
            }
        }
    }

    async fn forget(&self, keys: &[String], which: &Which, as_json: bool) -> Result<Outcome> {
        let with = |keys| MemoryForgetRequest {
            memory_id: self.id.clone(),
            keys,
            tags: which.tags.iter().map(|tag| tag.clone().into()).collect(),
            tier: which
                .tier
                .map_or_else(|| MemoryTier::Other("".into()), Tier::to_wire),
        };
        let all: Result<Vec<_>> = keys.iter().map(|key| self::key(key)).collect();
        let answer = self.client.request(with(all?)).await;
        let mut deleted = answer.context("it cannot be forgotten")?.deleted;
        let strings: Vec<_> = keys.iter().filter_map(|key| as_string(key)).collect();
        if !strings.is_empty()
            && let Ok(others) = self.client.request(with(strings)).await
        {
            deleted = deleted.saturating_add(others.deleted);
        }
        match as_json {
            true => print(&json!({"deleted": deleted}))?,
            false => print(&format!("forgot {deleted}"))?,
        }
        Ok(Outcome::Good)
    }

    fn stats(&self, as_json: bool) -> Result<Outcome> {
        if as_json {
            print(&self.tiers)?;
            return Ok(Outcome::Good);
        }
        for tier in ["working", "episodic", "semantic"] {
            let size = &self.tiers[tier];
            let Some(entries) = size["entries"].as_u64() else {
                continue;
            };
            let bytes = size["bytes"].as_u64().unwrap_or_default();
            print(&format!("{tier:9} {entries:>9} entries {bytes:>12} bytes"))?;
        }
        Ok(Outcome::Good)
    }
}

/// A key: an object if it is one, else the text in an object, since some hosts take no other keys.
fn key(text: &str) -> Result<MemoryKey<'static>> {
    let Ok(object) = Object::parse(text) else {
        return Ok(MemoryKey::of_text(text));
    };
    let key = MemoryKey::new(object.into_raw().into_owned());
    key.context("a key must be a JSON object or a text")
}

/// The same text as a key that is a string, which agents store too. None for an object.
fn as_string(text: &str) -> Option<MemoryKey<'static>> {
    let is_object = Object::parse(text).is_ok();
    let raw = (!is_object).then(|| Raw::from_serialize(text).ok());
    MemoryKey::new(raw??)
}

/// JSON if it is some, else the text itself.
fn content(text: &str) -> Result<Raw<'static>> {
    let mut read = String::new();
    let text = match text {
        "-" => {
            std::io::stdin().read_to_string(&mut read)?;
            read.trim_end_matches('\n')
        }
        text => text,
    };
    Ok(match Raw::parse(text, OWN_VALUES) {
        Ok(raw) => raw.into_owned(),
        Err(_) => Raw::from_serialize(text)?,
    })
}

/// An entry as JSON, with all there is of it.
fn told(entry: &MemoryEntry<'_>) -> Result<Value> {
    Ok(Object::from_record(entry)?.raw().deserialize()?)
}

/// An entry in a line.
fn line(entry: &MemoryEntry<'_>) -> String {
    const WIDTH: usize = 100;
    let word = |raw: &Raw<'_>| {
        let text = raw
            .deserialize::<String>()
            .unwrap_or_else(|_| raw.as_str().to_owned());
        let text = plain(text);
        match text.chars().count() > WIDTH {
            true => text.chars().take(WIDTH).chain(['…']).collect(),
            false => text,
        }
    };
    let mut line = format!("{:.2} {:8} ", entry.score.get(), entry.tier.as_str());
    let key = entry
        .key
        .text()
        .and_then(|text| Raw::from_serialize(&text).ok());
    let key = key.as_ref().unwrap_or_else(|| entry.key.raw());
    line += &format!("{}  {}", word(key), word(&entry.content));
    if !entry.tags.is_empty() {
        line += &format!("  [{}]", plain(entry.tags.join(", ")));
    }
    line
}
