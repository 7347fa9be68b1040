//! A plan as a board on the terminal.

use std::fmt::Write as _;

use a2e_wire::messages::planning::{BoardTask, PlanBoard};

use crate::screen::plain;

/// A column that is narrower cannot be read; then they stand below each other.
const NARROWEST: usize = 18;

/// Between two columns.
const GAP: &str = " │ ";

/// How wide the terminal is.
pub(super) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 100 } else { columns }
}

/// The board: columns beside each other, or below each other where they do not fit.
pub(super) fn draw(board: &PlanBoard<'_>, width: usize) -> String {
    let columns: Vec<(String, Vec<String>)> = board
        .tasks
        .iter()
        .map(|(column, tasks)| {
            let head = format!("{} ({})", plain(column), tasks.len());
            (head, tasks.iter().map(line).collect())
        })
        .collect();
    let mut out = format!("{}  {}\n", plain(&board.name), board.plan_id);
    let gaps = GAP.chars().count() * columns.len().saturating_sub(1);
    let each = width.saturating_sub(gaps) / columns.len().max(1);
    match each >= NARROWEST {
        true => beside(&mut out, &columns, each),
        false => below(&mut out, &columns, width),
    }
    out
}

/// A task in a line: the beginning of its id, its title, who does it, and whether it must wait.
fn line(task: &BoardTask<'_>) -> String {
    let id: String = task.task_id.as_str().chars().take(4).collect();
    let mut line = format!("{id} {}", plain(&task.title));
    if !task.assignee.is_empty() {
        let _ = write!(line, " @{}", plain(&task.assignee));
    }
    if task.blocked_by.as_ref().is_some_and(|by| !by.is_empty()) {
        line.push_str(" (blocked)");
    }
    line
}

fn beside(out: &mut String, columns: &[(String, Vec<String>)], each: usize) {
    // A task that is longer than its column goes on in the next line.
    let cells: Vec<Vec<String>> = columns
        .iter()
        .map(|(head, tasks)| {
            let rule = "─".repeat(each);
            let lines = tasks.iter().flat_map(|task| wrapped(task, each));
            let first = head.chars().take(fitting(head, each)).collect();
            [first, rule].into_iter().chain(lines).collect()
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    for row in 0..height {
        let row: Vec<String> = cells
            .iter()
            .map(|column| {
                let cell = column.get(row).map_or("", |cell| cell);
                let missing = each.saturating_sub(taken(cell));
                format!("{cell}{}", " ".repeat(missing))
            })
            .collect();
        out.push_str(row.join(GAP).trim_end());
        out.push('\n');
    }
}

fn below(out: &mut String, columns: &[(String, Vec<String>)], width: usize) {
    for (head, tasks) in columns {
        let _ = writeln!(out, "{head}");
        for line in tasks
            .iter()
            .flat_map(|task| wrapped(task, width.max(3) - 2))
        {
            let _ = writeln!(out, "  {line}");
        }
    }
}

/// A text in lines of that many columns, broken between words where it can be.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word.to_owned();
        loop {
            let Some(line) = lines.last_mut() else {
                return lines;
            };
            let used = taken(line);
            let space = usize::from(used > 0);
            if used + space + taken(&word) <= width {
                line.extend(std::iter::repeat_n(' ', space));
                line.push_str(&word);
                break;
            }
            if used == 0 {
                // One at least, however narrow it is.
                let count = fitting(&word, width).max(1);
                line.extend(word.chars().take(count));
                word = word.chars().skip(count).collect();
            }
            lines.push(String::new());
            if word.is_empty() {
                break;
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// How many columns of a terminal a text takes.
fn taken(text: &str) -> usize {
    text.chars().map(column).sum()
}

/// How many letters of a text fit into so many columns.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let fits = text.chars().take_while(|letter| {
        used += column(*letter);
        used <= width
    });
    fits.count()
}

/// Marks stand on the letter before them; letters of East Asia and pictures are two columns wide.
const fn column(letter: char) -> usize {
    match letter {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::Map;

    use super::*;

    fn task(id: &str, title: &str) -> BoardTask<'static> {
        BoardTask::new(
            id.to_owned().into(),
            title.to_owned().into(),
            "".into(),
            "".into(),
        )
    }

    fn board() -> PlanBoard<'static> {
        let blocked = BoardTask {
            blocked_by: Some(vec!["aaaa11".into()]),
            assignee: "ada".into(),
            ..task("bbbb22", "Paint the house in a friendly colour")
        };
        let columns = vec![
            ("todo".into(), vec![task("aaaa11", "Buy paint"), blocked]),
            ("done".into(), vec![task("cccc33", "Ask\u{1b}[2J")]),
        ];
        PlanBoard::new(
            "p1".into(),
            "House".into(),
            vec!["todo".into(), "done".into()],
            Map::from_pairs(columns).unwrap(),
        )
    }

    #[test]
    fn columns_stand_beside_each_other() {
        let drawn = draw(&board(), 43);
        let expected = "\
House  p1
todo (2)             │ done (1)
──────────────────── │ ────────────────────
aaaa Buy paint       │ cccc Ask\\u{1b}[2J
bbbb Paint the house │
in a friendly colour │
@ada (blocked)       │
";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn on_a_narrow_terminal_they_stand_below_each_other() {
        let drawn = draw(&board(), 30);
        let expected = "\
House  p1
todo (2)
  aaaa Buy paint
  bbbb Paint the house in a
  friendly colour @ada
  (blocked)
done (1)
  cccc Ask\\u{1b}[2J
";
        assert_eq!(drawn, expected);
    }

    /// What a letter takes on the terminal counts, not that it is one.
    #[test]
    fn wide_letters_take_two_columns() {
        let columns = vec![
            (
                "todo".into(),
                vec![
                    task("aaaa11", "東京へ行く"),
                    task("bbbb22", "e\u{301}te\u{301}"),
                ],
            ),
            ("終わった".into(), vec![task("cccc33", "x")]),
        ];
        let names = vec!["todo".into(), "終わった".into()];
        let tasks = Map::from_pairs(columns).unwrap();
        let board = PlanBoard::new("p1".into(), "旅".into(), names, tasks);
        let expected = "\
旅  p1
todo (2)           │ 終わった (1)
────────────────── │ ──────────────────
aaaa 東京へ行く    │ cccc x
bbbb e\u{301}te\u{301}           │
";
        assert_eq!(draw(&board, 39), expected);
        assert_eq!(wrapped("東京都", 3), ["東", "京", "都"]);
        assert_eq!(wrapped("東京都", 1), ["東", "京", "都"]);
    }

    #[test]
    fn a_long_word_is_cut() {
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("", 3), [""; 0]);
    }
}
