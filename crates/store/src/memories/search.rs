//! Finding the entries of one place that answer a query, with bounded work.
//!
//! Each word gives its latest entries, up to a number. Of a word that more have, only those entries
//! are looked at that have the other words too, and some of the latest; how many have it in all is
//! estimated from how close together they are. Whatever is looked at is ranked exactly.

use std::collections::HashSet;

use super::query::{Pattern, Reach, Term, terms};
use super::rank::{Weighed, score, weight};
use super::vectors::{Near, fuse};
use super::{MAX_COUNTED, MAX_FOUND};
use crate::Error;

/// The entries of one tier of a space, as a search sees them. Entries that have expired may be among
/// what it gives; [`Place::expired`] says which these are.
pub(super) trait Place {
    /// How many entries and words there are, expired or not, and the numbers between which they are.
    fn size(&self) -> PlaceSize;

    /// The latest that fit a pattern and have one of the labels, if labels are asked for.
    fn latest(
        &self,
        pattern: Option<&Pattern>,
        tags: &[String],
        at_most: usize,
    ) -> Result<Vec<i64>, Error>;

    /// Shows the words of entries, one entry after the other.
    fn words(&self, numbers: &[i64], show: impl FnMut(i64, &str)) -> Result<(), Error>;

    /// What is nearest to a point, with how near it is, of some entries or of all. Nothing of it has
    /// expired.
    fn nearest(
        &self,
        near: &Near,
        among: Option<&HashSet<i64>>,
        at_most: usize,
    ) -> Result<Vec<(i64, f64)>, Error>;

    /// What has expired and is still there.
    fn expired(&self) -> &HashSet<i64>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PlaceSize {
    pub(super) entries: usize,
    pub(super) words: usize,
    /// The number before the first that was ever given, and the latest.
    pub(super) first: i64,
    pub(super) last: i64,
}

/// What answers a query in a place, the best first, then the latest.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answers {
    pub(super) ranked: Vec<(i64, f64)>,
    /// By what they are ranked, if that is not the score.
    pub(super) order: Option<Vec<f64>>,
    pub(super) total: usize,
    pub(super) is_more: bool,
}

/// Entries that are looked at for one word.
const PER_WORD: usize = 512;
/// Of these for a word that many have, when its company gives less.
const OF_COMMON: usize = 128;
/// Entries that are looked at in all.
const IN_ALL: usize = 2048;
/// Entries that are looked at for their meaning.
const NEAREST: usize = 100;
/// What is less near than this means something else.
const SIMILAR: f64 = 0.15;
/// What words say clearly: so much of what was asked, and nearly as much as the best.
const CLEAR: f64 = 0.3;
const NEARLY: f64 = 0.75;
/// Puts a score behind every sum of reciprocal ranks.
const AFTER: f64 = 1e-4;
/// A word that fewer have is looked for in other forms too.
const FEW: usize = 8;

/// A word, what it reaches and who has it.
struct Hits {
    weighed: Weighed,
    pattern: Pattern,
    numbers: Vec<i64>,
    is_cut: bool,
}

/// Ranks what answers a query and has a score of at least `min_score`.
pub(super) fn search(
    place: &impl Place,
    query: &str,
    tags: &[String],
    min_score: f64,
) -> Result<Answers, Error> {
    let hits = all_hits(place, query, tags)?;
    let candidates = candidates(place, &hits, tags)?;
    let mut ranked = rank(place, &hits, candidates)?;
    let is_cut = hits.iter().any(|hits| hits.is_cut);
    if !is_cut || min_score > 0.0 {
        ranked.retain(|(_, score)| *score >= min_score);
        let total = ranked.len();
        return Ok(Answers {
            ranked,
            order: None,
            total,
            is_more: is_cut,
        });
    }
    let any = Pattern::Any(hits.into_iter().map(|hits| hits.pattern).collect());
    let (total, is_more) = count(place, Some(&any), tags)?;
    Ok(Answers {
        total: total.max(ranked.len()),
        ranked,
        order: None,
        is_more,
    })
}

