//! Puts MCP servers into the text of a configuration, and takes them out. Everything else stays as it was
//! written, comments too: what comes out is read again and compared.

use std::fmt;

use serde_json::{Map, Value, json};

use super::tree::{Entry, Kind, Node};
use super::{block, yaml};

/// An object as YAML, so far from the left.
struct Block<'a>(&'a Map<String, Value>, usize);

impl fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        block::members(f, self.0, self.1)
    }
}

/// What to do with the section of the servers.
#[derive(Clone, Copy)]
enum Change<'a> {
    Put(&'a str, &'a Value),
    Remove(&'a str),
}

/// A text by its lines, counted from 1 as places are.
struct Lines(Vec<String>);

const HEADER: &str = "\n# MCP servers that agents use, each with what it may reach.\n";

const NOT_DONE: &str = "the configuration is written in a way that this program does not change; write by hand, under \
     `mcp.servers`:";

/// Writes down a server, in the place of one of that name.
///
/// # Errors
/// In words, what to write by hand, if the text cannot be changed.
pub fn put_server(text: &str, name: &str, entry: &Value) -> Result<String, String> {
    let by_hand = || {
        let one = object([(name, entry.clone())]);
        format!("{NOT_DONE}\n{}", Block(&one, 0))
    };
    change(text, Change::Put(name, entry)).ok_or_else(by_hand)
}

/// Takes a server out; nothing if it does not stand there.
///
/// # Errors
/// In words, what to do by hand, if the text cannot be changed.
pub fn remove_server(text: &str, name: &str) -> Result<Option<String>, String> {
    let is_there = yaml::parse(text).ok().and_then(|tree| {
        let all = tree.json()?;
        Some(servers(&all)?.contains_key(name))
    });
    match is_there {
        Some(true) => {
            let by_hand = || format!("{NOT_DONE} nothing of `{name}`");
            let changed = change(text, Change::Remove(name)).ok_or_else(by_hand)?;
            Ok(Some(changed))
        }
        _ => Ok(None),
    }
}

/// A server as it is written down below `mcp` and `servers`, in comments.
#[must_use]
pub fn in_comments(name: &str, entry: &Value) -> String {
    let text = Block(&object([(name, entry.clone())]), 4).to_string();
    text.lines().map(|line| format!("# {line}\n")).collect()
}

/// Takes away a server that stands there in [comments](in_comments).
#[must_use]
pub fn without_comments_of(text: &str, name: &str) -> String {
    let one = object([(name, Value::Null)]);
    let key = Block(&one, 4).to_string();
    let key = format!("# {}", key.trim_end().trim_end_matches(" null"));
    let (mut out, mut is_within) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        is_within = line.trim_end() == key || (is_within && line.starts_with("#       "));
        if !is_within {
            out.push_str(line);
        }
    }
    out
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    let members = members.into_iter();
    members.map(|(name, it)| (name.to_owned(), it)).collect()
}

fn change(text: &str, change: Change<'_>) -> Option<String> {
    let tree = yaml::parse(text).ok()?;
    let mut wanted = tree.json()?;
    if wanted.is_null() {
        wanted = json!({});
    }
    let all = section_of_servers(&mut wanted)?;
    match change {
        Change::Put(name, entry) => all.insert(name.to_owned(), entry.clone()),
        Change::Remove(name) => all.remove(name),
    };
    let changed = written(text, &tree, change, &wanted)?;
    let read = yaml::parse(&changed).ok()?.json()?;
    (read == wanted).then_some(changed)
}

/// The servers of a configuration, in the section of the plugin or of `mcp`.
fn servers(all: &Value) -> Option<&Map<String, Value>> {
    let of_plugin = || {
        let mut plugins = all.get("plugins")?.as_array()?.iter();
        plugins.find(|plugin| plugin["type"] == "mcp")
    };
    let section = all.get("mcp").filter(|it| !it.is_null());
    section.or_else(of_plugin)?.get("servers")?.as_object()
}

