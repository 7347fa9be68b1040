//! Texts as tokens, as BERT has them: folded, split at spaces and punctuation, and each word cut into
//! the longest pieces that are known.

use std::collections::HashMap;

use icu_normalizer::DecomposingNormalizerBorrowed;
use serde::Deserialize;
use serde_json::Value;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// The tokenizer of a model.
pub(super) struct WordPiece {
    folding: Folding,
    pieces: HashMap<String, usize>,
    /// What stands for a word that is not known.
    unknown: Option<usize>,
    /// What a piece begins with that goes on with a word.
    goes_on: String,
    /// Words of more letters are not known.
    max_letters: usize,
}

/// What is done to a text before it is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folding {
    cleans: bool,
    parts_han: bool,
    strips_accents: bool,
    lowers: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Value,
}

#[derive(Deserialize)]
struct Pieces {
    vocab: HashMap<String, usize>,
    unk_token: String,
    #[serde(default = "goes_on")]
    continuing_subword_prefix: String,
    #[serde(default = "max_letters")]
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
struct Normalizer {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

fn goes_on() -> String {
    "##".to_owned()
}

const fn max_letters() -> usize {
    100
}

/// A tokenizer has thousands of pieces; ids beyond all reason are a mistake.
const MAX_ID: usize = 1 << 24;

impl WordPiece {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If it is none, or one of another kind.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("it is no tokenizer: {error}");
        let file: File = serde_json::from_slice(bytes).map_err(wrong)?;
        for (value, what, expected) in [
            (&file.model, "a model", "WordPiece"),
            (&file.normalizer, "a normalizer", "BertNormalizer"),
            (&file.pre_tokenizer, "a pre-tokenizer", "BertPreTokenizer"),
        ] {
            let kind = value.get("type").and_then(Value::as_str).unwrap_or("none");
            if kind != expected {
                return Err(format!(
                    "it has {what} of the kind {kind}, and only {expected} can be read here; a \
                     server can have such a model (`url`)"
                ));
            }
        }
        let pieces: Pieces = serde_json::from_value(file.model).map_err(wrong)?;
        let normalizer: Normalizer = serde_json::from_value(file.normalizer).map_err(wrong)?;
        if pieces.vocab.values().any(|id| *id >= MAX_ID) {
            return Err("a token has an id that is far too large".to_owned());
        }
        Ok(Self {
            folding: Folding {
                cleans: normalizer.clean_text,
                parts_han: normalizer.handle_chinese_chars,
                strips_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
                lowers: normalizer.lowercase,
            },
            unknown: pieces.vocab.get(&pieces.unk_token).copied(),
            pieces: pieces.vocab,
            goes_on: pieces.continuing_subword_prefix,
            max_letters: pieces.max_input_chars_per_word,
        })
    }

    /// One more than the largest token.
    pub(super) fn len(&self) -> usize {
        self.pieces.values().max().map_or(0, |id| id + 1)
    }

    /// The known among the first tokens of a text.
    pub(super) fn of(&self, text: &str, at_most: usize) -> Vec<usize> {
        let folded = self.folding.fold(text);
        let mut tokens = Vec::new();
        for word in folded.split_whitespace() {
            for part in parts(word) {
                self.push(part, &mut tokens);
            }
            if tokens.len() >= at_most {
                break;
            }
        }
        tokens.truncate(at_most);
        tokens.into_iter().flatten().collect()
    }

    /// The pieces of a word; nothing in their place if it cannot be cut into known ones.
    fn push(&self, word: &str, out: &mut Vec<Option<usize>>) {
        let before = out.len();
        let mut rest = match word.chars().count() > self.max_letters {
            true => None,
            false => Some(word),
        };
        let mut piece = String::new();
        while let Some(left) = rest.filter(|left| !left.is_empty()) {
            let begin = if out.len() > before {
                &*self.goes_on
            } else {
                ""
            };
            let ends = left
                .char_indices()
                .map(|(at, letter)| at + letter.len_utf8());
            let longest = ends.rev().find_map(|end| {
                let (part, rest) = left.split_at_checked(end)?;
                piece.clear();
                piece.push_str(begin);
                piece.push_str(part);
                Some((*self.pieces.get(&piece)?, rest))
            });
            rest = longest.map(|(id, rest)| {
                out.push(Some(id).filter(|id| Some(*id) != self.unknown));
                rest
            });
        }
        if rest.is_none() {
            out.truncate(before);
            out.push(None);
        }
    }
}

impl Folding {
    fn fold(self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                _ if self.cleans && is_dropped(letter) => {}
                _ if self.cleans && letter.is_whitespace() => clean.push(' '),
                _ if self.parts_han && is_han(letter) => {
                    clean.extend([' ', letter, ' ']);
                }
                _ => clean.push(letter),
            }
        }
        if self.strips_accents {
            let parted = DecomposingNormalizerBorrowed::new_nfd().normalize(&clean);
            let is_mark = |letter: &char| get_general_category(*letter) == Category::NonspacingMark;
            clean = parted.chars().filter(|letter| !is_mark(letter)).collect();
        }
        match self.lowers {
            true => clean.chars().flat_map(char::to_lowercase).collect(),
            false => clean,
        }
    }
}

/// Punctuation stands alone, what is between stays together.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match is_punctuation(first) {
            true => first.len_utf8(),
            false => rest.find(is_punctuation).unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(part)
    })
}

fn is_dropped(letter: char) -> bool {
    let is_other = || {
        matches!(
            get_general_category(letter),
            Category::Control
                | Category::Format
                | Category::PrivateUse
                | Category::Surrogate
                | Category::Unassigned
        )
    };
    letter == '\u{fffd}' || (!matches!(letter, '\t' | '\n' | '\r') && is_other())
}

const fn is_han(letter: char) -> bool {
    matches!(letter,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}'
        | '\u{2f800}'..='\u{2fa1f}')
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(
            get_general_category(letter),
            Category::ConnectorPunctuation
                | Category::DashPunctuation
                | Category::OpenPunctuation
                | Category::ClosePunctuation
                | Category::InitialPunctuation
                | Category::FinalPunctuation
                | Category::OtherPunctuation
        )
}
