//! Texts of others that are shown in part.

/// The text, or its first bytes and `…`.
pub(crate) fn truncate(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_and_past_it() {
        for (text, most, shown) in [("abc", 3, "abc"), ("abcd", 3, "abc…"), ("aé", 2, "a…")] {
            assert_eq!(truncate(text.to_owned(), most), shown);
        }
    }
}
