//! What must hold for any policy and any name.

use policy::{IntentList, IntentName, IntentPattern, Policy, Rate, Retention, limits};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::properties_of_rates::any_rate;
use crate::{policy as read_policy, server};

fn label() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "v1", "v2"]).prop_map(str::to_owned)
}

fn intent() -> impl Strategy<Value = String> {
    prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("*".to_owned()),
        4 => intent(),
        4 => intent().prop_map(|prefix| format!("{prefix}.*")),
    ]
    .prop_filter("a pattern", |text| IntentPattern::parse(text).is_ok())
}

fn stated() -> impl Strategy<Value = Json> {
    let patterns = || prop::option::of(prop::collection::vec(pattern(), 0..4));
    let words = ["none", "session", "24h", "7d", "30d", "permanent"];
    (
        prop::option::of(any_rate()),
        prop::option::of(1_u32..1000),
        prop::option::of(1_u32..1000),
        (patterns(), patterns()),
        prop::option::of(prop::sample::select(words.to_vec())),
        prop::option::of(any::<bool>()),
        prop::option::of(1_u32..1000),
    )
        .prop_map(|(rate, timeout, size, (allowed, blocked), retention, encryption, sessions)| {
            let mut document = json!({
                "rate_limit": rate.map(Rate::limit), "rate_period": rate.map(Rate::period),
                "session_timeout": timeout, "max_payload_size": size, "allowed_intents": allowed,
                "blocked_intents": blocked, "data_retention": retention,
                "require_encryption": encryption, "max_concurrent_sessions": sessions,
            });
            document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            document
        })
}

proptest! {
    /// Whatever a client asks for, the policy in force allows nothing that the server's own does
    /// not, and nothing that the client does not want.
    #[test]
    fn a_merged_policy_is_never_looser(
        own in stated(),
        asked in stated(),
        names in prop::collection::vec(intent(), 30),
    ) {
        let (own, asked) = (server(&own), read_policy(&asked));
        let merged = own.tightened_by(&asked).unwrap();
        prop_assert!(merged.rate().is_within(own.rate()));
        prop_assert!(merged.session_timeout() <= own.session_timeout());
        prop_assert!(merged.max_payload_size() <= own.max_payload_size());
        prop_assert!(merged.max_concurrent_sessions() <= own.max_concurrent_sessions());
        prop_assert!(merged.data_retention() <= own.data_retention());
        prop_assert!(merged.require_encryption() >= own.require_encryption());
        let demanded = asked.data_retention().unwrap_or(Retention::Permanent);
        prop_assert!(merged.data_retention() <= demanded);
        for name in names.iter().filter_map(|name| IntentName::parse(name).ok()) {
            if merged.check_intent(&name, None).is_ok() {
                prop_assert_eq!(own.check_intent(&name, None), Ok(()), "{}", &name);
                prop_assert_eq!(asked.check_intent(&name, None), Ok(()), "{}", &name);
            }
        }
    }

    /// What is sent reads back as the same.
    #[test]
    fn a_policy_reads_back(document in stated()) {
        let policy = read_policy(&document);
        let read = |tree| Policy::read(&tree, limits::PAYLOAD_CEILING);
        prop_assert_eq!(read(policy.to_tree()), Ok(policy.clone()));
        let complete = policy.complete().unwrap();
        prop_assert_eq!(read(complete.to_tree()).and_then(Policy::complete), Ok(complete));
    }

    /// A name is canonical, wherever one cuts it into domain and goal.
    #[test]
    fn names_are_canonical(text in intent(), cut in 0_usize..4) {
        let Ok(name) = IntentName::parse(&text.to_uppercase()) else {
            return Ok(());
        };
        prop_assert_eq!(IntentName::parse(name.as_str()), Ok(name.clone()));
        let labels: Vec<&str> = text.split('.').collect();
        let (domain, goal) = labels.split_at(cut.min(labels.len() - 1));
        let (domain, goal) = (domain.join("."), goal.join("."));
        // A goal that happens to begin with its domain is the whole name already.
        if !goal.starts_with(&format!("{domain}.")) {
            prop_assert_eq!(IntentName::of(&domain, &goal), Ok(name));
        }
    }

    /// What an allow list lets through, the same list as a block list stops.
    #[test]
    fn blocking_is_wider_than_allowing(pattern in pattern(), text in intent()) {
        let pattern = IntentPattern::parse(&pattern).unwrap();
        if let Ok(name) = IntentName::parse(&text)
            && pattern.matches(&name, IntentList::Allowed)
        {
            prop_assert!(pattern.matches(&name, IntentList::Blocked));
        }
    }
}
