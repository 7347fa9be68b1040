//! What a server says when it refuses a request (RFC 6750, RFC 9728).

use hyper::StatusCode;
use hyper::header::WWW_AUTHENTICATE;
use hyper::http::response::Parts;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Challenge {
    /// Where it says who gives tokens.
    pub(super) metadata: Option<String>,
    /// What a token must be good for.
    pub(super) scopes: Vec<String>,
    /// Whether it knows who asks, and that is not enough.
    pub(super) wants_more: bool,
    /// Why it could not be met.
    pub(super) reason: String,
}

impl Challenge {
    /// The refusal that an answer is, if it is one.
    pub(in super::super) fn of(answer: &Parts) -> Option<Self> {
        let wants_more = match answer.status {
            StatusCode::UNAUTHORIZED => false,
            StatusCode::FORBIDDEN => true,
            _ => return None,
        };
        let all = answer.headers.get_all(WWW_AUTHENTICATE).iter();
        let all = all.filter_map(|value| value.to_str().ok());
        let parameters = all.filter_map(bearer).next().unwrap_or_default();
        let find = |name: &str| {
            let mut all = parameters.iter();
            let found = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        if wants_more && find("error").as_deref() != Some("insufficient_scope") {
            return None;
        }
        let scopes = find("scope").unwrap_or_default();
        Some(Self {
            metadata: find("resource_metadata"),
            scopes: scopes.split_whitespace().map(ToOwned::to_owned).collect(),
            wants_more,
            reason: String::new(),
        })
    }
}

/// The parameters of a challenge of the scheme `Bearer`.
fn bearer(value: &str) -> Option<Vec<(String, String)>> {
    let (scheme, mut rest) = value
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| (value.trim(), ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut all = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let (value, behind) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                let (value, behind) = after.split_at_checked(end).unwrap_or((after, ""));
                (value.trim().to_owned(), behind)
            }
        };
        all.push((name, value));
        rest = behind;
    }
    Some(all)
}

/// A text up to its closing quote, and what follows that.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, text.get(at.saturating_add(1)..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use hyper::Response;

    use super::*;

    fn of(status: u16, headers: &[&str]) -> Option<Challenge> {
        let mut answer = Response::builder().status(status);
        for header in headers {
            answer = answer.header(WWW_AUTHENTICATE, *header);
        }
        Challenge::of(&answer.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn refusals_are_told_from_other_answers() {
        assert_eq!(of(200, &["Bearer"]), None);
        assert_eq!(of(403, &[]), None);
        assert_eq!(of(403, &["Bearer error=\"invalid_token\""]), None);
        assert_eq!(of(401, &[]), Some(Challenge::default()));
        assert_eq!(of(401, &["Bearer"]), Some(Challenge::default()));
        let more = of(403, &["Bearer error=\"insufficient_scope\", scope=\"b\""]).unwrap();
        assert!(more.wants_more && more.scopes == ["b"]);
    }

    #[test]
    fn parameters_are_read_as_they_are_quoted() {
        let said = of(
            401,
            &[
                "Basic realm=\"x\"",
                r#"bearer realm="a \"b\", scope=no", Scope="one  two", resource_metadata=https://h/x?a=b, error=e"#,
            ],
        );
        let said = said.unwrap();
        assert_eq!(said.scopes, ["one", "two"]);
        assert_eq!(said.metadata.as_deref(), Some("https://h/x?a=b"));
        // What is not ended says what it says.
        assert_eq!(of(401, &["Bearer scope=\"a b"]).unwrap().scopes, ["a", "b"]);
    }
}