/// The same, made if it is not there.
fn section_of_servers(all: &mut Value) -> Option<&mut Map<String, Value>> {
    let plugins = all.get("plugins").and_then(Value::as_array);
    let section = if let Some(plugins) = plugins.filter(|them| !them.is_empty()) {
        let at = plugins.iter().position(|plugin| plugin["type"] == "mcp");
        let plugins = all.get_mut("plugins")?.as_array_mut()?;
        if at.is_none() {
            plugins.insert(0, json!({"name": "mcp", "type": "mcp"}));
        }
        plugins.get_mut(at.unwrap_or(0))?.as_object_mut()?
    } else {
        let section = all.as_object_mut()?.entry("mcp").or_insert(Value::Null);
        if section.is_null() {
            *section = json!({});
        }
        section.as_object_mut()?
    };
    let servers = section.entry("servers").or_insert(Value::Null);
    if servers.is_null() {
        *servers = json!({});
    }
    servers.as_object_mut()
}

/// The text with the change, which `wanted` has already.
fn written(text: &str, tree: &Node, change: Change<'_>, wanted: &Value) -> Option<String> {
    let mut lines = Lines(text.lines().map(str::to_owned).collect());
    let plugins = find(tree, "plugins").filter(|it| !list(&it.value).is_empty());
    if let Some(plugins) = plugins {
        let is_mcp = |plugin: &&Node| {
            let kind = find(plugin, "type").map(|it| &it.value.kind);
            matches!(kind, Some(Kind::Text(kind)) if kind == "mcp")
        };
        let all = wanted.get("plugins")?;
        let first = list(&plugins.value).first()?;
        if first.at.line == plugins.at.line {
            // `plugins: [...]`
            lines.replace(plugins, &object([("plugins", all.clone())]))?;
            return Some(lines.text());
        }
        let dash = lines.indent(first.at.line)?;
        let Some(at) = list(&plugins.value).iter().position(|it| is_mcp(&it)) else {
            let behind = usize::try_from(plugins.at.line).ok()?;
            lines.put(behind..behind, &item(all.get(0)?, dash));
            return Some(lines.text());
        };
        let plugin = list(&plugins.value).get(at)?;
        let line = usize::try_from(plugin.at.line).ok()?.checked_sub(1)?;
        let is_flow = |line: &String| line.trim_start().starts_with("- {");
        if lines.0.get(line).is_some_and(is_flow) {
            lines.put(line..line.checked_add(1)?, &item(all.get(at)?, dash));
            return Some(lines.text());
        }
        return within(&mut lines, plugin, change, None);
    }
    match find(tree, "mcp") {
        Some(section) => {
            let whole = object([("mcp", wanted.get("mcp")?.clone())]);
            within(&mut lines, &section.value, change, Some((section, &whole)))
        }
        None => {
            let new = object([("mcp", wanted.get("mcp")?.clone())]);
            let gap = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            Some(format!("{text}{gap}{HEADER}{}", Block(&new, 0)))
        }
    }
}

