//! A chain that is kept, as far as it fits into one answer.

use std::collections::{BTreeMap, HashMap};

use a2e_wire::messages::chain::{ChainNodeProgress, ChainNodeState};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use store::{ChainHead, ChainView, Chains, Error, json_length};

use super::journal::Recalled;
use crate::fresh;
use crate::truncate::truncate;

/// Bytes of a chain in an answer.
pub const MAX_SHOWN: usize = 1024 * 1024;

/// Bytes of an error.
const MAX_ERROR: usize = 1024;

/// Bytes of a node in an answer beside its texts.
const NODE_MEMBERS: usize = 80;

/// A chain that was read.
#[derive(Debug)]
pub(super) struct ShownChain {
    pub(super) head: ChainHead,
    /// The `chain/req`; null if it is left out.
    pub(super) request: Value,
    pub(super) nodes: Vec<ChainNodeProgress<'static>>,
    /// What a `chain/resp` has, if it has ended.
    pub(super) response: Option<Value>,
    /// What is left out.
    pub(super) left_out: Vec<String>,
}

/// What was asked for, without the inputs of its nodes.
#[derive(Deserialize)]
struct AskedNames {
    request: NodeNames,
}

#[derive(Deserialize)]
struct NodeNames {
    nodes: Vec<NodeName>,
}

#[derive(Deserialize)]
struct NodeName {
    node_id: String,
}

/// The beginning of an error.
#[derive(Debug)]
struct ErrorStart(String);

/// What came of a chain, without what its nodes gave.
#[derive(Deserialize)]
struct Ending {
    response: Option<BriefResponse>,
    failed: BTreeMap<String, ErrorStart>,
}

#[derive(Deserialize)]
struct BriefResponse {
    chain_id: Value,
    success: bool,
    outputs: HashMap<String, IgnoredAny>,
    duration_ms: i64,
    nodes_run: i64,
    error: Option<BriefError>,
}

#[derive(Deserialize)]
struct BriefError {
    code: String,
    message: ErrorStart,
}

/// Both in full.
#[derive(Deserialize)]
struct FullRequest {
    request: Value,
}

#[derive(Deserialize)]
struct FullResponse {
    response: Option<Value>,
}

/// What is read of a chain while the store shows it.
struct Stored {
    head: ChainHead,
    names: Vec<NodeName>,
    ending: Option<Ending>,
    /// The texts, if they are not larger than any answer.
    request: Option<Vec<u8>>,
    outcome: Option<Vec<u8>>,
}

impl<'de> Deserialize<'de> for ErrorStart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(truncate(text, MAX_ERROR)))
    }
}

impl BriefResponse {
    /// As it is shown without what the nodes gave.
    fn told(self) -> Value {
        let error = self
            .error
            .map(|error| json!({"code": error.code, "message": error.message.0}));
        json!({"chain_id": self.chain_id, "success": self.success, "outputs": {},
            "final_output": null, "duration_ms": self.duration_ms, "nodes_run": self.nodes_run,
            "error": error})
    }
}

impl ShownChain {
    /// Reads a chain; nothing if there is none. Blocks, and has all of its request and outcome in
    /// memory meanwhile.
    ///
    /// # Errors
    /// If the store fails, or what it has is damaged.
    pub(super) fn read(chains: &dyn Chains, number: i64) -> Result<Option<Self>, Error> {
        let mut read = None;
        let mut show = |chain: ChainView<'_>| read = Some(Stored::read(chain));
        chains.show(fresh::now(), number, &mut show).wait()?;
        let damaged = |why: serde_json::Error| Error::Damaged {
            why: format!("chain {number}: {why}"),
        };
        let Some(stored) = read.transpose().map_err(damaged)? else {
            return Ok(None);
        };
        let nodes = match &stored.ending {
            Some(ending) => ended_nodes(&stored.names, ending),
            None => {
                let recalled = Recalled::read_now(chains, number)?;
                open_nodes(&stored.names, &recalled)
            }
        };
        stored.fit(nodes).map(Some).map_err(damaged)
    }
}

impl Stored {
    fn read(chain: ChainView<'_>) -> Result<Self, serde_json::Error> {
        let ChainView {
            head,
            request,
            outcome,
        } = chain;
        let asked: AskedNames = serde_json::from_slice(request)?;
        let small = |text: &[u8]| (text.len() <= MAX_SHOWN).then(|| text.to_vec());
        Ok(Self {
            head,
            names: asked.request.nodes,
            ending: outcome.map(serde_json::from_slice).transpose()?,
            request: small(request),
            outcome: outcome.and_then(small),
        })
    }

    /// As much as fits: first how its nodes stand, then its response, then what was asked for, which its
    /// agent may know.
    fn fit(
        self,
        mut nodes: Vec<ChainNodeProgress<'static>>,
    ) -> Result<ShownChain, serde_json::Error> {
        let (mut left, mut left_out) = (MAX_SHOWN, Vec::new());
        let mut has_room = |size: usize| match left.checked_sub(size) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let size = |node: &ChainNodeProgress<'_>| {
            NODE_MEMBERS + json_length(node.node_id.as_str()) + json_length(&node.error)
        };
        if let Some(last) = nodes.iter().position(|node| !has_room(size(node))) {
            nodes.truncate(last);
            left_out.push("nodes".to_owned());
        }
        let outcome = self.outcome.filter(|text| has_room(text.len()));
        let brief = self.ending.and_then(|ending| ending.response);
        let response = match (brief, outcome) {
            (None, _) => None,
            (Some(_), Some(text)) => serde_json::from_slice::<FullResponse>(&text)?.response,
            (Some(brief), None) => {
                left_out.push("outputs".to_owned());
                Some(brief.told())
            }
        };
        let request = match self.request.filter(|text| has_room(text.len())) {
            Some(text) => serde_json::from_slice::<FullRequest>(&text)?.request,
            None => {
                left_out.push("request".to_owned());
                Value::Null
            }
        };
        Ok(ShownChain {
            head: self.head,
            request,
            nodes,
            response,
            left_out,
        })
    }
}

