use std::path::Path;
use std::time::Duration;

use super::*;

mod own_tools;
mod stateful;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/frith.sample.yaml");

const IN_YAML: &str = "host_id: h
server:
  listen: localhost:0
  tcp: '[::1]:9'
  unix: run/a.sock
  names: [a.example]
  origins: ['https://b.example']
  tls: {certificate: c.pem, key: /k.pem}
auth_token: ${TOKEN}
transport: http
plugins:
  - {name: d, type: demo, priority: -5, exclusive: true, enabled: false}
  - {name: m, type: remote_plugin, command: [python3, -m, host], capabilities: [tools]}
  - {name: n, type: remote_plugin, url: 'https://x', token: plain}
snapshot_store: memory
snapshot_mode: plugin
global_limits: {max_line: 2048, max_sessions: 7, idle_seconds: 0, drain_seconds: 1.5}
telemetry: {log: 'warn,a2e_runtime=debug', log_format: json}
";

const IN_TOML: &str = r#"
host_id = "h"
auth_token = "${TOKEN}"
transport = "http"
snapshot_store = "memory"
snapshot_mode = "plugin"
[server]
listen = "localhost:0"
tcp = "[::1]:9"
unix = "run/a.sock"
names = ["a.example"]
origins = ["https://b.example"]
tls = { certificate = "c.pem", key = "/k.pem" }
[[plugins]]
name = "d"
type = "demo"
priority = -5
exclusive = true
enabled = false
[[plugins]]
name = "m"
type = "remote_plugin"
command = ["python3", "-m", "host"]
capabilities = ["tools"]
[[plugins]]
name = "n"
type = "remote_plugin"
url = "https://x"
token = "plain"
[global_limits]
max_line = 2_048
max_sessions = 0x7
idle_seconds = 0
drain_seconds = 1.5
[telemetry]
log = "warn,a2e_runtime=debug"
log_format = "json"
"#;

fn parse(text: &str, format: Format) -> Result<Config, Vec<Problem>> {
    let variable = |name: &str| (name == "TOKEN").then(|| "from the environment".to_owned());
    let surroundings = Surroundings {
        folder: Path::new("/etc/frith"),
        variable: &variable,
    };
    Config::parse(text, format, &Overrides::default(), &surroundings)
}

fn yaml(text: &str) -> Config {
    parse(text, Format::Yaml).unwrap()
}

/// All mistakes, each as `line:column: text`.
fn mistakes(text: &str, format: Format) -> String {
    let problems = parse(text, format).unwrap_err();
    ConfigError {
        file: None,
        problems,
    }
    .to_string()
}

#[test]
fn the_sample_is_good_and_shows_the_defaults() {
    let config = Config::load(Path::new(SAMPLE)).unwrap();
    assert_eq!(config.plugins.len(), 13);
    let rest = Config {
        plugins: Vec::new(),
        ..config
    };
    assert_eq!(rest, Config::default());
}

#[test]
fn nothing_said_is_the_default() {
    for text in ["", "# nothing\n", "server:\n", "{}"] {
        assert_eq!(yaml(text), Config::default(), "{text}");
    }
    assert_eq!(parse("", Format::Toml).unwrap(), Config::default());
}

