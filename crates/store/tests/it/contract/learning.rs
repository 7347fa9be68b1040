//! What is learned: samples, components, refinements.

use std::ops::ControlFlow;

use store::{
    Component, Error, Learning, Limits, MAX_NAME, MAX_SAMPLES_BYTES, Refinement, Sample, SampleKind,
};

use crate::subject::{Make, ada, bob, contract, limit};

contract! {
    samples_are_kept_in_order_by_kind,
    components_come_with_the_samples_or_not_at_all,
    the_oldest_samples_go,
    a_refinement_changes_the_state_and_can_be_taken_back_once,
    the_oldest_refinements_go,
    what_others_have_learned_is_out_of_reach,
    limits_hold,
    samples_are_given_up_to_a_size,
    refinements_are_shown_until_it_is_enough,
}

/// The stored refinements, the newest first.
pub(crate) fn newest(learning: &dyn Learning, at_most: usize) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let mut show = |entry: &[u8]| {
        entries.push(entry.to_owned());
        match entries.len() < at_most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    learning.refinements(&mut show).wait().unwrap();
    entries
}

pub(crate) fn feedback(body: &str) -> Sample {
    Sample {
        kind: SampleKind::Feedback,
        body: body.as_bytes().to_vec(),
    }
}

pub(crate) fn experience(body: &str) -> Sample {
    Sample {
        kind: SampleKind::Experience,
        ..feedback(body)
    }
}

pub(crate) fn component(name: &str, known: &str) -> Component {
    Component {
        name: name.to_owned(),
        known: known.as_bytes().to_vec(),
    }
}

pub(crate) fn refinement(id: &str, state: &str, snapshot: &str) -> Refinement {
    Refinement {
        id: id.to_owned(),
        entry: format!("entry of {id}").into_bytes(),
        state: Some(state.as_bytes().to_vec()),
        snapshot: Some(snapshot.as_bytes().to_vec()),
        spends: false,
    }
}

fn bodies(learning: &dyn Learning, kind: SampleKind) -> Vec<String> {
    let samples = learning.samples(kind, 0, 100).wait().unwrap();
    let text = |(_, body)| String::from_utf8(body).unwrap();
    samples.into_iter().map(text).collect()
}

fn samples_are_kept_in_order_by_kind(make: Make) {
    let store = make(Limits::default());
    let learning = store.for_agent(&ada()).learning();
    let first = vec![experience("1"), feedback("a"), experience("2")];
    learning.record(first, Vec::new()).wait().unwrap();
    learning
        .record(vec![experience("3")], Vec::new())
        .wait()
        .unwrap();
    assert_eq!(bodies(&*learning, SampleKind::Experience), ["1", "2", "3"]);
    assert_eq!(bodies(&*learning, SampleKind::Feedback), ["a"]);
    // Page by page.
    let page = |after| {
        learning
            .samples(SampleKind::Experience, after, 2)
            .wait()
            .unwrap()
    };
    let one = page(0);
    assert_eq!(one.len(), 2);
    assert!(one[0].0 < one[1].0);
    let two = page(one[1].0);
    assert_eq!((two.len(), &*two[0].1), (1, b"3".as_slice()));
    assert_eq!(page(two[0].0), []);
}

fn components_come_with_the_samples_or_not_at_all(make: Make) {
    let store = make(Limits {
        components: limit(10, 2, 100),
        ..Limits::default()
    });
    let learning = store.for_agent(&ada()).learning();
    let both = vec![component("b", "1"), component("a", "1")];
    learning.record(vec![experience("1")], both).wait().unwrap();
    learning
        .record(Vec::new(), vec![component("a", "2")])
        .wait()
        .unwrap();
    let known = vec![component("a", "2"), component("b", "1")];
    assert_eq!(learning.components().wait(), Ok(known.clone()));
    let more = vec![component("a", "3"), component("c", "1")];
    let full = Err(Error::Full { what: "component" });
    assert_eq!(learning.record(vec![experience("2")], more).wait(), full);
    assert_eq!(learning.components().wait(), Ok(known));
    assert_eq!(bodies(&*learning, SampleKind::Experience), ["1"]);
}

fn the_oldest_samples_go(make: Make) {
    let store = make(Limits {
        samples: limit(4, 3, 6),
        ..Limits::default()
    });
    let learning = store.for_agent(&ada()).learning();
    let add = |body: &str| {
        learning
            .record(vec![experience(body)], Vec::new())
            .wait()
            .unwrap()
    };
    ["1", "2", "3", "4"].into_iter().for_each(add);
    assert_eq!(bodies(&*learning, SampleKind::Experience), ["2", "3", "4"]);
    // And by their bytes.
    add("4444");
    assert_eq!(
        bodies(&*learning, SampleKind::Experience),
        ["3", "4", "4444"]
    );
    add("333");
    assert_eq!(bodies(&*learning, SampleKind::Experience), ["333"]);
    let many = ["1"; 4].map(experience).to_vec();
    let full = Err(Error::Full { what: "sample" });
    assert_eq!(learning.record(many, Vec::new()).wait(), full);
}

