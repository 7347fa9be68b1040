use std::collections::BTreeMap;

use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::{Object, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::chains::plan::Problems;

fn planned(chain: &Value) -> Result<Plan, Problems> {
    let text = chain.to_string();
    let request = Object::parse(&text).unwrap();
    let request: ChainRequest<'_> = request.read(Timestamp::default()).unwrap();
    Plan::of(&request, Limits::default())
}

fn problems(chain: &Value) -> (String, String) {
    let problems = planned(chain).unwrap_err();
    (problems.code().as_str().to_owned(), problems.to_string())
}

/// Runs a chain; of the calls that run, `pick` says which ends next.
fn run(
    chain: &Value,
    at_once: usize,
    mut pick: impl FnMut(usize) -> usize,
    call: impl Fn(&str, &Map<String, Value>) -> Result<Value, String>,
) -> (Ended, Vec<Event>) {
    let plan = Arc::new(planned(chain).unwrap());
    let mut machine = Machine::new(Arc::clone(&plan), Limits::default(), at_once);
    let (mut events, mut running) = (Vec::new(), Vec::<Task>::new());
    loop {
        while running.len() < at_once {
            let Some(task) = machine.poll_task() else {
                break;
            };
            running.push(task);
        }
        events.extend(std::iter::from_fn(|| machine.poll_event()));
        if machine.is_over() {
            return (machine.ended(), events);
        }
        assert!(!running.is_empty(), "nothing runs, and it is not over");
        let task = running.remove(pick(running.len()));
        let name = &plan.nodes[task.call].id;
        machine.finish(task.place, call(name, &task.input));
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let (code, text) = problems(&json!({"entry_node": "a", "nodes": [
        {"node_id": "a", "kind": "tool", "name": "t", "next_node": "gone", "on_error": "lost"},
        {"node_id": "a", "kind": "tool", "name": "t"},
        {"node_id": "b", "kind": "tool"},
        {"node_id": "c", "kind": "branch", "condition": "a ="},
        {"node_id": "m", "kind": "map", "items_path": "$.a", "map_node": "c", "retries": 11},
    ]}));
    assert_eq!(code, "chain_error");
    for part in [
        "`next_node` names `gone`",
        "`on_error` names `lost`",
        "two nodes are called `a`",
        "`b` does not say in `name`",
        "`c`: `condition`",
        "`m` maps to `c`",
        "`m`: `retries` is more than 10",
        "`b` is never reached",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn entries_and_circles_have_codes_of_their_own() {
    let tool = |id: &str, next: &str| json!({"node_id": id, "kind": "tool", "name": "t", "next_node": next});
    for entry in ["", "z"] {
        let chain = json!({"entry_node": entry, "nodes": [tool("a", "")]});
        assert_eq!(problems(&chain).0, "bad_entry");
    }
    assert_eq!(problems(&json!({"nodes": []})).0, "bad_entry");
    let chain =
        json!({"entry_node": "a", "nodes": [tool("a", "b"), tool("b", "c"), tool("c", "b")]});
    let (code, text) = problems(&chain);
    assert_eq!(code, "chain_cycle");
    assert!(
        text.contains("`b`") && text.contains("`c`") && !text.contains("`a`"),
        "{text}"
    );
    let dep = |id: &str, deps: Value, map: Value| json!({"node_id": id, "kind": "tool", "name": "t", "deps": deps, "input_map": map});
    let chain = json!({"nodes": [dep("a", json!(["b"]), json!({})), dep("b", json!([]), json!({"x": "$.a.v"}))]});
    assert_eq!(problems(&chain).0, "chain_cycle");
}

#[test]
fn sizes_have_limits() {
    let nodes = |count: usize| {
        let node = |number: usize| {
            let next = if number + 1 < count {
                format!("n{}", number + 1)
            } else {
                String::new()
            };
            json!({"node_id": format!("n{number}"), "kind": "tool", "name": "t", "next_node": next})
        };
        json!({"entry_node": "n0", "nodes": (0..count).map(node).collect::<Vec<_>>()})
    };
    let (ended, events) = run(&nodes(10_000), 4, |_| 0, |_, _| Ok(json!(1)));
    assert!(ended.success);
    assert_eq!((ended.outputs.len(), events.len()), (10_000, 20_000));
    assert!(problems(&nodes(10_001)).1.contains("at most 10000 nodes"));
    let map = |count: usize| {
        json!({"entry_node": "m", "initial_input": {"list": vec![0; count]}, "nodes": [
        {"node_id": "m", "kind": "map", "items_path": "list", "map_node": "t"},
        {"node_id": "t", "kind": "tool", "name": "t"}]})
    };
    let (ended, _) = run(&map(100_000), 8, |running| running - 1, |_, _| Ok(json!(1)));
    assert_eq!(ended.last.as_array().unwrap().len(), 100_000);
    let (ended, _) = run(&map(100_001), 8, |_| 0, |_, _| Ok(json!(1)));
    assert!(ended.aborted.unwrap().contains("at most 100000 items"));
}

/// Why nodes failed is kept as what they give is, and whoever fails says how long that is.
#[test]
fn what_is_said_of_failures_has_a_size() {
    let chain = json!({"entry_node": "a", "nodes": [
        {"node_id": "a", "kind": "tool", "name": "t", "on_error": "skip", "next_node": "b"},
        {"node_id": "b", "kind": "tool", "name": "t", "on_error": "skip"}]});
    let most = Limits::default().output_bytes;
    let ended = |size: usize| run(&chain, 1, |_| 0, |_, _| Err("x".repeat(size))).0;
    assert!(ended(most / 2).aborted.is_none());
    assert!(
        ended(most / 2 + 1)
            .aborted
            .unwrap()
            .contains("write into files")
    );
}

/// Items of maps count as nodes do, and what was given twice counts twice.
#[test]
fn what_nodes_give_has_a_size() {
    let chain = json!({"entry_node": "m", "initial_input": {"list": [1, 2]}, "nodes": [
        {"node_id": "m", "kind": "map", "items_path": "$.list", "map_node": "t", "next_node": "n"},
        {"node_id": "t", "kind": "tool", "name": "t"},
        {"node_id": "n", "kind": "tool", "name": "n"}]});
    let most = Limits::default().output_bytes;
    let ended = |last: usize| {
        let (ended, _) = run(
            &chain,
            1,
            |_| 0,
            |name, _| {
                let size = if name == "n" { last } else { most / 4 };
                Ok(Value::String("x".repeat(size)))
            },
        );
        ended
    };
    let good = ended(most / 2);
    assert!(good.success && good.aborted.is_none());
    let bad = ended(most / 2 + 1);
    assert!(!bad.success);
    assert!(bad.aborted.unwrap().contains("write into files"));
    // What was done before is still told.
    assert_eq!(bad.outputs.len(), 1);
}

#[test]
fn a_map_keeps_the_order_and_its_bound() {
    let chain = json!({"entry_node": "m", "initial_input": {"list": [3, 1, 2]}, "nodes": [
        {"node_id": "m", "kind": "map", "items_path": "$.list", "map_node": "t", "next_node": "z"},
        {"node_id": "t", "kind": "tool", "name": "t"},
        {"node_id": "z", "kind": "tool", "name": "z", "input_map": {"all": "$.m"}}]});
    let call = |name: &str, input: &Map<String, Value>| match name {
        "t" if input["item"] == json!(1) => Err("one".to_owned()),
        "t" => Ok(input["item"].clone()),
        _ => Ok(input["all"].clone()),
    };
    // The last to start is the first to end.
    let (ended, events) = run(&chain, 2, |running| running - 1, call);
    assert_eq!(*ended.last, json!([3, 2]));
    assert!(!ended.success && ended.aborted.is_none());
    let items = events.iter().filter_map(|event| event.item);
    let most = events.iter().scan(0_i32, |running, event| {
        *running += match (event.item, &event.phase) {
            (None, _) => 0,
            (Some(_), Phase::Start) => 1,
            (Some(_), _) => -1,
        };
        Some(*running)
    });
    assert_eq!((items.count(), most.max()), (6, Some(2)));
}

/// A random node, all of whose edges go forward.
#[derive(Debug, Clone)]
struct Random {
    kind: u8,
    deps: Vec<usize>,
    next: Option<usize>,
    other: Option<usize>,
    on_error: u8,
    source: usize,
    fails: bool,
}

fn random() -> impl Strategy<Value = Vec<Random>> {
    let link = || proptest::option::of(1_usize..4);
    let node = (
        0_u8..5,
        proptest::collection::vec(1_usize..5, 0..3),
        link(),
        link(),
        0_u8..6,
        1_usize..4,
        any::<bool>(),
    );
    proptest::collection::vec(node, 1..14).prop_map(|nodes| {
        let count = nodes.len();
        let forward = |at: usize, by: Option<usize>| by.map(|by| at + by).filter(|to| *to < count);
        let nodes = nodes.into_iter().enumerate();
        nodes
            .map(
                |(at, (kind, deps, next, other, on_error, source, fails))| Random {
                    kind,
                    deps: deps
                        .into_iter()
                        .filter_map(|by| at.checked_sub(by))
                        .collect(),
                    next: forward(at, next),
                    other: forward(at, other),
                    on_error,
                    source: at.saturating_sub(source),
                    fails: fails && on_error > 0,
                },
            )
            .collect()
    })
}

fn id(at: usize) -> String {
    format!("n{at}")
}

fn named(at: Option<usize>) -> String {
    at.map(id).unwrap_or_default()
}

impl Random {
    const fn is_branch(&self) -> bool {
        self.kind == 3
    }

    const fn is_map(&self) -> bool {
        self.kind == 4
    }

    /// Where it goes when it fails: 0 ends all, and is not generated with failures.
    const fn aside(&self) -> Option<usize> {
        if self.on_error >= 4 { self.other } else { None }
    }

    fn json(&self, at: usize, is_graph: bool) -> Value {
        let on_error = match self.aside() {
            Some(other) => id(other),
            None => "skip".to_owned(),
        };
        let mut node = match self.kind {
            3 => json!({"kind": "branch", "condition": format!("{}.v >= 500", id(self.source)),
                "true_node": named(self.next), "false_node": named(self.other)}),
            4 => {
                json!({"kind": "map", "items_path": "$.list", "map_node": "each", "next_node": named(self.next)})
            }
            _ => json!({"kind": "tool", "name": "t", "next_node": named(self.next),
                "input_map": {"from": format!("$.{}.v", id(self.source)), "at": at}}),
        };
        node["node_id"] = json!(id(at));
        if !self.is_branch() {
            node["on_error"] = json!(on_error);
        }
        if is_graph {
            node["deps"] = json!(self.deps.iter().map(|dep| id(*dep)).collect::<Vec<_>>());
        }
        node
    }
}

/// What a call gives, by what it is given alone.
fn value(at: usize, from: &Value) -> Value {
    let from = from.as_u64().unwrap_or(77);
    json!({"v": (from * 31 + at as u64 * 131 + 17) % 1000})
}

fn items() -> Value {
    json!([1, 2, 3, 4])
}

/// The same, one after another, straight from the description.
fn interpreted(nodes: &[Random], is_graph: bool) -> (BTreeMap<String, Value>, bool) {
    let mut outputs = BTreeMap::new();
    let mut success = true;
    // What each led to; nothing for one that did not run.
    let mut led: Vec<Option<(Option<usize>, bool)>> = vec![None; nodes.len()];
    let mut walk = Some(0);
    for (at, node) in nodes.iter().enumerate() {
        let runs = match is_graph {
            true => {
                let may = |other: &Random| {
                    let goes = other.next == Some(at);
                    let aside = if other.is_branch() {
                        other.other
                    } else {
                        other.aside()
                    };
                    goes || aside == Some(at)
                };
                let is_led = nodes[..at]
                    .iter()
                    .zip(&led)
                    .any(|(_, led)| matches!(led, Some((Some(to), _)) if *to == at));
                let may_be_led = nodes[..at].iter().any(may);
                let is_done = node.deps.is_empty()
                    || node
                        .deps
                        .iter()
                        .any(|dep| matches!(led[*dep], Some((_, true))));
                (is_led || !may_be_led) && is_done
            }
            false => walk == Some(at),
        };
        if !runs {
            continue;
        }
        let source = outputs
            .get(&id(node.source))
            .map_or(Value::Null, |it: &Value| it["v"].clone());
        let source = if node.source == at {
            Value::Null
        } else {
            source
        };
        let to = if node.is_branch() {
            (
                if source.as_u64().is_some_and(|it| it >= 500) {
                    node.next
                } else {
                    node.other
                },
                true,
            )
        } else if node.is_map() {
            outputs.insert(id(at), items());
            (node.next, true)
        } else if node.fails {
            success = false;
            outputs.insert(id(at), Value::Null);
            node.aside()
                .map_or((node.next, true), |other| (Some(other), false))
        } else {
            outputs.insert(id(at), value(at, &source));
            (node.next, true)
        };
        walk = to.0;
        led[at] = Some(to);
    }
    (outputs, success)
}

fn chain(nodes: &[Random], is_graph: bool) -> Value {
    let mut reached = vec![is_graph; nodes.len()];
    reached[0] = true;
    for at in 0..nodes.len() {
        let aside = if nodes[at].is_branch() {
            nodes[at].other
        } else {
            nodes[at].aside()
        };
        for to in [nodes[at].next, aside]
            .into_iter()
            .flatten()
            .filter(|_| reached[at])
            .collect::<Vec<_>>()
        {
            reached[to] = true;
        }
    }
    let listed = nodes.iter().enumerate().filter(|(at, _)| reached[*at]);
    let has_map = listed.clone().any(|(_, node)| node.is_map());
    let mut listed: Vec<Value> = listed.map(|(at, node)| node.json(at, is_graph)).collect();
    if has_map {
        listed.push(json!({"node_id": "each", "kind": "tool", "name": "t"}));
    }
    json!({"entry_node": "n0", "initial_input": {"list": items()}, "nodes": listed})
}

proptest! {
    #[test]
    fn chains_give_what_a_simple_interpreter_gives(
        nodes in random(),
        is_graph: bool,
        at_once in 1_usize..6,
        order in proptest::collection::vec(any::<usize>(), 1..40),
    ) {
        let mut order = order.into_iter().cycle();
        let fails = |name: &str| {
            let at: Option<usize> = name.strip_prefix('n').and_then(|at| at.parse().ok());
            at.is_some_and(|at| nodes[at].fails)
        };
        let (ended, _) = run(
            &chain(&nodes, is_graph),
            at_once,
            |running| order.next().unwrap_or_default() % running,
            |name, input| match name {
                "each" => Ok(input["item"].clone()),
                name if fails(name) => Err("it fails".to_owned()),
                _ => Ok(value(input["at"].as_u64().unwrap().try_into().unwrap(), &input["from"])),
            },
        );
        let outputs: BTreeMap<_, _> = ended.outputs.iter().map(|(id, value)| (id.clone(), (**value).clone())).collect();
        let (expected, success) = interpreted(&nodes, is_graph);
        prop_assert_eq!(&outputs, &expected);
        prop_assert_eq!(ended.success, success);
        prop_assert_eq!(ended.aborted, None);
        if is_graph {
            let last = outputs.iter().max_by_key(|(id, _)| id[1..].parse::<usize>().unwrap());
            prop_assert_eq!(&*ended.last, last.map_or(&Value::Null, |(_, value)| value));
        }
    }
}