#[test]
fn yaml_and_toml_say_the_same() {
    let from_yaml = yaml(IN_YAML);
    assert_eq!(parse(IN_TOML, Format::Toml).unwrap(), from_yaml);
    assert_eq!(from_yaml.server.listen.to_string(), "127.0.0.1:0");
    assert_eq!(
        from_yaml.server.unix,
        UnixSocket::At("/etc/frith/run/a.sock".into())
    );
    let tls = from_yaml.server.tls.clone().unwrap();
    assert_eq!(tls.certificate, Path::new("/etc/frith/c.pem"));
    assert_eq!(tls.key, Path::new("/k.pem"));
    assert_eq!(
        from_yaml.auth_token,
        Some(Secret::new("from the environment"))
    );
    assert_eq!(from_yaml.global_limits.drain, Duration::from_millis(1500));
    assert_eq!(from_yaml.global_limits.session.idle, Duration::ZERO);
    assert_eq!(from_yaml.notes.len(), 1);
    let shown = format!("{from_yaml:?}");
    assert!(
        !shown.contains("environment") && !shown.contains("plain"),
        "{shown}"
    );
    assert_eq!(yaml("server: {unix: false}").server.unix, UnixSocket::Off);
    assert_eq!(
        yaml("server: {unix: true}").server.unix,
        UnixSocket::InDataDir
    );
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let text = "hostid: x
server:
  listen: here
  lisen: 1
  tls: {certificate: c}
plugins:
  - {type: demo}
  - {name: a, type: dem}
  - {name: b, type: demo, url: x}
  - {name: c, type: remote_plugin}
  - {name: d, type: remote_plugin, url: 'ftp://x'}
  - {name: e, type: remote_plugin, command: []}
  - 7
snapshot_store: fil
global_limits:
  max_queue: 0
  max_que: 5
  max_line: 1.5
  idle_seconds: -1
  drain_seconds: soon
telemetry: [1]
";
    let expected = "\
1:1: unknown key `hostid`; did you mean `host_id`?
3:11: `server.listen` must be ADDRESS:PORT, such as 127.0.0.1:8765 or [::1]:8765
4:3: unknown key `lisen` in `server`; did you mean `listen`?
5:8: `server.tls` lacks `key`
7:5: `plugins[0]` lacks `name`
8:21: `plugins[1].type` must be one of chains, demo, env, learning, mcp, memory, multi_agent, planning, proc, remote_plugin, skills, toolkits, tools; did you mean `demo`?
9:27: unknown key `url` in `plugins[2]`; known are name, type, priority, exclusive, enabled
10:5: `plugins[3]` needs either `command` or `url`
11:41: `plugins[4].url` must begin with one of http://, https://, ws://, wss://, tcp:, unix:
12:45: `plugins[5].command` needs a program, and then its arguments
13:5: `plugins[6]` must be a section with keys, not a number
14:17: `snapshot_store` must be one of memory, file; did you mean `file`?
16:14: `global_limits.max_queue` must be a whole number from 1 to 100000, not 0
17:3: unknown key `max_que` in `global_limits`; did you mean `max_queue`?
18:13: `global_limits.max_line` must be a whole number from 1024 to 67108864
19:17: `global_limits.idle_seconds` must be 0 to 2592000 seconds, not -1
20:18: `global_limits.drain_seconds` must be 0 to 600 seconds, not text
21:12: `telemetry` must be a section with keys, not a list";
    assert_eq!(mistakes(text, Format::Yaml), expected);
}

#[test]
fn toml_has_the_same_places() {
    let text = "host_id = 1979-05-27\n[server]\nlisten = 'é'\ntcq = 1\n";
    let expected = "\
1:11: `host_id` must be text (in quotes), not a date
3:10: `server.listen` must be ADDRESS:PORT, such as 127.0.0.1:8765 or [::1]:8765
4:1: unknown key `tcq` in `server`; did you mean `tcp`?";
    assert_eq!(mistakes(text, Format::Toml), expected);
}

#[test]
fn a_key_stands_once() {
    let error = mistakes("server:\n  listen: a\n  listen: b\n", Format::Yaml);
    assert_eq!(error, "3:3: the key `listen` stands twice in one section");
    let error = mistakes("[server]\ntcp = 1\ntcp = 2\n", Format::Toml);
    assert_eq!(error, "3:1: the key `tcp` stands twice in one section");
}

