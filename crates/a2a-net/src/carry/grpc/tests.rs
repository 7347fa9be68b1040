use super::*;

fn message(fields: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(fields.len()).unwrap());
    out.extend_from_slice(fields);
    out
}

#[test]
fn what_is_written_is_read_again_in_any_pieces() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
        let json = vec![b'7'; length];
        let written = framed(&json);
        assert_eq!(only(written.clone(), length).unwrap(), json);
        for cut in [0, 1, 4, written.len() - 1] {
            let mut buffer = BytesMut::from(written.get(..cut).unwrap());
            assert_eq!(take(&mut buffer, length), Ok(None), "{length} at {cut}");
        }
    }
}

#[test]
fn a_message_at_the_limit_is_read_and_one_past_it_is_not() {
    let written = framed(&[b'7'; 1000]);
    assert!(only(written.clone(), 1000).is_ok());
    assert_eq!(only(written, 999), Err(Bad::TooLong));
    // The length alone is enough to refuse it.
    let mut declared = BytesMut::from(&[0, 0xff, 0xff, 0xff, 0xff][..]);
    assert_eq!(take(&mut declared, 1000), Err(Bad::TooLong));
}

#[test]
fn unknown_fields_are_passed_over_and_the_last_of_several_counts() {
    let fields = b"\x10\x96\x01\x1d....\x21........\x2a\x03abc\x0a\x02{}\x0a\x01[";
    assert_eq!(only(message(fields).freeze(), 100).unwrap(), &b"["[..]);
}

#[test]
fn what_is_no_message_is_refused() {
    for fields in [
        &b"\x0a\x05{}"[..],
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x00",
        b"\x0b\x0c",
        b"\x1d..",
        b"\x0e{}",
    ] {
        assert_eq!(
            only(message(fields).freeze(), 100),
            Err(Bad::Malformed),
            "{fields:?}"
        );
    }
    assert_eq!(only(Bytes::new(), 100), Err(Bad::Malformed));
    let two = [framed(b"{}"), framed(b"{}")].concat();
    assert_eq!(only(two.into(), 100), Err(Bad::Malformed));
    let mut compressed = BytesMut::from(&*framed(b"{}"));
    compressed[0] = 1;
    assert_eq!(only(compressed.freeze(), 100), Err(Bad::Compressed));
}

#[test]
fn a_timeout_has_eight_digits_and_a_unit() {
    assert_eq!(timeout("100m"), Some(Duration::from_millis(100)));
    assert_eq!(
        timeout("99999999H"),
        Some(Duration::from_secs(99_999_999 * 3600))
    );
    assert_eq!(timeout("7S"), Some(Duration::from_secs(7)));
    for bad in ["", "m", "7", "999999999m", "-7m", "+7m", "7x", "7 m", "7é"] {
        assert_eq!(timeout(bad), None, "{bad}");
    }
}
