//! The known word that a mistyped one was probably meant to be.

/// The nearest of `known`, if it is near enough to be worth a question.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(word.len()) / 4)
        .map(|(_, candidate)| candidate)
}

/// How many characters must be added, dropped or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["ping", "pong", "tool/call/req", "tool/list/req"];
        assert_eq!(nearest("pingg", known), Some("ping"));
        assert_eq!(nearest("tools/call/req", known), Some("tool/call/req"));
        assert_eq!(nearest("tool/cal", known), None);
        assert_eq!(nearest("xyz", known), None);
    }
}