/// Ranks what answers a query by its words or by its meaning.
pub(super) fn search_near(
    place: &impl Place,
    query: &str,
    near: &Near,
    tags: &[String],
    min_score: f64,
) -> Result<Answers, Error> {
    let text = search(place, query, tags, 0.0)?;
    let tagged: Option<HashSet<i64>> = match tags.is_empty() {
        true => None,
        false => Some(place.latest(None, tags, MAX_COUNTED)?.into_iter().collect()),
    };
    let close = close(place, near, tagged.as_ref(), NEAREST)?;
    let known: HashSet<i64> = text.ranked.iter().map(|(number, _)| *number).collect();
    let more = close
        .iter()
        .filter(|(number, _)| !known.contains(number))
        .count();
    let answers = merged(&text.ranked, &close, min_score);
    Ok(Answers {
        total: match min_score > 0.0 {
            true => answers.total,
            false => text.total + more,
        },
        is_more: text.is_more,
        ..answers
    })
}

/// How well each of some entries answers a query, by its words and, if somebody knows what is meant, by
/// its meaning; those that do not answer it are left out.
pub(super) fn grade(
    place: &impl Place,
    query: &str,
    near: Option<&Near>,
    numbers: Vec<i64>,
    min_score: f64,
) -> Result<Answers, Error> {
    let close = match near {
        Some(near) => {
            let among = numbers.iter().copied().collect();
            close(place, near, Some(&among), numbers.len())?
        }
        None => Vec::new(),
    };
    let hits = all_hits(place, query, &[])?;
    let mut text = rank(place, &hits, numbers)?;
    if near.is_some() {
        return Ok(merged(&text, &close, min_score));
    }
    text.retain(|(_, score)| *score >= min_score);
    Ok(Answers {
        total: text.len(),
        ranked: text,
        ..Answers::default()
    })
}

/// What means something similar, the nearest first.
fn close(
    place: &impl Place,
    near: &Near,
    among: Option<&HashSet<i64>>,
    at_most: usize,
) -> Result<Vec<(i64, f64)>, Error> {
    let mut close = place.nearest(near, among, at_most)?;
    close.retain(|(_, score)| *score >= SIMILAR);
    Ok(close)
}

/// What answers by its words and what does by its meaning, as one list.
fn merged(text: &[(i64, f64)], close: &[(i64, f64)], min_score: f64) -> Answers {
    // Only what words say clearly has a say; what has some of them comes after.
    let best = text.first().map_or(0.0, |(_, score)| *score);
    let least = CLEAR.max(best * NEARLY);
    let clear = text
        .partition_point(|(_, score)| *score >= least)
        .min(MAX_FOUND);
    let (clear, rest) = text.split_at_checked(clear).unwrap_or((text, &[]));
    let mut fused = fuse(clear, close);
    let known: HashSet<i64> = fused.iter().map(|(number, ..)| *number).collect();
    let rest = rest.iter().filter(|(number, _)| !known.contains(number));
    fused.extend(rest.map(|(number, score)| (*number, *score, score * AFTER)));
    fused.retain(|(_, score, _)| *score >= min_score);
    let ranked = fused.iter().map(|(number, score, _)| (*number, *score));
    Answers {
        ranked: ranked.collect(),
        order: Some(fused.iter().map(|(.., order)| *order).collect()),
        total: fused.len(),
        is_more: false,
    }
}

/// How many fit, and whether there are more than are counted.
pub(super) fn count(
    place: &impl Place,
    pattern: Option<&Pattern>,
    tags: &[String],
) -> Result<(usize, bool), Error> {
    let mut numbers = place.latest(pattern, tags, MAX_COUNTED + 1)?;
    let is_more = numbers.len() > MAX_COUNTED;
    numbers.retain(|number| !place.expired().contains(number));
    Ok((numbers.len().min(MAX_COUNTED), is_more))
}

fn all_hits(place: &impl Place, query: &str, tags: &[String]) -> Result<Vec<Hits>, Error> {
    let terms = terms(query).into_iter();
    terms.map(|term| hits(place, term, tags)).collect()
}

