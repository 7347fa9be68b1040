use super::*;

/// Tools without code, and where their secrets come from.
#[test]
fn own_tools() {
    let config = yaml(
        "plugins:
  - name: t
    type: tools
    private_hosts: ['localhost:80']
    scripts: my scripts
    endpoints:
      - name: e
        description: d
        method: POST
        url: 'https://h/{a}'
        query: {q: '{a}', k: '${TOKEN}'}
        basic: ${TOKEN}
        body: {a: ['{a}', 1]}
        response: json
        errors: {404: none, 5xx: later}
        parameters: {a: {type: string}}
        required: [a]
        timeout_seconds: 1.5
        max_bytes: 10
    openapi: [{document: a.yaml, auth: {key: '${TOKEN}'}, exclude: [x], deferred: true}]
",
    );
    let PluginKind::Tools(own) = &config.plugins[0].kind else {
        panic!("{config:?}");
    };
    let secret = || Secret::new("from the environment");
    assert_eq!(
        own.scripts.as_deref(),
        Some(Path::new("/etc/frith/my scripts"))
    );
    let endpoint = &own.endpoints[0];
    let query = [
        ("q".to_owned(), Filling::Text("{a}".to_owned())),
        ("k".to_owned(), Filling::Secret(secret())),
    ];
    assert_eq!(endpoint.query, query);
    assert_eq!(endpoint.login, Some(Login::Basic(secret())));
    let body = serde_json::json!({"a": ["{a}", 1]});
    assert_eq!(endpoint.body, RequestBody::Json(body));
    assert_eq!(endpoint.errors[0], ("404".to_owned(), "none".to_owned()));
    assert_eq!(endpoint.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(own.openapi[0].auth, [("key".to_owned(), secret())]);
    assert_eq!(own.openapi[0].document, Path::new("/etc/frith/a.yaml"));
    assert!(!format!("{config:?}").contains("from the environment"));
}

#[test]
fn own_tools_that_are_wrong() {
    for (keys, text) in [
        (
            "method: TRACE",
            "`plugins[0].endpoints[0].method` must be one of",
        ),
        ("bearer: a, basic: b", "either `bearer` or `basic`"),
        ("bearer: '${NONE}'", "NONE, which is not set"),
        ("headers: {a: 'Bearer ${TOKEN}'}", "`${NAME}` alone"),
        ("body: all", "must be one of arguments"),
        (
            "body: arguments, text: a",
            "one of `body`, `form` and `text`",
        ),
        ("errors: {200: fine}", "a status from 300 to 599"),
        ("max_bytes: 0", "a whole number from 1"),
        ("response: xml", "must be one of auto, json, text"),
    ] {
        let config = format!(
            "plugins: [{{name: t, type: tools, endpoints: [{{name: e, description: d, url: u, {keys}}}]}}]"
        );
        let told = mistakes(&config, Format::Yaml);
        assert!(told.contains(text), "{keys}: {told}");
        assert!(!told.contains("from the environment"), "{told}");
    }
    let limit = |count: u32| {
        parse(
            &format!("global_limits: {{max_fetches_per_host: {count}}}"),
            Format::Yaml,
        )
    };
    assert_eq!(limit(16).unwrap().global_limits.max_fetches_per_host, 16);
    assert!(limit(17).is_err() && limit(0).is_err());
}
