//! Finding tools by words: BM25 over what definitions say, after the substring rule of A2E.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Definition;

/// Finds definitions by the words of a query. Built once for a set of them.
#[derive(Debug, Default)]
pub struct Index {
    /// Where each word stands, and with what weight.
    words: BTreeMap<String, Vec<(usize, f64)>>,
    /// What each definition weighs as a whole.
    weights: Vec<f64>,
    average: f64,
    /// For the substring rule: name, description and tags of each, in lower case.
    texts: Vec<Vec<String>>,
    by_name: HashMap<String, usize>,
}

/// So many are found by their words alone; those that have the query as a substring are all found.
pub const MAX_RANKED: usize = 10;

// The usual constants of BM25.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

// What a word counts where it stands.
const NAME: f64 = 3.0;
const TAG: f64 = 2.0;
const PARAMETER: f64 = 1.0;
const DESCRIPTION: f64 = 1.0;

/// What a word counts that only begins like one of the query.
const RELATED: f64 = 0.4;

/// Words that say nothing about what is looked for.
#[rustfmt::skip]
const NOISE: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "if",
    "in", "into", "is", "it", "me", "my", "need", "of", "on", "or", "our", "please", "some", "that",
    "the", "them", "there", "this", "to", "tool", "us", "want", "what", "which", "with", "you",
];

impl Index {
    /// The index of these.
    pub fn build<'d>(definitions: impl IntoIterator<Item = &'d Definition>) -> Self {
        let mut index = Self::default();
        for (at, definition) in definitions.into_iter().enumerate() {
            let mut counted: BTreeMap<String, f64> = BTreeMap::new();
            let mut count = |text: &str, weight: f64| {
                for word in words(text) {
                    *counted.entry(word).or_default() += weight;
                }
            };
            count(definition.name(), NAME);
            count(definition.description(), DESCRIPTION);
            for tag in definition.all_tags() {
                count(tag, TAG);
            }
            for parameter in parameter_names(definition.input_schema().value()) {
                count(parameter, PARAMETER);
            }
            index.weights.push(counted.values().sum());
            for (word, weight) in counted {
                index.words.entry(word).or_default().push((at, weight));
            }
            let mut texts = vec![definition.name().to_lowercase()];
            texts.push(definition.description().to_lowercase());
            texts.extend(definition.all_tags().iter().map(|tag| tag.to_lowercase()));
            index.texts.push(texts);
            index.by_name.insert(definition.name().to_lowercase(), at);
        }
        index.average = index.weights.iter().sum::<f64>() / count(index.weights.len().max(1));
        index
    }

    /// The places of those that fit, the best first: one of exactly that name, then by their words;
    /// then what has the query only as a part of some word.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<usize> {
        self.search_among(query, |_| true)
    }

    /// The same among some of them: those at places that fit.
    #[must_use]
    pub fn search_among(&self, query: &str, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        // Before its case is lost, which parts `camelCase`.
        let scores = self.scores(query);
        let query = query.trim().to_lowercase();
        let scores = scores.into_iter().enumerate();
        let scores = scores.filter(|(at, score)| *score > 0.0 && fits(*at));
        let mut ranked: Vec<(usize, f64)> = scores.collect();
        ranked.sort_by(|(at, score), (other_at, other)| {
            other.total_cmp(score).then_with(|| at.cmp(other_at))
        });
        let has_it = |at: usize| {
            let texts = self.texts.get(at).into_iter().flatten();
            texts.into_iter().any(|text| text.contains(&query))
        };
        let exact = self.by_name.get(&query).copied().filter(|at| fits(*at));
        let mut found: Vec<usize> = exact.into_iter().collect();
        let by_words = ranked.iter().enumerate();
        let by_words = by_words.filter(|(rank, (at, _))| *rank < MAX_RANKED || has_it(*at));
        found.extend(
            by_words
                .map(|(_, (at, _))| *at)
                .filter(|at| Some(*at) != exact),
        );
        let mut is_found = vec![false; self.texts.len()];
        for at in &found {
            is_found.get_mut(*at).into_iter().for_each(|it| *it = true);
        }
        let rest = is_found
            .iter()
            .enumerate()
            .filter(|(_, is_found)| !**is_found);
        let rest = rest.map(|(at, _)| at).filter(|at| fits(*at) && has_it(*at));
        let rest: Vec<usize> = rest.collect();
        found.extend(rest);
        found
    }

    /// What each definition has of the words of a query; more than nothing if it has any.
    fn scores(&self, query: &str) -> Vec<f64> {
        let mut asked: Vec<String> = words(query).collect();
        if asked.iter().any(|word| !is_noise(word)) {
            asked.retain(|word| !is_noise(word));
        }
        asked.sort();
        asked.dedup();
        let mut scores = vec![0.0; self.weights.len()];
        for word in asked {
            match self.words.get(&word) {
                Some(places) => self.add(&mut scores, places, 1.0),
                None => {
                    for places in self.related(&word) {
                        self.add(&mut scores, places, RELATED);
                    }
                }
            }
        }
        scores
    }

    /// Words that begin with one that is not known, such as `repository` with `repo`.
    fn related(&self, word: &str) -> impl Iterator<Item = &Vec<(usize, f64)>> {
        let begins = self.words.range(word.to_owned()..);
        let word = word.to_owned();
        begins
            .take_while(move |(known, _)| word.len() > 2 && known.starts_with(&word))
            .map(|(_, places)| places)
    }

    fn add(&self, scores: &mut [f64], places: &[(usize, f64)], share: f64) {
        let (all, with) = (count(self.weights.len()), count(places.len()));
        let rarity = ((all - with + 0.5) / (with + 0.5)).ln_1p();
        for (at, weight) in places {
            let whole = self.weights.get(*at).copied().unwrap_or_default();
            let length = 1.0 - LENGTH + LENGTH * whole / self.average.max(f64::MIN_POSITIVE);
            let score = weight * (SATURATION + 1.0) / (weight + SATURATION * length);
            if let Some(sum) = scores.get_mut(*at) {
                *sum += share * rarity * score;
            }
        }
    }
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn is_noise(word: &str) -> bool {
    NOISE.iter().any(|noise| stem(noise) == word)
}

