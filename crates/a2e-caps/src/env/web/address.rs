//! Where links lead.

/// The page that a link on a page leads to; nothing if that is none of the web.
pub(super) fn resolve(page: &str, link: &str) -> Option<String> {
    let link = ascii(link.trim());
    if let Some((scheme, _)) = link.split_once(':')
        && !scheme.contains(['/', '?', '#'])
    {
        let scheme = scheme.to_ascii_lowercase();
        return matches!(scheme.as_str(), "http" | "https").then_some(link);
    }
    let (scheme, rest) = page.split_once("://")?;
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let path = path.split('#').next().unwrap_or_default();
    let bare = path.split('?').next().unwrap_or_default();
    if let Some(other) = link.strip_prefix("//") {
        return Some(format!("{scheme}://{other}"));
    }
    let path = match link.chars().next() {
        None => path.to_owned(),
        Some('#') => format!("{path}{link}"),
        Some('?') => format!("{bare}{link}"),
        Some('/') => flat(&link),
        Some(_) => {
            let folder = bare.rsplit_once('/').map_or("", |(folder, _)| folder);
            flat(&format!("{folder}/{link}"))
        }
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{scheme}://{host}{slash}{path}"))
}

/// A path without `.` and `..`.
fn flat(path: &str) -> String {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let (path, rest) = path.split_at(end);
    let mut parts: Vec<&str> = Vec::new();
    let is_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let slash = if is_folder && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{slash}{rest}", parts.join("/"))
}

/// A link in letters that a request can have.
fn ascii(link: &str) -> String {
    let mut out = String::with_capacity(link.len());
    for byte in link.bytes() {
        match byte {
            0x21..=0x7e => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A name or a value of a form as it is sent.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                out.push(byte.into())
            }
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let page = "http://a.example/b/c/d?q=1#f";
        for (link, expected) in [
            ("g", Some("http://a.example/b/c/g")),
            ("./g", Some("http://a.example/b/c/g")),
            ("g/", Some("http://a.example/b/c/g/")),
            ("/g", Some("http://a.example/g")),
            ("//h.example/g", Some("http://h.example/g")),
            ("?y", Some("http://a.example/b/c/d?y")),
            ("#s", Some("http://a.example/b/c/d?q=1#s")),
            ("", Some("http://a.example/b/c/d?q=1")),
            ("..", Some("http://a.example/b/")),
            ("../../../g?x=../y", Some("http://a.example/g?x=../y")),
            ("https://h.example/", Some("https://h.example/")),
            ("HTTP://h.example/", Some("HTTP://h.example/")),
            ("é x", Some("http://a.example/b/c/%C3%A9%20x")),
            ("javascript:alert(1)", None),
            ("mailto:a@b.example", None),
        ] {
            assert_eq!(resolve(page, link).as_deref(), expected, "{link}");
        }
        assert_eq!(
            resolve("http://a.example", "g").unwrap(),
            "http://a.example/g"
        );
        assert_eq!(resolve("", "g"), None);
    }

    #[test]
    fn fields_are_encoded() {
        assert_eq!(encoded("a b&c=é"), "a+b%26c%3D%C3%A9");
    }
}
