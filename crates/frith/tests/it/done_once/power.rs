//! Power cuts at any moment, while much is done at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Answer;
use super::agent::{Session, new_token};
use super::peer::{Asking, INTENT_ID, Peer};
use super::site::{Settings, Site};

/// Work of one round.
const AT_ONCE: usize = 12;

/// Cuts, every day and in `cargo xtask full`.
const FEW: usize = 2;
const MANY: usize = 40;

fn site() -> Site {
    Site::start(Settings {
        sync: Some("commit"),
        has_disk: true,
        ..Settings::default()
    })
}

/// What is asked for in a round, and how many answers are waited for before the power is cut.
fn rounds(cuts: usize) -> impl Iterator<Item = (Vec<String>, usize)> {
    (0..cuts).map(|round| {
        let ids =
            (0..AT_ONCE).map(|number| format!("{:08x}-0000-4000-8000-{number:012x}", round + 1));
        (ids.collect(), round * 7 % AT_ONCE)
    })
}

/// Asserts that work that was sent again has the answer it had, and that nothing was done twice.
fn check(site: &Site, before: &BTreeMap<String, Answer>, after: &[(String, Answer)]) {
    for (id, answer) in after {
        match (answer, before.get(id)) {
            // That a response was sent is not synced before it is sent.
            (Answer::Failed { .. }, Some(Answer::Response(_))) => answer.expect_interrupted(),
            (_, Some(first)) => assert_eq!(answer, first, "{id}"),
            (Answer::Response(_), None) => {}
            (Answer::Failed { .. }, None) => answer.expect_interrupted(),
        }
    }
    let notes = site.notes();
    let distinct: BTreeSet<&String> = notes.iter().collect();
    assert_eq!(distinct.len(), notes.len(), "{notes:?}");
    let is_response = |answer: &Answer| matches!(answer, Answer::Response(_));
    for (id, _) in after.iter().filter(|(_, answer)| is_response(answer)) {
        assert!(distinct.contains(id), "{id}: {notes:?}");
    }
}

fn note(id: &str) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": "note", "arguments": {"text": id}})
}

fn tool_calls(cuts: usize) {
    let mut site = site();
    let token = new_token(&site);
    for (ids, wanted) in rounds(cuts) {
        let mut session = Session::open(site.node().wire(), &token);
        ids.iter().for_each(|id| session.wire.say(&note(id)));
        let heard = (0..wanted).map(|_| session.wire.hear().unwrap());
        let before = heard.map(|it| (it["req_id"].as_str().unwrap().to_owned(), Answer::of(it)));
        let before: BTreeMap<String, Answer> = before.collect();
        site.cut_power();
        site.up();
        let mut session = Session::open(site.node().wire(), &token);
        let retry = |id: String| {
            session.wire.say(&note(&id));
            let answer = Answer::of(session.hear_response(&id));
            (id, answer)
        };
        let after: Vec<(String, Answer)> = ids.into_iter().map(retry).collect();
        check(&site, &before, &after);
    }
}

fn intents(cuts: usize) {
    let mut site = site();
    let peer = Peer::of(&site);
    let send = |id: &String| {
        let intent = json!({"goal": "demo.note", "inputs": {"text": id}, "intent_id": id});
        (id.clone(), peer.send(&intent))
    };
    let answer = |(id, asking): (String, Asking)| (id, asking.answer());
    for (ids, wanted) in rounds(cuts) {
        let mut sent: Vec<(String, Asking)> = ids.iter().map(send).collect();
        let unheard = sent.split_off(wanted);
        let before: BTreeMap<String, Answer> = sent.into_iter().map(answer).collect();
        site.cut_power();
        site.up();
        // The caller sends them again by itself, and does not always get through.
        unheard.into_iter().map(answer).for_each(drop);
        let after: Vec<(String, Answer)> = ids.iter().map(send).map(answer).collect();
        check(&site, &before, &after);
    }
}

/// With `store.sync: 100ms` that is some time after the work has begun.
#[test]
fn intent_that_is_on_the_disk_is_not_executed_again() {
    let mut site = Site::start(Settings {
        has_disk: true,
        ..Settings::default()
    });
    let (mut peer, gate) = Peer::begin(&site, 60);
    site.cut_power_when_synced(INTENT_ID);
    gate.open();
    site.up();
    peer.answer().expect_interrupted();
    peer.retry().expect_interrupted();
    assert_eq!(site.runs(), 1);
}

#[test]
fn tool_calls_under_power_cuts() {
    tool_calls(FEW);
}

#[test]
fn intents_under_power_cuts() {
    intents(FEW);
}

#[test]
#[ignore = "takes a minute: `cargo xtask full` runs it"]
fn tool_calls_under_many_power_cuts() {
    tool_calls(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn intents_under_many_power_cuts() {
    intents(MANY);
}
