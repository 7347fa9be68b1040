//! The screen of a terminal: what a person in front of it would see.
//!
//! It knows what common programs use of the VT100 and xterm: moving the cursor, erasing, inserting and
//! deleting, scrolling within a region, a screen that a program has for itself. Colours and other modes
//! change nothing of the text and are read over. Characters are as wide as terminals have them: a wide
//! one takes two columns, and an accent or another mark stands with the letter before it.

mod control;

use unicode_width::UnicodeWidthChar;

use control::{Control, Parser};

/// Rows and columns of characters with a cursor.
#[derive(Debug)]
pub(super) struct Screen {
    rows: usize,
    columns: usize,
    cells: Vec<Vec<Cell>>,
    cursor: Cursor,
    saved: Cursor,
    /// What is under the screen that a program has for itself, and where the cursor was.
    under: Option<(Vec<Vec<Cell>>, Cursor)>,
    /// Whether a letter after the last column goes to the next line.
    wraps: bool,
    /// What was printed last.
    last: Option<char>,
    /// The rows that scroll: from the first to before the last.
    region: (usize, usize),
    parser: Parser,
    /// How often the shell was ready, and what its last command ended with.
    pub(super) prompts: u64,
    pub(super) exit_code: Option<i64>,
}

/// What stands in one column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    letter: char,
    /// What is drawn over it.
    marks: [Option<char>; 2],
}

const BLANK: Cell = Cell::of(' ');

/// The second column of a letter that takes two.
const REST: Cell = Cell::of('\0');

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cursor {
    row: usize,
    /// One past the last column where a full row waits for its next character.
    column: usize,
}

/// Letters, with marks, of which a column may have so many.
pub(super) const MAX_LETTERS: usize = 3;

impl Cell {
    const fn of(letter: char) -> Self {
        Self {
            letter,
            marks: [None, None],
        }
    }

    fn letters(&self) -> impl Iterator<Item = char> + use<> {
        let letter = Some(self.letter).filter(|_| *self != REST);
        letter.into_iter().chain(self.marks.into_iter().flatten())
    }
}

