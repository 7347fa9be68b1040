//! Which patterns of a list can share names with another pattern.
//!
//! A client may ask for a thousand patterns before it has proven anything, and an operator may allow a
//! thousand: a million pairs, of which few share anything. So the pairs are looked up, not tried.

use std::collections::{BTreeMap, BTreeSet};

use crate::IntentPattern;
use crate::intent::is_version;
use crate::pattern::Form;

type Pattern<'a> = IntentPattern<&'a str>;
/// Names by a text of theirs, and by version: another version is another name.
type Names<'a> = BTreeMap<&'a str, BTreeMap<Option<&'a str>, Vec<&'a Pattern<'a>>>>;

/// The patterns of a list, by what a pattern of another list must have in common with them.
pub(crate) struct Index<'a> {
    patterns: &'a BTreeSet<Pattern<'a>>,
    /// `*`
    all: Vec<&'a Pattern<'a>>,
    /// `a.b.*`, by `a.b`.
    under: BTreeMap<&'a str, &'a Pattern<'a>>,
    /// Names by their base.
    names: Names<'a>,
    /// Names of several labels, by the last one.
    by_last_label: Names<'a>,
    /// Names of one label that is no version: each fits the last label of any other.
    single: Vec<&'a Pattern<'a>>,
}

impl<'a> Index<'a> {
    pub(crate) fn of(patterns: &'a BTreeSet<Pattern<'a>>) -> Self {
        let mut index = Self {
            patterns,
            all: Vec::new(),
            under: BTreeMap::new(),
            names: BTreeMap::new(),
            by_last_label: BTreeMap::new(),
            single: Vec::new(),
        };
        for pattern in patterns {
            let (base, version) = (pattern.base(), pattern.version());
            match pattern.form() {
                Form::All => index.all.push(pattern),
                Form::Under(_) => drop(index.under.insert(base, pattern)),
                Form::Name(_) => {
                    add(&mut index.names, base, version, pattern);
                    match last_label(base) {
                        Some(last) => add(&mut index.by_last_label, last, version, pattern),
                        None if is_version(base) => {}
                        None => index.single.push(pattern),
                    }
                }
            }
        }
        index
    }

    /// All patterns that share a name with this one, and few others.
    pub(crate) fn candidates(&self, other: &Pattern<'_>) -> Vec<&'a Pattern<'a>> {
        let (base, version) = (other.base(), other.version());
        let mut found = self.all.clone();
        match other.form() {
            Form::All => return self.patterns.iter().collect(),
            Form::Under(_) => {
                found.extend(self.above(base));
                // `/` follows on `.`.
                let (from, to) = (format!("{base}."), format!("{base}/"));
                let range = from.as_str()..to.as_str();
                found.extend(self.under.range(range.clone()).map(|(_, pattern)| *pattern));
                let names = self
                    .names
                    .range(range)
                    .flat_map(|(_, names)| names.values());
                found.extend(names.flatten());
                found.extend(&self.single);
            }
            Form::Name(_) => {
                found.extend(with_version(&self.names, base, version));
                match last_label(base) {
                    Some(last) => {
                        found.extend(self.above(base));
                        found.extend(with_version(&self.names, last, version));
                    }
                    None => {
                        found.extend(with_version(&self.by_last_label, base, version));
                        if !is_version(base) {
                            found.extend(self.under.values());
                        }
                    }
                }
            }
        }
        found
    }

    /// `a.*` and `a.b.*`, for `a.b` and what lies under it.
    fn above(&self, base: &str) -> impl Iterator<Item = &'a Pattern<'a>> {
        let ends = base.match_indices('.').map(|(end, _)| end);
        let prefixes = ends.chain([base.len()]).filter_map(|end| base.get(..end));
        prefixes.filter_map(|prefix| self.under.get(prefix).copied())
    }
}

fn add<'a>(names: &mut Names<'a>, key: &'a str, version: Option<&'a str>, name: &'a Pattern<'a>) {
    let names = names.entry(key).or_default();
    names.entry(version).or_default().push(name);
}

/// Names under a key that have this version or none; all of them, if there is no version.
fn with_version<'a>(names: &Names<'a>, key: &str, version: Option<&str>) -> Vec<&'a Pattern<'a>> {
    let Some(names) = names.get(key) else {
        return Vec::new();
    };
    match version {
        None => names.values().flatten().copied().collect(),
        Some(_) => {
            let same = [None, version].into_iter();
            let same = same.filter_map(|version| names.get(&version));
            same.flatten().copied().collect()
        }
    }
}

fn last_label(base: &str) -> Option<&str> {
    base.rsplit_once('.').map(|(_, last)| last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(texts: &[String]) -> BTreeSet<Pattern<'_>> {
        texts.iter().map(|text| Pattern::known(text)).collect()
    }

    /// Numbers as labels, so that all are as long as each other.
    fn texts(form: impl Fn(usize) -> String) -> Vec<String> {
        (1000..2000).map(form).collect()
    }

    fn looked_at(own: &[String], asked: &[String]) -> usize {
        let (own, asked) = (set(own), set(asked));
        let index = Index::of(&asked);
        own.iter().map(|own| index.candidates(own).len()).sum()
    }

    /// Each of these is a million pairs that share nothing, or as much as a policy may have.
    #[test]
    fn long_lists_are_not_compared_pattern_by_pattern() {
        let names = |prefix: &'static str, suffix: &'static str| {
            texts(move |number| format!("{prefix}{number}{suffix}"))
        };
        for (own, asked) in [
            (names("a", ""), names("b", "")),
            (names("a.x", ""), names("a.y", "")),
            (names("x.v", ""), names("x.v9", "")),
            (names("a.x.v", ""), names("x.v9", "")),
            (names("a", ".x.v1"), names("x.v", "")),
            (names("a", ".*"), names("b", ".*")),
            (names("a.b", ".*"), names("a.c", "")),
            (names("a.b", ".*"), names("v", "")),
        ] {
            let most = own.len() + asked.len();
            assert!(looked_at(&own, &asked) <= most, "{} {}", own[0], asked[0]);
            assert!(looked_at(&asked, &own) <= most, "{} {}", asked[0], own[0]);
        }
    }

    proptest! {
        /// What is not looked at shares nothing.
        #[test]
        fn candidates_are_all_that_share_a_name(
            own in prop::collection::vec("([ab]\\.){0,2}([abv1]|v[12]|[ab]\\.v1|\\*)", 1..12),
            asked in prop::collection::vec("([ab]\\.){0,2}([abv1]|v[12]|[ab]\\.v1|\\*)", 1..12),
        ) {
            let is_pattern = |text: &String| IntentPattern::parse(text).is_ok();
            let own: Vec<_> = own.into_iter().filter(is_pattern).collect();
            let asked: Vec<_> = asked.into_iter().filter(is_pattern).collect();
            let (own, asked) = (set(&own), set(&asked));
            let index = Index::of(&asked);
            for own in &own {
                let all: BTreeSet<_> = asked.iter().filter_map(|it| own.intersection(it)).collect();
                let found = index.candidates(own).into_iter();
                let found: BTreeSet<_> = found.filter_map(|it| own.intersection(it)).collect();
                prop_assert_eq!(found, all, "{:?}", own);
            }
        }
    }
}
