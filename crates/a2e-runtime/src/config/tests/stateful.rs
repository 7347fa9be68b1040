use super::*;

/// Plugins of capabilities that keep something: what they are told, and each limit.
#[test]
fn plans_and_learning_are_told_how() {
    let text = "\
plugins:
  - {name: planning, type: planning, shared: true}
  - {name: learning, type: learning, min_experiences: 1, adapt_every: 0, confidence_percent: 100, half_life_seconds: 1, custom: ucb1, rank_tools: true, rank_skills: true}
";
    let config = yaml(text);
    let kinds: Vec<&PluginKind> = config.plugins.iter().map(|it| &it.kind).collect();
    let learning = Learning {
        min_experiences: 1,
        adapt_every: 0,
        confidence_percent: 100,
        half_life: Duration::from_secs(1),
        custom: CustomStrategy::Ucb1,
        rank_tools: true,
        rank_skills: true,
    };
    let planning = PluginKind::Planning(Planning { shared: true });
    assert_eq!(kinds, [&planning, &PluginKind::Learning(learning)]);
    let text = "\
plugins:
  - {name: planning, type: planning, shared: 1}
  - {name: learning, type: learning, min_experiences: 0, confidence_percent: 101, custom: best}
";
    let expected = "\
2:46: `plugins[0].shared` must be true or false, not a number
3:55: `plugins[1].min_experiences` must be a whole number from 1 to 1000000, not 0
3:78: `plugins[1].confidence_percent` must be a whole number from 0 to 100, not 101
3:91: `plugins[1].custom` must be one of thompson, ppo, ucb1, epsilon_greedy, softmax";
    assert_eq!(mistakes(text, Format::Yaml), expected);
}

/// A model is behind an endpoint or in a folder.
#[test]
fn memories_are_told_where_a_model_is() {
    let embedder = |text: &str| {
        let text = format!("plugins:\n  - {{name: m, type: memory, embedder: {{{text}}}}}\n");
        let config = yaml(&text);
        let PluginKind::Memory(memory) = &config.plugins[0].kind else {
            panic!("it is no memory");
        };
        memory.embedder.clone().unwrap()
    };
    let Embedder::Folder(folder) = embedder("folder: models/potion") else {
        panic!("it is no folder");
    };
    assert!(folder.ends_with("models/potion"));
    let Embedder::Endpoint(endpoint) = embedder("url: 'http://a/v1', model: b") else {
        panic!("it is no endpoint");
    };
    assert_eq!(endpoint.model, "b");
    for wrong in [
        "{url: 'http://a'}",
        "{folder: a, model: b}",
        "{timeout_seconds: 1}",
    ] {
        let text = format!("plugins:\n  - {{name: m, type: memory, embedder: {wrong}}}\n");
        let expected = "2:39: `plugins[0].embedder` needs `url` and `model`, or a `folder` and \
                        neither of them";
        assert_eq!(mistakes(&text, Format::Yaml), expected, "{wrong}");
    }
}
