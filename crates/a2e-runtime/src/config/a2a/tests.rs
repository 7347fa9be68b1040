use std::path::Path;

use ::policy::TrustLevel;
use canonical::Digest;

use super::super::{Config, Format, Overrides, Surroundings};
use super::super::{Trust, TrustAnchor, TrustPin};
use super::*;

const KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn read(text: &str) -> Result<Config, String> {
    let surroundings = Surroundings {
        folder: Path::new("/etc/frith"),
        variable: &|name| (name == "GITHUB_TOKEN").then(|| "s3cret".to_owned()),
    };
    let config = Config::parse(text, Format::Yaml, &Overrides::default(), &surroundings);
    config.map_err(|problems| {
        let problems = problems.iter().map(|problem| problem.text.as_str());
        problems.collect::<Vec<_>>().join("\n")
    })
}

#[test]
fn all_that_can_be_said_of_other_agents() {
    let hash = Digest::of(b"x");
    let text = format!(
        "a2a:
  listen: 0.0.0.0:443
  names: [a.example]
  tls: {{certificate: c.pem, key: /k.pem, roots: [r.pem]}}
  methods: [web]
  github_token: '${{GITHUB_TOKEN}}'
  baseline: bound
  encryption: if_required
  policy: {{rate_limit: 5, rate_period: 60, blocked_intents: ['db.*'], extensions: {{x: 1}}}}
  agents: [{{did: 'did:web:b.example', baseline: refuse, policy: {{session_timeout: 9}}}}]
  limits: {{connections: 7, deadline_seconds: 1.5}}
trust:
  anchors: {{acme: {{did: 'did:web:acme.example', public_key: {KEY}, min_trust_level: verified}}}}
  pins: [{{did: 'did:key:z6Mk', manifest: '{hash}', keys: ['{hash}']}}]
  blocked: ['did:github:a/b']
  min_trust_level: delegated
  max_manifest_age_days: 2
  require_manifest: true
"
    );
    let Config { a2a, trust, .. } = read(&text).unwrap();
    assert_eq!(a2a.listen, "0.0.0.0:443".parse().unwrap());
    let tls = a2a.tls.as_ref().unwrap();
    assert_eq!(tls.certificate, Path::new("/etc/frith/c.pem"));
    assert_eq!(tls.key, Path::new("/k.pem"));
    assert_eq!(a2a.roots, [Path::new("/etc/frith/r.pem")]);
    assert_eq!(a2a.methods, [DidMethod::Web]);
    assert_eq!(a2a.github_token, Some(Secret::new("s3cret")));
    assert!(!format!("{a2a:?}").contains("s3cret"));
    assert_eq!(a2a.baseline, Baseline::Bound);
    assert_eq!(a2a.encryption, Encryption::IfRequired);
    assert_eq!(a2a.policy.rate().limit(), 5);
    let [agent] = a2a.agents.as_slice() else {
        panic!("{:?}", a2a.agents);
    };
    assert_eq!(agent.baseline, Some(Baseline::Refuse));
    assert_eq!(agent.policy.as_ref().unwrap().session_timeout(), 9);
    assert_eq!(a2a.limits.connections, 7);
    assert_eq!(a2a.limits.deadline, Duration::from_millis(1500));
    let expected = Trust {
        anchors: vec![TrustAnchor {
            name: "acme".to_owned(),
            did: "did:web:acme.example".to_owned(),
            public_key: Some(KEY.to_owned()),
            min_trust_level: TrustLevel::Verified,
        }],
        pins: vec![TrustPin {
            did: "did:key:z6Mk".to_owned(),
            manifest: Some(hash),
            keys: vec![hash],
        }],
        blocked: ["did:github:a/b".to_owned()].into(),
        min_trust_level: TrustLevel::Delegated,
        max_manifest_age: Duration::from_secs(2 * 86_400),
        require_manifest: true,
    };
    assert_eq!(trust, expected);
    assert!(!read("a2a: false").unwrap().a2a.enabled);
}

fn check_mistakes(mistakes: &[(&str, &str)]) {
    for (text, wrong) in mistakes {
        let error = read(text).unwrap_err();
        assert!(error.contains(wrong), "{text}: {error}");
    }
}

