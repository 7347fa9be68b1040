use proptest::prelude::*;

use super::*;

/// All lines of a stream that arrives in these chunks.
fn lines<'c>(max_line: usize, chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<Option<Vec<u8>>> {
    let mut framer = Framer::new(max_line);
    let mut all = Vec::new();
    for chunk in chunks {
        let mut lines = framer.feed(chunk);
        while let Some(line) = lines.next() {
            all.push(line.ok().map(<[u8]>::to_vec));
        }
        assert!(framer.buffered() <= max_line + 1);
    }
    if let Some(line) = framer.finish() {
        all.push(line.ok().map(<[u8]>::to_vec));
    }
    all
}

fn whole(max_line: usize, stream: &[u8]) -> Vec<Option<Vec<u8>>> {
    lines(max_line, [stream])
}

fn good(line: &str) -> Option<Vec<u8>> {
    Some(line.into())
}

/// Proves M-2, M-3, M-18.
#[test]
fn lf_crlf_blank_lines_and_a_missing_final_newline() {
    assert_eq!(
        whole(9, b"a\nb\r\n\n \t\r\n\r\nc"),
        [good("a"), good("b"), good("c")]
    );
    assert_eq!(whole(9, b"a\rb\n"), [good("a\rb")]);
    assert_eq!(whole(9, b""), []);
    assert_eq!(whole(9, b"\n\n"), []);
    assert_eq!(whole(9, b"a\r"), [good("a")]);
}

/// Proves M-39.
#[test]
fn a_line_at_the_limit_and_past_it() {
    for end in ["\n", "\r\n", ""] {
        let stream = format!("123456{end}");
        assert_eq!(whole(6, stream.as_bytes()), [good("123456")], "{end:?}");
        assert_eq!(whole(5, stream.as_bytes()), [None], "{end:?}");
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(lines(6, bytes.clone()), [good("123456")], "{end:?}");
        assert_eq!(lines(5, bytes), [None], "{end:?}");
    }
}

#[test]
fn the_stream_goes_on_behind_a_line_that_is_too_long() {
    let stream = [vec![b'x'; 1000], b"\nok\n".to_vec()].concat();
    for size in [1, 7, 100, 5000] {
        assert_eq!(
            lines(10, stream.chunks(size)),
            [None, good("ok")],
            "chunks of {size}"
        );
    }
}

#[test]
fn other_bytes_are_not_the_framers_business() {
    assert_eq!(whole(9, b"\xff\0\n"), [Some(b"\xff\0".to_vec())]);
}

#[test]
fn the_shipped_limit_and_the_space_of_a_long_line() {
    let mut framer = Framer::new(crate::MAX_LINE);
    for (length, taken) in [(crate::MAX_LINE, true), (crate::MAX_LINE + 1, false)] {
        let line = vec![b'x'; length];
        for chunk in line.chunks(100_000) {
            let mut lines = framer.feed(chunk);
            while let Some(line) = lines.next() {
                assert!(line.is_err() && !taken);
            }
        }
        let mut lines = framer.feed(b"\n");
        assert_eq!(lines.next().is_some_and(|line| line.is_ok()), taken);
        assert!(lines.next().is_none());
        assert!(framer.partial.capacity() <= KEPT);
    }
}

#[test]
fn lines_are_numbered_as_an_editor_does() {
    let mut framer = Framer::new(9);
    let mut lines = framer.feed(b"a\n\n0123456789\nb\nc");
    let mut numbers = Vec::new();
    while lines.next().is_some() {
        numbers.push(lines.line_number());
    }
    assert!(framer.finish().is_some());
    numbers.push(framer.line_number());
    assert_eq!(numbers, [1, 3, 4, 5]);
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_lines(
        stream in "[ab\r\n ]{0,60}",
        cuts in prop::collection::vec(0_usize..60, 0..8),
        max_line in 0_usize..12,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.array_windows().map(|&[from, to]| &stream.as_bytes()[from..to]);
        prop_assert_eq!(lines(max_line, chunks), whole(max_line, stream.as_bytes()));
    }
}
