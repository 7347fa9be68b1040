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
fn characters_are_as_wide_as_terminals_have_them() {
    for (text, expected, cursor) in [
        // After 東 the cursor is on the third column, where a program draws on.
        ("東京\r\u{1b}[2Cx", "東x", (0, 3)),
        ("e\u{301}t\u{e9}", "e\u{301}t\u{e9}", (0, 3)),
        ("東\u{301}x", "東\u{301}x", (0, 3)),
        // A wide one does not fit into the last column.
        ("abc東", "abc\n東", (1, 2)),
        // Half of a wide one is nothing.
        ("東\rx", "x", (0, 1)),
        ("東\u{1b}[1G\u{1b}[P", "", (0, 0)),
        ("東x\u{1b}[2G\u{1b}[K", "", (0, 1)),
        ("a東x\u{1b}[1G\u{1b}[@", " a東", (0, 0)),
        ("ab東\u{1b}[1G\u{1b}[@", " ab", (0, 0)),
        // Controls beyond ASCII are not shown.
        ("a\u{85}\u{9b}b", "ab", (0, 2)),
    ] {
        assert_eq!(shown(2, 4, text), (expected.into(), cursor), "{text:?}");
    }
}

/// What common programs write, beside what a VT100 knows.
#[test]
fn programs_are_shown_as_terminals_show_them() {
    for (text, expected) in [
        // `less`, `vim`: what was there comes back, with the cursor.
        ("$ vi\r\n\u{1b}[?1049h\u{1b}[Hfile", "file"),
        ("$ vi\r\n\u{1b}[?1049h\u{1b}[Hfile\u{1b}[?1049l$", "$ vi\n$"),
        ("a\u{1b}[?1049;25lb", "ab"),
        // ncurses: a run of one letter, and lines and corners.
        ("-\u{1b}[4bx", "-----x"),
        ("\u{1b}(0lqk\u{1b}(Bq", "┌─┐q"),
        ("\u{1b})0\u{e}mqj\u{f}q", "└─┘q"),
        // Progress bars.
        ("a\r\nb\u{1b}[Fc", "c\nb"),
        ("a\u{1b}[Eb", "a\nb"),
        ("abc\u{1b}Ed", "abc\nd"),
        ("a\u{1b}[3Jb", "ab"),
        ("abcdefgh\u{8}x", "abcdefxh"),
        ("abcdefgh\u{1b}[Dx", "abcdefxh"),
        ("\u{1b}[?7labcdefghij", "abcdefgj"),
        // Modes of keyboards and shapes of cursors are not commands.
        ("ab\u{1b}[<uc\u{1b}[2 qd\u{1b}[>4;1me", "abcde"),
        // A text of a command that never ended does not take the rest with it.
        ("\u{1b}]0;title\u{1b}[1;3Hx", "  x"),
        ("\u{1b}[\u{18}K", "K"),
        ("\u{1b}[2\rCx", "  x"),
        ("1\r\n2\r\n3\u{1b}[2;3r\u{1b}[3;1H\u{1b}[9Ax", "1\nx\n3"),
    ] {
        assert_eq!(shown(3, 8, text).0, expected, "{text:?}");
    }
    let mut screen = Screen::new(1, 8);
    screen.write(b"caf\xe9 x");
    assert_eq!(screen.text(), "caf\u{fffd} x");
}

#[test]
fn a_command_that_never_ended_hides_no_prompt() {
    let mut screen = Screen::new(2, 20);
    screen.write(b"\x1bPbroken\r\n\x1b]7777;3\x07$ ");
    assert_eq!((screen.prompts, screen.exit_code), (1, Some(3)));
    // A program says what no shell does.
    screen.write(b"\x1b]7777;99999\x07");
    assert_eq!(screen.exit_code, Some(3));
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
    let parts: [&[u8]; 22] = [
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
        "東".as_bytes(),
        "\u{301}".as_bytes(),
        b"?1049h",
        b"?7l",
        b"b",
        b"P",
        b"@",
        b"X",
    ];
    let mut screen = Screen::new(3, 5);
    for _ in 0..20_000 {
        screen.write(parts[random.below(parts.len())]);
    }
    assert!(screen.cells.len() == 3 && screen.cells.iter().all(|row| row.len() == 5));
    let (row, column) = screen.cursor();
    assert!(row < 3 && column < 5);
}
