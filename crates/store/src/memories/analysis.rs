//! A text as its words: what is indexed, compared and counted, the same in every back end.
//!
//! Words are runs of letters and digits, folded. A word of several parts (`dueDate`) is there as a
//! whole and in parts. Scripts without spaces are there letter by letter and in pairs. Names (what
//! begins with a capital or has a digit in it, and all of a title) are there as trigrams too, so that
//! they are found when they are misspelt.

use super::Text;
use super::fold::{is_mark, push_folded};

/// What a text is found by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Analysis {
    /// Its words with a space between each two.
    pub(super) words: String,
    /// How many they are.
    pub(super) length: usize,
    /// The trigrams of names, likewise.
    pub(super) grams: String,
}

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) folded: String,
    /// Whether it looks like a name.
    is_name: bool,
}

/// Words of one entry that are indexed; what comes later is kept, and not found by its words.
pub(super) const MAX_WORDS: usize = 20_000;

/// Names of one entry that are found misspelt.
const MAX_NAMES: usize = 200;

/// Letters of a word that are compared.
const MAX_LETTERS: usize = 64;

/// Letters of a short name.
const SHORT: usize = 5;

/// Names that are shorter are not found misspelt: everything is similar to them.
pub(super) const MIN_NAME: usize = 3;

impl Analysis {
    pub(super) fn of(text: &Text) -> Self {
        let mut analysis = Self::default();
        let mut names: Vec<String> = Vec::new();
        let title = words(&text.title).map(|word| Word {
            is_name: true,
            ..word
        });
        for word in title.chain(words(&text.body)).take(MAX_WORDS) {
            if analysis.length > 0 {
                analysis.words.push(' ');
            }
            analysis.words.push_str(&word.folded);
            analysis.length += 1;
            let is_name = word.is_name && word.folded.chars().count() >= MIN_NAME;
            if is_name && names.len() < MAX_NAMES && !names.contains(&word.folded) {
                names.push(word.folded);
            }
        }
        let mut all: Vec<String> = names.iter().flat_map(|name| grams(name)).collect();
        all.sort_unstable();
        all.dedup();
        analysis.grams = all.join(" ");
        analysis
    }
}

/// The trigrams of a word; `0` stands before and behind it. A short word, which one slip may leave
/// without any of them, has its first and last letter beside.
pub(super) fn grams(word: &str) -> Vec<String> {
    let letters: Vec<char> = std::iter::once('0')
        .chain(word.chars())
        .chain(std::iter::once('0'))
        .collect();
    let mut grams: Vec<String> = letters
        .windows(3)
        .map(|gram| gram.iter().collect())
        .collect();
    if let [_, first, .., last, _] = letters.as_slice()
        && letters.len() <= SHORT + 2
    {
        grams.push(format!("00{first}{last}"));
    }
    grams
}

/// The words of a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut rest = text;
    let mut ready: std::collections::VecDeque<Word> = std::collections::VecDeque::new();
    std::iter::from_fn(move || {
        loop {
            if let Some(word) = ready.pop_front() {
                return Some(word);
            }
            let start = rest.find(|letter| class(letter) != Class::Between)?;
            rest = rest.get(start..).unwrap_or_default();
            let first = class(rest.chars().next()?);
            let end = rest.find(|letter| !goes_on(first, letter));
            let (run, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
            rest = after;
            match first {
                Class::Letter => push_word(run, &mut ready),
                Class::Dense => push_dense(run, &mut ready),
                Class::Symbol => ready.extend(run.chars().map(|symbol| Word {
                    folded: symbol.to_string(),
                    is_name: false,
                })),
                Class::Between => {}
            }
        }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    /// Of a script without spaces.
    Dense,
    Symbol,
    Between,
}

const fn class_of_symbol(letter: char) -> Class {
    match letter {
        '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}' => Class::Symbol,
        _ => Class::Between,
    }
}

fn class(letter: char) -> Class {
    match letter {
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3041}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}' => Class::Dense,
        _ if letter.is_alphanumeric() => Class::Letter,
        _ => class_of_symbol(letter),
    }
}

