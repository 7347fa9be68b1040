//! Skills, as other A2E clients see them (a2e-behaviour, section 4, skills; a2e-conflicts, rows 66 to
//! 75).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use a2e_caps::skills::{
    MAX_FILES, MAX_KEPT_EVENTS, MAX_LISTED_BYTES, MAX_SKILL, Settings, Shelf, Skills,
};
use a2e_caps::tool::{Catalogue, Source};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_runtime::Host;
use a2e_runtime::definitions::Definitions;
use serde_json::{Value, json};
use store::Store;
use tempfile::{TempDir, tempdir};

use crate::support::{constant, defined};
use crate::vault::{Named, store};
use crate::wire::Agent;

/// A host with the skills of a folder, and two tools.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) definitions: Definitions,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) catalogue: Arc<Catalogue>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::over(&store())
    }

    fn over(store: &Store) -> Self {
        let folder = tempdir().unwrap();
        let definitions = Definitions::new(store).unwrap();
        let shelf = Shelf::new(definitions.clone());
        shelf.configure(vec![folder.path().to_owned()]);
        let catalogue = Arc::new(Catalogue::default());
        let tools = vec![
            constant(defined("grep"), json!(1)),
            constant(defined("read_file"), json!(2)),
        ];
        assert_eq!(catalogue.set(Source::BuiltIn, tools), []);
        assert_eq!(catalogue.set(Source::Skills, shelf.tools().unwrap()), []);
        Self {
            folder,
            definitions,
            shelf,
            catalogue,
        }
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        put(self.folder.path(), path, text);
    }

    fn host(&self) -> Host {
        let shelf = Arc::clone(&self.shelf);
        let skills = Skills::new(shelf, Arc::default(), Settings::default());
        self.host_with(skills)
    }

    pub(crate) fn host_with(&self, skills: Skills) -> Host {
        let catalogue = Arc::clone(&self.catalogue);
        let tools = Tools::new(catalogue, ToolSettings::default()).unwrap();
        let builder = Host::builder().plugin(tools).plugin(skills);
        builder.authenticator(Named).build()
    }

    async fn agent(&self) -> Agent {
        Agent::connect_as(&self.host(), "ada", &["skill", "tools"]).await
    }
}

fn put(folder: &Path, path: &str, text: &str) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // A file that changes is another file.
    let next = file.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(&next, &file).unwrap();
}

pub(crate) async fn listed(agent: &mut Agent) -> Vec<Value> {
    let found = agent.ask(json!({"type": "skill/discover/req"})).await;
    assert_eq!(found["type"], "skill/discover/resp");
    found["skills"].as_array().unwrap().clone()
}

async fn call(agent: &mut Agent, name: &str, arguments: Value) -> Value {
    let asked = json!({"type": "skill/call/req", "name": name, "arguments": arguments,
        "streaming": false});
    agent.ask(asked).await
}

const RESEARCH: &str = "---\nname: research\ndescription: Looks things up\ntriggers: [investigate]\n\
    tools: [grep]\ncategory: work\ntags: [web, text]\nwhen_to_use: for questions\n\
    argument_hint: '[topic]'\ninputs:\n  topic: string What\n---\nFind out about {topic}. {other}";

/// Proves H-11, N-8.
#[tokio::test]
async fn a_skill_is_listed_with_every_key_and_without_its_instructions() {
    let bench = Bench::new();
    bench.put("research/skill.md", RESEARCH);
    bench.put(
        "pdf/SKILL.md",
        "---\nname: pdf\ndescription: PDF\nlicense: MIT\n---\nBody",
    );
    bench.put("pdf/more/forms.md", "# Forms");
    bench.put("nothing/readme.md", "no skill");
    let mut agent = bench.agent().await;
    let skills = listed(&mut agent).await;
    assert_eq!(skills.len(), 2);
    assert_eq!(skills[0]["name"], "pdf");
    assert_eq!(
        skills[0]["metadata"],
        json!({"license": "MIT", "files": ["more/forms.md"]})
    );
    assert_eq!(skills[0]["arguments"], Value::Null);
    let mut research = skills[1].clone();
    assert!(research["output_schema"].take().is_object());
    assert_eq!(
        research,
        json!({"name": "research", "version": "1.0.0", "description": "Looks things up",
            "triggers": ["investigate"], "tools": ["grep"], "toolkits": [], "status": "Published",
            "input_schema": {"type": "object", "required": ["topic"],
                "properties": {"topic": {"type": "string", "description": "What"}}},
            "output_schema": null, "instructions": null, "file_path": "research/skill.md",
            "llm_config": null, "arguments": null, "when_to_use": "for questions",
            "argument_hint": "[topic]", "source": "filesystem", "category": "work",
            "tags": ["web", "text"], "max_turns": null, "timeout_seconds": null, "icon": null,
            "metadata": {}})
    );
}

