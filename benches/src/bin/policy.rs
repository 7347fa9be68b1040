//! Decisions of rules, checks of rates, names of intents: how long each takes.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use benches::{Contestant, Effort, compare};
use policy::{
    Agent, Buckets, Call, Effect, IntentName, Layer, Policy, Rate, Repeat, RepeatBreaker,
    RuleConfig, Rules, RulesConfig, limits, tightens,
};
use serde_json::json;

const CAPABILITIES: [(&str, Effect); 11] = [
    ("skill", Effect::Allow),
    ("toolkits", Effect::Allow),
    ("env", Effect::Allow),
    ("proc", Effect::RequireApproval),
    ("memory", Effect::Allow),
    ("learning", Effect::Allow),
    ("chains", Effect::Allow),
    ("mcp", Effect::RequireApproval),
    ("multi_agent", Effect::RequireApproval),
    ("planning", Effect::Allow),
    ("tools", Effect::Allow),
];
/// What is measured is done so often in a row: reading the clock takes as long as a check.
const BATCH: u32 = 64;
const CONDITION: &str = "starts_with(path, '/etc/') || size > `1000000`";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => report(Effort::FULL),
        ["--smoke"] => report(Effort::SMOKE),
        _ => {
            println!("usage: policy [--smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn report(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:58} {:>12} {:>14} {:>10}",
        "", "each", "a second", "at most"
    );
    for count in [10, 100, 1000] {
        decisions(count, effort)?;
    }
    tightening(effort)?;
    rates(effort)?;
    intents(effort)
}

fn rule(index: usize, capability: &str, when: Option<&str>) -> RuleConfig {
    RuleConfig {
        id: None,
        agent: Some(vec!["build-*".into(), "default".into()]),
        did: None,
        trust: None,
        capability: Some(vec![capability.into()]),
        name: Some(vec![format!("fs.tool_{index}_*")]),
        when: when.map(str::to_owned),
        action: Effect::RequireApproval,
        reason: None,
    }
}

fn compile(rules: Vec<RuleConfig>) -> Result<Rules, String> {
    let config = RulesConfig {
        rules,
        ..RulesConfig::default()
    };
    let layer = Layer {
        place: "policy",
        config: &config,
    };
    let words = |errors: Vec<policy::Error>| format!("{errors:?}");
    Rules::compile(&[layer], &CAPABILITIES).map_err(words)
}

/// As many rules, in several shapes.
fn decisions(count: usize, effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let arguments = json!({"path": "/work/notes.txt", "size": 512, "content": "x".repeat(400)});
    let agent = Agent {
        id: "default",
        did: None,
        trust: None,
    };
    let last = format!("fs.tool_{}_write", count - 1);
    let call = |name| Call {
        agent,
        capability: "tools",
        name,
        arguments: &arguments,
    };
    let spread = |index: usize| CAPABILITIES.get(index % 11).map_or("tools", |it| it.0);
    let same = compile((0..count).map(|index| rule(index, "tools", None)).collect())?;
    let mixed = compile(
        (0..count)
            .map(|index| rule(index, spread(index), None))
            .collect(),
    )?;
    let hard = |index: usize| RuleConfig {
        name: Some(vec![format!("*.tool_{index}")]),
        ..rule(index, "tools", None)
    };
    let hard = compile((0..count).map(hard).collect())?;
    let one = compile(
        (0..count)
            .map(|index| rule(index, "tools", Some(CONDITION)))
            .collect(),
    )?;
    let every = |index: usize| RuleConfig {
        name: None,
        ..rule(index, "tools", Some(CONDITION))
    };
    let every = compile((0..count).map(every).collect())?;
    let (by_last, by_none) = (call(&last), call("fs.tool_read"));
    let decide = |rules: &Rules, call: &Call<'_>| rules.decide(black_box(call)).effect;
    let times = compare(
        &mut [
            batch(|| decide(&same, &by_last)),
            batch(|| decide(&same, &by_none)),
            batch(|| decide(&mixed, &by_none)),
            batch(|| decide(&hard, &by_none)),
            batch(|| decide(&one, &by_last)),
            batch(|| decide(&every, &by_none)),
        ],
        effort,
    );
    let target = (count == 100).then_some(2000.0);
    let rows = [
        ("of one capability, the last matches", target),
        ("of one capability, none matches", target),
        ("over 11 capabilities, none matches", target),
        ("that begin with `*`, none matches", target),
        ("with conditions, one is evaluated", None),
        ("with conditions, all are evaluated", None),
    ];
    for ((name, target), time) in rows.into_iter().zip(times) {
        row(&format!("{count:>4} rules {name}"), time, target);
    }
    Ok(())
}

fn tightening(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let rules = compile((0..1000).map(|index| rule(index, "tools", None)).collect())?;
    let times = compare(
        &mut [Contestant::new("", || tightens(&rules, &rules).is_ok())],
        effort,
    );
    for time in times {
        row(
            "whether 1,000 rules tighten 1,000",
            time * f64::from(BATCH),
            None,
        );
    }
    Ok(())
}

