//! One result of several.

use std::collections::BTreeMap;

use a2e_wire::messages::subagent::MergeStrategy;
use serde_json::{Value, json};

/// Makes one result of those of some sub-agents, in their order.
pub(super) fn merge(strategy: &MergeStrategy<'_>, results: &[(String, Option<Value>)]) -> Value {
    let name = strategy.as_str();
    match strategy {
        MergeStrategy::HierarchicalSummary => {
            let line = |(id, result): &(String, Option<Value>)| match result {
                Some(result) => format!("[{id}] {}", summary(result)),
                None => format!("[{id}] (no result)"),
            };
            let lines: Vec<String> = results.iter().map(line).collect();
            json!({"strategy": name, "summary": lines.join("\n"), "source_count": results.len()})
        }
        MergeStrategy::Voting => {
            let mut votes: BTreeMap<String, usize> = BTreeMap::new();
            for (_, result) in results {
                if let Some(result) = result {
                    let count = votes.entry(summary(result)).or_default();
                    *count = count.saturating_add(1);
                }
            }
            // Of several with as many votes, the one that was said first.
            let order = |text: &str| {
                let said = results.iter().filter_map(|(_, result)| result.as_ref());
                said.map(summary).position(|said| said == text)
            };
            let best = votes
                .iter()
                .max_by(|(a, m), (b, n)| m.cmp(n).then_with(|| order(b).cmp(&order(a))));
            let (winner, count) = best.map_or((Value::Null, 0), |(text, n)| (json!(text), *n));
            json!({"strategy": name, "winner": winner, "votes": count, "total": results.len()})
        }
        MergeStrategy::Custom | MergeStrategy::Other(_) => {
            let all: BTreeMap<&str, &Option<Value>> = results
                .iter()
                .map(|(id, result)| (id.as_str(), result))
                .collect();
            json!({"strategy": name, "results": all})
        }
    }
}

/// A result in a line: what it calls its summary, its text, or all of it.
fn summary(result: &Value) -> String {
    let said = ["summary", "text", "answer"].iter();
    let mut said = said.filter_map(|name| result.get(name)?.as_str());
    let text = said
        .next()
        .map_or_else(|| result.to_string(), str::to_owned);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Vec<(String, Option<Value>)> {
        vec![
            ("a".into(), Some(json!({"summary": "red\nindeed"}))),
            ("b".into(), Some(json!({"text": "blue"}))),
            ("c".into(), None),
            ("d".into(), Some(json!({"text": "blue", "tokens": 7}))),
        ]
    }

    #[test]
    fn the_three_strategies() {
        assert_eq!(
            merge(&MergeStrategy::HierarchicalSummary, &results()),
            json!({"strategy": "hierarchical_summary", "source_count": 4,
                "summary": "[a] red indeed\n[b] blue\n[c] (no result)\n[d] blue"})
        );
        assert_eq!(
            merge(&MergeStrategy::Voting, &results()),
            json!({"strategy": "voting", "winner": "blue", "votes": 2, "total": 4})
        );
        let even = &results()[..2];
        assert_eq!(merge(&MergeStrategy::Voting, even)["winner"], "red indeed");
        assert_eq!(merge(&MergeStrategy::Voting, &[])["winner"], Value::Null);
        let custom = merge(&MergeStrategy::Custom, &results());
        assert_eq!(custom["results"]["b"], json!({"text": "blue"}));
        assert_eq!(custom["results"]["c"], Value::Null);
    }
}