/// The names of all parameters, nested ones included.
fn parameter_names(schema: &Value) -> Vec<&str> {
    let (mut names, mut open) = (Vec::new(), vec![schema]);
    while let Some(schema) = open.pop() {
        let members = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in members.into_iter().flatten() {
            names.push(name.as_str());
            open.push(schema);
        }
        open.extend(schema.get("items"));
    }
    names
}

/// The words of a text by their stems: parted at what is no letter or digit and at `camelCase`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut parted = String::with_capacity(text.len());
    let mut was_lower = false;
    for letter in text.chars() {
        if letter.is_uppercase() && was_lower {
            parted.push(' ');
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        match letter.is_alphanumeric() {
            true => parted.extend(letter.to_lowercase()),
            false => parted.push(' '),
        }
    }
    let words: Vec<String> = parted.split_whitespace().map(stem).collect();
    words.into_iter()
}

/// A word without its usual English endings: `creates`, `created` and `creating` are one.
fn stem(word: &str) -> String {
    if !word.is_ascii() {
        return word.to_owned();
    }
    let ends = |end: &str, least: usize| {
        word.strip_suffix(end)
            .filter(|begin| begin.len() >= least)
            .map(str::to_owned)
    };
    let plural = || match word.ends_with("ss") || word.ends_with("us") {
        true => None,
        false => ends("s", 3),
    };
    let mut stem = ends("ies", 2)
        .map(|begin| begin + "y")
        .or_else(|| ends("sses", 1).map(|begin| begin + "ss"))
        .or_else(|| ends("ing", 3))
        .or_else(|| ends("ed", 3))
        .or_else(plural)
        .unwrap_or_else(|| word.to_owned());
    let bytes = stem.as_bytes();
    let is_doubled = bytes.len() > 3 && bytes.last() == bytes.iter().nth_back(1);
    if is_doubled && !stem.ends_with(['s', 'l', 'z']) {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index(tools: &[(&str, &str, &[&str])]) -> Index {
        let definitions: Vec<Definition> = tools
            .iter()
            .map(|(name, text, tags)| {
                let schema = json!({"type": "object", "properties": {"recipient": {}}});
                let definition = Definition::new(*name, *text, &schema).unwrap();
                definition.tags(tags.iter().copied())
            })
            .collect();
        Index::build(&definitions)
    }

    #[test]
    fn forms_of_a_word_are_one() {
        for forms in [
            ["create", "creates", "created", "creating"],
            ["run", "runs", "running", "run"],
            ["query", "queries", "query", "queries"],
            ["process", "processes", "processed", "processing"],
            ["file", "files", "filed", "filing"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(
                stems.iter().all(|it| *it == stems[0]),
                "{forms:?} {stems:?}"
            );
        }
    }

    #[test]
    fn an_exact_name_comes_first() {
        let index = index(&[
            ("send_mail_now", "send mail, mail, mail", &["mail"]),
            ("mail", "x", &[]),
        ]);
        assert_eq!(index.search("MAIL"), [1, 0]);
    }

    #[test]
    fn what_has_the_query_inside_is_always_found() {
        let index = index(&[
            ("spreadsheet", "rows", &[]),
            ("a", "has Threads", &[]),
            ("b", "x", &["Unread"]),
            ("c", "y", &[]),
        ]);
        assert_eq!(index.search("read"), [0, 1, 2]);
    }

    #[test]
    fn words_alone_find_only_so_many() {
        let tools: Vec<String> = (0..40).map(|number| format!("get{number}")).collect();
        let tools: Vec<_> = tools
            .iter()
            .map(|name| (name.as_str(), "an order of goods", &[][..]))
            .collect();
        let index = index(&tools);
        assert_eq!(index.search("goods order").len(), MAX_RANKED);
        assert_eq!(index.search("order of goods").len(), 40);
        assert_eq!(index.search("").len(), 40);
    }

    /// What may not be found takes no place from what may.
    #[test]
    fn some_are_searched_as_if_there_were_no_others() {
        let tools: Vec<String> = (0..40).map(|number| format!("get{number}")).collect();
        let tools: Vec<_> = tools
            .iter()
            .map(|name| (name.as_str(), "an order of goods", &[][..]))
            .collect();
        let index = index(&tools);
        assert_eq!(index.search_among("goods order", |at| at > 37), [38, 39]);
        assert_eq!(index.search_among("GET3", |at| at != 3).len(), 10);
    }

    #[test]
    fn parameters_and_beginnings_count() {
        let index = index(&[("x", "y", &[]), ("repository_list", "z", &[])]);
        assert_eq!(index.search("recipients").len(), 2);
        assert_eq!(index.search("all repos there are"), [1]);
        assert_eq!(index.search("listRepository"), [1]);
        assert!(index.search("nothing").is_empty());
        assert!(Index::default().search("x").is_empty());
    }
}
