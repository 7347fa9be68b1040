//! Percent-encoding (RFC 3986): what an argument says is never more than one part of a URL.

/// What stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Letters, digits and `-._~`.
    Unreserved,
    /// What a URL gives a meaning to as well; `%` is never kept.
    Reserved,
}

/// A text as a part of a URL.
pub(crate) fn encode(text: &str, kept: Kept) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_kept = match byte {
            b'-' | b'.' | b'_' | b'~' => true,
            byte if byte.is_ascii_alphanumeric() => true,
            byte => kept == Kept::Reserved && b":/?[]@!$'()*,;".contains(&byte),
        };
        match is_kept {
            true => encoded.push(char::from(byte)),
            false => {
                encoded.push('%');
                encoded.push_str(&hex::encode_upper([byte]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_means_anything() {
        assert_eq!(
            encode("a-Z_0.~/?#&=+% ä\r\n", Kept::Unreserved),
            "a-Z_0.~%2F%3F%23%26%3D%2B%25%20%C3%A4%0D%0A"
        );
        // A query is not left, and no other parameter begins.
        assert_eq!(
            encode("a/b?c,d&e=f#g+%", Kept::Reserved),
            "a/b?c,d%26e%3Df%23g%2B%25"
        );
    }
}