/// Row 71: any of the tags, and one of the categories.
#[tokio::test]
async fn a_list_can_be_filtered() {
    let bench = Bench::new();
    bench.put("a/skill.md", "---\ntags: [x, y]\ncategory: work\n---\n");
    bench.put("b/skill.md", "---\ntags: [y]\ncategory: play\n---\n");
    bench.put("c/skill.md", "no front");
    let mut agent = bench.agent().await;
    for (tags, categories, expected) in [
        (json!([]), json!([]), vec!["a", "b", "c"]),
        (json!(["X", "z"]), json!([]), vec!["a"]),
        (json!(["y"]), json!(["play"]), vec!["b"]),
        (json!([]), json!(["work", "play"]), vec!["a", "b"]),
        (json!(["x"]), json!(["play"]), vec![]),
    ] {
        let found = agent
            .ask(json!({"type": "skill/list", "filter_tags": tags,
                "filter_categories": categories}))
            .await;
        let names = found["skills"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn without_a_model_a_call_gives_the_prompt_and_events_in_order() {
    let bench = Bench::new();
    bench.put("research/skill.md", RESEARCH);
    let mut agent = bench.agent().await;
    let asked = json!({"type": "skill/call/req", "name": "research", "timeout": 60,
        "arguments": {"topic": "otters"}, "streaming": true, "llm_override": null});
    agent.say(asked).await;
    let kinds = [
        "skill.started",
        "skill.preparing",
        "skill.prompt.ready",
        "llm.skipped",
        "skill.completed",
    ];
    for (seq, kind) in kinds.into_iter().enumerate() {
        let event = agent.hear().await;
        assert_eq!(event["type"], "skill/event");
        assert_eq!((&event["kind"], &event["seq"]), (&json!(kind), &json!(seq)));
        assert_eq!(event["data"]["skill"], "research");
        assert!(event["data"]["ts"].is_f64(), "{event}");
        match kind {
            "skill.started" => assert_eq!(event["data"]["arguments"], json!({"topic": "otters"})),
            "skill.prompt.ready" => assert_eq!(
                event["data"]["prompt_preview"],
                "Find out about otters. {other}"
            ),
            _ => {}
        }
    }
    let answer = agent.hear().await;
    assert_eq!(answer["type"], "skill/call/resp");
    assert_eq!(
        (&answer["name"], &answer["error"]),
        (&json!("research"), &Value::Null)
    );
    let data = &answer["data"];
    assert_eq!(
        (&data["success"], &data["events"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(data["data"]["prompt"], "Find out about otters. {other}");
    assert_eq!(
        data["data"]["tools"]["grep"]["description"],
        "A tool of a test"
    );
    assert!(answer.get("status").is_none());
}

/// Row 70.
#[tokio::test]
async fn without_streaming_the_result_has_the_events() {
    let bench = Bench::new();
    bench.put("a/skill.md", "Do {args}");
    let mut agent = bench.agent().await;
    let answer = call(&mut agent, "a", json!({"args": "it"})).await;
    let events = answer["data"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 5);
    assert!(events.len() < MAX_KEPT_EVENTS);
    assert_eq!(
        (&events[0]["id"], &events[0]["kind"]),
        (&json!("R.0"), &json!("skill.started"))
    );
    assert_eq!(answer["data"]["data"]["prompt"], "Do it");
}

/// Rows 49 and 73, and what is checked before anything runs.
#[tokio::test]
async fn what_cannot_be_called_is_an_error_that_says_why() {
    let bench = Bench::new();
    bench.put("research/skill.md", RESEARCH);
    bench.put("broken/SKILL.md", "---\nname: other\ndescription: d\n---\n");
    bench.put("needy/skill.md", "---\ntools: [grep, teleport]\n---\n");
    bench.put("kit/skill.md", "---\ntoolkits: [git]\n---\n");
    let mut agent = bench.agent().await;
    for (name, arguments, code, text) in [
        (
            "reserch",
            json!({}),
            "unknown_skill",
            "did you mean `research`?",
        ),
        ("research", json!({}), "schema_violation", "topic"),
        (
            "research",
            json!({"topic": 1}),
            "schema_violation",
            "/topic",
        ),
        ("broken", json!({}), "skill_error", "that of its folder"),
    ] {
        let error = call(&mut agent, name, arguments).await;
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!(code))
        );
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
        assert_eq!(error["retryable"], false);
    }
    let answer = call(&mut agent, "needy", json!({})).await;
    let result = &answer["data"];
    assert_eq!(
        (&result["success"], &result["error_code"]),
        (&json!(false), &json!("missing_tools"))
    );
    assert!(
        result["error"].as_str().unwrap().contains("teleport"),
        "{result}"
    );
    let last = result["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "skill.failed");
    assert_eq!(last["data"]["error_code"], "missing_tools");
    // Nobody serves toolkits here.
    let answer = call(&mut agent, "kit", json!({})).await;
    assert_eq!(answer["data"]["success"], false, "{answer}");
}

#[tokio::test]
async fn broken_skills_are_listed_as_blocked() {
    let bench = Bench::new();
    bench.put("a/SKILL.md", "no front");
    bench.put("b/skill.md", &"x".repeat(MAX_SKILL + 1));
    bench.put("c/skill.md", &"x".repeat(MAX_SKILL));
    bench.put(
        "d/skill.md",
        "---\ninputs: {type: object, properties: {a: {type: 7}}}\n---\n",
    );
    bench.put("e/skill.md", "---\nname: c\n---\n");
    bench.put("f/skill.md", "x");
    std::os::unix::fs::symlink("/etc/passwd", bench.folder.path().join("f/passwd")).unwrap();
    bench.put("i/skill.md", "x");
    let pipe = bench.folder.path().join("i/pipe");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    bench.put("g/skill.md", "x");
    bench.put("h/skill.md", "x");
    for number in 0..=MAX_FILES {
        bench.put(&format!("g/{number}"), "");
        if number < MAX_FILES {
            bench.put(&format!("h/{number}"), "");
        }
    }
    let mut agent = bench.agent().await;
    let skills = listed(&mut agent).await;
    let reason = |name: &str| {
        let skill = skills.iter().find(|it| it["name"] == name).unwrap();
        match skill["status"].as_str().unwrap() {
            "Blocked" => skill["metadata"]["reason"].as_str().unwrap().to_owned(),
            status => status.to_owned(),
        }
    };
    for (name, text) in [
        ("a", "must begin"),
        ("b", "more than 131072 bytes"),
        ("c", "Published"),
        ("d", "`inputs`"),
        ("e/skill.md", "another skill is called `c`"),
        ("f", "symbolic link"),
        // Nobody writes into it, and nobody waits for that.
        ("i", "`pipe` is no file"),
        ("g", "more than 200 files"),
        ("h", "Published"),
    ] {
        assert!(reason(name).contains(text), "{name}: {}", reason(name));
    }
}

#[tokio::test]
async fn folders_are_read_again_and_what_has_changed_waits_for_the_operator() {
    let bench = Bench::new();
    bench.put("a/skill.md", "One");
    let mut agent = bench.agent().await;
    assert_eq!(listed(&mut agent).await.len(), 1);
    // One that is new was put there by the operator.
    bench.put("b/skill.md", "---\nname: bee\n---\nTwo");
    bench.put("b/run.sh", "echo");
    let skills = listed(&mut agent).await;
    assert_eq!(
        (&skills[1]["name"], &skills[1]["status"]),
        (&json!("bee"), &json!("Published"))
    );
    for (path, text) in [("a/skill.md", "Other"), ("b/run.sh", "rm")] {
        bench.put(path, text);
    }
    for name in ["a", "bee"] {
        let error = call(&mut agent, name, json!({})).await;
        assert_eq!(error["code"], "skill_error", "{error}");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("frith tools pending"),
            "{error}"
        );
    }
    let changed = bench.definitions.changed().await.unwrap();
    let pins: Vec<&str> = changed.iter().map(|it| it.pin.as_str()).collect();
    assert_eq!(pins, ["skills/a", "skills/bee"]);
    assert!(
        bench
            .definitions
            .approve(pins[0], changed[0].offered)
            .await
            .unwrap()
    );
    let answer = call(&mut agent, "a", json!({})).await;
    assert_eq!(answer["data"]["data"]["prompt"], "Other");
    // What is again as it was needs nobody's word.
    bench.put("b/run.sh", "echo");
    assert_eq!(
        call(&mut agent, "bee", json!({})).await["data"]["success"],
        true
    );
    fs::remove_dir_all(bench.folder.path().join("b")).unwrap();
    assert_eq!(listed(&mut agent).await.len(), 1);
    assert_eq!(
        call(&mut agent, "bee", json!({})).await["code"],
        "unknown_skill"
    );
}

pub(crate) async fn tool(agent: &mut Agent, name: &str, arguments: Value) -> Value {
    let asked = json!({"type": "tool/call/req", "tool_name": name, "arguments": arguments});
    agent.ask(asked).await
}

#[tokio::test]
async fn skills_are_found_by_words_and_their_files_read_by_tools() {
    let bench = Bench::new();
    bench.put("research/skill.md", RESEARCH);
    bench.put(
        "pdf/SKILL.md",
        "---\nname: pdf\ndescription: Fills forms\n---\nSee more/forms.md",
    );
    bench.put("pdf/more/forms.md", "# Forms");
    bench.put("broken/SKILL.md", "forms");
    let mut agent = bench.agent().await;
    for (query, expected) in [
        ("investigate", vec!["research"]),
        ("forms", vec!["pdf"]),
        ("work", vec!["research"]),
        ("", vec!["pdf", "research"]),
        ("zebra", vec![]),
    ] {
        let found = tool(&mut agent, "search_skills", json!({"query": query})).await;
        let names = found["data"]["data"]["skills"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{query}");
    }
    let read = tool(&mut agent, "read_skill_file", json!({"skill": "pdf"})).await;
    let expected = json!({"text": "See more/forms.md", "files": ["more/forms.md"]});
    assert_eq!(read["data"]["data"], expected);
    let wanted = json!({"skill": "pdf", "path": "more/forms.md"});
    let read = tool(&mut agent, "read_skill_file", wanted).await;
    assert_eq!(read["data"]["data"]["text"], "# Forms");
    for path in ["../research/skill.md", "/etc/passwd", "more"] {
        let wanted = json!({"skill": "pdf", "path": path});
        let error = tool(&mut agent, "read_skill_file", wanted).await;
        assert_eq!(error["code"], "tool_error", "{error}");
    }
    let error = tool(&mut agent, "read_skill_file", json!({"skill": "broken"})).await;
    assert_eq!(error["code"], "tool_denied", "{error}");
}

/// Tools that other programs call otherwise, and a part of one, for which there is no whole.
#[tokio::test]
async fn allowed_tools_are_given_where_there_are_such() {
    let bench = Bench::new();
    let text = "---\nname: a\ndescription: d\nallowed-tools: Read Bash(git:*) Nothing\n---\nx";
    bench.put("a/SKILL.md", text);
    let mut agent = bench.agent().await;
    let answer = call(&mut agent, "a", json!({})).await;
    let tools = answer["data"]["data"]["tools"].as_object().unwrap();
    assert_eq!(tools.keys().collect::<Vec<_>>(), ["read_file"]);
    let ready = &answer["data"]["events"][2]["data"];
    assert_eq!(ready["missing_tools"], json!(["Bash(git:*)", "Nothing"]));
}

/// Those that do not fit are found by their tags.
#[tokio::test]
async fn skills_are_listed_as_far_as_they_fit_into_one_answer() {
    let bench = Bench::new();
    let notes = "n".repeat(60 * 1024);
    for number in 0..20 {
        let text = format!(
            "---\nname: s{number:02}\ndescription: d\ntags: [t{number}]\nmetadata: {{notes: {notes}}}\n---\nx\n"
        );
        bench.put(&format!("s{number:02}/skill.md"), &text);
    }
    let mut agent = bench.agent().await;
    let listed = agent.ask(json!({"type": "skill/discover/req"})).await;
    let count = listed["skills"].as_array().unwrap().len();
    assert_eq!(count, MAX_LISTED_BYTES / (60 * 1024 + 700), "{count}");
    let found = agent
        .ask(json!({"type": "skill/discover/req", "filter_tags": ["t19"]}))
        .await;
    assert_eq!(found["skills"][0]["name"], "s19");
}
