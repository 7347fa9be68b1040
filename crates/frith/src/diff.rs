//! What has changed between two texts, line by line.

use crate::screen::plain;

/// A line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'t> {
    Same(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

impl Line<'_> {
    /// The line as it may be shown, with a mark before it.
    pub(crate) fn marked(self) -> String {
        let (mark, text) = match self {
            Self::Same(text) => (' ', text),
            Self::Removed(text) => ('-', text),
            Self::Added(text) => ('+', text),
        };
        format!("{mark} {}", plain(text))
    }
}

/// Unchanged lines that are shown around changed ones.
const CONTEXT: usize = 2;

/// Texts that differ in more lines than this, times each other, are shown one after the other.
const MAX_CELLS: usize = 4_000_000;

/// The lines that have changed, with a few around them.
pub(crate) fn diff<'t>(before: &'t str, now: &'t str) -> Vec<Line<'t>> {
    let all = all(
        &before.lines().collect::<Vec<_>>(),
        &now.lines().collect::<Vec<_>>(),
    );
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        let to = at.saturating_add(CONTEXT + 1).min(all.len());
        all.get(from..to)
            .is_some_and(|near| near.iter().any(is_change))
    };
    let shown = all.iter().enumerate().filter(|(at, _)| near(*at));
    shown.map(|(_, line)| *line).collect()
}

fn all<'t>(before: &[&'t str], now: &[&'t str]) -> Vec<Line<'t>> {
    let pairs = before.iter().zip(now);
    let head = pairs.take_while(|(old, new)| old == new).count();
    let (same, before) = before.split_at(head);
    let now = now.get(head..).unwrap_or_default();
    let pairs = before.iter().rev().zip(now.iter().rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    let (before, end) = before.split_at(before.len() - tail);
    let (now, _) = now.split_at(now.len() - tail);
    let mut lines: Vec<Line<'t>> = same.iter().map(|line| Line::Same(line)).collect();
    match before.len().saturating_mul(now.len()) <= MAX_CELLS {
        true => lines.extend(middle(before, now)),
        false => {
            lines.extend(before.iter().map(|line| Line::Removed(line)));
            lines.extend(now.iter().map(|line| Line::Added(line)));
        }
    }
    lines.extend(end.iter().map(|line| Line::Same(line)));
    lines
}

/// The difference with the most lines left as they are.
fn middle<'t>(before: &[&'t str], now: &[&'t str]) -> Vec<Line<'t>> {
    let width = now.len() + 1;
    // How many lines of the rest can stay, from each place on.
    let mut kept = vec![0_u32; (before.len() + 1) * width];
    for (old, line) in before.iter().enumerate().rev() {
        for (new, other) in now.iter().enumerate().rev() {
            let at = old * width + new;
            kept[at] = match line == other {
                true => kept[at + width + 1] + 1,
                false => kept[at + width].max(kept[at + 1]),
            };
        }
    }
    let (mut old, mut new, mut lines) = (0, 0, Vec::new());
    while old < before.len() || new < now.len() {
        let at = old * width + new;
        match (before.get(old), now.get(new)) {
            (Some(line), Some(other)) if line == other => {
                lines.push(Line::Same(line));
                (old, new) = (old + 1, new + 1);
            }
            (Some(line), other) if other.is_none() || kept[at + width] >= kept[at + 1] => {
                lines.push(Line::Removed(line));
                old += 1;
            }
            (_, Some(other)) => {
                lines.push(Line::Added(other));
                new += 1;
            }
            (_, None) => break,
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, now: &str) -> String {
        let line = |line: &Line<'_>| match line {
            Line::Same(text) => format!(" {text}"),
            Line::Removed(text) => format!("-{text}"),
            Line::Added(text) => format!("+{text}"),
        };
        let lines: Vec<String> = diff(before, now).iter().map(line).collect();
        lines.join("|")
    }

    #[test]
    fn changed_lines_and_what_is_around_them() {
        assert_eq!(shown("a\nb", "a\nb"), "");
        assert_eq!(
            shown("a\nb\nc\nd\ne\nf", "a\nb\nc\nX\ne\nf"),
            " b| c|-d|+X| e| f"
        );
        assert_eq!(shown("", "a"), "+a");
        assert_eq!(shown("a", ""), "-a");
        assert_eq!(shown("a\nb\nc", "b\nc\nd"), "-a| b| c|+d");
        assert_eq!(
            shown("1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3\n4\n5\n6\n7"),
            "+0| 1| 2"
        );
    }

    /// Whatever changes, both texts can be read from it.
    #[test]
    fn nothing_is_left_out() {
        for (before, now) in [
            ("a b c d e", "e d c b a"),
            ("x a x b x", "a x x b"),
            ("a a a", "a"),
        ] {
            let lines = |text: &'static str| text.split(' ').collect::<Vec<_>>();
            let all = all(&lines(before), &lines(now));
            let side = |other: fn(&Line<'_>) -> bool| {
                let side = all
                    .iter()
                    .filter(|line| !other(line))
                    .map(|line| match line {
                        Line::Same(text) | Line::Removed(text) | Line::Added(text) => *text,
                    });
                side.collect::<Vec<_>>().join(" ")
            };
            assert_eq!(side(|line| matches!(line, Line::Added(_))), before);
            assert_eq!(side(|line| matches!(line, Line::Removed(_))), now);
        }
    }
}
