//! `serde_jcs` and `serde_json_canonicalizer` were written by others: all three must agree.

use canonical::Value;
use proptest::prelude::*;

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Into::into),
        any::<f64>()
            .prop_filter("JSON has no other numbers", |real| real.is_finite())
            .prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|members| { serde_json::Value::Object(members.into_iter().collect()) }),
        ]
    })
}

proptest! {
    #[test]
    fn three_implementations_agree(value in json()) {
        let text = serde_json::to_vec(&value).unwrap();
        let ours = Value::parse(&text).unwrap().to_canonical();
        let ours = String::from_utf8(ours).unwrap();
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
        prop_assert_eq!(&ours, &serde_jcs::to_string(&value).unwrap());
    }

    #[test]
    fn the_canonical_form_has_the_same_tree(value in json()) {
        let text = serde_json::to_vec(&value).unwrap();
        canonical::fuzzing::jcs(&text);
    }

    #[test]
    fn white_space_and_order_do_not_change_the_digest(value in json()) {
        let compact = serde_json::to_vec(&value).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(Value::parse(&compact).unwrap().digest(), Value::parse(&pretty).unwrap().digest());
    }
}
