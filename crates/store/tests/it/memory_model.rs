//! Memories after any sequence of operations: SQLite has what a list has that knows no index.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{
    Limits, Memories, NewEntry, Overflow, Rooms, SessionId, Store, Text, Tier, UnixMillis,
    Unwanted, Wanted,
};

use crate::subject::{self, ada, at, bob, limit, moment};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const TAGS: [&str; 3] = ["x", "Y", "z z"];
const WORDS: [&str; 6] = ["apple", "apples", "Berlin", "Berlni", "of", "東京"];

/// Those that no other is like: only what has them is found by them.
const ALONE: [usize; 2] = [4, 5];

#[derive(Debug, Clone)]
struct Step {
    now: i64,
    who: usize,
    tier: usize,
    keys: Vec<usize>,
    tags: Vec<usize>,
    words: Vec<usize>,
    lives: i64,
    act: Act,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Put,
    Find,
    FindAll,
    Forget,
    EndSession,
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let acts = [
        Act::Put,
        Act::Put,
        Act::Put,
        Act::Find,
        Act::FindAll,
        Act::Forget,
    ];
    let act = prop_oneof![
        12 => prop::sample::select(acts.to_vec()),
        1 => Just(Act::EndSession),
        1 => Just(Act::Sweep),
    ];
    let some = |count: usize, most: usize| prop::collection::vec(0..count, 0..=most);
    (
        0..40_i64,
        0..4_usize,
        0..3_usize,
        some(5, 2),
        some(3, 2),
        some(6, 4),
        1..30_i64,
        act,
    )
        .prop_map(|(now, who, tier, keys, tags, words, lives, act)| Step {
            now,
            who,
            tier,
            keys,
            tags,
            words,
            lives,
            act,
        })
}

/// What the list has of an entry.
#[derive(Debug, Clone)]
struct Known {
    place: (usize, usize),
    key: &'static str,
    tags: Vec<&'static str>,
    words: Vec<usize>,
    updated: i64,
    expires: i64,
}

/// A list of all entries in the order they were written.
#[derive(Debug, Default)]
struct Model(Vec<Known>);

/// Of the four who there are: two sessions of one agent, another agent, another space.
fn place(who: usize, tier: usize) -> (usize, usize) {
    match (who, tier) {
        (3, tier) => (3, tier),
        (_, 2) => (0, 2),
        (1, 1) => (0, 1),
        (who, tier) => (who, tier),
    }
}

fn handle(store: &Store, who: usize) -> Arc<dyn Memories> {
    let (agent, session, space) = match who {
        0 => (ada(), "s", "default"),
        1 => (ada(), "t", "default"),
        2 => (bob(), "s", "default"),
        _ => (ada(), "s", "other"),
    };
    store
        .for_agent(&agent)
        .memories(&SessionId::new(session).unwrap(), space)
}

const ROOM: usize = 3;

impl Model {
    fn put(&mut self, step: &Step) {
        for key in &step.keys {
            let place = place(step.who, step.tier);
            let key = KEYS[*key];
            self.0
                .retain(|known| (known.place, known.key) != (place, key));
            let is_full =
                |model: &Self| model.0.iter().filter(|known| known.place == place).count() >= ROOM;
            while is_full(self) {
                let here = |known: &Known| known.place == place;
                let expired = self
                    .0
                    .iter()
                    .position(|it| here(it) && it.expires <= step.now);
                let oldest = self.0.iter().position(here);
                self.0.remove(expired.or(oldest).unwrap());
            }
            let mut tags: Vec<&str> = step.tags.iter().map(|tag| TAGS[*tag]).collect();
            tags.sort_unstable();
            tags.dedup();
            self.0.push(Known {
                place,
                key,
                tags,
                words: step.words.clone(),
                updated: step.now,
                expires: step.now + step.lives,
            });
        }
    }

    fn fits(known: &Known, step: &Step, tier: usize) -> bool {
        known.place == place(step.who, tier)
            && known.expires > step.now
            && (step.keys.is_empty() || step.keys.iter().any(|key| KEYS[*key] == known.key))
            && (step.tags.is_empty()
                || step.tags.iter().any(|tag| known.tags.contains(&TAGS[*tag])))
    }

    fn find(&self, step: &Step, tiers: &[usize]) -> Vec<(&'static str, i64)> {
        let fits = |known: &&Known| tiers.iter().any(|tier| Self::fits(known, step, *tier));
        let mut found: Vec<_> = self
            .0
            .iter()
            .filter(fits)
            .map(|known| (known.key, known.updated))
            .collect();
        found.sort_unstable();
        found
    }

    /// The keys of what has a word, in the tiers that somebody sees.
    fn having(&self, word: usize, step: &Step) -> Vec<&'static str> {
        let is_seen = |known: &Known| (0..3).any(|tier| known.place == place(step.who, tier));
        let has = |known: &&Known| {
            is_seen(known) && known.expires > step.now && known.words.contains(&word)
        };
        let mut keys: Vec<&str> = self.0.iter().filter(has).map(|known| known.key).collect();
        keys.sort_unstable();
        keys
    }

    fn forget(&mut self, step: &Step) -> usize {
        let before = self.0.len();
        self.0.retain(|known| !Self::fits(known, step, step.tier));
        before - self.0.len()
    }

    fn end_session(&mut self, who: usize) {
        // Two of them are one session in two spaces.
        let ends: &[usize] = match who {
            0 | 3 => &[0, 3],
            1 => &[1],
            _ => &[2],
        };
        self.0
            .retain(|known| known.place.1 != 0 || !ends.contains(&known.place.0));
    }
}

