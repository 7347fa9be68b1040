//! What is asked of a space, tier by tier, whatever it is kept in.

use std::collections::HashMap;

use super::search::{self, Answers, Place};
use super::{ENTRY, MAX_QUERY, MAX_TAGS, Tier, Unwanted, Wanted, within};
use super::{Entry, FORGET, Found, MAX_COUNTED, MAX_FOUND, MAX_FOUND_BYTES, MAX_KEYS};
use crate::limits::Bytes;
use crate::{Error, UnixMillis};

/// A place whose entries can be read.
pub(super) trait Rows: Place {
    /// The numbers of the entries with these keys.
    fn with_keys(&self, keys: &[String]) -> Result<Vec<i64>, Error>;

    /// The tier whose entries they are.
    fn tier(&self) -> Tier;

    /// When an entry was kept and how many bytes it has, if it is there.
    fn head(&self, number: i64) -> Result<Option<(UnixMillis, usize)>, Error>;

    /// An entry, if it is there.
    fn entry(&self, number: i64) -> Result<Option<Entry>, Error>;
}

/// Refuses what asks for too much.
pub(super) fn check(wanted: &Wanted) -> Result<(), Error> {
    within("a query", wanted.query.len(), MAX_QUERY)?;
    check_lists(&wanted.keys, &wanted.tags)
}

pub(super) fn check_lists(keys: &[String], tags: &[String]) -> Result<(), Error> {
    within("the number of keys", keys.len(), MAX_KEYS)?;
    within("the number of tags", tags.len(), MAX_TAGS)
}

/// The best of all places together, then the latest.
pub(super) fn find(places: &[impl Rows], wanted: &Wanted) -> Result<Found, Error> {
    let mut found = Found::default();
    let limit = wanted.limit.min(MAX_FOUND);
    let mut all = Vec::new();
    for place in places {
        let answers = in_place(place, wanted)?;
        found.total += answers.total;
        found.is_more |= answers.is_more;
        let order = answers.order.unwrap_or_default();
        for (at, (number, score)) in answers.ranked.into_iter().take(limit).enumerate() {
            if let Some((updated, bytes)) = place.head(number)? {
                all.push(Hit {
                    place,
                    number,
                    updated,
                    bytes,
                    score,
                    order: order.get(at).copied().unwrap_or(score),
                });
            }
        }
    }
    all.sort_by(|one, other| {
        other
            .order
            .total_cmp(&one.order)
            .then(other.updated.cmp(&one.updated))
            .then(one.place.tier().cmp(&other.place.tier()))
            .then(other.number.cmp(&one.number))
    });
    all.truncate(limit);
    // Read one at a time, and only those that are given.
    let mut room = Bytes::new(MAX_FOUND_BYTES);
    for hit in all {
        if !room.take(hit.bytes + ENTRY) {
            break;
        }
        let entry = hit.place.entry(hit.number)?;
        found.entries.extend(entry.map(|entry| (entry, hit.score)));
    }
    Ok(found)
}

/// What was found, before it is read.
struct Hit<'p, P> {
    place: &'p P,
    number: i64,
    updated: UnixMillis,
    bytes: usize,
    score: f64,
    order: f64,
}

/// The numbers of what is to be removed from a place, some at a time, and whether there are more.
pub(super) fn unwanted(
    place: &impl Rows,
    unwanted: &Unwanted,
    at_most: usize,
) -> Result<(Vec<i64>, bool), Error> {
    let Unwanted { keys, tags, .. } = unwanted;
    let mut numbers = match keys.is_empty() {
        // What has expired may be among the latest, and is not removed by this.
        true => place.latest(None, tags, at_most + 1 + place.expired().len())?,
        false => place.with_keys(keys)?,
    };
    numbers.retain(|number| !place.expired().contains(number));
    if !keys.is_empty() && !tags.is_empty() {
        let mut tagged = Vec::new();
        for number in numbers {
            let entry = place.entry(number)?;
            if entry.is_some_and(|entry| share(&entry, tags) > 0.0) {
                tagged.push(number);
            }
        }
        numbers = tagged;
    }
    let has_more = numbers.len() > at_most;
    numbers.truncate(at_most);
    Ok((numbers, has_more))
}

