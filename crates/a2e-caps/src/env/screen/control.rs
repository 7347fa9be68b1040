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
    /// Prints the last letter so many times more.
    Repeat(usize),
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
    /// Whether a letter after the last column goes to the next line.
    Wrap(bool),
    /// Whether the program has a screen of its own, after which the one before it comes back.
    Alternate(bool),
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
    /// Whether each of the two character sets is the one of lines and corners, and which is in use.
    is_graphic: [bool; 2],
    set: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Within a character of several bytes; so many are missing.
    Letter(u8),
    Escape,
    /// After `ESC (` or `ESC )`: one byte names a character set.
    Set(usize),
    /// After `ESC #` and the like: one byte follows that says nothing to us.
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

/// The letters of the character set of lines and corners, from `_` to `~`.
const GRAPHICS: &str = " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

/// What one byte leads to: mostly nothing or one thing.
type Controls = [Option<Control>; 2];

const NOTHING: Controls = [None, None];

const fn one(control: Control) -> Controls {
    [Some(control), None]
}

impl Parser {
    pub(super) fn next(&mut self, byte: u8) -> Controls {
        // Cancel and substitute end whatever has begun.
        if matches!(byte, 0x18 | 0x1a) {
            self.state = State::Text;
            return NOTHING;
        }
        match self.state {
            State::Text => [self.text(byte), None],
            State::Letter(missing) => self.letter(byte, missing),
            State::Escape => self.escape(byte),
            State::Set(set) => {
                if let Some(is_graphic) = self.is_graphic.get_mut(set) {
                    *is_graphic = byte == b'0';
                }
                self.state = State::Text;
                NOTHING
            }
            State::Skip => {
                self.state = State::Text;
                NOTHING
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
            0x0e | 0x0f => {
                self.set = usize::from(byte == 0x0e);
                None
            }
            0x1b => {
                self.begin(State::Escape);
                None
            }
            0x20..=0x7e => Some(Control::Print(self.drawn(byte))),
            0xc2..=0xdf => self.begin_letter(byte, 1),
            0xe0..=0xef => self.begin_letter(byte, 2),
            0xf0..=0xf4 => self.begin_letter(byte, 3),
            0x80.. => Some(Control::Print(char::REPLACEMENT_CHARACTER)),
            _ => None,
        }
    }

    /// The letter of a byte in the character set in use.
    fn drawn(&self, byte: u8) -> char {
        let is_graphic = self.is_graphic.get(self.set).copied().unwrap_or_default();
        let graphic = byte.checked_sub(b'_').filter(|_| is_graphic);
        let graphic = graphic.and_then(|at| GRAPHICS.chars().nth(at.into()));
        graphic.unwrap_or_else(|| byte.into())
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

    fn letter(&mut self, byte: u8, missing: u8) -> Controls {
        if !(0x80..0xc0).contains(&byte) {
            self.state = State::Text;
            // The byte that was no continuation is something of its own, and most often a letter.
            let broken = Control::Print(char::REPLACEMENT_CHARACTER);
            return [Some(broken), self.text(byte)];
        }
        self.bytes.push(byte);
        if missing > 1 {
            self.state = State::Letter(missing.saturating_sub(1));
            return NOTHING;
        }
        self.state = State::Text;
        let letter = std::str::from_utf8(&self.bytes).ok();
        let letter = letter.and_then(|text| text.chars().next());
        one(Control::Print(
            letter.unwrap_or(char::REPLACEMENT_CHARACTER),
        ))
    }

    fn escape(&mut self, byte: u8) -> Controls {
        self.state = State::Text;
        match byte {
            b'[' => self.begin(State::Sequence),
            b']' | b'P' | b'X' | b'^' | b'_' => self.begin(State::Command),
            b'(' => self.state = State::Set(0),
            b')' => self.state = State::Set(1),
            b' '..=b'/' => self.state = State::Skip,
            0x1b => self.state = State::Escape,
            b'7' => return one(Control::Save),
            b'8' => return one(Control::Restore),
            b'M' => return one(Control::ReverseFeed),
            b'D' => return one(Control::LineFeed),
            b'E' => return [Some(Control::Return), Some(Control::LineFeed)],
            b'c' => {
                *self = Self::default();
                return one(Control::Reset);
            }
            _ => {}
        }
        NOTHING
    }

    fn sequence(&mut self, byte: u8) -> Controls {
        match byte {
            0x40..=0x7e => {
                self.state = State::Text;
                self.finish(byte)
            }
            // It is obeyed, and the sequence goes on; another one begins with ESC.
            0x00..0x20 => [self.text(byte), None],
            _ => {
                self.keep(byte);
                NOTHING
            }
        }
    }

    fn command(&mut self, byte: u8) -> Controls {
        match (self.state, byte) {
            (_, 0x07) | (State::CommandEscape, b'\\') => {
                self.state = State::Text;
                [self.prompt(), None]
            }
            (_, 0x1b) => {
                self.state = State::CommandEscape;
                NOTHING
            }
            // It was never ended, and something else begins.
            (State::CommandEscape, _) => self.escape(byte),
            _ => {
                self.keep(byte);
                NOTHING
            }
        }
    }

    fn prompt(&self) -> Option<Control> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        let code: Option<u8> = text.strip_prefix(PROMPT)?.parse().ok();
        Some(Control::Prompt(code.map(i64::from)))
    }

    fn keep(&mut self, byte: u8) {
        if self.bytes.len() < MAX_SEQUENCE {
            self.bytes.push(byte);
        }
    }

    /// What a sequence means that ends with this byte.
    fn finish(&self, last: u8) -> Controls {
        let Ok(text) = std::str::from_utf8(&self.bytes) else {
            return NOTHING;
        };
        if let Some(modes) = text.strip_prefix('?') {
            return [mode(modes, last), None];
        }
        // With other marks the last byte means something else.
        if text.contains(|letter: char| !letter.is_ascii_digit() && letter != ';') {
            return NOTHING;
        }
        let numbers: Vec<Option<usize>> = text.split(';').map(|it| it.parse().ok()).collect();
        let number = |index: usize| numbers.get(index).copied().flatten();
        let count = number(0).unwrap_or(1).max(1);
        let place = |index: usize| number(index).unwrap_or(1).saturating_sub(1);
        one(match last {
            b'A' => Control::Up(count),
            b'B' | b'e' => Control::Down(count),
            b'C' | b'a' => Control::Right(count),
            b'D' => Control::Left(count),
            b'E' => return [Some(Control::Down(count)), Some(Control::Return)],
            b'F' => return [Some(Control::Up(count)), Some(Control::Return)],
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
            b'b' => Control::Repeat(count),
            b'r' => Control::Region(place(0), number(1)),
            b's' => Control::Save,
            b'u' => Control::Restore,
            _ => return NOTHING,
        })
    }
}

/// What switching a mode of terminals on (`h`) or off (`l`) does; most change nothing of the text.
fn mode(modes: &str, last: u8) -> Option<Control> {
    let is_on = match last {
        b'h' => true,
        b'l' => false,
        _ => return None,
    };
    modes.split(';').find_map(|mode| match mode {
        "7" => Some(Control::Wrap(is_on)),
        "47" | "1047" | "1049" => Some(Control::Alternate(is_on)),
        _ => None,
    })
}
