//! A request and what comes back for it: one message, or parts and then one.

use std::sync::Arc;

use a2a_identity::Want;
use a2a_session::{ClientEvent, Directory as _, Failure, Found, Freshness, Need, Now};
use a2a_wire::{ErrorCode, RequestId};
use bytes::Bytes;
use canonical::Value;
use tokio::sync::mpsc;

use super::call::Asking;
use super::error::{CallError, Told};
use super::pool::Held;
use super::{Couriers, Inner, Provisional};
use crate::record::Room;
use crate::resolve::Asker;
use crate::standing::lock;
use crate::transport::{CarryError, Courier, Place, Reply};

/// What came of a try that was answered.
pub(super) enum Outcome {
    Result {
        result: Value<'static>,
        response_hash: a2a_wire::Digest,
    },
    Error(CallError, Option<a2a_wire::Digest>),
}

impl<C: Couriers> Inner<C> {
    pub(super) async fn exchange(
        &self,
        held: &Held<C::Courier>,
        (request_id, message): (&RequestId, Vec<u8>),
        asking: &Asking<'_>,
        attempt: u32,
    ) -> Outcome {
        let session_id = Some(held.view.session_id.as_str());
        let sending = held
            .courier
            .send(Place::Request, session_id, Bytes::from(message));
        match sending.await {
            Err(error) => Outcome::Error(error.into(), None),
            Ok(Reply::Nothing) => not_believed("the server answered nothing"),
            Ok(Reply::Message {
                message,
                status,
                retry_after,
            }) => {
                let event = self.heard(held, &message, (status, retry_after)).await;
                event.unwrap_or_else(|_| not_believed("a part is not an answer"))
            }
            Ok(Reply::Stream(parts)) => {
                self.read(held, request_id, parts, (asking.chunks, attempt))
                    .await
            }
        }
    }

    /// Reads an answer that comes in parts.
    async fn read(
        &self,
        held: &Held<C::Courier>,
        request_id: &RequestId,
        mut parts: mpsc::Receiver<Result<Bytes, CarryError>>,
        (chunks, attempt): (Option<&mpsc::Sender<Provisional>>, u32),
    ) -> Outcome {
        while let Some(part) = parts.recv().await {
            let message = match part {
                Ok(message) => message,
                Err(error) => return Outcome::Error(error.into(), None),
            };
            let (id, index, data) = match self.heard(held, &message, (200, None)).await {
                Ok(outcome) => return outcome,
                Err(chunk) => chunk,
            };
            if id != request_id.as_str() {
                return not_believed("a part belongs to another answer");
            }
            let provisional = Provisional {
                attempt,
                index,
                data,
            };
            if let Some(chunks) = chunks {
                // Who no longer looks at the parts still gets the answer.
                let _ = chunks.send(provisional).await;
            }
        }
        not_believed("the answer has no end")
    }

    /// What a message of the server means. If it is signed with a key that the server is not known to
    /// have, its keys are looked up again first.
    async fn heard(
        &self,
        held: &Held<C::Courier>,
        message: &[u8],
        told: (u16, Option<u64>),
    ) -> Result<Outcome, (String, u64, Value<'static>)> {
        let event = self.event(held, message, told);
        if let Ok(Outcome::Error(CallError::NotBelieved(failure), _)) = &event
            && failure.is_unknown_key()
            && self.renew_keys(held).await
        {
            return self.event(held, message, told);
        }
        event
    }

    /// Looks up the keys of a server; returns whether its session goes on with them.
    async fn renew_keys(&self, held: &Held<C::Courier>) -> bool {
        let home = &self.home;
        let did = lock(&held.session).established().peer().did().clone();
        let pins = home.standing.pins(&did);
        let need = Need::Peer {
            did,
            want: Want::Manifest,
            freshness: Freshness::Newer,
            shown: None,
        };
        let found = home.resolver.find(&need, Asker::Node(Some(&held.url)));
        let Found::Peer(Ok(facts)) = found.await else {
            return false;
        };
        let session = &mut lock(&held.session);
        let keys = session.established().renewed_keys(&facts, &pins);
        let is_renewed = keys.is_some();
        keys.into_iter().for_each(|keys| session.renew_keys(keys));
        is_renewed
    }

    /// What a message of the server means: an outcome, or else a part of an answer.
    fn event(
        &self,
        held: &Held<C::Courier>,
        message: &[u8],
        (status, retry_after): (u16, Option<u64>),
    ) -> Result<Outcome, (String, u64, Value<'static>)> {
        let now = self.home.clock.now();
        let told = |failure, signed| {
            CallError::Refused(Told {
                failure,
                signed,
                is_proxy: false,
                status,
                retry_after,
            })
        };
        let event = lock(&held.session).handle_message(now, message);
        Ok(match event {
            Ok(ClientEvent::Response {
                result,
                response_hash,
                ..
            }) => Outcome::Result {
                result,
                response_hash,
            },
            Ok(ClientEvent::Failed {
                failure,
                response_hash,
                ..
            }) => Outcome::Error(told(failure, true), Some(response_hash)),
            Ok(ClientEvent::Hint { failure, .. }) => Outcome::Error(told(failure, false), None),
            Ok(ClientEvent::Chunk {
                request_id,
                index,
                data,
            }) => return Err((request_id, index, data)),
            Err(dropped) => {
                let error = match Told::by_proxy(message, status, retry_after) {
                    Some(told) => CallError::Refused(told),
                    None => CallError::NotBelieved(dropped.failure),
                };
                Outcome::Error(error, None)
            }
        })
    }
}

/// A question on its way. If nobody waits for its answer any more, the server is told.
pub(super) struct Question<'a, C: Couriers> {
    pub(super) client: &'a Arc<Inner<C>>,
    pub(super) held: &'a Arc<Held<C::Courier>>,
    pub(super) request_id: Option<RequestId>,
    /// Room for its record, what is asked, and since when: until it is on record.
    pub(super) unheard: Option<(Room, &'a Asking<'a>, Now)>,
}

impl<C: Couriers> Drop for Question<'_, C> {
    fn drop(&mut self) {
        let Some(request_id) = &self.request_id else {
            return;
        };
        let now = self.client.home.clock.now();
        let mut random = self.client.home.entropy.clone();
        let cancel = {
            let mut session = lock(&self.held.session);
            session.forget(request_id);
            session.cancel(now, request_id, &mut random)
        };
        if let Some((room, asking, began)) = self.unheard.take() {
            let failure =
                Failure::new(ErrorCode::Cancelled, "nobody waits for the answer any more");
            let given_up = Outcome::Error(
                CallError::Refused(Told {
                    failure,
                    signed: false,
                    is_proxy: false,
                    status: 0,
                    retry_after: None,
                }),
                None,
            );
            // If it cannot be written, the log itself says so later.
            let question = (request_id, asking);
            let _ = self
                .client
                .record(room, self.held, question, &given_up, began);
        }
        if let Ok(cancel) = cancel {
            let held = Arc::clone(self.held);
            let telling = async move { held.tell(now, cancel.message).await };
            self.client.runtime.spawn(telling);
        }
    }
}

fn not_believed(cause: &'static str) -> Outcome {
    let failure = Failure::new(ErrorCode::UnverifiedAgent, cause);
    Outcome::Error(CallError::NotBelieved(failure), None)
}
