//! Letters without their marks, so that `Müller` is found by `muller`.

/// Writes a letter as it is compared: small, without accents and other marks.
pub(super) fn push_folded(out: &mut String, letter: char) {
    if letter.is_ascii() {
        out.push(letter.to_ascii_lowercase());
        return;
    }
    for small in letter.to_lowercase() {
        match base(small) {
            Base::Letter(plain) => out.push(plain),
            Base::Letters(plain) => out.push_str(plain),
            Base::Nothing => {}
        }
    }
}

/// Whether it only marks the letter before it.
pub(super) const fn is_mark(letter: char) -> bool {
    matches!(letter,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{652}' | '\u{670}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}')
}

enum Base {
    Letter(char),
    Letters(&'static str),
    Nothing,
}

#[rustfmt::skip]
const fn base(letter: char) -> Base {
    let plain = match letter {
        _ if is_mark(letter) => return Base::Nothing,
        'ß' => return Base::Letters("ss"),
        'æ' | 'ǽ' => return Base::Letters("ae"),
        'œ' => return Base::Letters("oe"),
        'þ' => return Base::Letters("th"),
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' | 'ạ'..='ặ' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' | 'ð' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' | 'ẹ'..='ệ' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ǐ' | 'ỉ'..='ị' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ơ' | 'ǒ' | 'ọ'..='ợ' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ư' | 'ǔ' | 'ụ'..='ự' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' | 'ỳ'..='ỹ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ά' => 'α', 'έ' => 'ε', 'ή' => 'η', 'ί' | 'ϊ' | 'ΐ' => 'ι', 'ό' => 'ο',
        'ύ' | 'ϋ' | 'ΰ' => 'υ', 'ώ' => 'ω', 'ς' => 'σ',
        'ё' => 'е',
        // Full width.
        '\u{ff10}'..='\u{ff19}' => return narrow(letter, '0', 0xff10),
        '\u{ff41}'..='\u{ff5a}' => return narrow(letter, 'a', 0xff41),
        other => other,
    };
    Base::Letter(plain)
}

const fn narrow(letter: char, first: char, wide: u32) -> Base {
    match char::from_u32(letter as u32 - wide + first as u32) {
        Some(narrow) => Base::Letter(narrow),
        None => Base::Nothing,
    }
}
