//! What a person without a screen would get of an HTML page: its title, its text, its links, its forms.
//!
//! Not a parser of HTML: tags are told from text, a few of them mean something, and nothing is
//! refused.

/// A page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) links: Vec<Link>,
    pub(super) forms: Vec<Form>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) text: String,
    /// As it stands there.
    pub(super) href: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) is_post: bool,
    /// Names and values of its fields.
    pub(super) fields: Vec<(String, String)>,
}

/// Links, and forms, that are kept of a page.
pub(super) const MAX_LINKS: usize = 500;
/// Bytes of text that are kept of a page.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// Elements whose content is not for reading.
const UNREAD: [&str; 5] = ["script", "style", "noscript", "template", "svg"];
/// Elements that begin a line.
const BLOCKS: [&str; 22] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "div",
    "dd",
    "dt",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "header",
    "hr",
    "li",
    "main",
    "p",
    "pre",
    "section",
    "tr",
];

/// Reads a page.
pub(super) fn read(html: &str) -> Page {
    let mut reader = Reader::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (text, tagged) = rest.split_at(at);
        reader.text(text);
        rest = reader.tag(tagged);
    }
    reader.text(rest);
    reader.page.title = squeezed(&reader.page.title);
    for link in &mut reader.page.links {
        link.text = squeezed(&link.text);
    }
    reader.page.text.truncate(reader.page.text.trim_end().len());
    reader.page
}

#[derive(Debug, Default)]
struct Reader {
    page: Page,
    in_title: bool,
    in_link: bool,
    in_form: bool,
}

impl Reader {
    fn text(&mut self, raw: &str) {
        let text = unescaped(raw);
        if self.in_title {
            return self.page.title.push_str(&text);
        }
        if let Some(link) = self.page.links.last_mut().filter(|_| self.in_link) {
            link.text.push_str(&text);
        }
        let out = &mut self.page.text;
        for letter in text.chars() {
            let is_blank = letter.is_whitespace();
            if out.len() >= MAX_TEXT {
                return;
            }
            // Blanks are one, and none at the beginning of a line.
            match is_blank {
                true if out.is_empty() || out.ends_with([' ', '\n']) => {}
                true => out.push(' '),
                false => out.push(letter),
            }
        }
    }

    /// Reads the tag that a text begins with; gives what comes after it.
    fn tag<'a>(&mut self, text: &'a str) -> &'a str {
        if let Some(comment) = text.strip_prefix("<!--") {
            return comment.split_once("-->").map_or("", |(_, rest)| rest);
        }
        let after = text.get(1..).unwrap_or_default();
        let is_tag = after.starts_with(|it: char| it.is_ascii_alphabetic() || "/!?".contains(it));
        if !is_tag {
            self.text("<");
            return after;
        }
        let end = end_of_tag(after);
        let (inside, rest) = after.split_at(end);
        let rest = rest.strip_prefix('>').unwrap_or(rest);
        let name_end = inside.find(|it: char| it.is_whitespace() || it == '>');
        let (name, attributes) = inside.split_at(name_end.unwrap_or(inside.len()));
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        self.element(&name, attributes);
        match UNREAD.contains(&name.as_str()) {
            true => after_element(&name, rest),
            false => rest,
        }
    }

    fn element(&mut self, name: &str, attributes: &str) {
        let value = |wanted: &str| attribute(attributes, wanted);
        match name {
            "title" => self.in_title = true,
            "/title" => self.in_title = false,
            "a" if self.page.links.len() < MAX_LINKS => {
                self.in_link = value("href").is_some();
                self.page.links.extend(value("href").map(|href| Link {
                    text: String::new(),
                    href,
                }));
            }
            "a" | "/a" => self.in_link = false,
            "form" if self.page.forms.len() < MAX_LINKS => {
                self.in_form = true;
                self.page.forms.push(Form {
                    action: value("action").unwrap_or_default(),
                    is_post: value("method").is_some_and(|it| it.eq_ignore_ascii_case("post")),
                    fields: Vec::new(),
                });
            }
            "form" | "/form" => self.in_form = false,
            "input" | "textarea" | "select" if self.in_form => {
                let kind = value("type").unwrap_or_default().to_ascii_lowercase();
                let is_set = !matches!(
                    kind.as_str(),
                    "submit" | "button" | "image" | "reset" | "file"
                );
                let form = self.page.forms.last_mut();
                if let (Some(name), Some(form), true) = (value("name"), form, is_set)
                    && form.fields.len() < MAX_LINKS
                {
                    form.fields.push((name, value("value").unwrap_or_default()));
                }
            }
            _ => {}
        }
        let block = name.strip_prefix('/').unwrap_or(name);
        let out = &mut self.page.text;
        if BLOCKS.contains(&block) && !out.is_empty() && !out.ends_with('\n') {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
    }
}