fn a_refinement_changes_the_state_and_can_be_taken_back_once(make: Make) {
    let store = make(Limits::default());
    let learning = store.for_agent(&ada()).learning();
    let state = || {
        learning
            .state()
            .wait()
            .unwrap()
            .map(|it| String::from_utf8(it).unwrap())
    };
    assert_eq!(state(), None);
    learning
        .refine(refinement("r1", "one", "none"))
        .wait()
        .unwrap();
    learning
        .refine(refinement("r2", "two", "one"))
        .wait()
        .unwrap();
    assert_eq!(state().as_deref(), Some("two"));
    let snapshot = |id: &str| learning.snapshot(id).wait().unwrap();
    assert_eq!(snapshot("r2").as_deref(), Some(b"one".as_slice()));
    assert_eq!(snapshot("r3"), None);
    let back = Refinement {
        entry: b"back".to_vec(),
        snapshot: None,
        spends: true,
        ..refinement("r2", "one", "")
    };
    learning.refine(back).wait().unwrap();
    assert_eq!(state().as_deref(), Some("one"));
    assert_eq!(
        (snapshot("r2"), snapshot("r1")),
        (None, Some(b"none".to_vec()))
    );
    // One that changes nothing is on record too.
    let rejected = Refinement {
        id: "r4".to_owned(),
        entry: b"rejected".to_vec(),
        ..Refinement::default()
    };
    learning.refine(rejected).wait().unwrap();
    assert_eq!(state().as_deref(), Some("one"));
    let entries = newest(&*learning, 3);
    assert_eq!(
        entries,
        [
            b"rejected".to_vec(),
            b"back".to_vec(),
            b"entry of r2".to_vec()
        ]
    );
    assert_eq!(newest(&*learning, 100).len(), 4);
}

fn the_oldest_refinements_go(make: Make) {
    let store = make(Limits {
        refinements: limit(100, 2, 1000),
        ..Limits::default()
    });
    let learning = store.for_agent(&ada()).learning();
    for id in ["r1", "r2", "r3"] {
        learning
            .refine(refinement(id, id, "before"))
            .wait()
            .unwrap();
    }
    assert_eq!(newest(&*learning, 100).len(), 2);
    assert_eq!(learning.snapshot("r1").wait(), Ok(None));
    assert_eq!(learning.state().wait(), Ok(Some(b"r3".to_vec())));
}

fn what_others_have_learned_is_out_of_reach(make: Make) {
    let store = make(Limits::default());
    let own = store.for_agent(&ada()).learning();
    own.record(
        vec![experience("1"), feedback("a")],
        vec![component("c", "1")],
    )
    .wait()
    .unwrap();
    own.refine(refinement("r", "one", "none")).wait().unwrap();
    for other in [store.for_agent(&bob()).learning(), store.node().learning()] {
        for kind in [SampleKind::Experience, SampleKind::Feedback] {
            assert_eq!(bodies(&*other, kind), [""; 0]);
        }
        assert_eq!(other.components().wait(), Ok(Vec::new()));
        assert_eq!(other.state().wait(), Ok(None));
        assert_eq!(other.snapshot("r").wait(), Ok(None));
        assert_eq!(newest(&*other, 9), Vec::<Vec<u8>>::new());
        let back = Refinement {
            spends: true,
            ..refinement("r", "theirs", "x")
        };
        other.refine(back).wait().unwrap();
        let theirs = vec![component("c", "2")];
        other.record(vec![experience("2")], theirs).wait().unwrap();
    }
    assert_eq!(bodies(&*own, SampleKind::Experience), ["1"]);
    assert_eq!(own.components().wait(), Ok(vec![component("c", "1")]));
    assert_eq!(own.state().wait(), Ok(Some(b"one".to_vec())));
    assert_eq!(own.snapshot("r").wait(), Ok(Some(b"none".to_vec())));
}

fn limits_hold(make: Make) {
    let store = make(Limits {
        samples: limit(3, 10, 100),
        components: limit(3, 10, 100),
        learned: limit(3, 1, 3),
        refinements: limit(20, 10, 100),
        ..Limits::default()
    });
    let learning = store.for_agent(&ada()).learning();
    let is_too_large = |outcome: Result<(), Error>| match outcome {
        Ok(()) => false,
        Err(Error::TooLarge { .. }) => true,
        Err(other) => panic!("{other:?}"),
    };
    for (length, expected) in [(3, false), (4, true)] {
        let text = "x".repeat(length);
        let sample = learning.record(vec![feedback(&text)], Vec::new()).wait();
        let known = learning
            .record(Vec::new(), vec![component("c", &text)])
            .wait();
        let state = learning.refine(refinement("r", &text, "")).wait();
        // Its id and its entry have 11 bytes.
        let entry = learning
            .refine(refinement("r", "", &"x".repeat(length + 6)))
            .wait();
        let all = [sample, known, state, entry].map(is_too_large);
        assert_eq!(all, [expected; 4]);
    }
    let long = "x".repeat(MAX_NAME + 1);
    let named = learning
        .record(Vec::new(), vec![component(&long, "")])
        .wait();
    assert!(is_too_large(named));
}

fn samples_are_given_up_to_a_size(make: Make) {
    let store = make(Limits::default());
    let learning = store.for_agent(&ada()).learning();
    let quarter = "x".repeat(MAX_SAMPLES_BYTES / 4);
    let samples = (0..6).map(|_| experience(&quarter)).collect();
    learning.record(samples, Vec::new()).wait().unwrap();
    let page = |after| {
        let page = learning.samples(SampleKind::Experience, after, 100);
        page.wait().unwrap()
    };
    let first = page(0);
    assert_eq!(first.len(), 4);
    let second = page(first.last().unwrap().0);
    assert_eq!(second.len(), 2);
    assert_eq!(page(second.last().unwrap().0), Vec::new());
}

fn refinements_are_shown_until_it_is_enough(make: Make) {
    let store = make(Limits::default());
    let learning = store.for_agent(&ada()).learning();
    for number in 0..5 {
        let entry = Refinement {
            id: number.to_string(),
            entry: number.to_string().into_bytes(),
            ..Refinement::default()
        };
        learning.refine(entry).wait().unwrap();
    }
    assert_eq!(newest(&*learning, 2), [b"4", b"3"]);
    assert_eq!(newest(&*learning, 9).len(), 5);
}
