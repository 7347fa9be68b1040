//! Tools that one agent has of its own.

use std::sync::Arc;

use a2e_caps::tool::{Catalogue, Source};
use serde_json::json;

use crate::support::{constant, defined};

#[tokio::test]
async fn tools_that_everybody_has_come_to_those_who_have_their_own() {
    let catalogue = Arc::new(Catalogue::default());
    let tool = |name: &str| constant(defined(name), json!(1));
    catalogue.set(Source::BuiltIn, vec![tool("a")]);
    let own = Source::Toolkit("t".into());
    catalogue.set_for("ada", own.clone(), vec![tool("b")]);
    let names = |snapshot: Arc<a2e_caps::tool::Snapshot>| -> Vec<String> {
        let entries = snapshot.entries().iter();
        let names = entries.map(|entry| entry.tool.definition().name().to_owned());
        names.collect()
    };
    assert_eq!(names(catalogue.current_for("ada").await), ["a", "b"]);
    let one = catalogue.current_for("ada").await;
    assert!(Arc::ptr_eq(&one, &catalogue.current_for("ada").await));
    catalogue.set(Source::Config, vec![tool("c")]);
    assert_eq!(names(catalogue.current_for("ada").await), ["a", "c", "b"]);
    catalogue.set_for("ada", own, vec![tool("d")]);
    assert_eq!(names(catalogue.current_for("ada").await), ["a", "c", "d"]);
    assert_eq!(names(catalogue.current_for("bob").await), ["a", "c"]);
    assert_eq!(names(catalogue.current()), ["a", "c"]);
}