impl Screen {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            cells: vec![vec![BLANK; columns]; rows],
            cursor: Cursor::default(),
            saved: Cursor::default(),
            under: None,
            wraps: true,
            last: None,
            region: (0, rows),
            parser: Parser::default(),
            prompts: 0,
            exit_code: None,
        }
    }

    /// Takes what a program writes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            for control in self.parser.next(*byte).into_iter().flatten() {
                self.obey(control);
            }
        }
    }

    /// The lines without the blanks at their ends, and without the empty lines at the end.
    pub(super) fn text(&self) -> String {
        let line = |row: &Vec<Cell>| row.iter().flat_map(Cell::letters).collect::<String>();
        let lines = self.cells.iter().map(line);
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
        // A cursor that waits after a full row is on its last column for all but the next letter.
        let (row, column) = self.cursor();
        match control {
            Control::Print(letter) => self.print(letter),
            Control::Repeat(count) => self.repeat(count),
            Control::Return => self.cursor.column = 0,
            Control::LineFeed => self.line_feed(),
            Control::Backspace => self.to(row, column.saturating_sub(1)),
            Control::Tab => self.to(row, (column / 8).saturating_add(1).saturating_mul(8)),
            Control::Up(count) => self.to(self.above(row, count), column),
            Control::Down(count) => self.to(self.below(row, count), column),
            Control::Right(count) => self.to(row, column.saturating_add(count)),
            Control::Left(count) => self.to(row, column.saturating_sub(count)),
            Control::Column(column) => self.to(row, column),
            Control::Row(row) => self.to(row, column),
            Control::Place(row, column) => self.to(row, column),
            Control::EraseScreen(what) => self.erase_screen(what),
            Control::EraseLine(what) => self.erase_line(what),
            Control::InsertLines(count) => {
                self.scroll_down(row, count);
                self.cursor.column = 0;
            }
            Control::DeleteLines(count) => {
                self.scroll_up(row, count);
                self.cursor.column = 0;
            }
            Control::InsertBlanks(count) => self.shift(count, true),
            Control::DeleteLetters(count) => self.shift(count, false),
            Control::EraseLetters(count) => self.blank(row, column, column.saturating_add(count)),
            Control::ScrollUp(count) => self.scroll_up(self.region.0, count),
            Control::ScrollDown(count) => self.scroll_down(self.region.0, count),
            Control::ReverseFeed if row == self.region.0 => self.scroll_down(row, 1),
            Control::ReverseFeed => self.to(row.saturating_sub(1), column),
            Control::Region(top, bottom) => self.set_region(top, bottom),
            Control::Save => self.saved = self.cursor,
            Control::Restore => self.cursor = self.saved,
            Control::Wrap(wraps) => self.wraps = wraps,
            Control::Alternate(is_on) => self.alternate(is_on),
            Control::Reset => self.reset(),
            Control::Prompt(exit_code) => {
                self.prompts = self.prompts.saturating_add(1);
                self.exit_code = exit_code.or(self.exit_code);
            }
        }
    }

    fn print(&mut self, letter: char) {
        // What has no width at all (U+0085) is not for the eye.
        let width = match letter.width() {
            None => return,
            Some(0) => return self.mark(letter),
            Some(width) => width.min(self.columns),
        };
        self.last = Some(letter);
        if self.cursor.column.saturating_add(width) > self.columns {
            match self.wraps {
                true => {
                    self.cursor.column = 0;
                    self.line_feed();
                }
                false => self.cursor.column = self.columns.saturating_sub(width),
            }
        }
        let Cursor { row, column } = self.cursor;
        let end = column.saturating_add(width);
        self.blank(row, column, end);
        let cells = self
            .cells
            .get_mut(row)
            .and_then(|row| row.get_mut(column..end));
        if let Some([first, rest @ ..]) = cells {
            *first = Cell::of(letter);
            rest.fill(REST);
        }
        self.cursor.column = end;
    }

    /// Draws over the letter before the cursor.
    fn mark(&mut self, mark: char) {
        let Cursor { row, column } = self.cursor;
        let before = self
            .cells
            .get_mut(row)
            .and_then(|row| row.get_mut(..column));
        let letter = before.and_then(|row| row.iter_mut().rfind(|cell| **cell != REST));
        let free = letter.and_then(|cell| cell.marks.iter_mut().find(|mark| mark.is_none()));
        if let Some(free) = free {
            *free = Some(mark);
        }
    }

    fn repeat(&mut self, count: usize) {
        let Some(letter) = self.last else {
            return;
        };
        // More would fill the screen again and again.
        for _ in 0..count.min(self.rows.saturating_mul(self.columns)) {
            self.print(letter);
        }
    }

    /// The row so many above another; the first row of the region is not passed.
    fn above(&self, row: usize, count: usize) -> usize {
        let top = Some(self.region.0).filter(|top| row >= *top);
        row.saturating_sub(count).max(top.unwrap_or_default())
    }

    /// The same downwards.
    fn below(&self, row: usize, count: usize) -> usize {
        let bottom = Some(self.region.1).filter(|bottom| row < *bottom);
        let last = bottom.unwrap_or(self.rows).saturating_sub(1);
        row.saturating_add(count).min(last)
    }

    /// Gives a program a blank screen for itself, or takes it away again.
    fn alternate(&mut self, is_on: bool) {
        if is_on && self.under.is_none() {
            let blank = vec![vec![BLANK; self.columns]; self.rows];
            self.under = Some((std::mem::replace(&mut self.cells, blank), self.cursor));
        } else if !is_on && let Some((cells, cursor)) = self.under.take() {
            (self.cells, self.cursor) = (cells, cursor);
        }
    }

    fn reset(&mut self) {
        self.alternate(false);
        self.region = (0, self.rows);
        self.saved = Cursor::default();
        self.wraps = true;
        self.erase_screen(2);
        self.to(0, 0);
    }

    fn line_feed(&mut self) {
        let (top, bottom) = self.region;
        self.cursor.column = self.cursor().1;
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
                .for_each(|line| line.fill(BLANK));
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
            lines
                .iter_mut()
                .take(count)
                .for_each(|line| line.fill(BLANK));
        }
    }

    /// What is at and after the cursor moves by so many columns.
    fn shift(&mut self, count: usize, right: bool) {
        let (row, column) = self.cursor();
        let count = count.min(self.columns.saturating_sub(column));
        self.split(row, column);
        match right {
            true => self.split(row, self.columns.saturating_sub(count)),
            false => self.split(row, column.saturating_add(count)),
        }
        let line = self
            .cells
            .get_mut(row)
            .and_then(|line| line.get_mut(column..));
        let rest = line.unwrap_or_default();
        if right {
            rest.rotate_right(count);
            rest.iter_mut().take(count).for_each(|cell| *cell = BLANK);
        } else {
            rest.rotate_left(count);
            rest.iter_mut()
                .rev()
                .take(count)
                .for_each(|cell| *cell = BLANK);
        }
    }

    fn erase_screen(&mut self, what: usize) {
        let row = self.cursor.row;
        let rows = match what {
            0 => row.saturating_add(1)..self.rows,
            1 => 0..row,
            2 => 0..self.rows,
            // 3 is what has scrolled off.
            _ => return,
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
            2 => self.blank(row, 0, self.columns),
            _ => {}
        }
    }

    fn blank(&mut self, row: usize, from: usize, to: usize) {
        let to = to.min(self.columns);
        self.split(row, from);
        self.split(row, to);
        let line = self.cells.get_mut(row);
        let cells = line.and_then(|line| line.get_mut(from..to));
        cells.unwrap_or_default().fill(BLANK);
    }

    /// Blanks a wide letter of which one half is before a column and the other is not.
    fn split(&mut self, row: usize, column: usize) {
        let Some(line) = self.cells.get_mut(row) else {
            return;
        };
        if line.get(column) == Some(&REST)
            && let Some(letter) = line.get_mut(column.saturating_sub(1)..=column)
        {
            letter.fill(BLANK);
        }
    }
}

#[cfg(test)]
mod tests;