/// The change in a section that has `servers`; `whole` is where that stands and what to put in its place
/// if it is not written in lines.
fn within(
    lines: &mut Lines,
    section: &Node,
    change: Change<'_>,
    whole: Option<(&Entry, &Map<String, Value>)>,
) -> Option<String> {
    let entries = entries(section);
    if let Some((entry, text)) = whole
        && entries
            .first()
            .is_none_or(|first| first.at.line == entry.at.line)
    {
        lines.replace(entry, text)?;
        return Some(lines.text());
    }
    let servers = find(section, "servers");
    let first = servers.and_then(|it| self::entries(&it.value).first());
    match (servers, first) {
        (Some(servers), Some(first)) if first.at.line > servers.at.line => {
            let column = usize::try_from(first.at.column).ok()?.checked_sub(1)?;
            let (Change::Put(name, _) | Change::Remove(name)) = change;
            if let Some(old) = find(&servers.value, name) {
                if self::entries(&servers.value).len() == 1 && matches!(change, Change::Remove(_)) {
                    lines.replace(servers, &object([("servers", json!({}))]))?;
                    return Some(lines.text());
                }
                lines.remove(old)?;
            }
            if let Change::Put(name, entry) = change {
                let new = object([(name, entry.clone())]);
                let behind = usize::try_from(servers.at.line).ok()?;
                lines.put(behind..behind, &Block(&new, column).to_string());
            }
        }
        (Some(servers), _) => {
            let all = servers.value.json()?;
            let mut all = all.as_object().cloned().unwrap_or_default();
            match change {
                Change::Put(name, entry) => all.insert(name.to_owned(), entry.clone()),
                Change::Remove(name) => all.remove(name),
            };
            lines.replace(servers, &object([("servers", Value::Object(all))]))?;
        }
        (None, _) => {
            let Change::Put(name, entry) = change else {
                return None;
            };
            // Behind a key that ends in its line.
            let is_short = |it: &&Entry| {
                it.value.at.line == it.at.line
                    && !matches!(it.value.kind, Kind::Table(_) | Kind::List(_))
            };
            let beside = entries.iter().find(is_short)?;
            let column = usize::try_from(beside.at.column).ok()?.checked_sub(1)?;
            let new = object([("servers", json!({name: entry}))]);
            let behind = usize::try_from(beside.at.line).ok()?;
            lines.put(behind..behind, &Block(&new, column).to_string());
        }
    }
    Some(lines.text())
}

fn entries(node: &Node) -> &[Entry] {
    if let Kind::Table(entries) = &node.kind {
        return entries;
    }
    &[]
}

fn list(node: &Node) -> &[Node] {
    if let Kind::List(list) = &node.kind {
        return list;
    }
    &[]
}

fn find<'n>(node: &'n Node, name: &str) -> Option<&'n Entry> {
    entries(node).iter().find(|entry| entry.name == name)
}

/// A value as one of a list, its dash so far from the left.
fn item(value: &Value, left: usize) -> String {
    let list = object([("list", json!([value]))]);
    let text = Block(&list, 0).to_string();
    let lines = text.lines().skip(1).filter_map(|line| line.get(2..));
    lines.map(|line| format!("{:left$}{line}\n", "")).collect()
}

