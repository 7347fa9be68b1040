use super::*;

fn plain(text: &str) -> Result<(Front, &str), String> {
    read(Form::Plain, "folder", text)
}

fn agent(text: &str) -> Result<(Front, &str), String> {
    read(Form::Agent, "pdf-tools", text)
}

#[test]
fn an_agent_skill_is_read() {
    let text = "---\nname: pdf-tools\ndescription: Works with PDF\nlicense: MIT\n\
        allowed-tools: Bash(git add:*), Read  Grep\nmetadata: {author: ada}\n---\n\n# Body\n";
    let (front, body) = agent(text).unwrap();
    assert_eq!((front.name.as_str(), body), ("pdf-tools", "# Body\n"));
    assert_eq!(front.allowed, ["Bash(git add:*)", "Read", "Grep"]);
    let metadata = json!({"author": "ada", "license": "MIT"});
    assert_eq!(Value::Object(front.metadata), metadata);
    assert_eq!(front.input, Value::Null);
}

#[test]
fn what_is_no_agent_skill() {
    let long = "d".repeat(MAX_DESCRIPTION + 1);
    let long = format!("---\nname: pdf-tools\ndescription: {long}\n---\n");
    for (text, problem) in [
        ("# Body", "must begin"),
        ("---\nname: pdf-tools\n", "no end"),
        ("---\nname: pdf-tools\n---\n", "`description:`"),
        ("---\ndescription: d\n---\n", "`name:`"),
        ("---\nname: other\ndescription: d\n---\n", "its folder"),
        ("---\nname: Pdf\ndescription: d\n---\n", "small letters"),
        ("---\nname: a--b\ndescription: d\n---\n", "single hyphens"),
        ("---\nname: [a\n---\n", "says of itself"),
        (&long, "more than 1024"),
    ] {
        let error = agent(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
    let most = "d".repeat(MAX_DESCRIPTION);
    assert!(agent(&format!("---\nname: pdf-tools\ndescription: {most}\n---\n")).is_ok());
}

#[test]
fn a_plain_skill_has_every_key_or_none() {
    let (front, body) = plain("Do {args}.").unwrap();
    assert_eq!((front.name.as_str(), body), ("folder", "Do {args}."));
    assert_eq!((&*front.version, front.max_turns), ("1.0.0", None));
    let text = "---\nname: Deep research\nversion: 2.1\ndescription: d\ntriggers: [find, look]\n\
        tools: [grep, {name: glob}]\ntoolkits: git\ncategory: work\ntags: a, b\nicon: x\n\
        when_to_use: often\nargument_hint: '[topic]'\nmax_turns: 4\ntimeout_seconds: 30\n\
        user-invocable: true\ninputs:\n  topic: string What\n  depth: integer? How deep\n  \
        note: Something to know\noutputs: [summary, {name: score, type: number}]\n---\nBody";
    let (front, _) = plain(text).unwrap();
    assert_eq!(front.version, "2.1");
    assert_eq!(front.tools, ["grep", "glob"]);
    assert_eq!(
        (front.toolkits, front.tags),
        (vec!["git".to_owned()], vec!["a".into(), "b".into()])
    );
    assert_eq!(
        (front.max_turns, front.timeout_seconds),
        (Some(4), Some(30))
    );
    assert_eq!(front.metadata["user_invocable"], true);
    assert_eq!(
        front.input,
        json!({"type": "object", "required": ["topic"], "properties": {
            "topic": {"type": "string", "description": "What"},
            "depth": {"type": "integer", "description": "How deep"},
            "note": {"type": "string", "description": "Something to know"}}})
    );
    assert_eq!(
        front.output["properties"]["score"],
        json!({"type": "number"})
    );
}

#[test]
fn numbers_have_a_range() {
    for (number, is_good) in [
        ("1", true),
        ("1000000", true),
        ("0", false),
        ("1000001", false),
        ("x", false),
    ] {
        let read = plain(&format!("---\nmax_turns: {number}\n---\n")).is_ok();
        assert_eq!(read, is_good, "{number}");
    }
}

#[test]
fn a_front_has_a_size() {
    let of = |size: usize| {
        let begin = "icon: ";
        let text = "i".repeat(size - begin.len() - 1);
        plain(&format!("---\n{begin}{text}\n---\n")).map(drop)
    };
    assert!(of(MAX_FRONT).is_ok());
    assert!(of(MAX_FRONT + 1).unwrap_err().contains("bytes"));
}

/// YAML makes a number of a version; its text is what the author wrote.
#[test]
fn a_version_is_what_is_written() {
    for version in ["1.10", "1.0", "2", "1.10.0", "01.20", "1e3", "'1.10'"] {
        let text = format!("---\nname: x\ndescription: d\nversion: {version}\n---\n");
        let (front, _) = plain(&text).unwrap();
        assert_eq!(front.version, version.trim_matches('\''));
    }
}