fn hits(place: &impl Place, term: Term, tags: &[String]) -> Result<Hits, Error> {
    let size = place.size();
    let exact = Pattern::Word(term.word.clone());
    let mut found = (
        Reach::Exact,
        place.latest(Some(&exact), tags, PER_WORD + 1)?,
        exact,
    );
    if found.1.len() < FEW
        && let Some(stem) = &term.stem
    {
        let prefix = Pattern::Prefix(stem.clone());
        let both = match stem == &term.word {
            true => prefix,
            false => Pattern::Any(vec![Pattern::Word(term.word.clone()), prefix]),
        };
        found = (
            Reach::Related,
            place.latest(Some(&both), tags, PER_WORD + 1)?,
            both,
        );
    }
    if found.1.is_empty()
        && let Some(similar) = term.similar()
    {
        found = (
            Reach::Similar,
            place.latest(Some(&similar), tags, PER_WORD)?,
            similar,
        );
    }
    let (reach, mut numbers, pattern) = found;
    let is_cut = numbers.len() > PER_WORD;
    numbers.truncate(PER_WORD);
    let having = match (is_cut, numbers.last()) {
        (true, Some(oldest)) => estimate(numbers.len(), *oldest, size),
        _ => numbers.len() as f64,
    };
    Ok(Hits {
        weighed: Weighed {
            weight: weight(having, size.entries as f64),
            term,
            reach,
        },
        pattern,
        numbers,
        is_cut,
    })
}

/// How many there are if they are everywhere as close together as the latest are.
fn estimate(found: usize, oldest: i64, size: PlaceSize) -> f64 {
    let all = (size.last - size.first).max(1) as f64;
    let seen = (size.last - oldest + 1).max(1) as f64;
    let having = found as f64 * all / seen;
    having.min(size.entries as f64)
}

/// What is looked at: first what has rare words, then what has the common ones together.
fn candidates(place: &impl Place, hits: &[Hits], tags: &[String]) -> Result<Vec<i64>, Error> {
    let mut order: Vec<&Hits> = hits.iter().collect();
    order.sort_by_key(|hits| (hits.is_cut, hits.numbers.len()));
    let (common, rare): (Vec<&Hits>, Vec<&Hits>) = order.into_iter().partition(|it| it.is_cut);
    let mut chosen = Chosen::default();
    for hits in rare {
        chosen.extend(&hits.numbers);
    }
    let together = |group: &[&Hits]| {
        let patterns = group.iter().map(|hits| hits.pattern.clone()).collect();
        place.latest(Some(&Pattern::All(patterns)), tags, PER_WORD)
    };
    if common.len() > 1 {
        let all = together(&common)?;
        let is_enough = all.len() >= OF_COMMON;
        chosen.extend(&all);
        if !is_enough && common.len() > 2 {
            for pair in common.windows(2) {
                chosen.extend(&together(pair)?);
            }
        }
    }
    let share = if common.len() > 1 {
        OF_COMMON
    } else {
        PER_WORD
    };
    for hits in common {
        chosen.extend(hits.numbers.iter().take(share));
    }
    Ok(chosen.numbers)
}

#[derive(Default)]
struct Chosen {
    numbers: Vec<i64>,
    known: HashSet<i64>,
}

impl Chosen {
    fn extend<'n>(&mut self, numbers: impl IntoIterator<Item = &'n i64>) {
        for number in numbers {
            if self.numbers.len() < IN_ALL && self.known.insert(*number) {
                self.numbers.push(*number);
            }
        }
    }
}

fn rank(
    place: &impl Place,
    hits: &[Hits],
    mut numbers: Vec<i64>,
) -> Result<Vec<(i64, f64)>, Error> {
    let size = place.size();
    let average = size.words as f64 / (size.entries.max(1)) as f64;
    let terms: Vec<Weighed> = hits.iter().map(|hits| hits.weighed.clone()).collect();
    numbers.retain(|number| !place.expired().contains(number));
    numbers.sort_unstable();
    let mut ranked: Vec<(i64, f64)> = Vec::new();
    place.words(&numbers, |number, words| {
        ranked.push((number, score(words, &terms, average)));
    })?;
    ranked.retain(|(_, score)| *score > 0.0);
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    Ok(ranked)
}
