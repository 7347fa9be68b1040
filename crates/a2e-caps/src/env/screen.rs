//! The screen of a terminal: what a person in front of it would see.
//!
//! It knows what common programs use of the VT100 and xterm: moving the cursor, erasing, inserting and
//! deleting, scrolling within a region. Colours and other modes change nothing of the text and are
//! read over. Every character is one column wide.

mod control;

use control::{Control, Parser};

/// Rows and columns of characters with a cursor.
#[derive(Debug)]
pub(super) struct Screen {
    rows: usize,
    columns: usize,
    cells: Vec<Vec<char>>,
    cursor: Cursor,
    saved: Cursor,
    /// The rows that scroll: from the first to before the last.
    region: (usize, usize),
    parser: Parser,
    /// How often the shell was ready, and what its last command ended with.
    pub(super) prompts: u64,
    pub(super) exit_code: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cursor {
    row: usize,
    /// One past the last column where a full row waits for its next character.
    column: usize,
}

impl Screen {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            cells: vec![vec![' '; columns]; rows],
            cursor: Cursor::default(),
            saved: Cursor::default(),
            region: (0, rows),
            parser: Parser::default(),
            prompts: 0,
            exit_code: None,
        }
    }

    /// Takes what a program writes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(control) = self.parser.next(*byte) {
                self.obey(control);
            }
        }
    }

    /// The lines without the blanks at their ends, and without the empty lines at the end.
    pub(super) fn text(&self) -> String {
        let lines = self.cells.iter().map(|row| row.iter().collect::<String>());
        let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
        let last = lines.iter().rposition(|line| !line.is_empty());
        let shown = lines.get(..=last.unwrap_or_default()).unwrap_or_default();
        shown.join("\n")
    }

    /// Where the cursor is: row and column from 0.
    pub(super) fn cursor(&self) -> (usize, usize) {
        let Cursor { row, column } = self.cursor;
        (row, column.min(self.columns.saturating_sub(1)))
    }

    fn obey(&mut self, control: Control) {
        let Cursor { row, column } = self.cursor;
        match control {
            Control::Print(letter) => self.print(letter),
            Control::Return => self.cursor.column = 0,
            Control::LineFeed => self.line_feed(),
            Control::Backspace => self.cursor.column = column.saturating_sub(1),
            Control::Tab => self.to(row, (column / 8).saturating_add(1).saturating_mul(8)),
            Control::Up(count) => self.to(row.saturating_sub(count), column),
            Control::Down(count) => self.to(row.saturating_add(count), column),
            Control::Right(count) => self.to(row, column.saturating_add(count)),
            Control::Left(count) => self.to(row, column.saturating_sub(count)),
            Control::Column(column) => self.to(row, column),
            Control::Row(row) => self.to(row, column),
            Control::Place(row, column) => self.to(row, column),
            Control::EraseScreen(what) => self.erase_screen(what),
            Control::EraseLine(what) => self.erase_line(what),
            Control::InsertLines(count) => self.scroll_down(row, count),
            Control::DeleteLines(count) => self.scroll_up(row, count),
            Control::InsertBlanks(count) => self.shift(count, true),
            Control::DeleteLetters(count) => self.shift(count, false),
            Control::EraseLetters(count) => self.blank(row, column, column.saturating_add(count)),
            Control::ScrollUp(count) => self.scroll_up(self.region.0, count),
            Control::ScrollDown(count) => self.scroll_down(self.region.0, count),
            Control::ReverseFeed if row == self.region.0 => self.scroll_down(row, 1),
            Control::ReverseFeed => self.cursor.row = row.saturating_sub(1),
            Control::Region(top, bottom) => self.set_region(top, bottom),
            Control::Save => self.saved = self.cursor,
            Control::Restore => self.cursor = self.saved,
            Control::Reset => {
                self.region = (0, self.rows);
                self.erase_screen(2);
                self.to(0, 0);
            }
            Control::Prompt(exit_code) => {
                self.prompts = self.prompts.saturating_add(1);
                self.exit_code = exit_code.or(self.exit_code);
            }
        }
    }

    fn print(&mut self, letter: char) {
        if self.cursor.column >= self.columns {
            self.cursor.column = 0;
            self.line_feed();
        }
        let Cursor { row, column } = self.cursor;
        if let Some(cell) = self.cells.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell = letter;
        }
        self.cursor.column = column.saturating_add(1);
    }

    fn line_feed(&mut self) {
        let (top, bottom) = self.region;
        match self.cursor.row.saturating_add(1) {
            next if next == bottom => self.scroll_up(top, 1),
            next => self.cursor.row = next.min(self.rows.saturating_sub(1)),
        }
    }

    fn to(&mut self, row: usize, column: usize) {
        self.cursor = Cursor {
            row: row.min(self.rows.saturating_sub(1)),
            column: column.min(self.columns.saturating_sub(1)),
        };
    }

    fn set_region(&mut self, top: usize, bottom: Option<usize>) {
        let bottom = bottom.unwrap_or(self.rows).min(self.rows);
        if top.saturating_add(1) < bottom {
            self.region = (top, bottom);
            self.to(0, 0);
        }
    }

    /// Lines from a row to the end of the region move up; blank ones come from below.
    fn scroll_up(&mut self, from: usize, count: usize) {
        let (top, bottom) = self.region;
        if !(top..bottom).contains(&from) {
            return;
        }
        if let Some(lines) = self.cells.get_mut(from..bottom) {
            let count = count.min(lines.len());
            lines.rotate_left(count);
            lines
                .iter_mut()
                .rev()
                .take(count)
                .for_each(|line| line.fill(' '));
        }
    }

    /// The same downwards.
    fn scroll_down(&mut self, from: usize, count: usize) {
        let (top, bottom) = self.region;
        if !(top..bottom).contains(&from) {
            return;
        }
        if let Some(lines) = self.cells.get_mut(from..bottom) {
            let count = count.min(lines.len());
            lines.rotate_right(count);
            lines.iter_mut().take(count).for_each(|line| line.fill(' '));
        }
    }

    /// What is at and after the cursor moves by so many columns.
    fn shift(&mut self, count: usize, right: bool) {
        let Cursor { row, column } = self.cursor;
        let line = self
            .cells
            .get_mut(row)
            .and_then(|line| line.get_mut(column..));
        let Some(rest) = line else {
            return;
        };
        let count = count.min(rest.len());
        if right {
            rest.rotate_right(count);
            rest.iter_mut().take(count).for_each(|cell| *cell = ' ');
        } else {
            rest.rotate_left(count);
            rest.iter_mut()
                .rev()
                .take(count)
                .for_each(|cell| *cell = ' ');
        }
    }

    fn erase_screen(&mut self, what: usize) {
        let row = self.cursor.row;
        let rows = match what {
            0 => row.saturating_add(1)..self.rows,
            1 => 0..row,
            _ => 0..self.rows,
        };
        for row in rows {
            self.blank(row, 0, self.columns);
        }
        if what < 2 {
            self.erase_line(what);
        }
    }

    fn erase_line(&mut self, what: usize) {
        let Cursor { row, column } = self.cursor;
        match what {
            0 => self.blank(row, column, self.columns),
            1 => self.blank(row, 0, column.saturating_add(1)),
            _ => self.blank(row, 0, self.columns),
        }
    }

    fn blank(&mut self, row: usize, from: usize, to: usize) {
        let line = self.cells.get_mut(row);
        let cells = line.and_then(|line| line.get_mut(from..to.min(self.columns)));
        cells.unwrap_or_default().fill(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: usize, columns: usize, text: &str) -> (String, (usize, usize)) {
        let mut screen = Screen::new(rows, columns);
        screen.write(text.as_bytes());
        (screen.text(), screen.cursor())
    }

    #[test]
    fn lines_wrap_and_scroll() {
        for (text, expected, cursor) in [
            ("ab\r\ncd", "ab\ncd", (1, 2)),
            ("abcd", "abcd", (0, 3)),
            ("abcde", "abcd\ne", (1, 1)),
            ("1\r\n2\r\n3\r\n4", "2\n3\n4", (2, 1)),
            ("ab\u{8}c", "ac", (0, 2)),
            ("é€😀", "é€😀", (0, 3)),
            ("a\tb", "a  b", (0, 3)),
        ] {
            assert_eq!(shown(3, 4, text), (expected.into(), cursor), "{text:?}");
        }
    }

    #[test]
    fn sequences_move_and_erase() {
        for (text, expected) in [
            ("abc\u{1b}[2Dx", "axc"),
            ("\u{1b}[2;3Hx\u{1b}[Hy", "y\n  x"),
            ("abc\r\u{1b}[K", ""),
            ("abc\u{1b}[1K", ""),
            ("abc\u{1b}[2G\u{1b}[1K", "  c"),
            ("a\r\nb\u{1b}[2J", ""),
            ("abcd\u{1b}[2G\u{1b}[P", "acd"),
            ("abc\u{1b}[2G\u{1b}[@", "a bc"),
            ("abc\u{1b}[1G\u{1b}[2X", "  c"),
            ("a\r\nb\u{1b}[1;1H\u{1b}[L", "\na\nb"),
            ("a\r\nb\u{1b}[1;1H\u{1b}[M", "b"),
            ("a\u{1b}7b\u{1b}8c", "ac"),
            ("x\u{1b}[1;1H\u{1b}My", "y\nx"),
            ("\u{1b}[31;1mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}t", "t"),
            ("\u{1b}]0;title\u{1b}\\t", "t"),
            ("\u{1b}[?25lq", "q"),
            ("\u{1b}[1;2r1\r\n2\r\n3\u{1b}[3;1Hz", "2\n3\nz"),
        ] {
            assert_eq!(shown(3, 8, text).0, expected, "{text:?}");
        }
    }

    #[test]
    fn a_prompt_tells_how_the_last_command_ended() {
        let mut screen = Screen::new(2, 20);
        screen.write(b"\x1b]7777;0\x07$ false\r\n\x1b]7777;1\x07$ ");
        assert_eq!((screen.prompts, screen.exit_code), (2, Some(1)));
        assert_eq!(screen.text(), "$ false\n$");
    }

    /// Whatever comes, in whatever pieces, nothing breaks and the screen keeps its size.
    #[test]
    fn anything_may_come() {
        let mut random = super::super::random::Random::seeded(4);
        let parts: [&[u8]; 14] = [
            b"\x1b[",
            b"\x1b]",
            b"\x1b",
            b";",
            b"9999999999999999999",
            b"5",
            b"H",
            b"r",
            b"L",
            b"\n",
            b"\xff\xf0\x9f",
            b"x",
            b"\x1bM",
            b"S",
        ];
        let mut screen = Screen::new(3, 5);
        for _ in 0..20_000 {
            screen.write(parts[random.below(parts.len())]);
        }
        assert!(screen.cells.len() == 3 && screen.cells.iter().all(|row| row.len() == 5));
        let (row, column) = screen.cursor();
        assert!(row < 3 && column < 5);
    }
}