fn goes_on(first: Class, letter: char) -> bool {
    class(letter) == first || (first == Class::Letter && is_mark(letter))
}

fn push_word(run: &str, out: &mut std::collections::VecDeque<Word>) {
    let is_name = run.starts_with(char::is_uppercase)
        || run.contains(|letter: char| letter.is_numeric() || letter.is_uppercase());
    let mut push = |part: &str| {
        let mut folded = String::with_capacity(part.len());
        for letter in part.chars().take(MAX_LETTERS) {
            push_folded(&mut folded, letter);
        }
        if !folded.is_empty() {
            out.push_back(Word { folded, is_name });
        }
    };
    push(run);
    // A capital after a small letter begins a part.
    let mut begin = 0;
    let mut parts = Vec::new();
    let mut before = None;
    for (at, letter) in run.char_indices() {
        if letter.is_uppercase() && before.is_some_and(char::is_lowercase) {
            parts.push((begin, at));
            begin = at;
        }
        before = Some(letter);
    }
    if begin > 0 {
        parts.push((begin, run.len()));
    }
    for (from, to) in parts {
        push(run.get(from..to).unwrap_or_default());
    }
}

fn push_dense(run: &str, out: &mut std::collections::VecDeque<Word>) {
    let letters: Vec<char> = run.chars().collect();
    let mut push = |part: &[char]| {
        out.push_back(Word {
            folded: part.iter().collect(),
            is_name: false,
        });
    };
    letters.chunks(1).for_each(&mut push);
    letters.windows(2).for_each(&mut push);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).map(|word| word.folded).collect()
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(
            all("Müller's naïve CAFÉ, straße: İstanbul"),
            ["muller", "s", "naive", "cafe", "strasse", "istanbul"]
        );
        assert_eq!(all("e\u{301}t\u{e9}"), ["ete"]);
        assert_eq!(all("Ёлка ΆΘΗΝΑΣ"), ["елка", "αθηνασ"]);
        assert_eq!(all("ＡＢ１"), ["ab1"]);
    }

    #[test]
    fn names_of_several_parts_are_there_in_parts() {
        assert_eq!(all("dueDate"), ["duedate", "due", "date"]);
        assert_eq!(all("user_name"), ["user", "name"]);
        assert_eq!(all("HTTP"), ["http"]);
    }

    #[test]
    fn scripts_without_spaces_are_there_in_pairs() {
        assert_eq!(all("東京都"), ["東", "京", "都", "東京", "京都"]);
        assert_eq!(all("x犬🐶"), ["x", "犬", "🐶"]);
    }

    #[test]
    fn what_is_no_word_is_nothing() {
        assert_eq!(all(" \u{301}-- !? \n"), Vec::<String>::new());
        assert_eq!(all(""), Vec::<String>::new());
    }

    #[test]
    fn names_have_trigrams() {
        let text = |title: &str, body: &str| Text {
            title: title.into(),
            body: body.into(),
        };
        assert_eq!(
            Analysis::of(&text("", "met Ada here")).grams,
            "00aa 0ad ada da0"
        );
        assert_eq!(Analysis::of(&text("pet", "x")).grams, "00pt 0pe et0 pet");
        assert_eq!(Analysis::of(&text("", "of small words")).grams, "");
    }

    #[test]
    fn so_many_words_are_indexed_and_no_more() {
        let analysis = |count: usize| {
            Analysis::of(&Text {
                title: String::new(),
                body: "w ".repeat(count),
            })
        };
        assert_eq!(analysis(MAX_WORDS).length, MAX_WORDS);
        assert_eq!(analysis(MAX_WORDS + 1), analysis(MAX_WORDS));
    }
}