/// Checks of rates, in a table of one bucket and in one of 10,000.
fn rates(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let plenty = Rate::new(limits::RATE_LIMIT, 1).ok_or("a rate")?;
    let did = |n: u32| format!("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnn{n:05}");
    let digest = |n: u32| canonical::Digest::of(did(n).as_bytes());
    // The clock is the caller's, and not part of what is measured: every check comes a moment after
    // the last.
    let moment = Duration::from_nanos(250);
    let mut one = Table::new(&[digest(7000)], plenty)?;
    let all: Vec<_> = (0..10_000).map(digest).collect();
    let mut by_digest = Table::new(&all, plenty)?;
    let mut pairs = Table::new(&all, plenty)?;
    let mut scarce = Table::new(&all, Rate::new(1, limits::RATE_PERIOD).ok_or("a rate")?)?;
    let texts: Vec<_> = (0..10_000).map(did).collect();
    let mut by_text = Table::new(&texts, plenty)?;
    let (agent, session, text) = (digest(7000), digest(3000), did(7000));
    let repeat =
        Repeat::new(64, Duration::from_secs(60), Effect::RequireApproval).ok_or("a repeat")?;
    let mut breaker = RepeatBreaker::new(repeat);
    let mut tick = Duration::ZERO;
    let times = compare(
        &mut [
            batch(|| one.take(moment, [&agent])),
            batch(|| by_digest.take(moment, [&agent])),
            batch(|| by_text.take(moment, [&text])),
            batch(|| pairs.take(moment, [&session, &agent])),
            batch(|| scarce.take(moment, [&session, &agent])),
            batch(|| {
                tick += Duration::from_millis(1);
                let mut call = [7; 32];
                call[..16].copy_from_slice(&tick.as_nanos().to_be_bytes());
                breaker.observe(tick, &call)
            }),
        ],
        effort,
    );
    let rows = [
        ("rate: one bucket", Some(200.0)),
        ("rate: one bucket among 10,000 digests", Some(200.0)),
        ("rate: one bucket among 10,000 DIDs", None),
        ("rate: session and agent among 10,000 digests", Some(200.0)),
        ("rate: the same, refused", None),
        ("repeat breaker with 512 calls remembered", None),
    ];
    for ((name, target), time) in rows.into_iter().zip(times) {
        row(name, time, target);
    }
    Ok(())
}

/// Buckets and the time.
struct Table<K> {
    buckets: Buckets<K>,
    rate: Rate,
    now: Duration,
}

impl<K: Hash + Eq + Clone> Table<K> {
    fn new(keys: &[K], rate: Rate) -> Result<Self, policy::Refused> {
        let (mut buckets, now) = (Buckets::new(20_000), Duration::ZERO);
        for key in keys {
            buckets.take(now, [(key, rate)])?;
        }
        Ok(Self { buckets, rate, now })
    }

    fn take<const N: usize>(&mut self, moment: Duration, keys: [&K; N]) -> bool {
        self.now += moment;
        self.buckets
            .take(self.now, keys.map(|key| (key, self.rate)))
            .is_ok()
    }
}

fn intents(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let blocked: Vec<String> = (0..100).map(|n| format!("com.example.area{n}.*")).collect();
    let document = json!({"allowed_intents": ["nlp.*"], "blocked_intents": blocked});
    let tree = canonical::Value::from_serialize(&document)?;
    let tree = tree.as_object().ok_or("an object")?;
    let policy = Policy::read(tree, limits::PAYLOAD_CEILING)?.complete()?;
    let offered = IntentName::parse("nlp.translate.v2")?;
    let name = IntentName::of("nlp", "translate")?;
    let times = compare(
        &mut [
            batch(|| IntentName::of(black_box("nlp"), "Translate.v2").is_ok()),
            batch(|| policy.check_intent(black_box(&name), Some(&offered))),
            batch(|| Policy::read(black_box(tree), limits::PAYLOAD_CEILING).is_ok()),
        ],
        effort,
    );
    for (label, time) in [
        "intent: name of domain and goal",
        "intent: 1 allowed and 100 blocked patterns",
        "policy: read, with 101 patterns",
    ]
    .into_iter()
    .zip(times)
    {
        row(label, time, None);
    }
    Ok(())
}

/// One way to do something, a batch at a time.
fn batch<'a, T>(mut run: impl FnMut() -> T + 'a) -> Contestant<'a> {
    Contestant::new("", move || {
        for _ in 0..BATCH {
            black_box(run());
        }
    })
}

/// One line; the target is in nanoseconds.
fn row(name: &str, seconds: f64, target: Option<f64>) {
    let seconds = seconds / f64::from(BATCH);
    let target = target.map_or(String::new(), |target| format!("{target:.0} ns"));
    println!(
        "{name:58} {:>9.0} ns {:>14.0} {target:>10}",
        seconds * 1e9,
        1.0 / seconds.max(1e-12)
    );
}
