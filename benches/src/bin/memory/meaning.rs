//! Words and vectors together, against rusqlite that has the same vectors in a table: it compares
//! them all, has FTS5 rank the words, and merges both by reciprocal rank.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use benches::Effort;
use rusqlite::params;
use store::{Near, Wanted};

use crate::{BULK, Fallible, NOW, Random, Subject, rarest, row, wanted};

const MODEL: &str = "benchmark";

/// Numbers of a vector: as few as a small model makes, so that a million fit into memory.
const WIDTH: usize = 128;

/// Candidates of each kind that are merged, and what makes later ones count less.
const CANDIDATES: usize = 100;
const RANK: f64 = 60.0;

pub(crate) fn report(subject: &Subject, effort: Effort) -> Fallible<()> {
    fill(subject)?;
    let turn = Cell::new(0);
    let next = || {
        turn.set((turn.get() + 7919) % subject.entries);
        turn.get()
    };
    let near = |number: usize| Near {
        model: MODEL.to_owned(),
        vector: vector(number),
    };
    // Vectors are read into memory once; that is no part of a search.
    let first = Wanted {
        query: rarest(0),
        near: Some(near(0)),
        ..wanted()
    };
    let start = Instant::now();
    subject.ours.find(NOW, &first).wait()?;
    println!(
        "the first search by meaning reads all vectors: {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    for (name, common) in [
        ("hybrid, one rare word", None),
        ("hybrid, two common words", Some(["w2", "w3"])),
    ] {
        let words = |number: usize, between: &str| {
            common.map_or_else(|| rarest(number), |words| words.join(between))
        };
        subject.contest(
            name,
            effort,
            None,
            || {
                let number = next();
                bare_hybrid(subject, &words(number, " OR "), &vector(number))
            },
            || {
                let number = next();
                let wanted = Wanted {
                    query: words(number, " "),
                    near: Some(near(number)),
                    ..wanted()
                };
                Ok(subject.ours.find(NOW, &wanted).wait()?.entries.len())
            },
        )?;
    }
    quality(subject, near)
}

/// Gives every entry its vector, with both.
fn fill(subject: &Subject) -> Fallible<()> {
    let vectors = subject.store.vectors(MODEL);
    let mut took = [Duration::ZERO; 2];
    let mut id = 0_i64;
    loop {
        let unread = vectors.missing(NOW, BULK).wait()?;
        if unread.is_empty() {
            break;
        }
        let made: Vec<_> = unread
            .iter()
            .map(|it| (it.number, vector(numbered(&it.key))))
            .collect();
        let rows: Vec<(usize, Vec<u8>)> = unread
            .iter()
            .map(|it| (numbered(&it.key), bytes(&vector(numbered(&it.key)))))
            .collect();
        let start = Instant::now();
        vectors.put(made).wait()?;
        took[1] += start.elapsed();
        let start = Instant::now();
        let transaction = subject.bare.unchecked_transaction()?;
        let mut mark =
            transaction.prepare_cached("UPDATE memories SET embedded = 1 WHERE number = ?1")?;
        let mut keep = transaction.prepare_cached(
            "INSERT INTO memory_vectors (id, number, place, model, vector)
             VALUES (?1, ?2, 1, 1, ?3)",
        )?;
        for (number, vector) in rows {
            id += 1;
            let number = (1_i64 << 32) + number as i64 + 1;
            mark.execute([number])?;
            keep.execute(params![id, number, vector])?;
        }
        drop((mark, keep));
        transaction.commit()?;
        took[0] += start.elapsed();
    }
    row(
        "keep vectors",
        subject.entries,
        &took.map(|took| took.as_secs_f64()),
        None,
    );
    Ok(())
}

