//! What a query asks for: its words, and what else could be meant by them.

use super::analysis::{MIN_NAME, grams, words};

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) word: String,
    /// Words that begin so are related; nothing if it is too short for that.
    pub(super) stem: Option<String>,
    /// How many letters may be wrong in a name that is meant.
    pub(super) slips: usize,
}

/// What is looked for in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Word(String),
    /// Words that begin so.
    Prefix(String),
    /// A name that has one of these groups of trigrams.
    Grams(Vec<Vec<String>>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// Words of a query that count; the rest are left out.
pub(super) const MAX_TERMS: usize = 32;

/// Letters that related words have in common.
const MIN_STEM: usize = 4;

/// Words that say nothing about what is looked for, unless there are no others.
#[rustfmt::skip]
const NOISE: &[&str] = &[
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for",
    "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "me", "my", "of", "on",
    "or", "our", "s", "that", "the", "their", "them", "there", "this", "to", "was", "we", "were",
    "what", "when", "where", "which", "who", "will", "with", "you", "your",
];

/// Endings of English words.
const ENDINGS: &[&str] = &["ies", "ing", "ed", "es", "ly", "s"];

/// The words of a query, each once.
pub(super) fn terms(query: &str) -> Vec<Term> {
    let mut all: Vec<String> = Vec::new();
    for word in words(query) {
        if !all.contains(&word.folded) {
            all.push(word.folded);
        }
        if all.len() >= 4 * MAX_TERMS {
            break;
        }
    }
    // In a script without spaces pairs say more than letters.
    let is_covered = |word: &String| {
        let mut letters = word.chars();
        let one = letters.next().filter(|letter| !letter.is_ascii());
        let is_one = one.is_some() && letters.next().is_none();
        is_one
            && all
                .iter()
                .any(|other| other != word && other.contains(word))
    };
    let dense: Vec<String> = all
        .iter()
        .filter(|word| is_covered(word))
        .cloned()
        .collect();
    all.retain(|word| !dense.contains(word));
    if all.iter().any(|word| !NOISE.contains(&&**word)) {
        all.retain(|word| !NOISE.contains(&&**word));
    }
    all.truncate(MAX_TERMS);
    all.into_iter().map(Term::new).collect()
}

impl Term {
    fn new(word: String) -> Self {
        let count = word.chars().count();
        let ending = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending));
        let stem = ending.filter(|stem| stem.chars().count() >= MIN_STEM);
        let stem = stem.unwrap_or(&word).to_owned();
        Self {
            stem: (count >= MIN_STEM).then_some(stem),
            slips: match count {
                0..MIN_NAME => 0,
                MIN_NAME..8 => 1,
                _ => 2,
            },
            word,
        }
    }

    /// Names that could be meant by it, if it is misspelt. What has a slip in one half has the other
    /// half in common.
    pub(super) fn similar(&self) -> Option<Pattern> {
        if self.slips == 0 {
            return None;
        }
        let grams = grams(&self.word);
        let groups: Vec<Vec<String>> = match grams.len() {
            ..7 => grams.into_iter().map(|gram| vec![gram]).collect(),
            _ => grams.windows(2).map(<[String]>::to_vec).collect(),
        };
        Some(Pattern::Grams(groups))
    }

    /// How much a word of a text is what is asked for: 1 is the word itself.
    pub(super) fn likeness(&self, word: &str, reach: Reach) -> f64 {
        match reach {
            _ if word == self.word => 1.0,
            Reach::Exact => 0.0,
            Reach::Related => match &self.stem {
                Some(stem) if word.starts_with(stem.as_str()) => RELATED * ratio(stem, word),
                _ => 0.0,
            },
            Reach::Similar => match slips(&self.word, word, self.slips) {
                Some(1) => ONE_SLIP,
                Some(_) => TWO_SLIPS,
                None => 0.0,
            },
        }
    }
}

/// How far one goes to find a word: as far as it takes to find anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Exact,
    Related,
    Similar,
}

const RELATED: f64 = 0.8;
const ONE_SLIP: f64 = 0.6;
const TWO_SLIPS: f64 = 0.4;

fn ratio(part: &str, whole: &str) -> f64 {
    part.len() as f64 / whole.len().max(1) as f64
}

/// How many letters must be put in, left out, changed or swapped with the next, up to a number.
fn slips(one: &str, other: &str, most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > 4 * most {
        return None;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let width = other.len() + 1;
    let mut rows: Vec<Vec<usize>> = vec![(0..width).collect()];
    for (row, letter) in (1..).zip(&one) {
        let mut next = vec![row; width];
        for (column, against) in (1..).zip(&other) {
            let at = |row: usize, column: usize| {
                let cell = rows.get(row).and_then(|cells| cells.get(column));
                cell.copied().unwrap_or(usize::MAX - 1)
            };
            let left = next.get(column - 1).copied().unwrap_or(usize::MAX - 1);
            let changed = at(row - 1, column - 1) + usize::from(letter != against);
            let mut best = changed.min(at(row - 1, column) + 1).min(left + 1);
            if row > 1
                && column > 1
                && one.get(row - 2) == Some(against)
                && other.get(column - 2) == Some(letter)
            {
                best = best.min(at(row - 2, column - 2) + 1);
            }
            if let Some(cell) = next.get_mut(column) {
                *cell = best;
            }
        }
        rows.push(next);
    }
    let slips = rows.last().and_then(|row| row.last()).copied();
    slips.filter(|slips| *slips <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Vec<String> {
        terms(query).into_iter().map(|term| term.word).collect()
    }

    #[test]
    fn what_says_nothing_is_left_out_unless_it_is_all() {
        assert_eq!(found("what is the name of my dog"), ["name", "dog"]);
        assert_eq!(found("to be or"), ["to", "be", "or"]);
        assert_eq!(found("dog Dog DOG"), ["dog"]);
        assert_eq!(found("東京"), ["東京"]);
        assert_eq!(found("犬"), ["犬"]);
    }

    #[test]
    fn so_many_words_count_and_no_more() {
        let query = |count: usize| {
            let words: Vec<String> = (0..count).map(|number| format!("w{number}")).collect();
            found(&words.join(" ")).len()
        };
        assert_eq!(
            (query(MAX_TERMS), query(MAX_TERMS + 1)),
            (MAX_TERMS, MAX_TERMS)
        );
    }

    #[test]
    fn slips_are_counted() {
        for (one, other, expected) in [
            ("john", "jon", Some(1)),
            ("jhon", "john", Some(1)),
            ("ada", "ada", Some(0)),
            ("schroedinger", "schrodinger", Some(1)),
            ("kitten", "sitting", None),
            ("müller", "muller", Some(1)),
        ] {
            assert_eq!(slips(one, other, 2), expected, "{one} {other}");
        }
    }

    #[test]
    fn related_words_count_less() {
        let [term] = terms("deployed").try_into().unwrap();
        assert_eq!(term.stem.as_deref(), Some("deploy"));
        assert!(term.likeness("deployment", Reach::Related) > 0.0);
        assert_eq!(term.likeness("deployment", Reach::Exact), 0.0);
        assert!(term.likeness("deploy", Reach::Related) < 1.0);
        let [short] = terms("car").try_into().unwrap();
        assert_eq!((short.stem, short.slips), (None, 1));
    }
}
