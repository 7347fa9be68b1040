//! `tool/list` with a query, where a document of OpenAPI has as many operations as are allowed.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use a2e_caps::http::{Client as HttpClient, Settings as HttpSettings, Web};
use a2e_caps::openapi;
use a2e_caps::tool::{Catalogue, Source};
use a2e_caps::tools::{Settings, Tools};
use a2e_runtime::config::OpenApi;
use a2e_runtime::{AgentConfig, Client, Handler, Host, Source as Origin};
use benches::{Contestant, Effort, compare};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

/// The most that an answer may take, in seconds.
const AT_MOST: f64 = 1e-3;

const VERBS: [&str; 10] = [
    "list", "get", "create", "update", "delete", "archive", "search", "export", "assign", "review",
];
const THINGS: [&str; 20] = [
    "issue",
    "comment",
    "repository",
    "branch",
    "commit",
    "release",
    "label",
    "milestone",
    "team",
    "member",
    "project",
    "column",
    "workflow",
    "artifact",
    "secret",
    "variable",
    "package",
    "deployment",
    "environment",
    "invitation",
];
const PLACES: [&str; 25] = [
    "organization",
    "user",
    "enterprise",
    "repository",
    "team",
    "project",
    "group",
    "workspace",
    "account",
    "region",
    "cluster",
    "tenant",
    "department",
    "folder",
    "board",
    "queue",
    "channel",
    "catalog",
    "store",
    "fleet",
    "site",
    "zone",
    "domain",
    "space",
    "network",
];

pub(crate) fn report(effort: Effort, operations: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let document = folder.path().join("api.json");
    std::fs::write(&document, describe(operations).to_string())?;
    let api = OpenApi {
        document,
        prefix: String::new(),
        server: None,
        auth: Vec::new(),
        headers: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        deferred: false,
        timeout: None,
        max_bytes: None,
    };
    let web = Web::new(HttpClient::new(HttpSettings::default()), &[])?;
    let start = Instant::now();
    let tools = openapi::load(&api, &web)?.tools;
    let catalogue = Arc::new(Catalogue::default());
    let plugin = Tools::new(Arc::clone(&catalogue), Settings::default())?;
    catalogue.set(Source::Document("api.json".into()), tools);
    println!(
        "\na document of {operations} operations is read in {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let runtime = Runtime::new()?;
    let client = runtime.block_on(client(Host::builder().plugin(plugin).build()))?;
    println!("{:44} {:>12} {:>12}", "", "tool/list", "at most");
    for (name, query) in [
        ("by its name", "create_issue_in_board"),
        ("by two words", "assign milestone"),
        (
            "by a sentence",
            "export all comments of a department as a file",
        ),
        ("by the begin of a word", "repo invit"),
        ("by what nothing has", "weather tomorrow"),
    ] {
        let search = || runtime.block_on(client.tools().search(query));
        let found = search()?.len();
        let times = compare(&mut [Contestant::new("tool/list", search)], effort);
        let seconds = times.first().copied().unwrap_or_default();
        println!(
            "{:44} {:>9.2} ms {:>9.2} ms",
            format!("{name}: {found} of {operations}"),
            seconds * 1e3,
            AT_MOST * 1e3
        );
    }
    Ok(())
}

/// A document of so many operations, each as long as those of public ones.
fn describe(operations: usize) -> Value {
    let mut paths = Map::new();
    for number in 0..operations {
        let verb = VERBS[number % 10];
        let thing = THINGS[number / 10 % 20];
        let place = PLACES[number / 200 % 25];
        let text = format!(
            "{verb} each {thing} that belongs to a {place}. The caller must be a member of the \
             {place}, and needs the right to {verb} what is in it."
        );
        let parameter = |name: &str, description: &str| {
            json!({"name": name, "in": "query", "description": description,
                "schema": {"type": "string", "maxLength": 100}})
        };
        let operation = json!({
            "operationId": format!("{verb}_{thing}_in_{place}"),
            "summary": format!("{verb} {thing}"),
            "description": text,
            "tags": [thing],
            "parameters": [
                parameter("page", "Which page of the results"),
                parameter("per_page", "How many results a page has"),
                parameter("sort", "By what the results are sorted"),
                parameter(&format!("{thing}_id"), "Which one"),
            ],
        });
        paths.insert(
            format!("/{place}/{thing}/{verb}"),
            json!({"post": operation}),
        );
    }
    json!({"openapi": "3.1.0", "servers": [{"url": "https://api.example"}], "paths": paths})
}

/// A session with a host in this process.
async fn client(host: Host) -> Result<Client, Box<dyn Error>> {
    let (stream, served) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { host.serve(served, Origin::Own).await });
    let config = AgentConfig {
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    Ok(Client::connect(stream, config, Handler::none()).await?)
}
