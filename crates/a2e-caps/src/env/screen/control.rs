//! What bytes tell a terminal to do.

/// One thing to do. Counts are at least 1, places begin with 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Print(char),
    Return,
    LineFeed,
    Backspace,
    Tab,
    Up(usize),
    Down(usize),
    Right(usize),
    Left(usize),
    Column(usize),
    Row(usize),
    Place(usize, usize),
    /// 0 after the cursor, 1 before it, 2 all.
    EraseScreen(usize),
    EraseLine(usize),
    InsertLines(usize),
    DeleteLines(usize),
    InsertBlanks(usize),
    DeleteLetters(usize),
    EraseLetters(usize),
    ScrollUp(usize),
    ScrollDown(usize),
    ReverseFeed,
    /// The first row, and the one after the last.
    Region(usize, Option<usize>),
    Save,
    Restore,
    Reset,
    /// Our own shells say so that they are ready, and how the last command ended.
    Prompt(Option<i64>),
}

/// Reads bytes one by one.
#[derive(Debug, Default)]
pub(super) struct Parser {
    state: State,
    /// Of the sequence or character that has begun.
    bytes: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Within a character of several bytes; so many are missing.
    Letter(u8),
    Escape,
    /// After `ESC (` and the like: one byte follows that says nothing to us.
    Skip,
    Sequence,
    /// Until BEL or `ESC \`.
    Command,
    CommandEscape,
}

/// Bytes of a sequence that are kept; the rest of a longer one is read over.
const MAX_SEQUENCE: usize = 64;
/// The number of the operating system command by which our shells say that they are ready.
pub(super) const PROMPT: &str = "7777;";

impl Parser {
    pub(super) fn next(&mut self, byte: u8) -> Option<Control> {
        match self.state {
            State::Text => self.text(byte),
            State::Letter(missing) => self.letter(byte, missing),
            State::Escape => self.escape(byte),
            State::Skip => {
                self.state = State::Text;
                None
            }
            State::Sequence => self.sequence(byte),
            State::Command | State::CommandEscape => self.command(byte),
        }
    }

    fn text(&mut self, byte: u8) -> Option<Control> {
        match byte {
            b'\r' => Some(Control::Return),
            b'\n' | 0x0b | 0x0c => Some(Control::LineFeed),
            0x08 => Some(Control::Backspace),
            b'\t' => Some(Control::Tab),
            0x1b => {
                self.begin(State::Escape);
                None
            }
            0x20..=0x7e => Some(Control::Print(byte.into())),
            0xc2..=0xdf => self.begin_letter(byte, 1),
            0xe0..=0xef => self.begin_letter(byte, 2),
            0xf0..=0xf4 => self.begin_letter(byte, 3),
            0x80.. => Some(Control::Print(char::REPLACEMENT_CHARACTER)),
            _ => None,
        }
    }

    fn begin(&mut self, state: State) {
        self.bytes.clear();
        self.state = state;
    }

    fn begin_letter(&mut self, byte: u8, missing: u8) -> Option<Control> {
        self.begin(State::Letter(missing));
        self.bytes.push(byte);
        None
    }

    fn letter(&mut self, byte: u8, missing: u8) -> Option<Control> {
        if !(0x80..0xc0).contains(&byte) {
            self.state = State::Text;
            // The byte that was no continuation is something of its own, and most often a letter.
            return self.text(byte);
        }
        self.bytes.push(byte);
        if missing > 1 {
            self.state = State::Letter(missing.saturating_sub(1));
            return None;
        }
        self.state = State::Text;
        let letter = std::str::from_utf8(&self.bytes).ok();
        let letter = letter.and_then(|text| text.chars().next());
        Some(Control::Print(
            letter.unwrap_or(char::REPLACEMENT_CHARACTER),
        ))
    }

    fn escape(&mut self, byte: u8) -> Option<Control> {
        self.state = State::Text;
        match byte {
            b'[' => self.begin(State::Sequence),
            b']' | b'P' | b'^' | b'_' => self.begin(State::Command),
            b'(' | b')' | b'#' | b' ' => self.state = State::Skip,
            b'7' => return Some(Control::Save),
            b'8' => return Some(Control::Restore),
            b'M' => return Some(Control::ReverseFeed),
            b'D' | b'E' => return Some(Control::LineFeed),
            b'c' => return Some(Control::Reset),
            _ => {}
        }
        None
    }

    fn sequence(&mut self, byte: u8) -> Option<Control> {
        match byte {
            0x40..=0x7e => {
                self.state = State::Text;
                self.finish(byte)
            }
            0x1b => {
                self.begin(State::Escape);
                None
            }
            _ => {
                self.keep(byte);
                None
            }
        }
    }

    fn command(&mut self, byte: u8) -> Option<Control> {
        match (self.state, byte) {
            (_, 0x07) | (State::CommandEscape, b'\\') => {
                self.state = State::Text;
                let text = std::str::from_utf8(&self.bytes).ok()?;
                let code = text.strip_prefix(PROMPT)?;
                return Some(Control::Prompt(code.parse().ok()));
            }
            (_, 0x1b) => self.state = State::CommandEscape,
            _ => {
                self.state = State::Command;
                self.keep(byte);
            }
        }
        None
    }

    fn keep(&mut self, byte: u8) {
        if self.bytes.len() < MAX_SEQUENCE {
            self.bytes.push(byte);
        }
    }

    /// What a sequence means that ends with this byte.
    fn finish(&self, last: u8) -> Option<Control> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        if text.starts_with(['?', '>', '=', '!']) {
            // Only the screen that programs take for themselves matters: it is blank.
            let is_other = matches!(text, "?1049" | "?47" | "?1047") && matches!(last, b'h' | b'l');
            return is_other.then_some(Control::Reset);
        }
        let numbers: Vec<Option<usize>> = text.split(';').map(|it| it.parse().ok()).collect();
        let number = |index: usize| numbers.get(index).copied().flatten();
        let count = number(0).unwrap_or(1).max(1);
        let place = |index: usize| number(index).unwrap_or(1).saturating_sub(1);
        Some(match last {
            b'A' => Control::Up(count),
            b'B' | b'e' => Control::Down(count),
            b'C' | b'a' => Control::Right(count),
            b'D' => Control::Left(count),
            b'G' | b'`' => Control::Column(place(0)),
            b'd' => Control::Row(place(0)),
            b'H' | b'f' => Control::Place(place(0), place(1)),
            b'J' => Control::EraseScreen(number(0).unwrap_or(0)),
            b'K' => Control::EraseLine(number(0).unwrap_or(0)),
            b'L' => Control::InsertLines(count),
            b'M' => Control::DeleteLines(count),
            b'@' => Control::InsertBlanks(count),
            b'P' => Control::DeleteLetters(count),
            b'X' => Control::EraseLetters(count),
            b'S' => Control::ScrollUp(count),
            b'T' => Control::ScrollDown(count),
            b'r' => Control::Region(place(0), number(1)),
            b's' => Control::Save,
            b'u' => Control::Restore,
            _ => return None,
        })
    }
}
