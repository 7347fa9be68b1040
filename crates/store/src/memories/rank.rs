//! How well a text answers a query: BM25, divided by the most it can be.

use super::query::{Reach, Term};

/// A word of a query and what is known about it in a place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weighed {
    pub(super) term: Term,
    pub(super) reach: Reach,
    /// How much it says: what is in few entries says more.
    pub(super) weight: f64,
}

/// How soon one more of the same word adds nothing, and how much long texts are held back. Entries
/// are short, so both are less than is usual for pages.
const SATURATION: f64 = 0.6;
const LENGTH: f64 = 0.5;

/// The weight of a word that so many of all entries have.
pub(super) fn weight(having: f64, entries: f64) -> f64 {
    let others = (entries - having).max(0.0);
    (1.0 + (others + 0.5) / (having + 0.5)).ln()
}

/// From 0 (has none of the words) to 1, which no text reaches; a text of average length that has
/// every word once gets 0.625.
pub(super) fn score(words: &str, terms: &[Weighed], average: f64) -> f64 {
    let mut counts = vec![0.0; terms.len()];
    let mut length = 0.0;
    for word in words.split(' ') {
        length += 1.0;
        for (count, term) in counts.iter_mut().zip(terms) {
            *count += term.term.likeness(word, term.reach);
        }
    }
    let norm = 1.0 - LENGTH + LENGTH * length / average.max(1.0);
    let most: f64 = terms.iter().map(|term| term.weight).sum();
    let reached: f64 = terms
        .iter()
        .zip(&counts)
        .map(|(term, count)| term.weight * count / (count + SATURATION * norm))
        .sum();
    match most > 0.0 {
        true => reached / most,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::terms;
    use super::*;

    fn weighed(query: &str) -> Vec<Weighed> {
        let weighed = |term| Weighed {
            term,
            reach: Reach::Exact,
            weight: 1.0,
        };
        terms(query).into_iter().map(weighed).collect()
    }

    #[test]
    fn scores_are_on_one_scale() {
        let query = weighed("red apple");
        assert!((score("red apple", &query, 2.0) - 0.625).abs() < 1e-9);
        assert_eq!(score("green pear", &query, 2.0), 0.0);
        let often = score("red apple red apple red apple", &query, 6.0);
        assert!(often > 0.625 && often < 1.0, "{often}");
        assert!(score("red pear", &query, 2.0) < score("red apple", &query, 2.0));
        assert!(score("red apple and more words", &query, 2.0) < 0.625);
    }

    #[test]
    fn what_few_have_weighs_more() {
        assert!(weight(1.0, 1000.0) > weight(500.0, 1000.0));
        assert!(weight(1000.0, 1000.0) > 0.0);
        assert!(weight(2000.0, 1000.0) > 0.0);
    }
}