/// Where a tag ends: at the first `>` that is not in quotes.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '>') => return at,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    text.len()
}

/// What comes after the end of an element that is not read.
fn after_element<'a>(name: &str, text: &'a str) -> &'a str {
    let end = format!("</{name}");
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (_, tail) = rest.split_at(at);
        let head = tail.get(..end.len()).unwrap_or_default();
        if head.eq_ignore_ascii_case(&end) {
            let close = tail.find('>').map_or(tail.len(), |at| at.saturating_add(1));
            return tail.get(close..).unwrap_or_default();
        }
        rest = tail.get(2..).unwrap_or_default();
    }
    ""
}

/// The value of an attribute.
fn attribute(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|it: char| it.is_whitespace() || it == '=' || it == '/');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('=') {
            Some(value) => quoted(value.trim_start()),
            None => ("", after.strip_prefix('/').unwrap_or(after)),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(unescaped(value).trim().to_owned());
        }
        rest = next.trim_start();
    }
    None
}

/// The value that a text begins with, and the rest.
fn quoted(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).unwrap_or((inside, ""));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

/// A text with its entities as letters.
fn unescaped(text: &str) -> String {
    const NAMES: [(&str, char); 10] = [
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", ' '),
        ("copy", '©'),
        ("mdash", '—'),
        ("ndash", '–'),
        ("hellip", '…'),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() <= 8);
        let letter = entity.and_then(|(name, _)| match name.strip_prefix('#') {
            Some(number) => numbered(number),
            None => NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, letter)| *letter),
        });
        match (letter, entity) {
            (Some(letter), Some((_, tail))) => {
                out.push(letter);
                rest = tail;
            }
            _ => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn numbered(number: &str) -> Option<char> {
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}

/// A text with single blanks.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_text_links_and_forms() {
        let page = read(
            r#"<!doctype html><html><head><title> A &amp; B </title><style>p > a {}</style>
            <script>if (a < b) { "</p>" }</script></head><body><!-- <a href="x">no</a> -->
            <h1>Hello</h1><p>One   <b>two</b> &#8364;&nbsp;3 < 4<br>next
            <a class='l' href="/a?b=1&amp;c=2">to <i>A</i></a> <A HREF=b.html>B</A></p>
            <form action="/find" method="POST"><input name="q" value='x "y"'><input type=hidden name=t
            value=1><input type="submit" name="go"></form></body></html>"#,
        );
        assert_eq!(page.title, "A & B");
        assert_eq!(page.text, "Hello\nOne two € 3 < 4\nnext to A B");
        let links: Vec<_> = page.links.iter().map(|it| (&*it.text, &*it.href)).collect();
        assert_eq!(links, [("to A", "/a?b=1&c=2"), ("B", "b.html")]);
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            page.forms,
            [Form {
                action: "/find".into(),
                is_post: true,
                fields: vec![field("q", "x \"y\""), field("t", "1")],
            }]
        );
    }

    #[test]
    fn broken_pages_are_read_as_far_as_they_go() {
        for (html, text) in [
            ("a < b", "a < b"),
            ("a <b", "a"),
            ("<p", ""),
            ("<script>x", ""),
            ("<script>x</scr</SCRIPT >y", "y"),
            ("<!-- x", ""),
            (
                "&bogus; &#xZZ; &#55555555555; &",
                "&bogus; &#xZZ; &#55555555555; &",
            ),
            ("<a href='x>y", ""),
            ("é<é>é", "é<é>é"),
        ] {
            assert_eq!(read(html).text, text, "{html}");
        }
    }

    #[test]
    fn a_page_has_limits() {
        let links = |count| read(&"<a href=x>".repeat(count)).links.len();
        assert_eq!(links(MAX_LINKS), MAX_LINKS);
        assert_eq!(links(MAX_LINKS + 1), MAX_LINKS);
        let text = |length| read(&"x".repeat(length)).text.len();
        assert_eq!(text(MAX_TEXT), MAX_TEXT);
        assert_eq!(text(MAX_TEXT + 1), MAX_TEXT);
    }
}