fn ended_nodes(names: &[NodeName], ending: &Ending) -> Vec<ChainNodeProgress<'static>> {
    let outputs = ending.response.as_ref().map(|it| &it.outputs);
    let nodes = names.iter().map(|NodeName { node_id }| {
        let error = ending.failed.get(node_id);
        let is_done = outputs.is_some_and(|outputs| outputs.contains_key(node_id));
        node_state(node_id, error, is_done)
    });
    nodes.collect()
}

fn open_nodes(
    names: &[NodeName],
    recalled: &Recalled<IgnoredAny, ErrorStart>,
) -> Vec<ChainNodeProgress<'static>> {
    let names = names.iter();
    let mut nodes: Vec<ChainNodeProgress<'static>> = names
        .map(|NodeName { node_id }| node_state(node_id, None, false))
        .collect();
    for (place, outcome) in &recalled.0 {
        let Some(node) = nodes.get_mut(place.node) else {
            continue;
        };
        match (place.item, outcome) {
            (None, Some(outcome)) => {
                *node = node_state(node.node_id.as_str(), outcome.as_ref().err(), true)
            }
            (Some(_), Some(_)) => {
                node.items = node.items.saturating_add(1);
                node.state = ChainNodeState::Started;
            }
            (_, None) => node.state = ChainNodeState::Started,
        }
    }
    nodes
}

fn node_state(id: &str, error: Option<&ErrorStart>, is_done: bool) -> ChainNodeProgress<'static> {
    let state = match (error, is_done) {
        (Some(_), _) => ChainNodeState::Failed,
        (None, true) => ChainNodeState::Done,
        (None, false) => ChainNodeState::Waiting,
    };
    let error = error.map(|error| error.0.clone()).unwrap_or_default();
    ChainNodeProgress {
        node_id: id.to_owned().into(),
        state,
        items: 0,
        error: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use store::{ChainState, UnixMillis};

    use super::*;

    fn stored(request: &Value, outcome: &Value) -> ShownChain {
        let head = ChainHead {
            number: 1,
            name: "c".to_owned(),
            state: ChainState::Done,
            begun: UnixMillis(0),
            ended: Some(UnixMillis(1)),
            resumed: 0,
        };
        let (request, outcome) = (request.to_string(), outcome.to_string());
        let stored = Stored::read(ChainView {
            head,
            request: request.as_bytes(),
            outcome: Some(outcome.as_bytes()),
        })
        .unwrap();
        let nodes = ended_nodes(&stored.names, stored.ending.as_ref().unwrap());
        stored.fit(nodes).unwrap()
    }

    fn request(nodes: &[&str], text: usize) -> Value {
        let nodes: Vec<Value> = nodes.iter().map(|id| json!({"node_id": id})).collect();
        json!({"proven": false, "request": {"nodes": nodes, "text": "x".repeat(text)}})
    }

    fn outcome(output: usize, failed: &Value) -> Value {
        json!({"response": {"chain_id": "c", "success": true, "outputs": {"a": "x".repeat(output)},
            "final_output": "x", "duration_ms": 7, "nodes_run": 1,
            "error": {"code": "e", "message": "m"}}, "failed": failed})
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_named() {
        let (small, large) = (1000, MAX_SHOWN);
        for (asked, output, left_out) in [
            (small, small, &[][..]),
            (large, small, &["request"]),
            (small, large, &["outputs"]),
            (large, large, &["outputs", "request"]),
        ] {
            let shown = stored(&request(&["a", "b"], asked), &outcome(output, &json!({})));
            assert_eq!(shown.left_out, left_out);
            let states: Vec<&str> = shown.nodes.iter().map(|node| node.state.as_str()).collect();
            assert_eq!(states, ["done", "waiting"]);
            assert_eq!(shown.request.is_null(), asked == large);
            let response = shown.response.unwrap();
            let has_outputs = response["outputs"]["a"].is_string();
            assert_eq!(has_outputs, output == small, "{left_out:?}");
            assert_eq!(
                (&response["nodes_run"], &response["error"]["code"]),
                (&json!(1), &json!("e"))
            );
        }
    }

    #[test]
    fn at_the_limit_and_past_it() {
        let ending = outcome(10, &json!({}));
        let nodes = 2 * (NODE_MEMBERS + 1);
        let beside = request(&["a", "b"], 0).to_string().len() + ending.to_string().len() + nodes;
        for (text, left_out) in [
            (MAX_SHOWN - beside, &[][..]),
            (MAX_SHOWN - beside + 1, &["request"]),
        ] {
            assert_eq!(
                stored(&request(&["a", "b"], text), &ending).left_out,
                left_out
            );
        }
    }

    #[test]
    fn errors_are_cut_and_nodes_past_the_limit_are_left_out() {
        let names: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
        let ids: Vec<&str> = names.iter().map(|name| &**name).collect();
        let error = "é".repeat(MAX_ERROR);
        let failed: Value = ids
            .iter()
            .map(|id| ((*id).to_owned(), json!(error)))
            .collect();
        let shown = stored(&request(&ids, 10), &outcome(10, &failed));
        assert!(shown.nodes.len() > 900 && shown.nodes.len() < 2000);
        assert_eq!(shown.nodes[0].error.len(), MAX_ERROR + "…".len());
        assert_eq!(shown.left_out, ["nodes", "outputs", "request"]);
    }
}