#[test]
fn what_cannot_be_parsed_has_a_place_too() {
    for (text, format, start) in [
        ("server: [\n", Format::Yaml, "1:9: this is not YAML"),
        ("a: b: c\n", Format::Yaml, "1:5: this is not YAML"),
        (
            "a: &x {b: 1}\nc: {<<: *x}\n",
            Format::Yaml,
            "2:5: this is not YAML",
        ),
        (
            "a: 1\n---\nb: 1\n",
            Format::Yaml,
            "3:1: this is not YAML that can be used here: only single YAML document expected",
        ),
        (
            "~: 1\n",
            Format::Yaml,
            "1:1: this is not YAML that can be used here: null is not allowed here",
        ),
        ("host_id = \n", Format::Toml, "1:11: this is not TOML"),
        (
            "- 1\n",
            Format::Yaml,
            "1:1: a configuration has keys and values, not a list",
        ),
        (
            "5\n",
            Format::Yaml,
            "1:1: a configuration has keys and values, not a number",
        ),
    ] {
        let error = mistakes(text, format);
        assert!(error.starts_with(start), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(mistakes(&deep, Format::Yaml).contains("depth"));
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='h')
            .zip('a'..)
            .map(|(name, before)| {
                let list = vec![format!("*{before}"); 10].join(", ");
                format!("{name}: &{name} [{list}]\n")
            })
            .collect::<String>();
    assert!(mistakes(&bomb, Format::Yaml).starts_with(|digit: char| digit.is_ascii_digit()));
}

/// A tag of other programs would be passed over: `!env TOKEN` would be the text `TOKEN`, and a secret
/// that begins with `!` and has no quotes would be nothing.
#[test]
fn unknown_yaml_tags_are_refused() {
    for (text, line) in [
        ("auth_token: !env TOKEN\n", "1:"),
        ("auth_token: !hunter2\n", "1:"),
        ("server:\n  names: !once [a]\n", "2:"),
    ] {
        let error = mistakes(text, Format::Yaml);
        let wanted =
            ": YAML tags (`!name`) cannot be used here; text that begins with `!` needs quotes";
        assert!(
            error.starts_with(line) && error.ends_with(wanted),
            "{error}"
        );
    }
    assert_eq!(yaml("host_id: !!str 8080\n").host_id, "8080");
    let config = yaml("auth_token: '!hunter2'\n");
    assert_eq!(config.auth_token.unwrap().reveal(), "!hunter2");
}

/// One agent may have half of few sessions, and what is given of any number.
#[test]
fn sessions_of_one_agent_follow_those_of_all() {
    for (limits, expected) in [
        ("{}", 1000),
        ("{max_sessions: 100000}", 1000),
        ("{max_sessions: 101}", 51),
        ("{max_sessions: 1}", 1),
        ("{max_sessions: 100, max_sessions_per_agent: 90}", 90),
    ] {
        let config = yaml(&format!("global_limits: {limits}"));
        assert_eq!(
            config.global_limits.max_sessions_per_agent, expected,
            "{limits}"
        );
    }
}

/// Each number at its limits and one past them.
#[test]
fn numbers_have_limits() {
    for (key, low, high) in [
        ("max_line", 1024, 64 << 20),
        ("max_parallel", 1, 1024),
        ("max_queue", 1, 100_000),
        ("max_outbound", 64 << 10, 1 << 30),
        ("max_replay", 0, 1 << 30),
        ("max_buffered", 1 << 20, 1 << 40),
        ("max_buffered_per_agent", 1 << 20, 1 << 40),
        ("max_sessions", 1, 1_000_000),
        ("max_sessions_per_agent", 1, 1_000_000),
        ("max_requests_per_agent", 1, 100_000),
        ("max_fetches_per_host", 1, 16),
        ("max_fetches_per_agent", 1, 16),
        ("max_commands_per_agent", 1, 10_000),
        ("max_components_per_agent", 1, 64),
        ("max_queries_per_agent", 1, 64),
        ("handshake_seconds", 1, 600),
        ("idle_seconds", 0, 2_592_000),
        ("resume_seconds", 0, 2_592_000),
        ("request_seconds", 1, 86_400),
        ("progress_seconds", 1, 604_800),
        ("drain_seconds", 0, 600_i64),
    ] {
        let with = |value: i64| parse(&format!("global_limits: {{{key}: {value}}}"), Format::Yaml);
        for good in [low, high] {
            assert!(with(good).is_ok(), "{key} {good}");
        }
        for bad in [low - 1, high + 1, i64::MAX] {
            let [problem] = <[Problem; 1]>::try_from(with(bad).unwrap_err()).unwrap();
            let range = format!("{low} to {high}");
            assert!(problem.text.contains(&range), "{}", problem.text);
        }
    }
    let huge = "99999999999999999999999999999999999999999999";
    for value in [huge, "1e300"] {
        let text = format!("global_limits: {{max_queue: {value}, drain_seconds: {value}}}");
        let error = mistakes(&text, Format::Yaml);
        assert_eq!(error.lines().count(), 2, "{error}");
    }
    for value in [".inf", ".nan"] {
        let error = mistakes(
            &format!("global_limits: {{max_queue: {value}}}"),
            Format::Yaml,
        );
        assert!(
            error.starts_with("1:28: ") && error.contains("non-finite"),
            "{error}"
        );
    }
    let text = format!("[global_limits]\nmax_queue = {huge}\ndrain_seconds = nan");
    assert_eq!(mistakes(&text, Format::Toml).lines().count(), 2);
}

/// A relative path would be another program in each folder.
#[test]
fn allowed_commands_are_names_or_absolute_paths() {
    let with = |word: &str| {
        let text = format!("plugins: [{{name: proc, type: proc, allowed_commands: [{word}]}}]");
        parse(&text, Format::Yaml)
    };
    for good in ["python3", "/opt/tools/run", "a.out"] {
        assert!(with(good).is_ok(), "{good}");
    }
    for bad in ["./run", "bin/run", "../run", "git status"] {
        let [problem] = <[Problem; 1]>::try_from(with(bad).unwrap_err()).unwrap();
        assert!(
            problem.text.contains("an absolute path"),
            "{}",
            problem.text
        );
    }
}

#[test]
fn allowed_variables_are_names() {
    let with = |word: &str| {
        let text = format!("plugins: [{{name: proc, type: proc, allowed_env: ['{word}']}}]");
        parse(&text, Format::Yaml)
    };
    assert!(with("LANG").is_ok());
    for bad in ["LANG=C", "A B"] {
        let [problem] = <[Problem; 1]>::try_from(with(bad).unwrap_err()).unwrap();
        assert!(
            problem.text.contains("the name of a variable"),
            "{}",
            problem.text
        );
    }
}

#[test]
fn secrets_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let with = |value: &str| parse(&format!("auth_token: {value}\n"), Format::Yaml);
    let from_file = || with(&format!("'file:{}'", file.display()));
    std::fs::write(&file, "hunter2\n").unwrap();
    assert_eq!(
        from_file().unwrap().auth_token,
        Some(Secret::new("hunter2"))
    );
    std::fs::write(&file, "h".repeat(4096)).unwrap();
    assert!(from_file().is_ok());
    for (text, hint) in [
        ("h".repeat(4097), "longer than 4096 bytes"),
        ("\n".into(), "empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = from_file().unwrap_err();
        assert!(error[0].text.contains(hint), "{error:?}");
    }
    for (value, hint) in [
        ("hunter2${X}", "must be `${NAME}` alone"),
        ("${hunter 2}", "must be `${NAME}` alone"),
        ("${NONE}", "environment variable NONE, which is not set"),
        (
            "file:/nonexistent",
            "names /nonexistent, which cannot be read",
        ),
        ("file:relative", "names /etc/frith/relative"),
        ("''", "is empty"),
        ("[hunter2]", "must be text, not a list"),
        ("8675309", "must be text (in quotes), not a number"),
        ("{hunter: 2}", "must be text, not a section"),
        ("\"hunter2", "not YAML"),
        ("hunter2: 8675309", "not YAML"),
        ("!!bool hunter2", "not YAML"),
        ("!!int hunter2", "not YAML"),
        ("!!float hunter2", "not YAML"),
        ("!!binary hunter2", "not YAML"),
        ("*hunter2", "not YAML"),
    ] {
        let error = with(value).unwrap_err();
        let shown = format!("{error:?}");
        assert!(error[0].text.contains(hint), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("8675309"),
            "{shown}"
        );
    }
    let text = "plugins: [{name: a, type: remote_plugin, url: 'http://me:hunter2@host/'}]";
    let error = mistakes(text, Format::Yaml);
    assert!(
        error.contains("`token` is for that") && !error.contains("hunter2"),
        "{error}"
    );
    let error = mistakes("auth_token = \"hunter2\nhost_id = hunter2", Format::Toml);
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn some_keys_must_go_together() {
    for (text, hint) in [
        (
            "server: {listen: '0.0.0.0:1', tcp: '[::]:2', allow_unauthenticated: true}",
            "but `server.listen` is 0.0.0.0:1\n`server.allow_unauthenticated` needs",
        ),
        (
            "server: {listen: '127.0.0.1:1', tcp: '127.0.0.1:1'}",
            "need different ports",
        ),
        (
            "plugins: [{name: a, type: demo}, {name: a, type: demo}]",
            "two plugins are called `a`",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', command: [x]}]",
            "needs either `command` or `url`",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', serves: [own/*]}]",
            "needs `serves` and `serves_as`, or neither of the two",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', serves: ['to*'], serves_as: env}]",
            "stands for `tool/list/req` too, which belongs to the protocol",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', serves: ['a*b'], serves_as: env}]",
            "must be a type such as `own/thing/req`",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', serves: ['*'], serves_as: own}]",
            "is no capability: `own`",
        ),
    ] {
        let error = mistakes(text, Format::Yaml);
        assert!(error.contains(hint), "{error}");
    }
    let local = "server: {listen: '127.0.0.1:0', tcp: '[::1]:0', allow_unauthenticated: true}";
    assert!(yaml(local).server.allow_unauthenticated);
    let mut changed = yaml(local);
    changed.server.listen = "192.0.2.1:1".parse().unwrap();
    assert!(changed.validate().is_err());
}

/// A file that cannot be read now may have rules: the defaults do not stand in for it.
#[test]
fn a_link_that_leads_nowhere_is_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frith.yaml");
    std::os::unix::fs::symlink("nowhere", &file).unwrap();
    assert_eq!(Config::find(folder.path()), Ok(Some(file.clone())));
    let error = Config::load(&file).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn a_folder_has_one_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert_eq!(Config::find(folder.path()), Ok(None));
    std::fs::write(path("frith.toml"), "host_id = 5").unwrap();
    assert_eq!(Config::find(folder.path()), Ok(Some(path("frith.toml"))));
    let error = Config::load(&path("frith.toml")).unwrap_err().to_string();
    let start = format!(
        "{}:1:11: `host_id` must be text",
        path("frith.toml").display()
    );
    assert!(error.starts_with(&start), "{error}");
    std::fs::write(path("frith.yml"), "").unwrap();
    let error = Config::find(folder.path()).unwrap_err().to_string();
    assert!(error.contains("both frith.yml and frith.toml") && error.contains("--config"));
    let error = Config::load(&path("none.yaml")).unwrap_err().to_string();
    assert!(
        error.contains("none.yaml: cannot be read: No such file"),
        "{error}"
    );
    let error = Config::load(Path::new("/dev/zero"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("is larger than 1 MiB"), "{error}");
    std::fs::write(path("big.yaml"), "#".repeat(1024 * 1024)).unwrap();
    assert!(Config::load(&path("big.yaml")).is_ok());
    std::fs::write(path("big.yaml"), "#".repeat(1024 * 1024 + 1)).unwrap();
    let error = Config::load(&path("big.yaml")).unwrap_err().to_string();
    assert!(error.contains("larger than 1 MiB"), "{error}");
}

/// A level or a capability that there is not is a mistake, not a wish that nobody hears.
#[test]
fn words_that_mean_nothing() {
    for (text, wrong) in [
        (
            "telemetry: {log: verbose}",
            "unknown level `verbose`; known are off, error",
        ),
        (
            "telemetry: {log: wran}",
            "unknown level `wran`; did you mean `warn`?",
        ),
        (
            "telemetry: {log: 'info,a2e_runtime=debgu'}",
            "did you mean `debug`?",
        ),
        ("telemetry: {log: 'info,'}", "unknown level ``"),
        (
            "telemetry: {otlp: 'grpc://a:1'}",
            "must be http://ADDRESS:PORT",
        ),
        (
            "telemetry: {otlp: 'http://'}",
            "must be http://ADDRESS:PORT",
        ),
        (
            "telemetry: {otlp: 'http://me@a'}",
            "must be http://ADDRESS:PORT",
        ),
        (
            "telemetry: {otlp: 'http://a:1', otlp_headers: {x: y}}",
            "`telemetry.otlp_headers` would be readable on the network",
        ),
        (
            "telemetry: {otlp: 'https://a', otlp_headers: {'x y': z}}",
            "has a name that is no header's: `x y`",
        ),
        (
            "telemetry: {otlp: 'https://a', otlp_headers: {x: \"hunter2\\u0007\"}}",
            "has a value that no header can have: `x`",
        ),
        (
            "telemetry: {log_file_bytes: 65535}",
            "must be a whole number from 65536 to",
        ),
        ("identity: {name: 'a b'}", "must be 1 to 64 of"),
        (
            "mcp: {servers: {a: {url: 'https://a', oauth: {client_id: b, client_secret: hunter2}}}}",
            "`mcp.servers.a.oauth` has a `client_secret` without `issuer`",
        ),
        ("store: {sync: never}", "`sync` is `commit` or a time"),
        (
            "store: {max_bytes: 1}",
            "must be a whole number from 1048576",
        ),
        (
            "plugins: [{name: a, type: remote_plugin, url: 'tcp:x', capabilities: [tools, memori]}]",
            "1:78: `plugins[0].capabilities[1]` is no capability: `memori`; did you mean `memory`?",
        ),
    ] {
        let error = mistakes(text, Format::Yaml);
        assert!(error.contains(wrong), "{text}: {error}");
        assert!(!error.contains("hunter2"), "{text}: {error}");
    }
    for log in [
        "warn",
        "INFO",
        "info,a2e_runtime=debug",
        "a2e_runtime::http=trace",
    ] {
        let text = format!("telemetry: {{log: '{log}'}}");
        let surroundings = Surroundings {
            folder: Path::new(""),
            variable: &|_| None,
        };
        let config =
            Config::parse(&text, Format::Yaml, &Overrides::default(), &surroundings).unwrap();
        assert_eq!(config.telemetry.log, log);
    }
}

#[test]
fn who_a_node_is_and_where_it_keeps_and_says_what() {
    let config = yaml(
        "identity: {name: web, passphrase: '${TOKEN}'}
store: {sync: commit, max_bytes: 1048576}
telemetry: {log_file: frith.log, log_file_bytes: 65536, log_files: 0, otlp: 'https://a.example', otlp_headers: {authorization: '${TOKEN}'}}",
    );
    assert_eq!(config.identity.name, "web");
    let secret = Secret::new("from the environment");
    assert_eq!(config.identity.passphrase.as_ref(), Some(&secret));
    assert_eq!(config.store.sync, ::store::SyncMode::Commit);
    assert_eq!(config.store.max_bytes, 1 << 20);
    let telemetry = &config.telemetry;
    assert_eq!(
        telemetry.log_file.as_deref(),
        Some(Path::new("/etc/frith/frith.log"))
    );
    assert_eq!((telemetry.log_file_bytes, telemetry.log_files), (65536, 0));
    assert_eq!(telemetry.otlp_headers[0].1, secret);
    for here in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost"] {
        yaml(&format!(
            "telemetry: {{otlp: '{here}', otlp_headers: {{a: b}}}}"
        ));
    }
}

/// Beside all that is built in, or as one more of those that are named; never twice.
#[test]
fn servers_are_said_in_one_place() {
    let servers = "mcp: {servers: {time: {command: [mcp-server-time]}}}\n";
    let config = yaml(servers);
    assert!(config.plugins.is_empty());
    let mcp = config.mcp.unwrap();
    assert_eq!(mcp.servers[0].name, "time");
    let config = yaml(&format!(
        "{servers}plugins: [{{name: tools, type: tools}}]\n"
    ));
    assert_eq!(config.mcp, None);
    let [_, plugin] = config.plugins.as_slice() else {
        panic!("{:?}", config.plugins);
    };
    assert_eq!(plugin.kind, PluginKind::Mcp(mcp));
    let twice = format!("plugins: [{{name: a, type: mcp}}]\n{servers}");
    let error = mistakes(&twice, Format::Yaml);
    assert!(error.contains("`mcp` is said twice"), "{error}");
}
