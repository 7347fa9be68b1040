use std::path::Path;
use std::time::Duration;

use super::super::{Config, Format, Overrides, Surroundings};
use super::*;

fn read(text: &str) -> Result<Config, String> {
    let surroundings = Surroundings {
        folder: Path::new("/"),
        variable: &|_| None,
    };
    let config = Config::parse(text, Format::Yaml, &Overrides::default(), &surroundings);
    config.map_err(|problems| {
        let problems = problems.iter().map(|problem| problem.text.as_str());
        problems.collect::<Vec<_>>().join("\n")
    })
}

fn valid(text: &str) -> Result<(), String> {
    let config = read(text)?;
    config.validate().map_err(|error| error.to_string())
}

#[test]
fn all_that_can_be_said_of_intents_and_peers() {
    let config = read(
        "intents:
  Example.Find.v1: {tool: grep}
  example.count: {command: [seq, '{n}'], description: Counts, parameters: {n: {type: integer}}, required: [n], stdin: n, read_only: true, timeout_seconds: 3}
peers:
  beta:
    did: did:web:b.example
    url: https://b.example/a2a/handshake
    encrypt: true
    intents:
      Example.Echo: {domain: example, description: Says it again, parameters: {text: {type: string}}, required: [text], tags: [x], read_only: true, timeout_seconds: 9}
      example.other: {description: Other, tool: other}
agents: [{name: carol, did: 'did:key:z6Mk'}]
",
    )
    .unwrap();
    let [find, count] = config.intents.as_slice() else {
        panic!("{:?}", config.intents);
    };
    assert_eq!(find.name.as_str(), "example.find.v1");
    assert_eq!(find.target, IntentTarget::Tool("grep".into()));
    let IntentTarget::Command(tool) = &count.target else {
        panic!("{count:?}");
    };
    assert_eq!(tool.name, "intent:example.count");
    assert_eq!(tool.timeout, Some(Duration::from_secs(3)));
    let [peer] = config.peers.as_slice() else {
        panic!("{:?}", config.peers);
    };
    assert_eq!((peer.name.as_str(), peer.encrypt), ("beta", true));
    let [echo, other] = peer.intents.as_slice() else {
        panic!("{peer:?}");
    };
    assert_eq!(echo.tool, "peer:beta:example.echo");
    assert_eq!(echo.timeout, Duration::from_secs(9));
    assert_eq!(other.tool, "other");
    assert_eq!(
        (echo.domain.as_deref(), &other.domain),
        (Some("example"), &None)
    );
    assert_eq!(config.policy.agents[0].did.as_deref(), Some("did:key:z6Mk"));
}