impl Step {
    fn entries(&self) -> Vec<NewEntry> {
        let words: Vec<&str> = self.words.iter().map(|word| WORDS[*word]).collect();
        let entry = |key: &usize| NewEntry {
            tier: Tier::ALL[self.tier],
            key: KEYS[*key].to_owned(),
            content: "1".to_owned(),
            text: Text {
                title: String::new(),
                body: words.join(" "),
            },
            tags: self.tags.iter().map(|tag| TAGS[*tag].to_owned()).collect(),
            source: String::new(),
            weight: 1.0,
            created: at(self.now),
            expires: at(self.now + self.lives),
        };
        self.keys.iter().map(entry).collect()
    }

    fn wanted(&self, tiers: &[Tier], query: bool) -> Wanted {
        let words: Vec<&str> = self.words.iter().map(|word| WORDS[*word]).collect();
        Wanted {
            tiers: tiers.to_vec(),
            keys: self.keys.iter().map(|key| KEYS[*key].to_owned()).collect(),
            tags: self.tags.iter().map(|tag| TAGS[*tag].to_owned()).collect(),
            query: if query {
                words.join(" ")
            } else {
                String::new()
            },
            near: None,
            min_score: 0.0,
            limit: 20,
        }
    }

    /// Does it, and says what came of it.
    fn run(&self, store: &Store) -> String {
        let memories = handle(store, self.who);
        let now = at(self.now);
        let tier = Tier::ALL[self.tier];
        match self.act {
            Act::Put => {
                let rooms = Rooms {
                    working: ROOM,
                    episodic: ROOM,
                    semantic: ROOM,
                    overflow: Overflow::Evict,
                };
                format!("{:?}", memories.put(now, self.entries(), rooms).wait())
            }
            Act::Find => format!(
                "{:?}",
                memories.find(now, &self.wanted(&[tier], true)).wait()
            ),
            Act::FindAll => {
                let pages = Tier::ALL.map(|tier| memories.page(now, tier, 1, 3).wait());
                let found = memories.find(now, &self.wanted(&Tier::ALL, true)).wait();
                format!("{found:?} {pages:?} {:?}", memories.sizes(now).wait())
            }
            Act::Forget => {
                let Wanted {
                    tiers, keys, tags, ..
                } = self.wanted(&[tier], false);
                let unwanted = Unwanted { tiers, keys, tags };
                format!("{:?}", memories.forget(now, &unwanted).wait())
            }
            Act::EndSession => format!("{:?}", memories.end_session().wait()),
            Act::Sweep => format!("{:?}", store.sweep(moment(self.now)).wait()),
        }
    }

    /// The keys of what is found for a word, in all tiers.
    fn found_by(&self, store: &Store, word: usize) -> Vec<String> {
        let wanted = Wanted {
            tiers: Tier::ALL.to_vec(),
            query: WORDS[word].to_owned(),
            limit: 20,
            ..Wanted::default()
        };
        let found = handle(store, self.who).find(at(self.now), &wanted).wait();
        let mut keys: Vec<_> = found
            .unwrap()
            .entries
            .into_iter()
            .map(|(entry, _)| entry.key)
            .collect();
        keys.sort_unstable();
        keys
    }

    fn found(&self, store: &Store, tiers: &[Tier]) -> Vec<(String, i64)> {
        let wanted = self.wanted(tiers, false);
        let found = handle(store, self.who)
            .find(at(self.now), &wanted)
            .wait()
            .unwrap();
        assert_eq!((found.total, found.is_more), (found.entries.len(), false));
        let seconds = |time: UnixMillis| (time.0 - at(0).0) / 1000;
        let mut keys: Vec<_> = found
            .entries
            .into_iter()
            .map(|(entry, _)| (entry.key, seconds(entry.updated)))
            .collect();
        keys.sort_unstable();
        keys
    }
}

fn limits() -> Limits {
    Limits {
        memories: limit(100, 1000, 100_000),
        ..Limits::default()
    }
}

proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn memories_are_as_a_list(steps in prop::collection::vec(step(), 1..80)) {
        let memory = subject::memory(limits());
        let (sqlite, path) = subject::sqlite_at(limits());
        let mut model = Model::default();
        // Clocks go forward here: what is swept at a time is not there before it either.
        let mut now = 0;
        for (number, step) in steps.into_iter().enumerate() {
            now += step.now % 7;
            let step = Step { now, ..step };
            prop_assert_eq!(step.run(&sqlite), step.run(&memory), "step {}: {:?}", number, &step);
            match step.act {
                Act::Put => model.put(&step),
                Act::Forget => drop(model.forget(&step)),
                Act::EndSession => model.end_session(step.who),
                Act::Find | Act::FindAll | Act::Sweep => {}
            }
            for tiers in [vec![0], vec![1], vec![2], vec![0, 1, 2]] {
                let named: Vec<Tier> = tiers.iter().map(|tier| Tier::ALL[*tier]).collect();
                let found = step.found(&sqlite, &named);
                let found: Vec<(&str, i64)> =
                    found.iter().map(|(key, updated)| (&**key, *updated)).collect();
                prop_assert_eq!(found, model.find(&step, &tiers), "step {}: {:?}", number, &step);
            }
            for word in ALONE {
                let found = step.found_by(&sqlite, word);
                prop_assert_eq!(found, model.having(word, &step), "step {}: {:?}", number, &step);
            }
        }
        let report = store::check(&path).unwrap();
        prop_assert_eq!(report.problems, Vec::<String>::new());
    }
}
