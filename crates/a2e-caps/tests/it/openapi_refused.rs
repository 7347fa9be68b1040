//! Documents and operations that cannot be tools.

use a2e_caps::openapi;
use a2e_runtime::Secret;
use a2e_runtime::config::{Filling, OpenApi};
use serde_json::{Value, json};

use crate::openapi::{api, public, written};

fn problem(api: &OpenApi) -> String {
    openapi::load(api, &public())
        .map(drop)
        .unwrap_err()
        .to_string()
}

fn one(operation: &Value) -> Value {
    json!({"openapi": "3.1.0", "servers": [{"url": "https://h.example"}], "paths": {"/p": {"post": operation}},
        "components": {"securitySchemes": {
            "s": {"type": "http", "scheme": "bearer"}, "t": {"type": "mutualTLS"}}}})
}

#[test]
fn operations_that_cannot_be_tools() {
    let folder = tempfile::tempdir().unwrap();
    for (operation, expected) in [
        (json!({"parameters": [{"name": "a"}]}), "no `in`"),
        (json!({"parameters": [{"name": "a", "in": "body"}]}), "`a`"),
        (
            json!({"parameters": [{"name": "a", "in": "path"}]}),
            "no place for",
        ),
        (
            json!({"parameters": [{"name": "a", "in": "query", "style": "matrix"}]}),
            "`style`",
        ),
        (
            json!({"parameters": [{"name": "Host", "in": "header"}]}),
            "`Host`",
        ),
        (json!({"parameters": [{"$ref": "x.yaml#/a"}]}), "x.yaml"),
        (
            json!({"requestBody": {"content": {"multipart/form-data": {}}}}),
            "media type",
        ),
        (
            json!({"requestBody": {"content": {"application/json": {"schema": {"pattern": "(?=a)"}}}}}),
            "schema",
        ),
        (json!({"security": [{"s": []}]}), "`auth` needs s"),
        (json!({"security": [{"t": []}]}), "`auth` needs t"),
        (json!({"servers": [{"url": "/relative"}]}), "`server`"),
        (json!({"servers": [{"url": "https://{h}/"}]}), "`h`"),
        (json!({"servers": [{"url": "https://h/?q"}]}), "path"),
    ] {
        let mut document = one(&operation);
        document["paths"]["/p"]["post"]["operationId"] = json!("op");
        let problem = problem(&api(written(folder.path(), &document)));
        assert!(
            problem.contains("op (POST /p)") && problem.contains(expected),
            "{problem}"
        );
        assert!(problem.contains("`exclude`"), "{problem}");
    }
}

/// What cannot be sent, or would be readable on the way, is told without being shown.
#[test]
fn credentials_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let secret = ("s".to_owned(), Secret::new("hunter222\n"));
    let bad = OpenApi {
        auth: vec![secret],
        server: Some("https://h.example".into()),
        ..api(written(
            folder.path(),
            &one(&json!({"security": [{"s": []}]})),
        ))
    };
    let problem = problem(&bad);
    assert!(
        problem.contains("cannot be sent") && !problem.contains("hunter222"),
        "{problem}"
    );
    // A secret over plain text, to a host that nobody has named.
    let bad = OpenApi {
        auth: vec![("s".into(), Secret::new("hunter222"))],
        server: Some("http://h.example".into()),
        ..bad
    };
    let problem = self::problem(&bad);
    assert!(
        problem.contains("https") && !problem.contains("hunter222"),
        "{problem}"
    );
}

/// Whoever writes the document does not decide who gets the operator's secrets.
#[test]
fn credentials_go_where_the_operator_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut document = one(&json!({"security": [{"s": []}]}));
    document["servers"] = json!([{"url": "https://h.example"}]);
    document["paths"]["/p"]["post"]["servers"] = json!([{"url": "https://evil.example"}]);
    let document = written(folder.path(), &document);
    let secret = || Secret::new("hunter222");
    let with_key = OpenApi {
        auth: vec![("s".into(), secret())],
        ..api(&document)
    };
    assert!(problem(&with_key).contains("`server`"));
    let with_header = OpenApi {
        headers: vec![("X-Key".into(), Filling::Secret(secret()))],
        ..with_key.clone()
    };
    assert!(problem(&with_header).contains("`server`"));
    let told = OpenApi {
        server: Some("https://h.example".into()),
        ..with_key
    };
    assert_eq!(openapi::load(&told, &public()).unwrap().tools.len(), 1);
}

#[test]
fn documents_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |document: &Value| problem(&api(written(folder.path(), document)));
    assert!(self::problem(&api("/nonexistent.yaml")).contains("cannot be read"));
    assert!(problem(&json!({"swagger": "2.0"})).contains("Swagger 2"));
    assert!(problem(&json!({"openapi": "3.1.0"})).contains("no operations"));
    let mut twice = one(&json!({"operationId": "x"}));
    twice["paths"]["/q"] = json!({"get": {"operationId": "x"}});
    assert!(problem(&twice).contains("same operationId"));
    let api = OpenApi {
        auth: vec![("other".into(), Secret::new("hunter222"))],
        ..api(written(folder.path(), &one(&json!({}))))
    };
    let problem = self::problem(&api);
    assert!(
        problem.contains("`other`") && problem.contains("s, t"),
        "{problem}"
    );
}

#[test]
fn quantities_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let made = |document: &Value| openapi::load(&api(written(folder.path(), document)), &public());
    let operations = |count: usize| {
        let mut document = one(&json!({}));
        let paths = (0..count).map(|at| (format!("/{at}"), json!({"get": {}})));
        document["paths"] = Value::Object(paths.collect());
        made(&document)
    };
    assert_eq!(
        operations(openapi::MAX_OPERATIONS).unwrap().tools.len(),
        openapi::MAX_OPERATIONS
    );
    let error = operations(openapi::MAX_OPERATIONS + 1).unwrap_err();
    let problem = "5001 of its operations are tools, more than 5000; name those that are needed in \
         `include`, or others in `exclude`";
    assert!(error.to_string().ends_with(problem), "{error}");
    // What is left out does not count.
    let mut document = one(&json!({}));
    let paths = (0..=openapi::MAX_OPERATIONS).map(|at| (format!("/{at}"), json!({"get": {}})));
    document["paths"] = Value::Object(paths.collect());
    let part = |include: &[&str], exclude: &[&str]| {
        let names = |patterns: &[&str]| patterns.iter().map(|it| (*it).to_owned()).collect();
        let api = OpenApi {
            include: names(include),
            exclude: names(exclude),
            ..api(written(folder.path(), &document))
        };
        openapi::load(&api, &public()).unwrap().tools.len()
    };
    assert_eq!(part(&[], &["GET /7"]), openapi::MAX_OPERATIONS);
    assert_eq!(part(&["GET /70*"], &[]), 11);
    let parameters = |count: usize| {
        let all = (0..count).map(|at| json!({"name": format!("p{at}"), "in": "query"}));
        made(&one(&json!({"parameters": all.collect::<Vec<_>>()})))
    };
    assert!(parameters(openapi::MAX_PARAMETERS).is_ok());
    assert!(parameters(openapi::MAX_PARAMETERS + 1).is_err());
}