#[test]
fn mistakes_are_named() {
    check_mistakes(&[
        ("a2a: {liste: x}", "did you mean `listen`?"),
        ("a2a: {methods: []}", "`a2a.methods` needs a method"),
        ("a2a: {methods: [githb]}", "did you mean `github`?"),
        ("a2a: {github_token: '${NO_SUCH}'}", "`a2a.github_token` "),
        (
            "a2a: {github_token: \"a\\nb\"}",
            "`a2a.github_token` is no token",
        ),
        (
            "a2a: {github_token: \"t\u{f6}k en\"}",
            "`a2a.github_token` is no token",
        ),
        ("a2a: {tls: {key: k}}", "needs both `certificate` and `key`"),
        ("a2a: {listen: '0.0.0.0:1'}", "set `a2a.tls.certificate`"),
        (
            "a2a: {listen: '127.0.0.1:8765'}",
            "`a2a.listen` needs a port of its own",
        ),
        (
            "a2a: {policy: {rate_limit: 0}}",
            "`a2a.policy` is no policy: ",
        ),
        (
            "a2a: {policy: {rate_limt: 5}}",
            "did you mean `rate_limit`?",
        ),
        (
            "a2a: {policy: {data_retention: 2d}}",
            "`a2a.policy` is no policy: ",
        ),
        ("a2a: {policy: {require_encryption: }}", "has no value"),
        ("a2a: {agents: [{baseline: accept}]}", "lacks `did`"),
        (
            "a2a: {agents: [{did: example.com}]}",
            "must begin with did:key: or",
        ),
        (
            "a2a: {agents: [{did: 'did:web:x'}, {did: 'did:web:x'}]}",
            "`a2a.agents` has `did:web:x` twice",
        ),
        ("a2a: {limits: {sessions: 0}}", "from 1 to 1000000, not 0"),
        (
            "a2a: {limits: {sessions: 1000001}}",
            "from 1 to 1000000, not 1000001",
        ),
        (
            "a2a: {limits: {messages_per_second: 1000001}}",
            "from 1 to 1000000, not 1000001",
        ),
        (
            "a2a: {limits: {newcomers_per_minute: 0}}",
            "from 1 to 10000000, not 0",
        ),
        (
            "a2a: {limits: {deadline_seconds: 86401}}",
            "must be 1 to 86400 seconds",
        ),
    ]);
}

#[test]
fn mistakes_about_trust_are_named() {
    check_mistakes(&[
        ("trust: {anchors: [x]}", "must be a section with keys"),
        ("trust: {anchors: {a: {}}}", "`trust.anchors.a` lacks `did`"),
        (
            "trust: {anchors: {a: {did: 'did:web:x', public_key: AAAA}}}",
            "must be the 32 bytes of an Ed25519 key",
        ),
        (
            "trust: {anchors: {a: {did: 'did:web:x', min_trust_level: verifed}}}",
            "did you mean `verified`?",
        ),
        (
            "trust: {pins: [{did: 'did:web:x'}]}",
            "needs `manifest` or `keys`",
        ),
        (
            "trust: {pins: [{did: 'did:web:x', manifest: }]}",
            "`trust.pins[0].manifest` has no value",
        ),
        (
            "trust: {pins: [{did: 'did:web:x', manifest: 'sha256:00'}]}",
            "must be `sha256:` and 64",
        ),
        ("trust: {blocked: [mallory]}", "must begin with did:key: or"),
        ("trust: {max_manifest_age_days: 0}", "from 1 to 3650, not 0"),
    ]);
}

#[test]
fn what_is_at_a_limit_is_taken() {
    // A port that is not opened needs no certificate.
    assert!(read("a2a: {enabled: false, listen: '0.0.0.0:1'}").is_ok());
    assert!(read("a2a: {listen: '[::1]:1', limits: {sessions: 1000000}}").is_ok());
    let most = "a2a: {limits: {messages_per_second: 1000000, newcomers_per_minute: 10000000}}";
    assert!(read(most).is_ok());
}