/// Entries that one call removes from all its places.
pub(super) const AT_ONCE: usize = FORGET;

fn in_place(place: &impl Rows, wanted: &Wanted) -> Result<Answers, Error> {
    let Wanted {
        keys, tags, query, ..
    } = wanted;
    let has_query = !query.trim().is_empty();
    if !keys.is_empty() {
        return by_keys(place, wanted, has_query);
    }
    if has_query {
        return match &wanted.near {
            Some(near) => search::search_near(place, query, near, tags, wanted.min_score),
            None => search::search(place, query, tags, wanted.min_score),
        };
    }
    if tags.is_empty() {
        return latest(place, wanted);
    }
    by_tags(place, wanted)
}

fn by_keys(place: &impl Rows, wanted: &Wanted, has_query: bool) -> Result<Answers, Error> {
    let mut numbers = place.with_keys(&wanted.keys)?;
    numbers.retain(|number| !place.expired().contains(number));
    let mut ranked = Vec::new();
    for number in numbers {
        let Some(entry) = place.entry(number)? else {
            continue;
        };
        let share = share(&entry, &wanted.tags);
        if wanted.tags.is_empty() {
            ranked.push((number, 1.0));
        } else if share > 0.0 {
            ranked.push((number, f64::midpoint(1.0, share)));
        }
    }
    if has_query {
        let numbers = ranked.into_iter().map(|(number, _)| number).collect();
        let Wanted { query, near, .. } = wanted;
        return search::grade(place, query, near.as_ref(), numbers, wanted.min_score);
    }
    ranked.retain(|(_, score)| *score >= wanted.min_score);
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    Ok(Answers {
        total: ranked.len(),
        ranked,
        order: None,
        is_more: false,
    })
}

/// By how many of the labels an entry has.
fn by_tags(place: &impl Rows, wanted: &Wanted) -> Result<Answers, Error> {
    let mut having: HashMap<i64, usize> = HashMap::new();
    let mut is_more = false;
    let mut tags = wanted.tags.clone();
    tags.sort_unstable();
    tags.dedup();
    for tag in &tags {
        let numbers = place.latest(None, std::slice::from_ref(tag), MAX_COUNTED + 1)?;
        is_more |= numbers.len() > MAX_COUNTED;
        for number in numbers.into_iter().take(MAX_COUNTED) {
            *having.entry(number).or_default() += 1;
        }
    }
    let of = tags.len().max(1) as f64;
    let mut ranked: Vec<(i64, f64)> = having
        .into_iter()
        .filter(|(number, _)| !place.expired().contains(number))
        .map(|(number, count)| (number, count as f64 / of))
        .filter(|(_, score)| *score >= wanted.min_score)
        .collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    Ok(Answers {
        total: ranked.len(),
        ranked,
        order: None,
        is_more,
    })
}

/// Nothing is asked for but a tier: all that is there.
fn latest(place: &impl Rows, wanted: &Wanted) -> Result<Answers, Error> {
    let expired = place.expired();
    if wanted.min_score > 1.0 {
        return Ok(Answers::default());
    }
    let mut numbers = place.latest(None, &[], wanted.limit.min(MAX_FOUND) + expired.len())?;
    numbers.retain(|number| !expired.contains(number));
    Ok(Answers {
        ranked: numbers.into_iter().map(|number| (number, 1.0)).collect(),
        order: None,
        total: place.size().entries.saturating_sub(expired.len()),
        is_more: false,
    })
}

/// The share of labels that an entry has.
fn share(entry: &Entry, tags: &[String]) -> f64 {
    let having = tags.iter().filter(|tag| entry.tags.contains(tag)).count();
    having as f64 / tags.len().max(1) as f64
}