impl Lines {
    fn indent(&self, number: u32) -> Option<usize> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let line = self.0.get(index)?;
        line.len().checked_sub(line.trim_start().len())
    }

    /// The lines of an entry, as indices: its key's, and those that are further to the right.
    fn range(&self, entry: &Entry) -> Option<std::ops::Range<usize>> {
        let first = usize::try_from(entry.at.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(entry.at.column).ok()?.checked_sub(1)?;
        let mut end = first.checked_add(1)?;
        for (index, line) in self.0.iter().enumerate().skip(end) {
            let text = line.trim_start();
            let indent = line.len().checked_sub(text.len())?;
            let is_part = indent > column || (indent == column && text.starts_with(['}', ']']));
            match (text.is_empty() || text.starts_with('#'), is_part) {
                (true, _) => {}
                (false, true) => end = index.checked_add(1)?,
                (false, false) => break,
            }
        }
        Some(first..end)
    }

    fn remove(&mut self, entry: &Entry) -> Option<()> {
        let range = self.range(entry)?;
        self.0.drain(range);
        Some(())
    }

    /// Puts these in the place of an entry, unless comments would be lost.
    fn replace(&mut self, entry: &Entry, new: &Map<String, Value>) -> Option<()> {
        let range = self.range(entry)?;
        let column = usize::try_from(entry.at.column).ok()?.checked_sub(1)?;
        let old = self.0.get(range.clone())?;
        let is_comment = |line: &String| line.contains(" #") || line.trim_start().starts_with('#');
        if old.iter().any(is_comment) {
            return None;
        }
        // A line may have more before the entry, as the dash of a list.
        let before = self.0.get(range.start)?.get(..column)?.to_owned();
        let text = Block(new, column).to_string();
        let text = format!("{before}{}", text.get(column..)?);
        self.put(range, &text);
        Some(())
    }

    /// Puts a text in the place of some lines.
    fn put(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.0.splice(range, text.lines().map(str::to_owned));
    }

    fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str) -> String {
        put_server(text, "new", &json!({"command": ["x", "y z"]})).unwrap()
    }

    /// What there is and how it is written, with its comments, stays; the server is put where it belongs.
    #[test]
    fn servers_are_put_into_every_form_of_a_configuration() {
        let entry = "new:\n      command:\n        - x\n        - \"y z\"\n";
        let mcp = format!("mcp:\n  servers:\n    {entry}");
        for (before, after) in [
            (String::new(), format!("{HEADER}{mcp}")),
            ("# mine\nhost_id: a".to_owned(), format!("# mine\nhost_id: a\n{HEADER}{mcp}")),
            (
                "mcp: # here\n  # all\n  servers:\n    # old\n    old: {url: \"https://x\"}\na2a: false\n".to_owned(),
                format!(
                    "mcp: # here\n  # all\n  servers:\n    {entry}    # old\n    old: {{url: \"https://x\"}}\na2a: false\n"
                ),
            ),
            (
                "mcp:\n  import: a.json # mine\n# end\n".to_owned(),
                format!("mcp:\n  import: a.json # mine\n  servers:\n    {entry}# end\n"),
            ),
            (
                "mcp: {import: a.json}\na2a: false # no\n".to_owned(),
                format!("mcp:\n  import: a.json\n  servers:\n    {entry}a2a: false # no\n"),
            ),
            (
                "mcp:\n  servers:\n    new: {url: \"https://x\"}\n    b: {url: \"https://y\"} # b\n".to_owned(),
                format!("mcp:\n  servers:\n    {entry}    b: {{url: \"https://y\"}} # b\n"),
            ),
        ] {
            assert_eq!(put(&before), after, "{before}");
        }
    }

    #[test]
    fn servers_are_put_into_the_plugin_if_plugins_are_named() {
        for before in [
            "plugins:\n  # first\n  - {name: t, type: tools} # t\n  - name: mcp\n    type: mcp # m\n    servers:\n      a: {url: \"https://x\"}\n",
            "plugins:\n  # first\n  - {name: t, type: tools} # t\n  - {name: mcp, type: mcp, import: a.json}\n",
            "plugins:\n- name: t\n  type: tools # t\n# last\n",
            "plugins: [{name: t, type: tools}]\n",
        ] {
            let after = put(before);
            for comment in ["# first", "# t", "# m", "# last"] {
                assert_eq!(before.contains(comment), after.contains(comment), "{after}");
            }
            let removed = remove_server(&after, "new").unwrap().unwrap();
            let json = |text: &str| yaml::parse(text).unwrap().json().unwrap();
            let (mut wanted, mut read) = (json(before), json(&removed));
            section_of_servers(&mut wanted).unwrap();
            section_of_servers(&mut read).unwrap();
            assert_eq!(read, wanted, "{removed}");
            assert_eq!(remove_server(&removed, "new"), Ok(None));
        }
    }

    #[test]
    fn no_comment_is_lost() {
        let before = "mcp: {import: a.json} # mine\n";
        let by_hand = put_server(before, "new", &json!({"command": "x"})).unwrap_err();
        assert!(by_hand.ends_with("new:\n  command: x\n"), "{by_hand}");
    }

    #[test]
    fn what_is_in_comments_can_be_used_and_taken_away() {
        let entry = json!({"command": ["x"], "env": {"A": "b"}});
        let text = put_server("# mine\n", "a", &entry).unwrap();
        let noted = format!("{text}{}", in_comments("b", &entry));
        assert_eq!(without_comments_of(&noted, "b"), text);
        assert_eq!(without_comments_of(&noted, "a"), noted);
        let used = noted
            .replace("# ", "")
            .replace("mine\n", "")
            .replace("MCP servers", "# MCP");
        let json = yaml::parse(&used).unwrap().json().unwrap();
        assert_eq!(json["mcp"]["servers"], json!({"a": entry, "b": entry}));
    }
}