#[test]
fn what_cannot_be_said_of_them() {
    for (text, why) in [
        ("intents: {'a b': {tool: x}}", "under the name of an intent"),
        ("intents: {a.v1.v2: {tool: x}}", "one version at most"),
        ("intents: {a: {tool: x}, A: {tool: x}}", "is there twice"),
        (
            "intents: {a: {}}",
            "needs one of `tool`, `command`, `skill`, `chain` and `env`",
        ),
        ("intents: {a: {tool: x, command: [y]}}", "needs one of"),
        ("intents: {a: {tool: x, stdin: y}}", "unknown key `stdin`"),
        ("intents: {a: {command: []}}", "needs a program"),
        ("intents: {frith.x: {tool: x}}", "are the node's own"),
        (
            "a2a: false\nintents: {a: {tool: x}}",
            "`a2a` is switched off",
        ),
        (
            "plugins: [{name: d, type: demo}]\nintents: {a: {command: [x]}}",
            "a plugin of the type `tools`",
        ),
        (
            "plugins: [{name: t, type: tools}]\nintents: {a: {chain: {}}}",
            "a plugin of the type `chains`",
        ),
        (
            "plugins: [{name: c, type: chains}]\nintents: {a: {chain: {}}}",
            "a plugin of the type `tools`",
        ),
        ("intents: {a: {skill: x, env: y}}", "needs one of"),
        ("intents: {a: {skill: ''}}", "must not be empty"),
        ("intents: {a: {env: x, parameters: {}}}", "unknown key"),
        ("intents: {a: {chain: {nodes: 5}}}", "is no chain: "),
        ("intents: {a: {chain: [1]}}", "is no chain: "),
        (
            "intents: {a: {chain: none.json}}",
            "names /none.json, which cannot be read",
        ),
        ("peers: {b: {}}", "lacks `did`"),
        ("peers: {'b b': {did: 'did:key:x'}}", "under a name of"),
        ("peers: {b: {did: 'x'}}", "must begin with did:key"),
        (
            "peers: {b: {did: 'did:key:x', intents: {a: {}}}}",
            "lacks `description`",
        ),
        (
            "peers: {b: {did: 'did:key:x', intents: {a: {description: d, tool: t}, c: {description: d, tool: t}}}}",
            "are called `t`",
        ),
        (
            "peers: {b: {did: 'did:key:x', intents: {ab.c: {description: d, domain: a}}}}",
            "labels that the name of the intent begins with",
        ),
        (
            "peers: {b: {did: 'did:key:x', intents: {ab: {description: d, domain: ab}}}}",
            "labels that the name of the intent begins with",
        ),
        ("a2a: false\npeers: {b: {did: 'did:key:x'}}", "switched off"),
        (
            "plugins: [{name: d, type: demo}]\npeers: {b: {did: 'did:key:x'}}",
            "a plugin of the type `tools`",
        ),
        (
            "agents: [{name: a, did: 'did:key:x'}, {name: b, did: 'did:key:x'}]",
            "has the DID of another agent",
        ),
    ] {
        let error = valid(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn commands_and_peers_need_nothing_but_the_tools() {
    valid("intents: {a: {command: [x]}}\npeers: {b: {did: 'did:key:x'}}").unwrap();
    let tools = "plugins: [{name: t, type: tools}]\n";
    valid(&format!("{tools}intents: {{a: {{command: [x]}}}}")).unwrap();
    valid("plugins: [{name: d, type: demo}]\nintents: {a: {tool: echo}}").unwrap();
}

#[test]
fn skills_chains_and_environments_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    let chain = serde_json::json!({"nodes": [{"node_id": "a", "kind": "tool"}]});
    std::fs::write(&file, chain.to_string()).unwrap();
    let config = read(&format!(
        "intents:
  a: {{skill: greet}}
  b: {{env: counter}}
  c: {{chain: {}, description: Goes, parameters: {{n: {{type: integer}}}}, required: [n]}}
  d: {{chain: {{nodes: [{{node_id: a, kind: tool}}]}}}}
",
        file.display()
    ))
    .unwrap();
    let targets: Vec<_> = config.intents.iter().map(|it| &it.target).collect();
    let [a, b, IntentTarget::Chain(c), IntentTarget::Chain(d)] = targets.as_slice() else {
        panic!("{targets:?}");
    };
    assert_eq!(**a, IntentTarget::Skill("greet".into()));
    assert_eq!(**b, IntentTarget::Env("counter".into()));
    assert_eq!(
        (c.name.as_str(), c.description.as_str()),
        ("intent:c", "Goes")
    );
    assert_eq!((&c.chain, &c.file), (&chain, &Some(file)));
    assert_eq!(c.required, ["n"]);
    assert_eq!((&d.chain, &d.file), (&chain, &None));
}

/// Exactly as large as it may be, and one byte more.
#[test]
fn a_file_of_a_chain_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    let text = |bytes: u64| format!("{{}}{}", " ".repeat(usize::try_from(bytes).unwrap() - 2));
    std::fs::write(&file, text(MAX_CHAIN)).unwrap();
    assert!(chain_in(&file).is_ok());
    std::fs::write(&file, text(MAX_CHAIN + 1)).unwrap();
    assert!(chain_in(&file).unwrap_err().contains("more than"));
}
