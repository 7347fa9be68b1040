//! What of a chain survives its process: what was asked for, and of each call that it begins and how
//! it ends, in this order and before anything follows from it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use a2e_runtime::Context;
use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Charset, Envelope, Message, Object, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{ChainState, Chains, Error};
use tokio_util::sync::CancellationToken;

use super::keeper::{Entered, Keeper};
use super::machine::Place;

/// The journal of a chain that runs.
#[derive(Debug)]
pub(super) struct Journal {
    chains: Arc<dyn Chains>,
    entered: Entered,
    context: Context,
    /// What is not written yet.
    lines: Vec<u8>,
    fate: Fate,
}

/// What becomes of a chain that is dropped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Whoever wanted it is gone, unless the host stops.
    Cancelled,
    /// Somebody may go on with it.
    Open,
    /// It has ended.
    Ended,
}

/// What was asked for, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// Whether its agent had proved a DID. In the name of such an agent nobody else goes on.
    pub(super) proven: bool,
    /// The `chain/req`.
    pub(super) request: Value,
}

/// A line of a journal, to be written.
#[derive(Serialize)]
enum Note<'a> {
    #[serde(rename = "s")]
    Started(Place),
    #[serde(rename = "e")]
    Ended(Place, &'a Result<Value, String>),
}

/// A line of a journal that was written.
#[derive(Deserialize)]
enum Noted<T, E> {
    #[serde(rename = "s")]
    Started(Place),
    #[serde(rename = "e")]
    Ended(Place, Result<T, E>),
}

/// The calls that an earlier process has begun, with their outcomes as far as they are known. A
/// reader that needs their states only leaves results out (`IgnoredAny`) and cuts errors.
#[derive(Debug, Default)]
pub(super) struct Recalled<T = Value, E = String>(pub(super) HashMap<Place, Option<Result<T, E>>>);

impl Wanted {
    pub(super) fn new(request: &ChainRequest<'static>, context: &Context) -> Self {
        let envelope = Envelope::new(context.id().clone(), Timestamp::default());
        let mut line = Vec::new();
        let message: Message<'_> = Message::new(envelope, request.clone());
        message.encode_to(&mut line, Charset::Utf8);
        Self {
            proven: context.identity().proven.is_some(),
            request: serde_json::from_slice(&line).unwrap_or_default(),
        }
    }

    /// As it is kept.
    pub(super) fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn chain(&self) -> Result<ChainRequest<'static>, String> {
        let object = Object::from_serialize(&self.request).map_err(|error| error.to_string())?;
        let chain: Result<ChainRequest<'_>, _> = object.read(Timestamp::default());
        let chain = chain.map_err(|error| error.to_string())?;
        Ok(chain.to_static())
    }
}

impl Journal {
    /// Begins the journal of a new chain.
    pub(super) async fn begin(
        keeper: &Arc<Keeper>,
        context: &Context,
        request: &ChainRequest<'static>,
        end: &CancellationToken,
    ) -> Result<Self, Error> {
        let chains = keeper.chains(context)?;
        let wanted = Wanted::new(request, context).written();
        let name = request.chain_id.as_str();
        let number = chains.begin(keeper.now(), name, wanted).await?;
        // Its number is new, so nobody runs it.
        let entered = keeper.enter(number, end).ok_or(Error::Closed)?;
        Ok(Self::of(chains, entered, context.clone(), Fate::Cancelled))
    }

    pub(super) fn of(
        chains: Arc<dyn Chains>,
        entered: Entered,
        context: Context,
        fate: Fate,
    ) -> Self {
        Self {
            chains,
            entered,
            context,
            lines: Vec::new(),
            fate,
        }
    }

    pub(super) fn started(&mut self, place: Place) {
        self.add(&Note::Started(place));
    }

    pub(super) fn ended(&mut self, place: Place, outcome: &Result<Value, String>) {
        self.add(&Note::Ended(place, outcome));
    }

    /// Writes what was added; what follows from it may be done then.
    pub(super) async fn write(&mut self) -> Result<(), Error> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        self.chains.note(self.entered.number, lines).await
    }

    /// The chain has ended.
    pub(super) async fn close(mut self, state: ChainState, outcome: Value) {
        self.fate = Fate::Ended;
        let (now, number) = (self.entered.keeper().now(), self.entered.number);
        let end = |outcome: &Value| {
            let text = outcome.to_string().into_bytes();
            self.chains.end(now, number, state, text)
        };
        let mut ended = end(&outcome).await;
        if let Err(Error::TooLarge { .. } | Error::Full { .. }) = ended {
            ended = end(&without_outputs(outcome)).await;
        }
        // If somebody has cancelled it meanwhile, that stands.
        if let Err(error) = ended {
            tracing::warn!(%error, number, "how a chain ended is not kept");
        }
    }

    fn add(&mut self, note: &Note<'_>) {
        // What is JSON can be written as such.
        if serde_json::to_writer(&mut self.lines, note).is_ok() {
            self.lines.push(b'\n');
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.fate == Fate::Cancelled && !self.context.is_host_stopping() {
            let outcome = json!({"response": null, "failed": {}}).to_string();
            let (number, state) = (self.entered.number, ChainState::Cancelled);
            let now = self.entered.keeper().now();
            // It is done whether or not anybody waits for it.
            drop(self.chains.end(now, number, state, outcome.into_bytes()));
        }
    }
}

impl<T, E> Recalled<T, E>
where
    T: DeserializeOwned + Send + 'static,
    E: DeserializeOwned + Send + 'static,
{
    /// What the journal of a chain says. One entry is in memory at a time.
    pub(super) async fn read(chains: &Arc<dyn Chains>, number: i64) -> Result<Self, Error> {
        let chains = Arc::clone(chains);
        let read = tokio::task::spawn_blocking(move || Self::read_now(&*chains, number));
        read.await.unwrap_or(Err(Error::Closed))
    }

    /// The same; blocks.
    pub(super) fn read_now(chains: &dyn Chains, number: i64) -> Result<Self, Error> {
        let (mut recalled, mut damaged) = (Self(HashMap::new()), None);
        let mut show = |entry: &[u8]| match recalled.add(entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                damaged = Some(Error::Damaged {
                    why: format!("the journal of chain {number}: {error}"),
                });
                ControlFlow::Break(())
            }
        };
        chains.journal(number, &mut show).wait()?;
        damaged.map_or(Ok(recalled), Err)
    }

    fn add(&mut self, entry: &[u8]) -> Result<(), serde_json::Error> {
        let lines = entry.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line)? {
                Noted::Started(place) => self.0.insert(place, None),
                Noted::Ended(place, outcome) => self.0.insert(place, Some(outcome)),
            };
        }
        Ok(())
    }
}

/// An outcome whose results are too large to be kept.
fn without_outputs(mut outcome: Value) -> Value {
    if let Some(Value::Object(response)) = outcome.get_mut("response") {
        response.insert("outputs".to_owned(), json!({}));
        response.insert("final_output".to_owned(), Value::Null);
    }
    outcome
}