fn bare_hybrid(subject: &Subject, words: &str, point: &[f32]) -> Fallible<usize> {
    let mut fused: HashMap<i64, f64> = HashMap::new();
    let mut add = |numbers: Vec<i64>| {
        for (rank, number) in (1_u32..).zip(numbers) {
            *fused.entry(number).or_default() += 1.0 / (RANK + f64::from(rank));
        }
    };
    let mut text = subject
        .bare
        .prepare_cached("SELECT rowid FROM plain WHERE plain MATCH ?1 ORDER BY rank LIMIT ?2")?;
    let numbers = text.query_map(params![words, CANDIDATES], |row| row.get(0))?;
    add(numbers.collect::<Result<_, _>>()?);
    add(bare_nearest(subject, point)?);
    let mut best: Vec<(i64, f64)> = fused.into_iter().collect();
    best.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut read = subject
        .bare
        .prepare_cached("SELECT content FROM memories WHERE number = ?1")?;
    let mut length = 0;
    for (number, _) in best.iter().take(10) {
        length += read
            .query_row([number], |row| row.get::<_, String>(0))?
            .len();
    }
    Ok(length)
}

/// The nearest of all, by comparing each.
fn bare_nearest(subject: &Subject, point: &[f32]) -> Fallible<Vec<i64>> {
    let mut all = subject
        .bare
        .prepare_cached("SELECT number, vector FROM memory_vectors WHERE place = 1")?;
    let mut rows = all.query([])?;
    let mut near: Vec<(i64, f32)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (values, _) = row.get_ref(1)?.as_blob()?.as_chunks::<4>();
        let values = values.iter().map(|value| f32::from_le_bytes(*value));
        near.push((row.get(0)?, values.zip(point).map(|(a, b)| a * b).sum()));
    }
    let best = CANDIDATES.min(near.len().saturating_sub(1));
    if !near.is_empty() {
        near.select_nth_unstable_by(best, |one, other| other.1.total_cmp(&one.1));
    }
    near.truncate(CANDIDATES);
    near.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(near.into_iter().map(|(number, _)| number).collect())
}

/// How many of the ten entries that are nearest are among those that are found, by points that are
/// near some entry.
fn quality(subject: &Subject, near: impl Fn(usize) -> Near) -> Fallible<()> {
    let (mut found, mut wanted_in_all) = (0, 0);
    for turn in 0..20 {
        let number = turn * subject.entries / 20;
        let nearest = bare_nearest(subject, &vector(number))?;
        let mut key = subject
            .bare
            .prepare_cached("SELECT key FROM memories WHERE number = ?1")?;
        let wanted = Wanted {
            // A word that nothing has: what is found is found by its vector.
            query: "zzzzzz".to_owned(),
            near: Some(near(number)),
            limit: 10,
            ..wanted()
        };
        let ours = subject.ours.find(NOW, &wanted).wait()?.entries;
        for number in nearest.iter().take(ours.len()) {
            let key: String = key.query_row([number], |row| row.get(0))?;
            wanted_in_all += 1;
            found += usize::from(ours.iter().any(|(entry, _)| entry.key == key));
        }
    }
    println!("of the nearest, {found} of {wanted_in_all} are found");
    Ok(())
}

/// The number of an entry, by its key.
fn numbered(key: &str) -> usize {
    let digits = key.trim_matches('"').trim_start_matches("entry ");
    digits.parse().unwrap_or_default()
}

/// The vector of an entry, of length 1: a topic that many share, and something of its own.
fn vector(number: usize) -> Vec<f32> {
    let mut topic = Random(0x1234_5678 ^ ((number % 97) as u64 + 1).wrapping_mul(0x9e37_79b9));
    let mut own = Random(0x8765_4321 ^ (number as u64 + 1).wrapping_mul(0x2545_f491));
    for _ in 0..4 {
        topic.next();
        own.next();
    }
    let mut values: Vec<f32> = (0..WIDTH)
        .map(|_| topic.signed() + 0.7 * own.signed())
        .collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter_mut().for_each(|value| *value /= length);
    values
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
